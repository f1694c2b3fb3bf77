"""Which sessions were begun: `RUN/starts.jsonl`, a line before each.

The ledger knows what has ended. What a killed process had in flight was paid for as well, so a
resumed run counts it: a session that was begun and never booked, at its longest.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from audio.errors import InputError
from rig.ledger import Attempt


class Start(BaseModel):
    """One line: the session that the ledger's next attempt at the case will be about."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    case_id: str
    trial: int
    attempt: int


class Starts:
    """Open for appending; also knows what is already in it. Written by the ledger's process.

    A line is not synced: it outlives the process, which is what may be killed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.before = read(path)
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            data = path.read_bytes()
            if data and not data.endswith(b"\n"):
                os.write(self._fd, b"\n")
        except OSError as error:
            raise InputError(f"{path}: cannot write: {error.strerror}") from error

    def append(self, start: Start) -> None:
        """Add one line."""
        line = start.model_dump_json().encode() + b"\n"
        try:
            if os.write(self._fd, line) != len(line):
                raise InputError(f"{self._path}: cannot append: no space; free some, then run "
                                 "again with --resume")
        except OSError as error:
            raise InputError(f"{self._path}: cannot append: {error.strerror}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        os.close(self._fd)


def read(path: Path) -> list[Start]:
    """Every whole line; what a killed process left half-written is left out."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror}") from error
    out: list[Start] = []
    for line in data.split(b"\n"):
        try:
            out.append(Start.model_validate_json(line))
        except ValidationError:
            continue
    return out


def lost(starts: Iterable[Start], attempts: Iterable[Attempt]) -> list[tuple[str, int]]:
    """Case and trial of every session that was begun and is not in the ledger."""
    left = Counter((s.case_id, s.trial, s.attempt) for s in starts)
    left.subtract({(a.case_id, a.trial, a.attempt) for a in attempts})
    return [(case_id, trial) for (case_id, trial, _), n in left.items() for _ in range(n)]
