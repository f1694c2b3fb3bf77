"""What a field study may say of calls: nothing of their words, or nothing of their names.

`rig field` never puts sound into anything it writes, and opens no connection but under
`--pairwise`, which `--no-transcript` and `--no-audio` refuse. `--no-transcript`
keeps words out of it as well (`rig.field.word_measures` says then that a file is unusable, not
what stands in it); `--hide-names` puts numbers in the place of names, in the order of the calls.

A number and no hash: names of recordings are often telephone numbers or dates, and what has so few
values is found again by trying them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from audio.errors import InputError
from audio.recording import show
from rig.field.sources import CallSource
from rig.field.words import REFERENCE_SUFFIX, SUFFIXES

_VOCABULARY = frozenset({"kind", "outcome", "code", "limit", "overlap_rule"})
"""Entries of the document that are words of ours, whatever a recording may be called."""
_INSIDE_LEAST = 5
"""Characters; a shorter name is replaced where it stands alone. Ours: "a.wav" is the least that
messages quote."""


def hidden_name(number: int, calls_n: int) -> str:
    """What stands in the place of a call's name; `number` from 1, in the order of the calls."""
    return f"call {number:0{len(str(calls_n))}}"


@contextmanager
def errors_without_names(sources: Sequence[CallSource]) -> Iterator[None]:
    """The names of `sources` are numbers in an `InputError` that ends the block, too."""
    try:
        yield
    except InputError as error:
        _, _, calls = _names(sources)
        for source in sources:
            for stem in {path.stem for path in source.paths}:
                # Files beside a recording may not be found yet, or be one too many.
                for name in (repr(stem), *(stem + s for s in (*SUFFIXES, REFERENCE_SUFFIX))):
                    calls.setdefault(name, calls[source.name])
        names = sorted(calls, key=len, reverse=True)
        raise type(error)(_replaced(str(error), names, calls)) from None


def _names(sources: Sequence[CallSource]
           ) -> tuple[dict[str, list[str]], list[str], dict[str, str]]:
    """Every name of each source, all names, longest first, and what stands in their place."""
    calls: dict[str, str] = {}
    own: dict[str, list[str]] = {}
    for number, source in enumerate(sources, 1):
        paths = [*source.paths, *source.words,
                 *([] if source.reference is None else [source.reference])]
        # Of two names of which one holds the other, the longer one is meant.
        own[source.name] = sorted({source.name, *(name for path in paths
                                                  for name in _spellings(path))},
                                  key=len, reverse=True)
        for name in own[source.name]:
            calls.setdefault(name, hidden_name(number, len(sources)))
    return own, sorted(calls, key=len, reverse=True), calls


def _replaced(value: str, names: Sequence[str], calls: dict[str, str]) -> str:
    for name in names:
        if len(name) >= _INSIDE_LEAST and name in value:
            value = value.replace(name, calls[name])
    return value


def without_names(document: dict[str, Any], sources: Sequence[CallSource]) -> dict[str, Any]:
    """The document with `call N` for every recording and for every file beside it, wherever they
    are named. `sources` are all calls, in order."""
    own, everybody, calls = _names(sources)

    def hide(value: Any, key: str, names: Sequence[str]) -> Any:
        if isinstance(value, dict):
            names = own.get(str(value.get("file")), names)
            return {inner: hide(part, inner, names) for inner, part in value.items()}
        if isinstance(value, list):
            return [hide(part, key, names) for part in value]
        if not isinstance(value, str) or key in _VOCABULARY:
            return value
        if value in calls:
            return calls[value]
        return _replaced(value, names, calls)

    hidden = hide(document, "", everybody)
    assert isinstance(hidden, dict)
    return hidden


def _spellings(path: Path) -> list[str]:
    """As given, as an error message may show it, and without its folder."""
    return [str(path), show(path), path.as_posix(), str(path.resolve()), path.name]
