"""`rig report`: scored runs as one HTML page."""

from __future__ import annotations

from pathlib import Path

import click

from rig.console import Output
from rig.report import write_report
from rig.store import RunFolder


@click.command("report")
@click.argument("run_dirs", metavar="RUN...", nargs=-1, required=True,
                type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default=Path("report.html"),
              show_default=True)
@click.option("--max-cases", type=click.IntRange(0), default=300, show_default=True,
              help="Cases drawn for each run; the summary always counts all.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(run_dirs: tuple[Path, ...], out: Path, max_cases: int, as_json: bool) -> int:
    """Write one self-contained page: tables, and a timeline for every case.

    \b
    Example:
      rig report runs/silent runs/long_endpoint --out report.html
    """
    output = Output(as_json=as_json)
    size = write_report([RunFolder(d) for d in run_dirs], out, max_cases=max_cases)
    output.line(f"{out}: {size / 1e6:.2f} MB")
    output.document({"report": str(out), "bytes": size, "runs": [str(d) for d in run_dirs]})
    return 0
