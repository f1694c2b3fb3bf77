"""Answers of annotators, checked against the key: JSON or CSV as a page downloads them.

Refused, with file and item: another kind of file, a page that the key does not have or that is
another annotator's, an item that it does not have, an item twice, a field that was not asked, a
value of the wrong type or out of bounds. An item that lacks a required answer, or whose range ends
before it begins, is `partial`: it is counted and takes part in no figure.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audio.errors import InputError
from audio.json_keys import KeyTwiceError, loads_once
from audio.suggest import did_you_mean
from rig.store import read_text
from rig.validation.key import Key, KeyPage
from rig.validation.studies import FIELDS, missing

KIND = "duplexrig answers"
MAX_BYTES = 64 * 1024 * 1024
"""Ours: 10,000 items with the longest comments are some 11 MB."""
_TOP = {"kind", "schema_version", "study", "page_id", "annotator", "saved", "complete", "answers"}
_CSV_HEAD = ("page_id", "study", "annotator", "item_id", "answered")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
"""What JavaScript writes for a number (ECMA-262, Number::toString: `1e-7`), and what people do."""
_GUARDED = re.compile(r"'+[=+\-@\t\r\n]")
"""Begins with the `'` that the page puts before what a spreadsheet would run
(`annotate_answers.js`). Line ends of any kind are read as `\\n`, hence that too."""
_LONGEST_WHOLE = 18
"""Digits of a whole number that is read exactly; a longer one is out of every bound."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One annotator's answer on one item; `values` by field."""

    item_id: str
    annotator: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Returned:
    """What one annotator gave back: complete answers, and how many items are missing in part or
    altogether."""

    annotator: str
    answers: tuple[Answer, ...]
    partial: int
    unanswered: int


def read_answers(key: Key, paths: Sequence[Path]) -> list[Returned]:
    """One entry an annotator, in the order of the files."""
    out: dict[str, Returned] = {}
    by_file: dict[str, Path] = {}
    for path in paths:
        page, entries = _entries(key, path)
        if page.annotator in by_file:
            raise InputError(f"{path}: expected each annotator once, got {page.annotator} also in "
                             f"{by_file[page.annotator]}")
        by_file[page.annotator] = path
        out[page.annotator] = _checked(key, page, entries, path)
    return list(out.values())


def _checked(key: Key, page: KeyPage, entries: Sequence[Mapping[str, Any]],
             path: Path) -> Returned:
    fields = {f.name: f for f in FIELDS[key.study]}
    items = {item.item_id: item for item in key.items}
    seen: set[str] = set()
    answers, partial = [], 0
    for number, entry in enumerate(entries, start=1):
        item_id = entry.get("item_id")
        where = f"{path}: answer {number} ({item_id!r:.40})"
        if not isinstance(item_id, str) or item_id not in items:
            raise InputError.expected("an item of the key", got="another", where=where)
        if item_id in seen:
            raise InputError.expected("each item once", got="it again", where=where)
        seen.add(item_id)
        if not isinstance(entry.get("answered", ""), str):
            raise InputError.expected("answered: a time as text", got="something else", where=where)
        item = items[item_id]
        values = {n: v for n, v in entry.items() if n not in ("item_id", "answered")}
        for name, value in values.items():
            if name not in item.fields:
                raise InputError(f"{where}: expected answers to {', '.join(item.fields)}, got one "
                                 f"to {name!r:.40}{did_you_mean(name, item.fields)}")
            if (why := fields[name].problem(value)) is not None:
                raise InputError(f"{where}: {name}: {why}")
        if missing(key.study, item.fields, values):
            partial += 1
        else:
            answers.append(Answer(item_id, page.annotator, values))
    return Returned(page.annotator, tuple(answers), partial, len(items) - len(seen))


def _entries(key: Key, path: Path) -> tuple[KeyPage, list[Mapping[str, Any]]]:
    what = "answers that a page has downloaded"
    try:
        size = path.stat().st_size
    except (OSError, ValueError):
        size = 0  # reading says why
    if size > MAX_BYTES:
        raise InputError.expected(f"{what}, at most {MAX_BYTES} bytes", got=f"{size} bytes",
                                  where=path)
    text = read_text(path, what)
    if text.lstrip("\ufeff \t\r\n").startswith("{"):
        return _from_json(key, text.lstrip("\ufeff"), path)
    return _from_csv(key, text.lstrip("\ufeff"), path)


def _page(key: Key, path: Path, page_id: object, annotator: object, study: object) -> KeyPage:
    if study != key.study:
        raise InputError.expected(f"answers of {key.study}", got=f"answers of {study!r:.40}",
                                  where=path)
    page = next((p for p in key.pages if p.page_id == page_id), None)
    if page is None:
        raise InputError.expected("a page of this key (" + ", ".join(
            f"{p.page_id} of {p.annotator}" for p in key.pages) + ")", got=f"{page_id!r:.40}",
            where=path)
    if page.annotator != annotator:
        raise InputError.expected(f"annotator {page.annotator}, whose page this is",
                                  got=f"{annotator!r:.40}", where=path)
    return page


def _from_json(key: Key, text: str, path: Path) -> tuple[KeyPage, list[Mapping[str, Any]]]:
    try:
        found = loads_once(text)
    except KeyTwiceError as error:
        raise InputError(f"{path}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise InputError.expected("answers as JSON", got=f"something else ({error})"[:120],
                                  where=path) from error
    if found.get("kind") != KIND or found.get("schema_version") != 1:
        raise InputError.expected(f"kind {KIND!r}, schema_version 1",
                                  got=f"{found.get('kind')!r:.40}, "
                                  f"{found.get('schema_version')!r:.40}", where=path)
    if extra := sorted(found.keys() - _TOP):
        raise InputError(f"{path}: expected keys {', '.join(sorted(_TOP))}, got {extra[0]!r:.40}"
                         f"{did_you_mean(extra[0], _TOP)}")
    page = _page(key, path, found.get("page_id"), found.get("annotator"), found.get("study"))
    entries = found.get("answers")
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise InputError.expected("answers: a list of objects", got="something else", where=path)
    return page, entries


def _from_csv(key: Key, text: str, path: Path) -> tuple[KeyPage, list[Mapping[str, Any]]]:
    """Empty cells are no answer; text comes as it was typed, without the page's guard."""
    names = [f.name for f in FIELDS[key.study]]
    head = [*_CSV_HEAD, *names]
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise InputError.expected("answers as CSV or JSON", got=f"something else ({error})",
                                  where=path) from error
    if not rows or rows[0] != head:
        raise InputError.expected(f"answers of {key.study}: JSON, or CSV with the columns "
                                  f"{','.join(head)}",
                                  got=repr(",".join(rows[0])[:80]) if rows else "nothing",
                                  where=path)
    if len(rows) < 2:
        raise InputError.expected("answers", got="a head alone", where=path)
    kinds = {f.name: f.kind for f in FIELDS[key.study]}
    pages: list[KeyPage] = []
    entries: list[Mapping[str, Any]] = []
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(head):
            raise InputError.expected(f"{len(head)} cells", got=len(row), where=f"{path}:{number}")
        cells = dict(zip(head, row, strict=True))
        pages.append(_page(key, path, cells["page_id"], cells["annotator"], cells["study"]))
        entry: dict[str, Any] = {"item_id": cells["item_id"],
                                 "answered": _unguarded(cells["answered"])}
        entry |= {name: (_number if kinds[name] == "number" else _unguarded)(cells[name])
                  for name in names if cells[name] != ""}
        entries.append(entry)
    if len({p.page_id for p in pages}) > 1:
        raise InputError.expected("answers of one page", got="of several", where=path)
    return pages[0], entries


def _unguarded(text: str) -> str:
    return text[1:] if _GUARDED.match(text) else text


def _number(text: str) -> float | int | str:
    """Text that is no number stays text, and is refused as such."""
    if not _NUMBER.fullmatch(text):
        return text
    whole = text.lstrip("+-").isdigit() and len(text) <= _LONGEST_WHOLE
    return int(text) if whole else float(text)
