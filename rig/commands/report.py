"""`rig report`: scored runs as one HTML page."""

from __future__ import annotations

from pathlib import Path

import click

from audio.errors import InputError
from rig.cores import default_jobs
from rig.report.choice import DEFAULT_AUDIO
from rig.report.collector import collector_paused
from rig.report.early import begin_early
from rig.workers import Workers

# What reads and writes is imported where it is used: while it is, the workers of a page begin.


@click.command("report")
@click.argument("run_dirs", metavar="RUN...", nargs=-1, required=True,
                type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path),
              help="The page. Default: report.html.")
@click.option("--folder", type=click.Path(path_type=Path), metavar="DIR",
              help="A small page and a file a case instead, for large runs.")
@click.option("--audio", default=DEFAULT_AUDIO, show_default=True,
              metavar="all|failed|none|N",
              help="Cases whose sound goes along; of a number, failing ones first.")
@click.option("--jobs", type=click.IntRange(1, 1024), help="Processes. Default: the cores.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(run_dirs: tuple[Path, ...], out: Path | None, folder: Path | None, audio: str,
            jobs: int | None, as_json: bool) -> int:
    """Write one self-contained page that opens from disk: cases with their timelines and sound,
    and every figure. In the place of runs, one document of `rig field --json`.

    \b
    Example:
      rig report runs/silent runs/long_endpoint --out report.html
      rig report runs/long_endpoint --audio failed --folder report
      rig report study.json --out study.html
    """
    if any(path.is_file() for path in run_dirs):
        return _field_report(run_dirs, out, folder, as_json=as_json)
    if out is not None and folder is not None:
        raise InputError("expected --out (one file) or --folder (a page and its parts), got both")
    with Workers(jobs or default_jobs()) as workers:
        if all(path.is_dir() for path in run_dirs):
            begin_early(workers)
        return _report(run_dirs, out or Path("report.html"), folder, audio, workers,
                       as_json=as_json)


def _report(run_dirs: tuple[Path, ...], page: Path, folder: Path | None, audio: str,
            workers: Workers, *, as_json: bool) -> int:
    with collector_paused():
        from rig.console import Output
        from rig.outputs import check_outputs
        from rig.report.build import write_report
        from rig.store import RunFolder

    check_outputs({"--out": page if folder is None else None}, run_dirs,
                  folders={"--folder": folder})
    report = write_report([RunFolder(d) for d in run_dirs], folder or page, audio=audio,
                          as_folder=folder is not None, workers=workers)
    output = Output(as_json=as_json)
    parts = "" if folder is None else f", {report.bytes / 1e6:.2f} MB with its parts"
    output.line(f"{report.page}: {report.page_bytes / 1e6:.2f} MB{parts}; sound of "
                f"{report.with_audio_n} of {report.cases_n} cases, "
                f"{report.audio_bytes / 1e6:.2f} MB (--audio)")
    for path in report.unmeasured:
        output.note(f"{path / 'measurements.jsonl'}: no measurements: of this run the page shows "
                    "no speech on the timelines, no margins, no threshold moves and no sweep; "
                    "`rig score` makes them again")
    output.document({"report": str(report.page), "bytes": report.bytes,
                     "page_bytes": report.page_bytes, "audio_bytes": report.audio_bytes,
                     "cases": report.cases_n, "with_audio": report.with_audio_n,
                     "unmeasured": [str(path) for path in report.unmeasured],
                     "runs": [str(d) for d in run_dirs]})
    return 0


def _field_report(paths: tuple[Path, ...], out: Path | None, folder: Path | None,
                  *, as_json: bool) -> int:
    from rig.console import Output
    from rig.outputs import check_outputs
    from rig.report.field_page import read_field_document, write_field_page

    if len(paths) != 1 or folder is not None:
        raise InputError("expected one document of `rig field --json` without --folder, or folders "
                         f"of runs, got {len(paths)} paths, among them a file")
    page = out or Path("report.html")
    check_outputs({"--out": page}, paths)
    size = write_field_page(read_field_document(paths[0]), page, where=paths[0])
    output = Output(as_json=as_json)
    output.line(f"{page}: {size / 1e6:.2f} MB")
    output.document({"report": str(page), "bytes": size, "field": str(paths[0])})
    return 0
