"""The append-only ledger of attempts: `RUN/attempts.jsonl`, one line an attempt.

One process writes it. A line is appended in one write and synced before the attempt counts, after
the recording's own files are in place; so a line in the ledger is the only thing that makes a
case done. A last line cut in half by a crash is repaired when the ledger is opened.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from audio.errors import InputError
from rig.spending import Spent

Status = Literal["done", "infra_error", "unsupported", "void"]
Count = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Attempt(BaseModel):
    """One line. `started` and `ended` are wall-clock times, the only ones a run stores.

    What the session used is given, but not in old ledgers: seconds by the session's clock,
    `usage` as the provider counted, `cost` where a price was known, `cost_missing` where it is a
    lower bound.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    case_id: str
    trial: int
    attempt: int
    status: Status
    reason: str | None = None
    started: str
    ended: str
    session_s: float | None = Field(None, ge=0, allow_inf_nan=False)
    sent_s: float | None = Field(None, ge=0, allow_inf_nan=False)
    received_s: float | None = Field(None, ge=0, allow_inf_nan=False)
    usage: dict[str, Count] | None = None
    cost: float | None = Field(None, ge=0, allow_inf_nan=False)
    currency: str | None = None
    cost_missing: tuple[str, ...] | None = None

    @property
    def spent(self) -> Spent | None:
        """What the session used, `None` where an older rig did not write it."""
        if self.session_s is None or self.sent_s is None or self.received_s is None:
            return None
        return Spent(self.session_s, self.sent_s, self.received_s, self.usage)


class Ledger:
    """Open for appending; also knows what is already in it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.attempts: list[Attempt] = []
        self.repaired: str | None = None
        """What the repair of a half-written last line threw away, for the user."""
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise InputError(f"{path}: cannot open the ledger for writing: "
                             f"{error.strerror}") from error
        try:
            self._load()
            _flush_folder(path.parent)
        except OSError as error:
            os.close(self._fd)
            raise InputError(f"{path}: cannot read or repair the ledger: "
                             f"{error.strerror}") from error
        except BaseException:
            os.close(self._fd)
            raise

    def _load(self) -> None:
        data = self._path.read_bytes()
        whole, newline, rest = data.rpartition(b"\n")
        self.attempts = parse(data[: len(whole) + len(newline)], self._path)
        if rest:
            try:
                # Killed between the text and its newline: the attempt did end.
                self.attempts.append(Attempt.model_validate_json(rest))
                self._write(b"\n")
            except ValidationError:
                self.repaired = rest.decode("utf-8", "replace")
                self._truncate(len(whole) + len(newline))

    def append(self, attempt: Attempt) -> None:
        """Add one line; returns once it is on disk."""
        line = attempt.model_dump_json(exclude_none=True).encode() + b"\n"
        self._write(line)
        self.attempts.append(attempt)

    def _write(self, line: bytes) -> None:
        size = os.fstat(self._fd).st_size
        try:
            written = os.write(self._fd, line)
            if written != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._fd)
        except OSError as error:
            # A half line would be repaired on resume; do not leave it when it can be helped.
            with contextlib.suppress(OSError):
                self._truncate(size)
            raise InputError(f"{self._path}: cannot append to the ledger: {error.strerror}; free "
                             "space, then run again with --resume") from error

    def _truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        os.fsync(self._fd)

    def next_attempt(self, case_id: str, trial: int) -> int:
        """The number of the next attempt at a case, counted from 1."""
        return 1 + sum(1 for a in self.attempts if a.case_id == case_id and a.trial == trial)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        os.close(self._fd)


def _flush_folder(path: Path) -> None:
    """Make the name of a new ledger last. Some file systems cannot flush a folder."""
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def parse(data: bytes, path: Path) -> list[Attempt]:
    """Whole lines to attempts; a damaged line in the middle is an error that names it."""
    out: list[Attempt] = []
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        try:
            out.append(Attempt.model_validate_json(line))
        except ValidationError as error:
            first = error.errors()[0]
            raise InputError(f"{path}:{number}: expected one attempt as JSON, got "
                             f"{line[:60]!r} ({first['msg']})") from error
    return out


def read(path: Path) -> list[Attempt]:
    """The ledger for reading only; a half-written last line is left out, not repaired."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"{path}: cannot read the ledger: {error.strerror}") from error
    whole, newline, rest = data.rpartition(b"\n")
    attempts = parse(data[: len(whole) + len(newline)], path)
    if rest:
        try:
            attempts.append(Attempt.model_validate_json(rest))
        except ValidationError:
            return attempts
    return attempts


def finished(attempts: Iterable[Attempt]) -> dict[tuple[str, int], Attempt]:
    """The attempts that settle a case, by case and trial: only `done` is skipped on resume."""
    return {(a.case_id, a.trial): a for a in attempts if a.status == "done"}


def latest(attempts: Iterable[Attempt]) -> dict[tuple[str, int], Attempt]:
    """The deciding attempt of each case and trial: the one that is done, else the last."""
    out: dict[tuple[str, int], Attempt] = {}
    for attempt in attempts:
        key = (attempt.case_id, attempt.trial)
        if key in out and out[key].status == "done":
            continue
        out[key] = attempt
    return out


def why_not_done(attempt: Attempt | None) -> str | None:
    """Why a case has no recording, by its deciding attempt; `None` for one that is done."""
    if attempt is None:
        return "not played yet"
    if attempt.status == "done":
        return None
    return f"{attempt.status}: {attempt.reason or 'no reason given'}"


def dumps(value: object) -> str:
    """Canonical JSON: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False,
                      allow_nan=False)
