"""A sample as pages: one file for each annotator, which opens from disk and asks for nothing.

A page holds items under opaque ids, the annotator's code, and the page's own id. It knows no case,
system, level, verdict, target or seed; sound is FLAC without tags, each clip a part of the page
that is decoded when it is shown.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from audio.errors import InputError
from audio.files import TEMP_PREFIX
from rig.report.packed import Packed
from rig.report.page import Section, render, write_page
from rig.validation import wording
from rig.validation.key import Key, KeyPage, opaque, order_for
from rig.validation.sample import Item, Sample
from rig.validation.studies import FIELDS, Study

SCHEMA_VERSION = 1
ANNOTATOR = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,19}")
"""A code, not a name: it becomes part of file names and of the answers."""


def check_annotators(codes: Sequence[str]) -> None:
    """Raise `InputError` for a code that is none, or is given twice."""
    for code in codes:
        if not ANNOTATOR.fullmatch(code):
            raise InputError.expected("a code of 1 to 20 letters, digits, - and _, such as A1",
                                      got=repr(code), where="--annotator")
        if codes.count(code) > 1:
            raise InputError(f"--annotator: {code} is given twice")


def write_pages(study: Study, sample: Sample, annotators: Sequence[str], secret: str,
                out: Path) -> list[KeyPage]:
    """Write one page an annotator into `out`, which must be there."""
    items = {item.key.item_id: item for item in sample.items}
    pages = []
    for annotator in annotators:
        order = order_for(secret, annotator, list(items))
        page_id = opaque(secret, "page", study, annotator, *order)
        path = out / f"{study}.{annotator}.html"
        _write(study, page_id, annotator, [items[i] for i in order], path)
        pages.append(KeyPage(page_id=page_id, annotator=annotator, file=path.name,
                             sha256=hashlib.sha256(path.read_bytes()).hexdigest(), order=order))
    return pages


@contextmanager
def staged(out: Path) -> Iterator[Path]:
    """A folder in `out` for pages whose key is not written yet. `give_out` makes them pages; what
    has not been given out is removed. Raises `InputError` where nothing can be written."""
    try:
        folder = tempfile.TemporaryDirectory(prefix=TEMP_PREFIX, dir=out)
    except OSError as error:
        raise InputError(f"{out}: cannot write into this folder: {error.strerror}") from error
    with folder as name:
        yield Path(name)


def give_out(pages: Sequence[KeyPage], folder: Path, out: Path) -> None:
    """Move staged pages to their place, once their key is on the disk: what is answered on a page
    without a key can never be read. Raises `InputError` where that is not possible."""
    for page in pages:
        try:
            (folder / page.file).replace(out / page.file)
        except OSError as error:
            raise InputError(f"{out / page.file}: cannot write: {error.strerror}") from error


def _write(study: Study, page_id: str, annotator: str, items: Sequence[Item], path: Path) -> None:
    data: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION, "study": study, "page_id": page_id,
        "annotator": annotator, "fields": {f.name: f.facts() for f in FIELDS[study]},
        "items": [_shown(item) for item in items]}
    definitions = [(str(a).replace("_", " ").capitalize(), text)
                   for a, text in wording.DEFINITIONS] if study == "h1" else []
    html = render("annotate.html.j2", instructions=wording.INSTRUCTIONS[study],
                  definitions=definitions, annotator=annotator)
    # Sound gains nothing by compression, and is not needed before its item is shown.
    clips = {item.key.item_id: Packed(json.dumps(item.clip.base64), gzipped=False, late=True)
             for item in items if item.clip is not None}
    write_page(wording.TITLES[study], [Section(
        key="annotate", title="Items", html=html, data=data, parts=clips,
        scripts=("annotate_answers.js", "annotate.js"))], path)


def _shown(item: Item) -> dict[str, Any]:
    return {"id": item.key.item_id, "fields": item.key.fields, "blocks": item.blocks,
            "clip": None if item.clip is None else item.clip.facts()}


def make_key(study: Study, seed: int, secret: str, sample: Sample, pages: Sequence[KeyPage]) -> Key:
    """Everything that the pages leave out."""
    return Key(study=study, seed=seed, secret=secret, sources=sample.sources,
               judges=sample.judges, strata=sample.strata, notes=sample.notes,
               pages=tuple(pages), items=tuple(item.key for item in sample.items))


