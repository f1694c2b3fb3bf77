"""`rig compare`: what differs between conditionings and systems, and what cannot be told."""

from __future__ import annotations

from pathlib import Path

import click

from audio.errors import InputError
from audio.files import atomic_write_text
from rig.comparing import load_runs
from rig.comparison_text import as_csv, as_latex, print_comparison
from rig.console import Output
from rig.floor_data import beside, read_floors
from rig.ledger import dumps
from rig.playout import Policy
from sweeps.comparison import compare
from sweeps.effects import DRAWS, SEED

MIN_DRAWS = 1_000
"""Fewer give an end of an interval that moves by a point from seed to seed. Ours."""


@click.command("compare")
@click.argument("run_dirs", metavar="RUN...", nargs=-1, required=True,
                type=click.Path(path_type=Path))
@click.option("--playout", type=click.Choice(["hold", "flush"]), help="Which heard track decides. "
              "Default: the one that the runs were scored with.")
@click.option("--draws", type=click.IntRange(MIN_DRAWS, 1_000_000), default=DRAWS,
              show_default=True, help="Bootstrap draws over audio streams.")
@click.option("--seed", type=click.IntRange(0), default=SEED, show_default=True,
              help="Of the bootstrap.")
@click.option("--floors", "floors_path", type=click.Path(path_type=Path), help="File of `rig "
              "floors` to show beside the systems. Default: the one that ships.")
@click.option("--csv", "csv_path", type=click.Path(path_type=Path),
              help="Also write every figure, a row each.")
@click.option("--latex", "latex_path", type=click.Path(path_type=Path),
              help="Also write the tables for LaTeX (booktabs).")
@click.option("--out", type=click.Path(path_type=Path), help="Also write the JSON document here.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(run_dirs: tuple[Path, ...], playout: Policy | None, draws: int, seed: int,
            floors_path: Path | None, csv_path: Path | None, latex_path: Path | None,
            out: Path | None, as_json: bool) -> int:
    """Compare scored runs: effects of the conditioning, systems, roles on matched audio, trials.

    A difference is called resolved when the sign-flip p over audio streams, adjusted for its family
    by Holm, is below 0.05; too few when six discordant pairs could not be had at all. Floors and
    the oracle are shown beside, and nothing is claimed of them.

    \b
    Example:
      rig compare runs/long_endpoint runs/eager
      rig compare runs/long_endpoint --csv compare.csv --latex compare.tex --json
    """
    output = Output(as_json=as_json)
    paths = [p.resolve() for p in (csv_path, latex_path, out) if p is not None]
    if len(set(paths)) < len(paths):
        raise InputError("expected different files for --csv, --latex and --out, got one twice")
    runs = load_runs(run_dirs, playout)
    floors, why_none = beside(runs, read_floors(floors_path))
    document = compare([*(run.system for run in runs), *floors], draws_n=draws, seed=seed)
    document |= {"playout": runs[0].playout, "floors_missing": why_none}
    print_comparison(output, document)
    if csv_path is not None:
        atomic_write_text(csv_path, as_csv(document))
    if latex_path is not None:
        atomic_write_text(latex_path, as_latex(document))
    if out is not None:
        atomic_write_text(out, dumps(document) + "\n")
    output.document(document)
    return 0
