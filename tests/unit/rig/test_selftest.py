"""The self-test's arithmetic on sessions written by hand: a known error is found as what it is.

The last test meets the peer itself, in its own process (marked slow)."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import stalls

from adapters.known_peer.launch import started
from adapters.simulated import voice
from audio.buffers import float_to_pcm16
from rig import selftest_readings as readings
from rig.commands import selftest as command
from rig.orchestrator import Played
from rig.record import AudioEvent, StateEvent
from rig.selftest import plan, run, scenarios, system, user_turn
from rig.selftest_readings import (
    Errors,
    Meeting,
    Reading,
    Scenario,
    arrival_edges_ns,
    energy_stretches_ns,
    measure,
    summarise,
)
from rig.timing import certify

MS = 1_000_000
RATE_HZ = 24_000
REPLY = Scenario("reply", "reply", {"latency_s": "0.7"})
YIELD = Scenario("yield", "yield", {"agent": "hold"})
BACK = Scenario("back", "backchannel", {"agent": "backchannel"})


def said(seconds: float) -> np.ndarray:
    """Speech without silence inside, loud at both ends."""
    samples = voice.talk(seconds).samples.copy()
    return (samples + 0.01 * np.cos(np.arange(len(samples)) * 0.03)).astype(np.float32)


def played(*utterances: tuple[float, np.ndarray, dict[str, object]], late_ns: int = 0,
           length_s: float = 8.0) -> Played:
    """Turn 1 from 0 to 1.0 s, turn 2 from 4.0 to 5.0 s; utterances as (arrival of the first
    sample in ms, samples, truth). Chunks of 20 ms arrive when the one before has been heard."""
    events: list[object] = []
    received: list[np.ndarray] = []
    for number, (at_ms, samples, truth) in enumerate(utterances, start=1):
        for first in range(0, len(samples), 480):
            piece = samples[first:first + 480]
            events.append(AudioEvent(seq=len(events), t_ns=round(at_ms * MS) + first * MS // 24,
                                     n=len(piece), response_id=f"r{number}"))
            received.append(piece)
        events.append(StateEvent(seq=len(events), t_ns=events[-1].t_ns, name="peer_truth",
                                 detail=json.dumps({"response_id": f"r{number}", **truth})))
    n = round(length_s * RATE_HZ)
    return Played(user=np.zeros(n, np.float32), events=events, received=received, flags=set(),
                  turn1_end_n=24_000, turn2_onset_n=96_000, turn2_end_n=120_000,
                  model_onset_ns=None, late_ns=[late_ns] * (n // 480))


def truth(latency_ms: float = 0.0, length_ms: float = 0.0,
          yield_ms: float | None = None) -> dict[str, object]:
    return {"latency_ms": latency_ms, "length_ms": length_ms, "yield_ms": yield_ms}


def test_a_reply_is_measured_from_the_turn_that_it_follows(tmp_path: Path) -> None:
    session = played((1_700, said(1.0), truth(700)), (5_650, said(1.0), truth(650)))
    tested = measure(REPLY, session, tmp_path / "a.wav", keep_void=False)
    assert tested.problem is None
    first, second = tested.readings
    assert first.measured_ms["arrival"] == pytest.approx(700, abs=0.05)
    assert second.measured_ms["arrival"] == pytest.approx(650, abs=0.05)
    assert first.measured_ms["energy"] == pytest.approx(700, abs=1.0)
    # Detection sits on frames of 32 ms and widens by 30.
    assert first.measured_ms["vad"] == pytest.approx(700, abs=70)
    assert first.error_ms("arrival") == pytest.approx(0, abs=0.05)


@pytest.mark.parametrize("shift_ms", [50.0, 5.0, -3.0])
def test_what_arrives_late_is_an_error_of_that_size(tmp_path: Path, shift_ms: float) -> None:
    session = played((1_700 + shift_ms, said(1.0), truth(700)))
    [reading] = measure(REPLY, session, tmp_path / "a.wav", keep_void=False).readings
    assert reading.error_ms("arrival") == pytest.approx(shift_ms, abs=0.05)
    assert reading.error_ms("energy") == pytest.approx(shift_ms, abs=1.0)


def test_a_yield_runs_from_the_barge_in_to_the_last_sound(tmp_path: Path) -> None:
    # Speech from 1.4 s to 4.2 s; the barge-in is turn 2 at 4.0 s. The reply has no yield.
    session = played((1_400, said(2.8), truth(400, 2_800, 200.0)), (5_400, said(0.5), truth(400)))
    [reading] = measure(YIELD, session, tmp_path / "a.wav", keep_void=False).readings
    assert reading.truth_ms == 200.0
    assert reading.measured_ms["arrival"] == pytest.approx(200, abs=0.05)
    assert reading.measured_ms["energy"] == pytest.approx(200, abs=1.0)
    assert reading.measured_ms["vad"] is not None


def test_a_backchannel_is_measured_by_its_length(tmp_path: Path) -> None:
    session = played((1_300, said(0.32), truth(300, 320)), (5_300, said(0.40), truth(300, 320)))
    first, second = measure(BACK, session, tmp_path / "a.wav", keep_void=False).readings
    assert first.error_ms("arrival") == pytest.approx(0, abs=0.05)
    assert second.error_ms("arrival") == pytest.approx(80, abs=0.05)
    assert second.error_ms("energy") == pytest.approx(80, abs=1.5)


def test_speech_that_is_not_detected_is_no_number(tmp_path: Path) -> None:
    tone = (0.1 * np.sin(np.arange(12_000) * 2 * np.pi * 440 / RATE_HZ + 0.5)).astype(np.float32)
    session = played((1_700, tone, truth(700)))
    [reading] = measure(REPLY, session, tmp_path / "a.wav", keep_void=False).readings
    assert reading.measured_ms["vad"] is None
    assert reading.error_ms("vad") is None
    assert reading.error_ms("arrival") is not None
    assert readings.errors([reading], "vad") is None


def test_more_or_less_sound_than_the_peer_said_is_a_problem(tmp_path: Path) -> None:
    unsaid = played((1_700, said(1.0), truth(700)))
    unsaid.events = [e for e in unsaid.events if not isinstance(e, StateEvent)]
    for session, problem in (
            (unsaid, "said 0 utterances, 1 stretches"),
            (played((1_700, said(1.0), truth(700)), (2_750, said(1.0), truth(650))),
             "said 2 utterances, 1 stretches"),
            (played(), "nothing of what is tested was said")):
        tested = measure(REPLY, session, tmp_path / "a.wav", keep_void=False)
        assert tested.readings == ()
        assert problem in (tested.problem or "")


def test_a_void_session_says_nothing(tmp_path: Path) -> None:
    session = played((1_700, said(1.0), truth(700)), late_ns=16 * MS)
    tested = measure(REPLY, session, tmp_path / "a.wav", keep_void=False)
    assert tested.readings == ()
    assert tested.problem == "void: lateness p99 16.0 ms is over the budget of 15 ms"
    assert len(measure(REPLY, session, tmp_path / "a.wav", keep_void=True).readings) == 1


def test_edges_by_arrival_are_those_of_samples_that_are_not_zero() -> None:
    samples = np.zeros(960, np.float32)
    samples[100:700] = 0.1
    session = played((1_000, samples, truth()))
    assert arrival_edges_ns(session, "r1") == (
        1_000 * MS + round(100 / RATE_HZ * 1e9), 1_000 * MS + round(700 / RATE_HZ * 1e9))
    assert arrival_edges_ns(session, "r2") is None
    assert arrival_edges_ns(played((0, np.zeros(480, np.float32), truth())), "r1") is None


def test_stretches_by_energy() -> None:
    track = np.zeros(48_000, np.float32)
    track[2_400:4_800] = 0.01
    track[4_800 + 5_976:12_000] = 0.01  # after 249 ms: the same utterance
    track[12_000 + 6_024:24_000] = 0.01  # after 251 ms: another
    track[30_000:31_000] = 0.0004  # -68 dB
    assert energy_stretches_ns(track, RATE_HZ) == [(100 * MS, 500 * MS), (751 * MS, 1_000 * MS)]
    assert energy_stretches_ns(np.zeros(1_000, np.float32), RATE_HZ) == []


# Summing up.


def reading(scenario: Scenario, error_ms: float | None, truth_ms: float = 700.0) -> Reading:
    value = None if error_ms is None else truth_ms + error_ms
    return Reading(scenario, truth_ms, {"arrival": value, "energy": value, "vad": value})


def meeting(scenario: Scenario, *errors_ms: float | None) -> Meeting:
    return Meeting(scenario, tuple(reading(scenario, e) for e in errors_ms), None)


def test_errors_are_those_that_happened() -> None:
    found = Errors.of([float(e) for e in range(-10, 90)])
    assert found is not None
    assert (found.n, found.bias_ms, found.p5_ms, found.p95_signed_ms) == (100, 39, -6, 84)
    assert (found.median_ms, found.p95_ms) == (39, 84)
    assert Errors.of([-4.0]) == Errors(1, -4.0, -4.0, -4.0, 4.0, 4.0)
    assert Errors.of([]) is None


@pytest.mark.parametrize(("errors_ms", "failures"), [
    ([5.0] * 20, []),
    ([5.1] * 20, ["by arrival: median error 5.1 ms, budget 5 ms",
                  "by energy: median error 5.1 ms, budget 5 ms"]),
    ([-5.1] * 20, ["by arrival: median error 5.1 ms, budget 5 ms",
                   "by energy: median error 5.1 ms, budget 5 ms"]),
    ([0.0] * 19 + [99.0], []),
    ([0.0] * 18 + [99.0] * 2, ["by arrival: p95 error 99.0 ms, budget 15 ms",
                               "by energy: p95 error 99.0 ms, budget 15 ms"]),
    ([], ["by arrival: nothing was measured", "by energy: nothing was measured"])])
def test_budgets(errors_ms: list[float], failures: list[str]) -> None:
    assert list(summarise([meeting(REPLY, *errors_ms)]).failures) == failures


@pytest.mark.parametrize(("shown_ms", "good"), [(50.0, True), (45.0, True), (55.0, True),
                                                (56.0, False), (44.0, False), (0.0, False),
                                                (-50.0, False)])
@pytest.mark.parametrize("where", ["peer", "rig"])
def test_an_injected_delay_must_be_seen_as_what_it_is(where: str, shown_ms: float,
                                                      good: bool) -> None:
    injected = Scenario("delayed", "reply", REPLY.settings, where, 50.0)  # type: ignore[arg-type]
    other = Scenario("other", "reply", {"latency_s": "1.5"})
    summary = summarise([meeting(REPLY, 2.0, 2.0, 3.0), meeting(other, 4.0),
                         meeting(injected, 2.0 + shown_ms, 2.0 + shown_ms)])
    [shift] = summary.shifts
    assert (shift.where, shift.injected_ms, shift.good) == (where, 50.0, good)
    assert shift.shown_ms == pytest.approx(shown_ms)
    assert bool(summary.failures) is not good
    # What was injected is no error of the instrument.
    assert summary.by_method["arrival"] is not None
    assert summary.by_method["arrival"].n == 4


def test_a_delay_without_its_counterpart_is_not_seen() -> None:
    injected = Scenario("delayed", "reply", REPLY.settings, "rig", 50.0)
    summary = summarise([meeting(Scenario("o", "reply", {}), 0.0), meeting(injected, 50.0)])
    assert summary.failures == ("50 ms injected into the rig were seen as nothing",)


# Scenarios.


def test_what_is_met() -> None:
    met = scenarios(50.0)
    assert [s.settings["latency_s"] for s in met if s.quantity == "reply" and not s.injected] == [
        "0.2", "0.7", "1.5"]
    assert {s.quantity for s in met} == {"reply", "yield", "backchannel"}
    assert [(s.injected, s.delay_ms) for s in met if s.injected] == [("peer", 50.0),
                                                                     ("rig", 50.0)]
    for scenario in met:
        adapter = system(scenario, "ws://127.0.0.1:9")
        assert adapter.settings["delay_ms"] == (50.0 if scenario.injected == "peer" else 0.0)
        assert type(adapter).__name__ == ("DelayedArrivals" if scenario.injected == "rig"
                                          else "KnownPeerAdapter")
        assert (plan(scenario).barge_in_after_s is not None) == (scenario.quantity == "yield")


def test_the_users_turns_begin_and_end_with_sound() -> None:
    turn = float_to_pcm16(user_turn(1.1, 3))
    assert turn[0] != 0
    assert turn[-1] != 0


# The command.


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[Meeting]], None]:
    """`rig selftest` with sessions written by hand."""
    @contextmanager
    def no_peer():
        yield "ws://127.0.0.1:9"

    def use(result: list[Meeting]) -> None:
        def fake(url, chosen, rounds, folder, *, keep_void, on_played):
            for scenario in chosen:
                on_played(scenario)
            return result

        monkeypatch.setattr(command, "started", no_peer)
        monkeypatch.setattr(command, "run", fake)

    return use


def sessions(error_ms: float) -> list[Meeting]:
    timing = certify([1 * MS] * 200, None)
    return [Meeting(s, (reading(s, error_ms + s.delay_ms), reading(s, error_ms + s.delay_ms)),
                   timing) for s in scenarios(50.0)]


def test_json_has_truth_measurement_and_error(call_rig, faked) -> None:
    faked(sessions(1.5))
    called = call_rig("selftest", "--json")
    assert called.code == 0
    document = json.loads(called.out)
    assert document["ok"] is True
    assert document["error_ms"]["arrival"]["median_ms"] == pytest.approx(1.5)
    assert document["error_ms"]["vad"]["bias_ms"] == pytest.approx(1.5)
    first = document["readings"][0]
    assert first["truth_ms"] == 700.0
    assert first["measured_ms"]["energy"] == pytest.approx(701.5)
    assert first["error_ms"] == {m: pytest.approx(1.5) for m in ("arrival", "energy", "vad")}
    assert [i["shown_ms"] for i in document["injected"]] == [pytest.approx(50.0)] * 2
    assert len(document["agents"]) == 7
    assert document["timing"][0]["late_p99_ms"] == 1.0


@pytest.mark.parametrize(("change", "arguments", "code"), [
    (lambda s: s, (), 0),
    (lambda s: s, ("--max-median-ms", "1"), 1),
    (lambda s: s[:-1], (), 0),
    (lambda s: [], (), 1),
    (lambda s: [*s, Meeting(s[0].scenario, (), None, "no connection")], (), 3)])
def test_exit_codes(call_rig, faked, change, arguments, code) -> None:
    faked(change(sessions(1.5)))
    called = call_rig("selftest", *arguments)
    assert called.code == code, called.err
    assert ("recovers the truth" in called.out) == (code == 0)


def test_the_tables_show_truth_measurement_and_error(call_rig, faked) -> None:
    faked(sessions(1.5))
    out = call_rig("selftest").out
    assert "+50 ms put into the peer: seen as +50.0 ms" in out
    assert "+50 ms put into the rig: seen as +50.0 ms" in out
    [row] = [line for line in out.splitlines() if line.startswith("reply 0.2 s")]
    assert row.split()[-6:] == ["701.5", "701.5", "701.5", "+1.5", "+1.5", "+1.5"]


@pytest.mark.parametrize("arguments", [("--rounds", "0"), ("--delay-ms", "5"),
                                       ("--max-p95-ms", "-1")])
def test_options_are_bounded(call_rig, arguments) -> None:
    assert arguments[0] in call_rig("selftest", *arguments).error


# The whole path.

STALL_MS = 80.0
"""Of a tolerance of a tenth of a second."""


@pytest.mark.slow
def test_a_delay_shows_up_as_itself_through_the_real_path(tmp_path: Path) -> None:
    """A delay of 200 ms in the peer and in the rig, against the peer's own truth.

    Truth and measurement share what a busy machine does to both, so 200 ms stand out whatever the
    load; the tolerance is a tenth of a second for the frames that a machine is late with.
    """
    chosen = [s for s in scenarios(200.0) if s.settings.get("latency_s") == "0.7"]
    def play(k: int) -> list[Meeting]:
        folder = tmp_path / str(k)
        folder.mkdir()
        with started() as url:
            return run(url, chosen, 1, folder, keep_void=True)

    def stalled(result: list[Meeting]) -> list[str]:
        """What is beyond the tolerance: by the certificate, whose own budget is far smaller."""
        return [f"a frame was {one.timing.late_max_ms:.0f} ms late" for one in result
                if one.timing is not None and one.timing.late_max_ms > STALL_MS]

    result = stalls.undisturbed(play, stalled)
    assert [t.problem for t in result] == [None] * 3
    summary = summarise(result, max_median_ms=100, max_p95_ms=100)
    assert [s.where for s in summary.shifts] == ["peer", "rig"]
    for shift in summary.shifts:
        assert shift.shown_ms == pytest.approx(200, abs=100)
    assert [f for f in summary.failures if "injected" not in f] == []
    for one in result:
        assert one.timing is not None
        assert one.timing.peer is not None
        assert one.timing.loop_lag_max_ms is not None
        for found in one.readings:
            assert found.truth_ms == pytest.approx(700, abs=100)
