"""Files of one session: whole, named by their case, and none for a session that is void."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rig_testkit as kit

from adapters.base import Capabilities
from audio.files import sha256_file
from probes.render import load_built
from rig.orchestrator import Played
from rig.playout import Arrival, place, render
from rig.record import AudioEvent, ResponseDoneEvent
from rig.recorder import absolute_windows, adapter_facts, heard_track, write_session
from rig.store import RunFolder

CASE = "R1-C1-1-L2"
RATE = 24_000


def played(*arrivals: tuple[float, int], onset_n: int = 5 * RATE, late_ms: float = 0.0,
           recorded_s: float = 16.0) -> Played:
    """Model audio as (second, samples); every frame `late_ms` late."""
    received = [kit.tone(n) for _, n in arrivals]
    events: list[Any] = [AudioEvent(seq=seq, t_ns=round(t * 1e9), n=n)
                         for seq, (t, n) in enumerate(arrivals)]
    n = round(recorded_s * RATE)
    return Played(user=np.zeros(n, np.float32), events=events, received=received, flags={"forced"},
                  turn1_end_n=RATE, turn2_onset_n=onset_n,
                  turn2_end_n=onset_n + round(6.1 * RATE), model_onset_ns=None,
                  late_ns=[round(late_ms * 1e6)] * (n // 480))


@pytest.fixture
def write(tiny_suite: Path, tmp_path: Path) -> Any:
    built = load_built(tiny_suite)
    case, = (c for c in built.cases if c.case_id == CASE)
    run = RunFolder(tmp_path / "run")
    run.rec_dir.mkdir(parents=True)
    adapter = adapter_facts(kit.stub(kit.nothing, capabilities=Capabilities(
        full_duplex=True, persona_prompt=True)))

    def call(session: Played) -> tuple[RunFolder, Any]:
        return run, write_session(run, case, built.streams[case.stream_id], 1, 7, adapter, session,
                                  "virtual")

    return call


def names(run: RunFolder) -> set[str]:
    return {p.name.removeprefix(f"{CASE}.t1.") for p in run.rec_dir.iterdir()}


def test_a_record_describes_the_files_beside_it(write: Any) -> None:
    run, record = write(played((2.0, 4800), (9.0, 2400)))
    assert names(run) == {"stereo.wav", "arrivals.flac", "rec.json"}
    assert run.read_record(CASE, 1) == record
    assert record.stereo.sha256 == sha256_file(run.stereo_path(CASE, 1))
    assert record.arrivals.sha256 == sha256_file(run.arrivals_path(CASE, 1))
    assert (record.stereo.frames_n, record.arrivals.frames_n) == (16 * RATE, 7200)
    assert record.flags == ("forced",)
    assert [t.name for t in record.turns] == ["turn1", "turn2"]
    # Construction: speech 2.1 s, pause 2.5 s, speech 1.5 s; turn 2 began at 5 s.
    assert record.turns[1].speech_n == (
        (5 * RATE, round(7.1 * RATE)), (round(9.6 * RATE), round(11.1 * RATE)))


def test_a_silent_model_leaves_no_arrivals_not_even_old_ones(write: Any) -> None:
    write(played((2.0, 4800)))
    run, record = write(played())
    assert names(run) == {"stereo.wav", "rec.json"}
    assert record.arrivals is None


def test_a_void_session_writes_nothing(write: Any) -> None:
    run, record = write(played((2.0, 4800), late_ms=50.0))
    assert record.timing.void
    assert names(run) == set()


@pytest.mark.parametrize(("gap_ms", "names_of"), [
    (100, set()), (0, {"stereo.wav", "arrivals.flac", "rec.json"})])
def test_a_stall_that_a_stream_carries_to_the_window_voids_the_session(
    write: Any, gap_ms: int, names_of: set[str]
) -> None:
    """A model that sends 20 ms every 20 ms. The rig stood still for 100 ms in turn 1, long before
    the window (7.1 s); what came meanwhile was stamped when it was over, and all that came after it
    was heard as late. Where a system sends ahead, nothing that is heard is late."""
    at_s = [0.02 * k + (gap_ms / 1000 if k >= 50 else 0.0) for k in range(700)]
    session = played(*((t, 480) for t in at_s))
    late = [0] * len(session.late_ns)
    late[50:55] = [ms * 10**6 for ms in (100, 80, 60, 40, 20)]
    run, record = write(replace(session, late_ns=late))
    assert names(run) == names_of
    assert record.timing.late_max_near_window_ms == 0.0
    assert record.timing.late_carried_ms == gap_ms
    assert record.timing.void is (gap_ms > 0)


def test_windows_move_with_the_onset(tiny_suite: Path) -> None:
    case, = (c for c in load_built(tiny_suite).cases if c.case_id == CASE)
    windows = absolute_windows(case, 5 * RATE + 12)
    onset_s = 5 + 12 / RATE
    assert windows.turn2_onset_s == onset_s
    assert (windows.scored.start_s, windows.scored.end_s) == pytest.approx(
        (onset_s + 2.1, onset_s + 4.6), abs=1e-9)
    assert windows.user_offset_s == pytest.approx(onset_s + 6.1, abs=1e-9)


def test_the_heard_track_is_as_long_as_the_users_side() -> None:
    session = played((15.9, 24_000))
    model = heard_track(session, RATE)
    assert len(model) == len(session.user)
    first = round(15.9 * RATE)
    assert np.array_equal(model[first:], session.received[0][: len(model) - first])
    assert not model[:first].any()


def test_audio_before_the_session_began_is_never_wrapped_to_its_end() -> None:
    """A negative place must not become the end of the track."""
    source = kit.tone(1000)
    track = render(place([Arrival(-20_000_000, 1000)], (), "hold", RATE), source, RATE, RATE, 5000)
    assert np.array_equal(track[:520], source[480:])
    assert not track[520:].any()


@pytest.mark.parametrize(("level", "flags"), [
    (0.0, set()), (0.001, {"near_silent"}), (0.1, set()), (1.0, {"clipped"})])
def test_audio_of_which_a_reader_should_know_is_flagged(
    write: Any, level: float, flags: set[str]
) -> None:
    """A square wave at 0, -60, -20 and 0 dBFS; the bound is -50."""
    session = played((2.0, 4800))
    square = np.sign(np.sin(np.arange(4800) / 8)).astype(np.float32)
    _, record = write(replace(session, received=[level * square]))
    assert set(record.flags) == {"forced"} | flags


@pytest.mark.parametrize(("status", "flags"), [
    ("completed", set()), ("cancelled", set()), ("incomplete", {"response_incomplete"})])
def test_a_response_that_the_system_calls_incomplete_is_flagged(
    write: Any, status: str, flags: set[str]
) -> None:
    session = played((2.0, 4800))
    done = ResponseDoneEvent(seq=len(session.events), t_ns=session.events[-1].t_ns,
                             response_id="r", status=status)
    _, record = write(replace(session, events=[*session.events, done]))
    assert set(record.flags) & {"response_incomplete"} == flags
