"""`rig agree`: what annotators said against what the instrument said."""

from __future__ import annotations

from pathlib import Path

import click

from audio.files import atomic_write_text
from rig.console import Output
from rig.ledger import dumps
from rig.outputs import check_outputs
from rig.validation.agreeing import agree, plain
from rig.validation.answers import read_answers
from rig.validation.figures import DRAWS, SEED, Bootstrap, require_libraries
from rig.validation.key import read_key
from rig.validation.text import as_csv, print_agreement

MIN_DRAWS = 1_000
"""As for `rig compare`: fewer give an end of an interval that moves from seed to seed."""


@click.command("agree")
@click.argument("key_path", metavar="KEY", type=click.Path(path_type=Path))
@click.argument("answers", metavar="ANSWERS...", nargs=-1, required=True,
                type=click.Path(path_type=Path))
@click.option("--draws", type=click.IntRange(MIN_DRAWS, 1_000_000), default=DRAWS,
              show_default=True, help="Bootstrap draws over items.")
@click.option("--seed", type=click.IntRange(0), default=SEED, show_default=True,
              help="Of the bootstrap.")
@click.option("--csv", "csv_path", type=click.Path(path_type=Path),
              help="Also write every figure, a row each.")
@click.option("--out", type=click.Path(path_type=Path), help="Also write the JSON document here.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(key_path: Path, answers: tuple[Path, ...], draws: int, seed: int,
            csv_path: Path | None, out: Path | None, as_json: bool) -> int:
    """Compare the answers of annotators with the verdicts, targets and judges that the KEY of
    `rig sample` holds. ANSWERS are files as the pages download them, JSON or CSV, one an annotator.

    Needs scikit-learn (extra `validation`).

    \b
    Example:
      rig agree pages/h2.key.json answers/h2.A1.json answers/h2.A2.json answers/h2.A3.json
    """
    output = Output(as_json=as_json)
    check_outputs({"--csv": csv_path, "--out": out}, [key_path, *answers])
    require_libraries()
    key = read_key(key_path)
    document = agree(key, read_answers(key, answers), Bootstrap(draws, seed))
    told = {**plain(document), "draws": draws, "seed": seed}
    if csv_path is not None:
        atomic_write_text(csv_path, as_csv(document))
    if out is not None:
        atomic_write_text(out, dumps(told) + "\n")
    print_agreement(output, document)
    output.document(told)
    return 0
