"""Both playouts of a record: when they are the same, and where `flush` stops."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import rig_testkit as kit

from audio.timebase import n_to_ns
from rig.record import SessionRecord
from rig.store import RunFolder
from rig.tracks import make_track

S = 1_000_000_000
CASE = "R1-C1-1-L2"


@pytest.fixture(scope="module")
def record(tiny_suite: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A real record to put other events into."""
    from rig import cli

    run = tmp_path_factory.mktemp("tracks") / "run"
    assert cli.main(["run", str(tiny_suite), "--adapter", "oracle", "--jobs", "1", "--filter",
                     "role=R1,action=TAKE_TURN", "--out", str(run)]) == 0
    return json.loads(RunFolder(run).record_path(CASE, 1).read_text())


def with_events(record: dict[str, Any], *events: dict[str, Any]) -> SessionRecord:
    numbered = [{"seq": seq, **event} for seq, event in enumerate(events)]
    return SessionRecord.model_validate({**record, "events": numbered})


def audio(second: float, n: int, response: str | None = "r1") -> dict[str, Any]:
    return {"kind": "audio_received", "t_ns": round(second * S), "n": n, "response_id": response}


def interrupted(second: float, response: str | None = None) -> dict[str, Any]:
    return {"kind": "interrupted", "t_ns": round(second * S), "response_id": response}


def heard_until_s(record: SessionRecord, policy: Any) -> float:
    last = make_track(record, policy).placements[-1]
    return (last.start_ns + n_to_ns(last.n, 24_000)) / S


def test_without_an_interruption_flush_is_hold(record: dict[str, Any]) -> None:
    found = with_events(record, audio(2.0, 72_000))
    hold, flush = make_track(found, "hold"), make_track(found, "flush")
    assert not hold.differs_from_hold
    assert not flush.differs_from_hold
    assert hold.placements == flush.placements


def test_an_interruption_of_nothing_changes_nothing(record: dict[str, Any]) -> None:
    found = with_events(record, audio(2.0, 24_000), interrupted(3.5))
    assert not make_track(found, "flush").differs_from_hold


@pytest.mark.parametrize("response", [None, "r1"])
def test_flush_drops_what_is_queued(record: dict[str, Any], response: str | None) -> None:
    """Three seconds arrive at 2.0 s; at 2.8 s the system says that the user broke in."""
    found = with_events(record, audio(2.0, 72_000), interrupted(2.8, response),
                        audio(2.9, 24_000, "r1"), audio(6.0, 24_000, "r2"))
    flush = make_track(found, "flush")
    assert flush.differs_from_hold
    assert [(p.start_ns / S, p.n) for p in flush.placements] == [(2.0, 19_200), (6.0, 24_000)]
    hold = make_track(found, "hold")
    assert [(p.start_ns / S, p.n) for p in hold.placements] == [
        (2.0, 72_000), (5.0, 24_000), (6.0, 24_000)]


def test_an_interruption_of_another_response_drops_the_queue_all_the_same(
    record: dict[str, Any]
) -> None:
    """A client has one queue: what is flushed is flushed. Later audio of the first goes on."""
    found = with_events(record, audio(2.0, 72_000, "r1"), interrupted(2.5, "r0"),
                        audio(4.0, 24_000, "r1"))
    assert heard_until_s(found, "flush") == 5.0
    assert make_track(found, "flush").placements[0].n == 12_000


def test_a_silent_session_has_an_empty_track(record: dict[str, Any]) -> None:
    found = with_events({**record, "arrivals": None})
    for policy in ("hold", "flush"):
        track = make_track(found, policy)
        assert track.placements == ()
        assert track.recorded_ns == n_to_ns(record["recorded_n"], 24_000)


def test_the_testkit_record_is_a_session_of_the_suite(record: dict[str, Any]) -> None:
    assert record["case_id"] == CASE
    assert kit.CELLS[0][:2] == ("R1", "C1")
