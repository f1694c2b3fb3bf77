"""`rig new-suite`: a small suite of the user's own, to be changed."""

from __future__ import annotations

from pathlib import Path

import click

from probes.newsuite import write_new_suite
from rig.console import Output
from rig.wording import pasteable


@click.command("new-suite")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--name", metavar="NAME", help="Name of the suite. Default: the folder's, made to "
              "fit.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(folder: Path, name: str | None, as_json: bool) -> int:
    """Write a small complete suite into a new folder: an order line with two roles, four probes
    and eight conversations. Its files explain every key; it builds and runs as it is.

    \b
    Example:
      rig new-suite my-suite
      rig build my-suite --out built
    """
    output = Output(as_json=as_json)
    chosen, written = write_new_suite(folder, name)
    for path in written:
        output.line(str(folder / path.relative_to(folder.resolve())))
    output.line(f"suite {chosen}; change it, then: "
                + pasteable("rig", "build", folder, "--dry-run"))
    output.document({"suite": chosen, "dir": str(folder),
                     "files": [str(folder / p.relative_to(folder.resolve())) for p in written]})
    return 0
