"""Transcripts with word times beside recordings: `CALL.words.json` or `CALL.words.csv`.

The format is described in docs/formats.md. Files are others' work: size, counts, lengths and times
are bounded, and what cannot be understood is an error that names the file, never an empty
transcript.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from audio.errors import InputError
from audio.json_keys import KeyTwiceError, loads_once
from audio.timebase import s_to_ns
from rig.field.sources import CallSource
from rig.store import first_problem, read_model, read_text
from verifiers.calls.substance import Word

SUFFIXES = (".words.json", ".words.csv")
REFERENCE_SUFFIX = ".reference.json"
FILE_MAX_BYTES = 64 * 1024 * 1024
WORDS_MAX = 500_000
"""More than eight times what four hours without a pause hold, at four words a second."""
_TIME_MAX_S = 1e6
SUPPLIED = "supplied"
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class TimedWord(BaseModel):
    """One word, as it is on disk."""

    model_config = ConfigDict(extra="forbid", strict=True)
    side: Literal["caller", "agent"]
    word: Annotated[str, Field(min_length=1, max_length=200)]
    start_s: Annotated[float, Field(ge=0, le=_TIME_MAX_S, allow_inf_nan=False)]
    end_s: Annotated[float, Field(ge=0, le=_TIME_MAX_S, allow_inf_nan=False)]

    @model_validator(mode="after")
    def _ordered(self) -> TimedWord:
        if self.end_s < self.start_s:
            raise ValueError(f"expected end_s at or after start_s {self.start_s:g}, "
                             f"got {self.end_s:g}")
        return self


class WordsFile(BaseModel):
    """A whole `.words.json`."""

    model_config = ConfigDict(extra="forbid", strict=True)
    schema_version: Literal[1]
    words: Annotated[list[TimedWord], Field(max_length=WORDS_MAX)]


class Reference(BaseModel):
    """What the caller really said, as it is on disk, and which names are in it."""

    model_config = ConfigDict(extra="forbid", strict=True)
    schema_version: Literal[1]
    caller: Annotated[str, Field(min_length=1, max_length=200_000)]
    names: Annotated[list[Annotated[str, Field(min_length=1, max_length=200)]],
                     Field(max_length=1_000)] = []


@dataclass(frozen=True, slots=True)
class Transcript:
    """Words of both sides in order of time. origin: `supplied`, or `recognised` by ourselves."""

    caller: tuple[Word, ...]
    agent: tuple[Word, ...]
    origin: str = SUPPLIED


def with_words(sources: Sequence[CallSource], folder: Path | None) -> list[CallSource]:
    """The calls with the words and reference files found for them: in `folder`, or beside the
    recordings.

    Raises `InputError`: no such folder, nothing for any call in it, two recordings of one name,
    or both kinds of file for one.
    """
    if folder is None:
        return [_with(s, [p.parent / p.stem for p in s.paths]) for s in sources]
    if not folder.is_dir():
        raise InputError.expected("a folder of words files", got="no such folder", where=folder)
    by_stem: dict[str, CallSource] = {}
    for source in sources:
        for stem in sorted({p.stem for p in source.paths}):
            other = by_stem.setdefault(stem, source)
            if other is not source:
                raise InputError.expected(
                    "recordings of different names with --transcripts (or words files beside "
                    "them)", got=f"two of name {stem!r}: {other.name}, {source.name}",
                    where=folder)
    out = [_with(s, [folder / p.stem for p in s.paths]) for s in sources]
    if not any(s.words for s in out):
        name = sources[0].paths[0].stem if sources else "CALL"
        raise InputError.expected(f"words files such as {name}{SUFFIXES[0]}", got="none",
                                  where=folder)
    return out


def _with(source: CallSource, bases: Sequence[Path]) -> CallSource:
    references = [p for base in dict.fromkeys(bases)
                  if (p := base.with_name(base.name + REFERENCE_SUFFIX)).exists()]
    if len(references) > 1:
        raise InputError.expected(f"one reference for {source.name}", got="two",
                                  where=" and ".join(map(str, references)))
    return replace(source, words=_found(bases), reference=references[0] if references else None)


def _found(bases: Sequence[Path]) -> tuple[Path, ...]:
    out: list[Path] = []
    for base in dict.fromkeys(bases):
        both = [p for suffix in SUFFIXES if (p := base.with_name(base.name + suffix)).exists()]
        if len(both) > 1:
            raise InputError.expected(f"one words file for {base.name!r}", got="two",
                                      where=" and ".join(map(str, both)))
        out += both
    return tuple(out)


def read_transcript(paths: Sequence[Path]) -> Transcript:
    """The words of one call. Raises `InputError` with the file and what is wrong."""
    words = [word for path in paths for word in _read(path)]
    sides = {side: tuple(sorted(
        (Word(w.word, (s_to_ns(w.start_s), s_to_ns(w.end_s))) for w in words if w.side == side),
        key=lambda w: w.span_ns)) for side in ("caller", "agent")}
    return Transcript(sides["caller"], sides["agent"])


def read_reference(path: Path) -> Reference:
    """What the caller said. Raises `InputError` with the file and what is wrong."""
    check_size(path)
    _check_keys(path, read_text(path, "a reference of the caller's words"))
    return read_model(path, Reference, "a reference of the caller's words")


def check_size(path: Path) -> None:
    """Raise `InputError` where a file of others is too long to be read whole."""
    if path.is_file() and path.stat().st_size > FILE_MAX_BYTES:
        raise InputError.expected(f"a file of at most {FILE_MAX_BYTES >> 20} MB",
                                  got=f"{path.stat().st_size >> 20} MB", where=path)


def _read(path: Path) -> list[TimedWord]:
    check_size(path)
    text = read_text(path, "a words file").removeprefix("\ufeff")
    if path.name.endswith(".json"):
        _check_keys(path, text)
        try:
            return WordsFile.model_validate_json(text).words
        except ValidationError as error:
            raise InputError.expected("a words file", got=first_problem(error, WordsFile),
                                      where=path) from error
    return _csv(path, text)


def _check_keys(path: Path, text: str) -> None:
    """Raise `InputError` for a key that comes twice in one object: a JSON reader takes the last
    without a word."""
    try:
        loads_once(text)
    except KeyTwiceError as error:
        raise InputError(f"{path}: {error}") from None
    except (ValueError, RecursionError):
        return  # the model says what is wrong with it


def _csv(path: Path, text: str) -> list[TimedWord]:
    columns = list(TimedWord.model_fields)
    rows = csv.DictReader(io.StringIO(text), strict=True)
    out: list[TimedWord] = []
    try:
        if sorted(rows.fieldnames or ()) != sorted(columns):
            raise InputError.expected(f"the columns {', '.join(columns)}",
                                      got=", ".join(rows.fieldnames or ())[:200] or "none",
                                      where=path)
        for row in rows:
            if len(out) == WORDS_MAX:
                raise InputError.expected(f"at most {WORDS_MAX} words", got="more", where=path)
            out.append(TimedWord.model_validate(
                {k: _number(v) if k in ("start_s", "end_s") else v for k, v in row.items()
                 if k is not None} | ({"more": row[None]} if None in row else {})))
    except csv.Error as error:
        raise InputError.expected("a CSV file", got=str(error),
                                  where=f"{path}:{rows.line_num}") from error
    except ValidationError as error:
        raise InputError.expected("a word with its times", got=first_problem(error),
                                  where=f"{path}:{rows.line_num}") from error
    return out


def _number(text: str | None) -> float | str | None:
    """A cell as a number; as it is where it is none, for the validation to name."""
    found = None if text is None else plain_number(text)
    return text if found is None else found


def plain_number(text: str) -> float | None:
    """A number as tables write it; `None` for anything else that `float` takes too ("1_0" for 10,
    digits of other scripts, "nan")."""
    return float(text) if _NUMBER.fullmatch(text.strip()) else None
