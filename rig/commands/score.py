"""`rig score`: recordings to measurements to verdicts."""

from __future__ import annotations

from pathlib import Path

import click

from audio.errors import InputError
from rig.comparing import load_runs
from rig.console import Output
from rig.floor_data import beside, rate_rows, read_floors
from rig.playout import Policy
from rig.scores import write_scores
from rig.scoring import measure_run
from rig.settings import default_jobs, scoring_settings
from rig.store import RunFolder
from rig.tables import print_scores
from rig.workers import Workers
from sweeps.aggregate import LEVELS


@click.command("score")
@click.argument("run_dir", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
              help="Threshold or detector setting; may be repeated.")
@click.option("--playout", type=click.Choice(["hold", "flush"]), default="hold",
              show_default=True, help="Which heard track decides. Both are computed.")
@click.option("--jobs", type=click.IntRange(1, 1024), help="Processes. Default: the cores.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(run_dir: Path, settings: tuple[str, ...], playout: Policy, jobs: int | None,
            as_json: bool) -> int:
    """Score a run: measure its recordings and decide every verdict. Needs no model.

    \b
    Example:
      rig score runs/long_endpoint
      rig score runs/long_endpoint --set take_turn_max_wait_s=1.5 --playout flush --json
    """
    output = Output(as_json=as_json)
    thresholds, vad = scoring_settings(settings)
    run = RunFolder(run_dir)
    if not run.path.is_dir():
        got = "a file" if run.path.exists() else "no such folder"
        raise InputError.expected("a run folder", got=got, where=run.path)
    run.read_info()
    with (output.progress("score", len(run.read_cases())) as progress,
          Workers(jobs or default_jobs()) as workers):
        rows = measure_run(run, vad, workers,
                           lambda done, total: progress.update(done, total=total))
    document = write_scores(run, rows, thresholds, vad, playout)
    print_scores(output, run.path.name, document)
    if not as_json:
        _print_floors(output, run)
    output.document(document)
    return 3 if any(document["attempts"].get(s) for s in ("infra_error", "void")) else 0


def _print_floors(output: Output, run: RunFolder) -> None:
    """What no skill at all scores on the same cases, or why that is not known."""
    runs = load_runs([run.path])
    floors, why = beside(runs, read_floors())
    levels = [level for level in LEVELS if any(c.level == level for c in runs[0].system.cases)]
    if floors:
        output.table("floors and oracle on the same cases: IAS in percent (docs/floors.md)",
                     ["agent", "pool", *levels], rate_rows(floors, levels))
    for line in why:
        output.line(line)
