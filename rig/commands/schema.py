"""`rig schema`: JSON Schemas of the files that people write or read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from audio.errors import InputError
from audio.files import atomic_write_text
from audio.suggest import unknown_name
from rig.console import Output
from rig.schemas import KINDS, schema


@click.command("schema")
@click.argument("kind", required=False, metavar="[FILE_KIND]")
@click.option("--out", type=click.Path(path_type=Path), help="Write FILE_KIND.schema.json, of all "
              "kinds or of the one named, into this folder.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(kind: str | None, out: Path | None, as_json: bool) -> int:
    """Print the JSON Schema (draft 2020-12) of a kind of file, or list the kinds.

    \b
    Example:
      rig schema
      rig schema probes
      rig schema --out schemas
    """
    output = Output(as_json=as_json)
    if kind is not None and kind not in KINDS:
        raise unknown_name("rig schema", kind, KINDS)
    chosen = {name: schema(name) for name in KINDS if kind in (None, name)}
    if out is not None:
        written = _write(chosen, out)
        for path in written:
            output.line(str(path))
        output.document({"written": [str(path) for path in written]})
    elif kind is not None:
        Output(as_json=True).document(chosen[kind])
    else:
        output.table("kinds of files", ["kind", "file", "holds"],
                     [(name, entry.file, entry.what) for name, entry in KINDS.items()])
        output.document({"schemas": chosen})
    return 0


def _write(schemas: Mapping[str, Any], out: Path) -> list[Path]:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError.expected("a folder that can be written",
                                  got=error.strerror or str(error), where=out) from None
    written = []
    for name, document in schemas.items():
        path = out / f"{name}.schema.json"
        atomic_write_text(path, json.dumps(document, ensure_ascii=False, indent=2) + "\n")
        written.append(path)
    return written
