"""Whether this machine stood still while a session was played in real time, by what the rig itself
says of it: the one place where a test tells that from a fault of the rig or of an adapter.

A session that the rig calls void or late is played again, `TRIES` times at most. One that it calls
punctual is judged, whatever it was: a stall that the rig does not see is a fault of the rig.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest
import rig_testkit as kit

from rig.ledger import finished
from rig.ledger import read as read_ledger
from rig.orchestrator import Played
from rig.record import SessionRecord
from rig.timing import MAX_LATE_NEAR_WINDOW_MS, TimingCertificate, certify
from rig.worker_load import worker_load

TRIES = 3
BUSY_MS = MAX_LATE_NEAR_WINDOW_MS
"""Tests look beyond the scored window: what the contract allows near it is allowed everywhere."""
T = TypeVar("T")


def undisturbed(play: Callable[[int], T], stalls: Callable[[T], Sequence[str]]) -> T:
    """`play(k)`, for k = 0, 1, ..., until `stalls` says of it that the machine never stood still.
    The test is skipped, with what the rig says, where it always did."""
    said: Sequence[str] = ()
    for k in range(TRIES):
        played = play(k)
        said = stalls(played)
        if not said:
            return played
        print(f"try {k + 1} of {TRIES}: {'; '.join(said)}")
    pytest.skip(f"this machine is too busy to keep time: {said[0]}")


def in_run(run: Path) -> list[str]:
    """Of every session of a run folder. Attempts that ended otherwise than `void` are the test's
    business, whatever their reason."""
    attempts = read_ledger(run / "attempts.jsonl")
    done = finished(attempts)
    last = {(a.case_id, a.trial): a for a in attempts}
    found = [f"{a.case_id}: void: {a.reason}" for key, a in last.items()
             if key not in done and a.status == "void"]
    for case_id, trial in done:
        path = run / "rec" / f"{case_id}.t{trial}.rec.json"
        record = SessionRecord.model_validate(json.loads(path.read_text()))
        found += [f"{case_id}: {said}" for said in in_record(record)]
    return found


def in_record(record: SessionRecord) -> list[str]:
    """Of one session that is not void: late frames anywhere, by our clock or by the peer's, and a
    local model's process that was held up."""
    found = in_certificate(record.timing)
    load = worker_load(record)
    if load is not None and load.late_ms is not None and load.late_ms > BUSY_MS:
        found.append(f"the model's process was held up: an answer came {load.late_ms:.0f} ms late")
    return found


def in_certificate(timing: TimingCertificate, busy_ms: float = BUSY_MS) -> list[str]:
    """Of one session, by its certificate."""
    if timing.void:
        return [f"void: {timing.void_reason}"]
    found = []
    if timing.late_max_ms > busy_ms:
        found.append(f"a frame was {timing.late_max_ms:.0f} ms late")
    if timing.peer is not None and (timing.peer.late_max_ms or 0.0) > busy_ms:
        found.append(f"a frame reached the peer {timing.peer.late_max_ms:.0f} ms late")
    return found


def void(played: Played | None) -> bool:
    """Whether the machine was too busy for a session of the orchestrator, which has no window, to
    mean anything; says so where it was."""
    if played is None:
        return False
    timing = certify(played.late_ns, None)
    if timing.void:
        print(f"void: {timing.void_reason}")
    return timing.void


def skip_where_void(status: str, reason: str | None) -> None:
    """Of a session that was tried often enough: where it ended void, it cannot be judged."""
    if status == "void":
        pytest.skip(f"this machine is too busy to keep time: {reason}")


def done_or_busy(run: Path) -> set[str]:
    """The cases of a run that are done; the test is skipped where every one of the others is void
    and none is done."""
    done = kit.done(run)
    if not done:
        assert {line["status"] for line in kit.ledger(run)} == {"void"}, kit.ledger(run)
        pytest.skip(f"this machine is too busy to keep time: {in_run(run)[0]}")
    return done
