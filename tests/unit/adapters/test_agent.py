"""Ear and mouth: exact to the sample."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.base import AgentEvent, AudioReceived, ResponseDone, ResponseStarted, TextDelta
from adapters.simulated.agent import FRAME_N, Ear, Mouth, Speech
from audio.buffers import Float32
from audio.timebase import FRAME_NS, ms_to_ns, n_to_ns, ns_to_n

RATE_HZ = 24_000


def ones(n: int, words: tuple[tuple[str, int], ...] = (), *, loop: bool = False) -> Speech:
    return Speech(np.full(n, 0.5, dtype=np.float32), words, loop)


def run(mouth: Mouth, ticks: int, late_ns: int = 0) -> list[AgentEvent]:
    events: list[AgentEvent] = []
    for k in range(1, ticks + 1):
        events += mouth.step(k * FRAME_NS + late_ns)
    return events


def heard(events: list[AgentEvent], seconds: float) -> Float32:
    """The heard track: a chunk begins at its arrival or at the end of the one before."""
    track = np.zeros(round(seconds * RATE_HZ), dtype=np.float32)
    free_n = 0
    for event in events:
        if isinstance(event, AudioReceived):
            at_n = max(ns_to_n(event.t_ns, RATE_HZ), free_n)
            track[at_n : at_n + len(event.samples)] = event.samples
            free_n = at_n + len(event.samples)
    return track


def test_mouth_begins_and_ends_to_the_sample() -> None:
    mouth = Mouth()
    mouth.say(ones(1001), ms_to_ns(123.0))
    events = run(mouth, 20)
    sound = np.flatnonzero(heard(events, 1.0))
    assert (sound[0], sound[-1] + 1) == (2952, 2952 + 1001)  # 123 ms at 24 kHz
    chunks = [e for e in events if isinstance(e, AudioReceived)]
    assert [len(c.samples) for c in chunks] == [FRAME_N] * 3
    assert [c.t_ns for c in chunks] == [ms_to_ns(120), ms_to_ns(140), ms_to_ns(160)]
    assert not mouth.busy
    assert mouth.last_end_ns == n_to_ns(2952 + 1001, RATE_HZ)


@settings(max_examples=60, deadline=None)
@given(start_n=st.integers(0, 4000), length_n=st.integers(1, 4000),
       late_ns=st.integers(0, 9_000_000))
def test_mouth_is_exact_wherever_it_begins_and_however_late_the_ticks_are(
    start_n: int, length_n: int, late_ns: int,
) -> None:
    mouth = Mouth()
    mouth.say(ones(length_n), n_to_ns(start_n, RATE_HZ))
    sound = np.flatnonzero(heard(run(mouth, 30, late_ns), 1.0))
    first_tick_n = ns_to_n(FRAME_NS + late_ns, RATE_HZ)
    # Nothing can be heard before the first tick; later starts are kept to one sample (the
    # arrival itself is rounded to a sample).
    assert abs(int(sound[0]) - max(start_n, first_tick_n)) <= 1
    assert len(sound) == length_n == sound[-1] + 1 - sound[0]


@pytest.mark.parametrize("late_ms", [(8, 0, 0, 0, 0, 0), (0, 3, 9, 1, 0, 6), (19, 0, 5, 0, 0, 0)])
def test_ticks_of_uneven_lateness_do_not_move_what_is_planned(late_ms: tuple[int, ...]) -> None:
    """A late chunk is still playing when the next is due; the end is where it was meant to be."""
    mouth = Mouth()
    mouth.say(ones(RATE_HZ, loop=True), ms_to_ns(20))
    mouth.stop(ms_to_ns(133))
    mouth.say(ones(480), ms_to_ns(185))
    events: list[AgentEvent] = []
    for k, late in enumerate((*late_ms, 0, 0, 0, 0), start=1):
        events += mouth.step(k * FRAME_NS + ms_to_ns(late))
    sound = np.flatnonzero(heard(events, 0.5))
    breaks = np.flatnonzero(np.diff(sound) > 100)
    last, second = breaks[-1], sound[breaks[-1] + 1]
    assert sound[last] + 1 == ns_to_n(ms_to_ns(133), RATE_HZ)
    assert second == ns_to_n(ms_to_ns(185), RATE_HZ)
    assert sound[-1] + 1 - second == 480


def test_the_end_is_told_in_playout_time() -> None:
    mouth = Mouth()
    mouth.say(ones(960), ms_to_ns(20))
    mouth.step(ms_to_ns(28))
    mouth.step(ms_to_ns(40))
    assert mouth.last_end_ns == ms_to_ns(68)


def test_a_start_that_rounds_to_the_next_tick_is_one_start() -> None:
    mouth = Mouth()
    mouth.say(ones(960), ms_to_ns(40) - 1)
    events = run(mouth, 10)
    assert [type(e).__name__ for e in events].count("ResponseStarted") == 1
    assert np.count_nonzero(heard(events, 0.3)) == 960


def test_one_response_an_utterance_in_order() -> None:
    mouth = Mouth()
    mouth.say(ones(960, (("later", 0),)), ms_to_ns(200))
    mouth.say(ones(960, (("now", 0), ("too", 480))), ms_to_ns(20))
    events = run(mouth, 20)
    kinds = [(type(e).__name__, getattr(e, "response_id", None)) for e in events]
    assert kinds == [
        ("ResponseStarted", "r2"), ("TextDelta", "r2"), ("AudioReceived", "r2"),
        ("TextDelta", "r2"), ("AudioReceived", "r2"), ("ResponseDone", "r2"),
        ("ResponseStarted", "r1"), ("TextDelta", "r1"), ("AudioReceived", "r1"),
        ("AudioReceived", "r1"), ("ResponseDone", "r1")]
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "now too later "
    assert {e.status for e in events if isinstance(e, ResponseDone)} == {"completed"}


def test_a_later_utterance_waits_for_the_earlier_one() -> None:
    mouth = Mouth()
    mouth.say(ones(4800), ms_to_ns(20))
    mouth.say(ones(480), ms_to_ns(100))
    starts = [e.t_ns for e in run(mouth, 20) if isinstance(e, ResponseStarted)]
    assert starts == [ms_to_ns(20), ms_to_ns(220)]


def test_stop_cuts_to_the_sample_and_takes_back_the_words() -> None:
    mouth = Mouth()
    words = (("said", 0), ("unsaid", 4000))
    mouth.say(ones(9600, words), ms_to_ns(20))
    mouth.stop(ms_to_ns(133))
    events = run(mouth, 30)
    sound = np.flatnonzero(heard(events, 1.0))
    assert sound[-1] + 1 == ns_to_n(ms_to_ns(133), RATE_HZ)
    assert [e.text for e in events if isinstance(e, TextDelta)] == ["said "]
    assert [e.status for e in events if isinstance(e, ResponseDone)] == ["cancelled"]
    assert mouth.last_end_ns == ms_to_ns(133)


@pytest.mark.parametrize("stop_ms", [120.0, 126.0, 139.0, 140.0, 141.0])
def test_stop_fades_out_over_ten_milliseconds(stop_ms: float) -> None:
    mouth = Mouth()
    mouth.say(ones(RATE_HZ, loop=True), ms_to_ns(20))
    mouth.stop(ms_to_ns(stop_ms))
    events = run(mouth, 30)
    track = heard(events, 1.0)
    stop_n = ns_to_n(ms_to_ns(stop_ms), RATE_HZ)
    assert np.all(track[ns_to_n(ms_to_ns(20), RATE_HZ) : stop_n - 240] == 0.5)
    assert np.all(np.diff(track[stop_n - 240 : stop_n + 1]) < 0)
    assert not track[stop_n:].any()
    assert [e.status for e in events if isinstance(e, ResponseDone)] == ["cancelled"]


def test_stop_in_the_past_ends_at_the_next_tick() -> None:
    mouth = Mouth()
    mouth.say(ones(RATE_HZ), ms_to_ns(20))
    events = run(mouth, 5)
    mouth.stop(ms_to_ns(30))
    after = [mouth.step(6 * FRAME_NS), mouth.step(7 * FRAME_NS)]
    assert after == [[ResponseDone(6 * FRAME_NS, "r1", "cancelled")], []]
    assert sum(isinstance(e, AudioReceived) for e in events) == 5


def test_what_is_stopped_before_it_begins_is_never_heard_of() -> None:
    mouth = Mouth()
    mouth.say(ones(480), ms_to_ns(100))
    mouth.stop(ms_to_ns(100))
    mouth.say(ones(480), ms_to_ns(300))
    events = run(mouth, 30)
    assert [e.response_id for e in events if isinstance(e, ResponseStarted)] == ["r2"]


def test_stop_leaves_what_is_planned_for_later() -> None:
    mouth = Mouth()
    mouth.say(ones(RATE_HZ, loop=True), ms_to_ns(20))
    mouth.say(ones(480), ms_to_ns(300))
    mouth.stop(ms_to_ns(200))
    sound = np.flatnonzero(heard(run(mouth, 30), 1.0))
    assert sound[-1] + 1 == ns_to_n(ms_to_ns(300), RATE_HZ) + 480


def test_a_loop_goes_on_without_a_gap_and_repeats_its_words() -> None:
    ramp = np.arange(1, 701, dtype=np.float32) / 1000
    mouth = Mouth()
    mouth.say(Speech(ramp, (("a", 0), ("b", 350)), loop=True), ms_to_ns(20))
    events = run(mouth, 7)
    track = heard(events, 0.2)[480:]
    assert np.array_equal(track[: 6 * 480], np.resize(ramp, 6 * 480))
    # 3360 samples said: 4.8 rounds of 700.
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "a b " * 5


def test_ear_places_onset_and_end_to_the_sample() -> None:
    ear = Ear()
    frame = np.zeros(480, dtype=np.float32)
    assert not ear.hear(frame)
    assert (ear.onset_ns, ear.last_ns, ear.sounding) == (None, None, False)
    frame[24], frame[47] = 1e-4, -1e-4
    assert ear.hear(frame)
    assert (ear.onset_ns, ear.last_ns) == (ms_to_ns(21), ms_to_ns(22))
    assert ear.sounding


@pytest.mark.parametrize(("silent_frames", "new"), [(14, False), (15, True)])
def test_a_new_stretch_needs_three_hundred_milliseconds_of_silence(
    silent_frames: int, new: bool,
) -> None:
    ear = Ear()
    sound = np.ones(480, dtype=np.float32)
    assert ear.hear(sound)
    for _ in range(silent_frames):
        assert not ear.hear(np.zeros(480, dtype=np.float32))
    assert ear.hear(sound) is new
