"""RTP packets into audio: where each is heard, what lost, late, early and odd ones do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.base import AgentEvent, AudioReceived, Fault, StateChanged
from adapters.wire import rtp_audio
from adapters.wire.rtp_audio import Packet, RtpAudio
from rig.playout import Arrival, Placement, place

MS = 1_000_000
FRAME = 20 * MS
N = 960
JITTER_MS = 40
JITTER = JITTER_MS * MS


def decode(payload: bytes) -> np.ndarray:
    """A test's Opus: `number` and how many samples, all of that value; 0 is digital silence."""
    if not payload.startswith(b"p"):
        raise ValueError("no packet")
    number, n = payload[1:].split(b",")
    return np.full(int(n), int(number) / 32768, np.float32)


def packet(k: int, *, number: int | None = None, n: int = N, seq: int | None = None,
           at_n: int | None = None, ssrc: int = 7) -> Packet:
    """The k-th packet of a stream that begins near both wraps."""
    return Packet((65_530 + (k if seq is None else seq)) % 65_536,
                  (2**32 - 3_000 + (k * N if at_n is None else at_n)) % 2**32, ssrc,
                  b"p%d,%d" % (k + 1 if number is None else number, n))


class Player:
    """Feeds arrivals in order of time, releases what is due, and hears the result."""

    def __init__(self, jitter_ms: int = JITTER_MS,
                 decoder: Callable[[bytes], np.ndarray] = decode) -> None:
        self.audio = RtpAudio(decoder, jitter_ms=jitter_ms)
        self.events: list[AgentEvent] = []
        self.now = 0

    def until(self, t_ns: int) -> None:
        while (due := self.audio.due_ns()) is not None and due <= t_ns:
            self.now = max(self.now, due)
            before = len(self.events)
            self.events += self.audio.release(self.now)
            assert len(self.events) > before or self.audio.due_ns() != due
        self.now = max(self.now, t_ns)

    def run(self, arrivals: list[tuple[int, Packet]], end_ns: int | None = None) -> Player:
        for t_ns, one in sorted(arrivals, key=lambda a: a[0]):
            self.until(t_ns)
            self.events += self.audio.receive(one, t_ns)
        self.until(self.now + 2_000 * MS if end_ns is None else end_ns)
        return self

    @property
    def received(self) -> list[AudioReceived]:
        return [e for e in self.events if isinstance(e, AudioReceived)]

    @property
    def faults(self) -> list[str]:
        return [e.reason for e in self.events if isinstance(e, Fault)]

    def states(self, name: str) -> list[str]:
        return [e.detail for e in self.events if isinstance(e, StateChanged) and e.name == name]

    def placed(self) -> list[Placement]:
        stamps = [e.t_ns for e in self.received]
        assert stamps == sorted(stamps)
        return place([Arrival(e.t_ns, len(e.samples)) for e in self.received], (), "hold", 48_000)

    def heard(self) -> dict[int, int]:
        """When each packet's first sample is heard, by its number."""
        out: dict[int, int] = {}
        for placement, event in zip(self.placed(), self.received, strict=True):
            number = round(float(event.samples[0]) * 32768)
            if number:
                out.setdefault(number, placement.start_ns)
        return out


def steady(ks: range, *, late_ns: Callable[[int], int] = lambda k: 0,
           ) -> list[tuple[int, Packet]]:
    return [(k * FRAME + late_ns(k), packet(k)) for k in ks]


def test_a_steady_stream_is_heard_without_a_gap_one_buffer_later() -> None:
    player = Player().run(steady(range(50)))
    assert player.heard() == {k + 1: k * FRAME + JITTER for k in range(50)}
    assert {p.run for p in player.placed()} == {0}
    assert player.faults == []
    # Only the first one waits; the others are told of when they come.
    assert [e.t_ns for e in player.received][:2] == [JITTER, JITTER]
    assert [e.t_ns for e in player.received][5:8] == [5 * FRAME, 6 * FRAME, 7 * FRAME]


@given(st.lists(st.integers(0, JITTER_MS), min_size=60, max_size=60))
def test_jitter_within_the_buffer_leaves_no_gap_and_no_fault(late_ms: list[int]) -> None:
    late_ms[0] = 0  # the fastest packet sets the clock, whichever of the first it is
    player = Player().run(steady(range(60), late_ns=lambda k: late_ms[k] * MS))
    assert player.heard() == {k + 1: k * FRAME + JITTER for k in range(60)}
    assert player.faults == []


def test_a_first_packet_that_was_slow_does_not_delay_the_rest() -> None:
    player = Player().run(steady(range(20), late_ns=lambda k: 30 * MS if k == 0 else 0))
    assert player.heard()[5] == 4 * FRAME + JITTER


@given(st.permutations(range(4)))
def test_order_is_restored(order: list[int]) -> None:
    arrivals = steady(range(10)) + [((13 + 0) * FRAME + j * MS, packet(10 + k))
                                    for j, k in enumerate(order)]
    player = Player(jitter_ms=80).run(arrivals + steady(range(14, 20)))
    assert list(player.heard()) == list(range(1, 21))
    assert player.faults == []


def test_a_lost_packet_is_silence_of_its_own_length() -> None:
    player = Player().run([a for a in steady(range(20)) if a[1] not in (packet(7), packet(8))])
    heard = player.heard()
    assert 8 not in heard
    assert 9 not in heard
    assert {k: t for k, t in heard.items() if k > 9} == {
        k + 1: k * FRAME + JITTER for k in range(9, 20)}
    assert player.faults == ["2 packets lost: 40 ms of silence in their place"]
    # It was given up only when what follows was due.
    assert next(e.t_ns for e in player.received if e.samples[0] > 9.5 / 32768) == 9 * FRAME + JITTER


def test_one_that_comes_after_it_was_given_up_or_comes_twice_is_dropped() -> None:
    arrivals = steady(range(20), late_ns=lambda k: 200 * MS if k == 7 else 0)
    player = Player().run([*arrivals, (15 * FRAME + 1, packet(14)), *steady(range(20, 520))])
    assert 8 not in player.heard()
    assert player.heard()[500] == 499 * FRAME + JITTER
    assert "2 repeated or too late" in player.states("rtp")[0]
    assert "1 lost" in player.states("rtp")[0]


def stalled(k: int) -> int:
    """Packet 10 and those that wait behind it come 60 ms after it was due."""
    return max(k * FRAME, 10 * FRAME + JITTER + 60 * MS) if k >= 10 else k * FRAME


def test_a_late_packet_leaves_a_hole_and_silence_catches_up() -> None:
    """The way stops for 100 ms; digital silence from packet 20 on makes up for it."""
    def silent(k: int) -> Packet:
        return packet(k, number=0 if 20 <= k < 30 else None)

    player = Player().run([(stalled(k), silent(k)) for k in range(50)])
    heard = player.heard()
    assert heard[11] == 10 * FRAME + JITTER + 60 * MS
    assert heard[20] == 19 * FRAME + JITTER + 60 * MS
    assert heard[31] == 30 * FRAME + JITTER  # caught up
    assert heard[50] == 49 * FRAME + JITTER
    assert player.faults == ["a packet came 60 ms too late: a hole as long"]
    assert sum(len(e.samples) for e in player.received) == 50 * N - 60 * 48


def test_speech_is_never_shortened_to_catch_up() -> None:
    player = Player().run([(stalled(k), packet(k)) for k in range(50)])
    assert player.heard()[50] == 49 * FRAME + JITTER + 60 * MS
    assert sum(len(e.samples) for e in player.received) == 50 * N


def test_a_sender_that_pauses_without_counting_the_time_is_heard_when_it_goes_on() -> None:
    pause_ns = 3_000 * MS
    player = Player().run(steady(range(20)) + [
        (k * FRAME + pause_ns, packet(k)) for k in range(20, 40)])
    assert player.heard()[20] == 19 * FRAME + JITTER
    assert player.heard()[21] == 20 * FRAME + pause_ns + JITTER
    assert player.heard()[40] == 39 * FRAME + pause_ns + JITTER
    assert player.faults == []
    assert len(player.states("rtp_run")) == 1


def test_a_sender_that_counts_its_pauses_is_heard_where_its_clock_says() -> None:
    """As Opus senders do that send nothing in silence: numbers go on, time jumps."""
    player = Player().run(steady(range(20)) + [
        (k * FRAME + 400 * MS, packet(k, at_n=k * N + 400 * 48)) for k in range(20, 40)])
    assert player.heard()[21] == 20 * FRAME + 400 * MS + JITTER
    assert player.faults == []
    assert player.states("rtp_run") == []


def test_a_clock_that_jumps_far_ahead_begins_a_new_run() -> None:
    player = Player().run(steady(range(20)) + [
        (k * FRAME, packet(k, at_n=k * N + 3_600 * 48_000)) for k in range(20, 40)])
    assert player.heard()[21] == 20 * FRAME + JITTER
    assert player.heard()[40] == 39 * FRAME + JITTER


def test_a_burst_is_heard_one_after_the_other() -> None:
    player = Player().run([(5 * MS, packet(k)) for k in range(100)])
    assert player.heard() == {k + 1: 5 * MS + JITTER + k * FRAME for k in range(100)}
    assert player.faults == []


def test_another_source_goes_on_where_the_first_one_ended() -> None:
    other = [(1_000 * MS + k * FRAME, packet(k, number=500 + k, ssrc=9)) for k in range(20)]
    player = Player().run(steady(range(20)) + other)
    assert player.heard()[500] == 1_000 * MS + JITTER
    assert player.heard()[519] == 1_000 * MS + JITTER + 19 * FRAME
    assert player.states("rtp_source") == ["another source sends the audio"]


@pytest.mark.parametrize(("payload", "severity", "reason"), [
    (b"", "transparent", "an empty packet is left out"),
    (b"x", "infrastructure",
     "audio packet: expected Opus, got no packet: what was said in it is lost")])
def test_an_empty_packet_moves_nothing_and_one_that_is_no_opus_ends_the_session(
    payload: bytes, severity: str, reason: str,
) -> None:
    arrivals = steady(range(20))
    _, seventh = arrivals[7]
    arrivals[7] = (7 * FRAME, Packet(seventh.sequence, seventh.timestamp, 7, payload))
    player = Player().run(arrivals)
    assert player.heard()[9] == 8 * FRAME + JITTER
    assert [(e.severity, e.reason) for e in player.events if isinstance(e, Fault)] == [
        (severity, reason)]


def test_packets_of_any_length_are_contiguous() -> None:
    """60 ms a packet, as some senders do."""
    arrivals = [(k * 3 * FRAME, packet(k, n=3 * N, at_n=k * 3 * N)) for k in range(20)]
    player = Player().run(arrivals)
    assert player.heard()[20] == 19 * 3 * FRAME + JITTER
    assert {p.run for p in player.placed()} == {0}


def test_a_runaway_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rtp_audio, "MAX_AUDIO_S", 1)
    player = Player().run(steady(range(60)))
    assert player.faults[0] == "the agent sent more than 1 s of audio"


def test_what_waits_is_bounded() -> None:
    player = Player()
    player.audio.receive(packet(0), 0)
    for k in range(2, 2_000):
        player.audio.receive(packet(k), 1)
    assert len(player.audio._held) <= rtp_audio.MAX_HELD


@given(st.lists(st.tuples(st.integers(0, 65_535), st.integers(0, 2**32 - 1), st.integers(0, 2),
                          st.integers(0, 900), st.binary(max_size=3)), max_size=40))
def test_nothing_that_is_sent_raises_or_goes_back_in_time(
    sent: list[tuple[int, int, int, int, bytes]],
) -> None:
    player = Player()
    now = 0
    for sequence, timestamp, ssrc, wait_ms, payload in sent:
        now += wait_ms * MS
        player.until(now)
        player.events += player.audio.receive(
            Packet(sequence, timestamp, ssrc, payload or b"p5,960"), now)
    player.until(now + 5_000 * MS)
    player.placed()
    assert all(e.t_ns <= player.now for e in player.received)
