"""Received Opus packets into audio on the sender's own clock, without I/O.

RTP numbers the packets and says of each which sample it begins at (48 kHz, RFC 7587). From that and
the arrivals:

- The first packet of a run (of a stream, or of what follows a pause) is heard `jitter_ms` after it
  came, by the fastest packet that came in the meantime; every further one where the sender's clock
  puts it. A packet that comes later than that leaves a hole as long as it is late, and what follows
  is heard so much later, until the sender is silent: there the same length of digital silence is
  left out.
- A packet that does not come is silence as long as it would have been. It is given up when its
  successor is due.
- A packet that is no Opus ends the session: what was said in it is lost. An empty one is left out.
- A packet over 0.5 s late begins a new run: the sender has paused without counting the time, as
  some do while they have nothing to say. What comes in a burst is heard one after the other.

Arrivals and results are in nanoseconds of one clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from adapters.base import AgentEvent, AudioReceived, Fault, StateChanged
from adapters.wire.event_stream import MAX_AUDIO_S
from audio.buffers import Float32
from audio.timebase import FRAME_NS, NS_PER_MS, n_to_ns, ns_to_n

RATE_HZ = 48_000
"""Clock of Opus in RTP, whatever its sender was given (RFC 7587, section 4.1)."""
PAUSE_NS = 500 * NS_PER_MS
"""Ours: no network that a conversation is held over delays one packet that much more than another,
and no speaker pauses less between two replies."""
MAX_LOST_N = RATE_HZ
"""Where more is missing the sender went on elsewhere, and that is a new run. Ours: a second."""
MAX_HELD = 256
"""Packets that wait for an earlier one. Ours: five seconds."""
MAX_PACKET_N = 5_760
"""Samples in one packet: 120 ms, the most that Opus allows (RFC 6716, section 2.1.4)."""
NOTED_LATE_NS = 5 * NS_PER_MS
"""From here on a late packet is told. Ours: the bound on the error of the heard track."""
REPORT_PACKETS = 500
"""Figures go into the log this often: about every 10 s."""

Decode = Callable[[bytes], Float32]
"""One packet, in order: float32 `(n,)` at 48 kHz. Raises `ValueError` for one that is none."""


@dataclass(frozen=True, slots=True)
class Packet:
    """One RTP packet of the audio stream."""

    sequence: int
    timestamp: int
    ssrc: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class _Held:
    arrival_ns: int
    at_n: int
    """Where it begins on the sender's clock, in samples since the first packet."""
    payload: bytes


class RtpAudio:
    """One audio stream. `receive` and `release` give what may be told by then, in order."""

    def __init__(self, decode: Decode, *, jitter_ms: int) -> None:
        self._decode = decode
        self._jitter_ns = jitter_ms * NS_PER_MS
        self._held: dict[int, _Held] = {}
        self._ssrc: int | None = None
        self._newest: tuple[int, int] | None = None
        """Sequence number and sample of the packet that is furthest on, both unwrapped."""
        self._next_seq: int | None = None
        """What is told next; `None` between runs."""
        self._end_n = 0
        """Sample after the last one that was told, on the sender's clock."""
        self._zero_ns = 0
        """When sample 0 of the sender's clock is heard."""
        self._behind_n = 0
        """How much later than by the sender's clock we are, from packets that were late."""
        self._last_ns = 0
        self._audio_n = 0
        self._packets_n = self._lost_n = self._late_n = self._repeated_n = self._odd_n = 0
        self._late_max_ns = 0

    # in

    def receive(self, packet: Packet, t_ns: int) -> tuple[AgentEvent, ...]:
        """One packet that arrived at `t_ns`."""
        events: list[AgentEvent] = []
        self._packets_n += 1
        if packet.ssrc != self._ssrc:
            if self._ssrc is not None:
                events += self._flush(t_ns)
                events.append(StateChanged(t_ns, "rtp_source", "another source sends the audio"))
            self._ssrc, self._newest, self._next_seq = packet.ssrc, None, None
        self._hold(packet, t_ns)
        events += self.release(t_ns)
        if self._packets_n % REPORT_PACKETS == 0:
            events.append(self._figures(t_ns))
        return tuple(events)

    def _hold(self, packet: Packet, t_ns: int) -> None:
        sequence, at_n = self._unwrapped(packet)
        if sequence in self._held or (self._next_seq is not None and sequence < self._next_seq):
            self._repeated_n += 1
            return
        if len(self._held) < MAX_HELD:
            self._held[sequence] = _Held(t_ns, at_n, packet.payload)

    def _unwrapped(self, packet: Packet) -> tuple[int, int]:
        """Sequence number and sample without the wraps of 16 and 32 bits."""
        if self._newest is None:
            self._newest = packet.sequence, self._end_n
            self._origin = packet.timestamp - self._end_n
            return self._newest
        sequence, at_n = self._newest
        sequence += _signed(packet.sequence - sequence, 16)
        at_n += _signed(packet.timestamp - self._origin - at_n, 32)
        if sequence > self._newest[0]:
            self._newest = sequence, at_n
        return sequence, at_n

    # out

    def due_ns(self) -> int | None:
        """When `release` has something to do that no packet brings about; `None` for never."""
        if not self._held:
            return None
        first = self._held[min(self._held)]
        if self._next_seq is None:
            return first.arrival_ns + self._jitter_ns
        return self._heard_ns(first.at_n)

    def release(self, t_ns: int) -> tuple[AgentEvent, ...]:
        """What is due at `t_ns`, in order."""
        events: list[AgentEvent] = []
        while self._held:
            sequence = min(self._held)
            held = self._held[sequence]
            if self._next_seq is not None and self._elsewhere(held):
                events.append(StateChanged(t_ns, "rtp_run", "the sender's clock and ours are "
                              f"{self._late_ns(held) // NS_PER_MS} ms further apart: a new run"))
                self._next_seq = None
            if self._next_seq is None:
                if t_ns < held.arrival_ns + self._jitter_ns:
                    break
                self._begin(sequence)
            contiguous = sequence == self._next_seq and held.at_n == self._end_n
            if not contiguous and t_ns < self._heard_ns(held.at_n):
                break
            del self._held[sequence]
            events += self._tell(sequence, held, t_ns)
        return tuple(events)

    def _flush(self, t_ns: int) -> list[AgentEvent]:
        """Tell all that is held, due or not: nothing more of its stream will come."""
        events: list[AgentEvent] = []
        if self._held and self._next_seq is None:
            self._begin(min(self._held))
        for sequence in sorted(self._held):
            events += self._tell(sequence, self._held.pop(sequence), t_ns)
        return events

    def _begin(self, sequence: int) -> None:
        """A run begins with this packet; the fastest of those that have come sets the clock.

        More than could have come in that time came in a burst, and says nothing of the way here.
        """
        first = self._held[sequence]
        self._next_seq = sequence
        self._end_n = first.at_n
        self._behind_n = 0
        zero_ns = first.arrival_ns - n_to_ns(first.at_n, RATE_HZ)
        span_ns = n_to_ns(max(h.at_n for h in self._held.values()) - first.at_n, RATE_HZ)
        if span_ns <= 2 * self._jitter_ns + FRAME_NS:
            zero_ns = min(h.arrival_ns - n_to_ns(h.at_n, RATE_HZ) for h in self._held.values())
        self._zero_ns = self._jitter_ns + zero_ns

    def _heard_ns(self, at_n: int) -> int:
        return self._zero_ns + n_to_ns(at_n, RATE_HZ)

    def _late_ns(self, held: _Held) -> int:
        return held.arrival_ns - self._heard_ns(held.at_n)

    def _elsewhere(self, held: _Held) -> bool:
        """Whether a packet cannot belong to the run: the sender paused, or jumped in time."""
        late_ns = self._late_ns(held)
        gap_n = held.at_n - self._end_n
        jumped = not 0 <= gap_n <= MAX_LOST_N and -late_ns > PAUSE_NS + self._jitter_ns
        return late_ns > PAUSE_NS or jumped

    def _tell(self, sequence: int, held: _Held, t_ns: int) -> list[AgentEvent]:
        assert self._next_seq is not None
        events: list[AgentEvent] = []
        lost = sequence - self._next_seq
        gap_n = held.at_n - self._end_n
        self._next_seq = sequence + 1
        if lost and gap_n > 0:
            self._lost_n += lost
            events.append(Fault(t_ns, "transparent", f"{lost} packets lost: "
                                f"{gap_n * 1000 // RATE_HZ} ms of silence in their place"))
        events += self._moved(held, t_ns)
        try:
            samples = self._decode(held.payload)
        except ValueError as error:
            self._odd_n += 1
            # Its encryption proves that the way here did not break it. An empty one holds nothing.
            events.append(Fault(t_ns, "infrastructure", f"audio packet: expected Opus, got {error}:"
                                " what was said in it is lost") if held.payload else
                          Fault(t_ns, "transparent", "an empty packet is left out"))
            return events
        self._end_n = held.at_n + len(samples)
        samples = self._caught_up(samples)
        if len(samples):
            events.append(self._audio(held, samples, t_ns))
        if self._audio_n > MAX_AUDIO_S * RATE_HZ:
            events.append(Fault(t_ns, "infrastructure",
                                f"the agent sent more than {MAX_AUDIO_S:g} s of audio"))
        return events

    def _audio(self, held: _Held, samples: Float32, t_ns: int) -> AudioReceived:
        """Stamped when it is heard, where it had to wait for that, else when it came."""
        self._audio_n += len(samples)
        due_ns = self._heard_ns(held.at_n)
        self._last_ns = max(self._last_ns, min(t_ns, max(due_ns, held.arrival_ns)))
        return AudioReceived(self._last_ns, samples)

    def _moved(self, held: _Held, t_ns: int) -> list[AgentEvent]:
        """Move the clock for a packet that is late; say so."""
        late_ns = self._late_ns(held)
        if late_ns <= 0:
            return []
        self._zero_ns += late_ns
        self._behind_n += ns_to_n(late_ns, RATE_HZ)
        self._late_n += 1
        self._late_max_ns = max(self._late_max_ns, late_ns)
        if late_ns < NOTED_LATE_NS:
            return []
        return [Fault(t_ns, "transparent", f"a packet came {late_ns // NS_PER_MS} ms too late: a "
                      "hole as long")]

    def _caught_up(self, samples: Float32) -> Float32:
        """Digital silence is left out until what was late is on time again."""
        if not self._behind_n or np.any(samples):
            return samples
        skipped_n = min(self._behind_n, len(samples))
        self._behind_n -= skipped_n
        self._zero_ns -= n_to_ns(skipped_n, RATE_HZ)
        return samples[skipped_n:]

    def _figures(self, t_ns: int) -> StateChanged:
        return StateChanged(t_ns, "rtp", (
            f"{self._packets_n} packets, {self._lost_n} lost, {self._late_n} late (by "
            f"{self._late_max_ns // NS_PER_MS} ms at most), {self._repeated_n} repeated or too "
            f"late, {self._odd_n} unreadable"))


def _signed(difference: int, bits: int) -> int:
    """The smallest step, forwards or back, that the difference of two wrapped counters may be."""
    half = 1 << (bits - 1)
    return (difference + half) % (1 << bits) - half
