"""The known peer's agents on a clock written by hand: what they do, and that their log is true."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.base import AgentEvent, AudioReceived, ResponseDone
from adapters.known_peer.agents import Listener, PeerAgent, TruthLog
from adapters.known_peer.protocol import (
    AGENT_KINDS,
    Behaviour,
    pack_audio,
    pack_user,
    unpack_audio,
    unpack_user,
)
from audio.buffers import float_to_pcm16
from audio.errors import InputError

MS = 1_000_000
FRAME_NS = 20 * MS
RATE_HZ = 24_000


def user(*stretches_n: tuple[int, int], length_s: float) -> np.ndarray:
    """Sound of 0.1 between given samples, zero elsewhere."""
    out = np.zeros(round(length_s * 50) * 480, dtype=np.float32)
    for start_n, end_n in stretches_n:
        out[start_n:end_n] = 0.1
    return out


def meet(behaviour: Behaviour, samples: np.ndarray, *,
         frame_late_ms: dict[int, float] | None = None,
         tick_late_ms: dict[int, float] | None = None, offset_ms: float = 3.0):
    """Frames arrive `offset_ms` after the peer's ticks; all times in ns on the peer's clock.

    Gives what was heard of the agent, sample by sample, and the truths it logged.
    """
    agent = PeerAgent(behaviour)
    heard = np.zeros(len(samples) + RATE_HZ, dtype=np.float32)
    truths, chunks = [], []
    events: list[tuple[int, int, int]] = []
    for k in range(len(samples) // 480):
        late = (frame_late_ms or {}).get(k, 0.0)
        events.append((round((k + 1) * FRAME_NS + (offset_ms + late) * MS), 0, k))
        events.append(((k + 1) * FRAME_NS, 1, k))
    queue_end = 0
    for t_ns, what, k in sorted(events):
        if what == 0:
            agent.hear(samples[k * 480:(k + 1) * 480], t_ns)
            continue
        handed = t_ns + round((tick_late_ms or {}).get(k, 0.0) * MS)
        for event in agent.tick(t_ns):
            truth = agent.log.handed(event, handed)
            if isinstance(event, AudioReceived):
                start = max(handed, queue_end)
                queue_end = start + FRAME_NS
                n = round(start * RATE_HZ / 1e9)
                heard[n:n + 480] = event.samples
                chunks.append(event)
            if truth is not None:
                truths.append(truth)
    return heard, truths, chunks


def edges(heard: np.ndarray) -> tuple[int, int]:
    sound = np.flatnonzero(float_to_pcm16(heard))
    return int(sound[0]), int(sound[-1]) + 1


@pytest.mark.parametrize("latency_s", [0.2, 0.7, 1.5])
def test_a_reply_begins_at_its_latency_to_the_sample(latency_s: float) -> None:
    # The user's last sound is sample 24_123 of media time, heard 3 ms after it was over.
    heard, truths, _ = meet(Behaviour("reply", latency_s=latency_s, reply_s=0.5),
                            user((4_000, 24_124), length_s=4.0))
    start_n, end_n = edges(heard)
    due_n = 24_124 + 0.003 * RATE_HZ + latency_s * RATE_HZ
    assert abs(start_n - due_n) <= 2
    [truth] = truths
    assert truth["kind"] == "reply"
    assert truth["user_offset_ns"] == pytest.approx((24_124 / RATE_HZ + 0.003) * 1e9, abs=50_000)
    assert truth["latency_ms"] == pytest.approx(1000 * latency_s, abs=0.1)
    assert truth["length_ms"] == pytest.approx((end_n - start_n) / RATE_HZ * 1000, abs=0.1)
    assert truth["yield_ms"] is None
    assert truth["underrun_ms"] == 0


def test_a_late_user_frame_is_a_late_user_and_no_error_of_the_agent() -> None:
    samples = user((4_000, 24_124), length_s=3.0)
    last = 24_123 // 480
    _, [truth], _ = meet(Behaviour("reply", latency_s=0.3, reply_s=0.5), samples,
                         frame_late_ms={last: 12.0})
    assert truth["user_offset_ns"] == pytest.approx((24_124 / RATE_HZ + 0.015) * 1e9, abs=50_000)
    assert truth["latency_ms"] == pytest.approx(300, abs=0.1)


def test_a_late_tick_of_the_peer_is_in_its_own_truth() -> None:
    samples = user((4_000, 24_124), length_s=3.0)
    _, [punctual], chunks = meet(Behaviour("reply", latency_s=0.3, reply_s=0.5), samples)
    first_tick = punctual["handed_ns"] // FRAME_NS - 1
    heard, [late], _ = meet(Behaviour("reply", latency_s=0.3, reply_s=0.5), samples,
                            tick_late_ms={first_tick: 7.0})
    assert late["latency_ms"] - punctual["latency_ms"] == pytest.approx(7.0, abs=0.01)
    assert edges(heard)[0] == pytest.approx(late["onset_ns"] / 1e9 * RATE_HZ, abs=2)
    assert len(chunks) > 20


def test_a_chunk_that_comes_late_is_an_underrun_and_moves_the_end() -> None:
    samples = user((4_000, 24_124), length_s=3.0)
    _, [punctual], _ = meet(Behaviour("reply", latency_s=0.3, reply_s=0.5), samples)
    tick = punctual["handed_ns"] // FRAME_NS + 4
    _, [late], _ = meet(Behaviour("reply", latency_s=0.3, reply_s=0.5), samples,
                        tick_late_ms={tick: 11.0})
    assert late["underrun_ms"] == pytest.approx(11.0, abs=0.01)
    assert late["length_ms"] - punctual["length_ms"] == pytest.approx(11.0, abs=0.01)


def test_hold_breaks_off_at_its_yield_time_and_then_answers() -> None:
    barge_n, barge_end_n = 72_777, 90_000
    heard, truths, _ = meet(Behaviour("hold", latency_s=0.4, yield_s=0.2, reply_s=0.5),
                            user((4_000, 24_124), (barge_n, barge_end_n), length_s=6.0))
    hold, reply = truths
    assert (hold["kind"], hold["status"], reply["kind"]) == ("hold", "cancelled", "reply")
    assert hold["barge_in_ns"] == pytest.approx((barge_n / RATE_HZ + 0.003) * 1e9, abs=50_000)
    assert hold["yield_ms"] == pytest.approx(200, abs=0.5)
    assert reply["latency_ms"] == pytest.approx(400, abs=0.1)
    stop_n = round(hold["end_ns"] / 1e9 * RATE_HZ)
    silence = float_to_pcm16(heard)[stop_n + 2:stop_n + 10_000]
    assert not silence.any()
    assert float_to_pcm16(heard)[stop_n - 100:stop_n].any()


def test_a_backchannel_has_its_length() -> None:
    _, [truth], _ = meet(Behaviour("backchannel", latency_s=0.3, backchannel_s=0.32),
                         user((4_000, 24_124), length_s=3.0))
    assert truth["kind"] == "backchannel"
    assert truth["length_ms"] == pytest.approx(320, abs=0.2)


def test_a_pause_shorter_than_the_latency_is_no_end() -> None:
    _, truths, _ = meet(Behaviour("reply", latency_s=0.7, reply_s=0.4),
                        user((4_000, 24_000), (24_000 + 12_000, 60_000), length_s=4.5))
    assert len(truths) == 1
    assert truths[0]["user_offset_ns"] == pytest.approx((60_000 / RATE_HZ + 0.003) * 1e9,
                                                        abs=50_000)


def test_silent_says_nothing() -> None:
    heard, truths, _ = meet(Behaviour("silent"), user((4_000, 24_124), length_s=3.0))
    assert not heard.any()
    assert truths == []


def test_its_speech_never_falls_silent_inside() -> None:
    heard, _, _ = meet(Behaviour("reply", latency_s=0.3, reply_s=1.5),
                       user((4_000, 24_124), length_s=4.0))
    start_n, end_n = edges(heard)
    windows = heard[start_n:start_n + (end_n - start_n) // 24 * 24].reshape(-1, 24)
    level_db = 10 * np.log10((windows.astype(np.float64) ** 2).mean(axis=1) + 1e-20)
    # One millisecond of the tone at -45 dB may hold its zero crossing.
    assert level_db.min() > -60


def test_an_utterance_without_sound_has_no_truth() -> None:
    log = TruthLog()
    log.begins("reply", 0)
    silent: list[AgentEvent] = [AudioReceived(0, np.zeros(480, np.float32), "r1"),
                                ResponseDone(0, "r1")]
    assert [log.handed(e, 0) for e in silent] == [None, None]
    assert log.handed(silent[0], 0) is None


def test_the_listener_knows_no_time_before_a_sound() -> None:
    listener = Listener()
    assert not listener.hear(np.zeros(480, np.float32), 20 * MS)
    assert listener.onset_ns is None
    assert listener.offset_ns is None


# What they say to each other.


@pytest.mark.parametrize("change", [
    {"agent": "talk"}, {"latency_s": 0.0}, {"latency_s": 11.0}, {"latency_s": float("nan")},
    {"latency_s": "1"}, {"latency_s": True}, {"yield_s": 0.01}, {"yield_s": 5.1},
    {"reply_s": 0.29}, {"reply_s": 60.1}, {"backchannel_s": 0.09}, {"backchannel_s": 2.1},
    {"delay_ms": -1}, {"delay_ms": 2001}, {"other": 1}])
def test_a_behaviour_out_of_bounds_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(InputError, match="expected"):
        Behaviour.of({**Behaviour().as_dict(), **change})


def test_bounds_themselves_are_allowed() -> None:
    for name in ("latency_s", "reply_s", "yield_s", "backchannel_s", "delay_ms"):
        for value in Behaviour.bounds(name):
            assert getattr(Behaviour.of({name: value}), name) == value
    for kind in AGENT_KINDS:
        assert Behaviour.of({"agent": kind}).agent == kind
    assert Behaviour.of({}) == Behaviour()
    assert Behaviour.of(dataclasses.asdict(Behaviour("hold"))) == Behaviour("hold")


@pytest.mark.parametrize("value", [None, [], "reply", 1])
def test_a_behaviour_is_an_object(value: object) -> None:
    with pytest.raises(InputError, match="expected an object"):
        Behaviour.of(value)


@given(st.lists(st.integers(-32768, 32767), min_size=480, max_size=480))
def test_user_audio_comes_through_exactly(values: list[int]) -> None:
    frame = (np.array(values) / 32768).astype(np.float32)
    assert np.array_equal(unpack_user(pack_user(frame)), frame)


@given(st.integers(1, 1_000_000), st.lists(st.integers(-32768, 32767), max_size=600))
def test_model_audio_comes_through_exactly(response: int, values: list[int]) -> None:
    samples = (np.array(values) / 32768).astype(np.float32)
    number, got = unpack_audio(pack_audio(response, samples))
    assert number == response
    assert np.array_equal(got, samples)


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x01\x00\x00\x00\x00", b"\x02\x01\x00\x00\x00",
                                  b"\x01\x01\x00\x00\x00\x00", b"\x01\xff\xff\xff\xff"])
def test_what_is_no_audio_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="expected"):
        unpack_audio(data)


@pytest.mark.parametrize("n", [0, 958, 961, 962])
def test_a_user_frame_has_its_length(n: int) -> None:
    with pytest.raises(ValueError, match="expected 960 bytes"):
        unpack_user(bytes(n))
    with pytest.raises(ValueError, match="expected a frame of shape"):
        pack_user(np.zeros(479, np.float32))
