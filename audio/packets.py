"""Packets of 20 ms that are lost, or come too late, on their way to the system; nothing is moved.

Loss is a Gilbert-Elliott chain (Gilbert, BSTJ 39, 1960; Elliott, BSTJ 42, 1963): a packet meets a
good or a bad state of the network and is lost with a probability of its own in each; the state may
change before every packet. A Bernoulli loss is the chain whose states are alike.

Jitter is seen through a jitter buffer of fixed depth: each packet is held up by a time of its own,
exponentially distributed (as in a queue) and independent of the others; the buffer plays packet k
at k*20 ms plus its depth, and one that is held up for longer is not there and counts as discarded
(RFC 3611, 4.7.1: the discard rate counts packets that come too late to be played). A late packet
is never played late, and the depth itself, a constant delay, is left out: the speech stays in its
place. So P(discarded) = exp(-depth / mean).

What is missing is concealed by silence, or by `repeat`: the last packet that was there, again and
again, at full level for 10 ms and then falling by 20 % of it every 10 ms to nothing after 60 ms
(the fading of ITU-T G.711, appendix I, without its pitch search).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.random import Generator

from audio.buffers import Float32
from audio.timebase import FRAME_NS, NS_PER_MS, NS_PER_S, ns_to_n

Concealment = Literal["silence", "repeat"]
CONCEALMENTS: tuple[Concealment, ...] = ("silence", "repeat")
PACKET_MS = FRAME_NS // NS_PER_MS
FULL_MS = 10.0
FADE_PER_MS = 0.02

Missing = Callable[[], bool]
"""Asked once for every packet, in order: is it missing?"""


class GilbertElliott:
    """Loss with states; the first packet meets the bad state as often as any other.

    to_bad, to_good: probability of changing the state before the next packet.
    in_good, in_bad: probability that a packet is lost in that state.
    """

    def __init__(self, rng: Generator, to_bad: float, to_good: float, in_good: float,
                 in_bad: float) -> None:
        self._rng = rng
        self._change = (to_bad, to_good)
        self._lost = (in_good, in_bad)
        whole = to_bad + to_good
        self._bad: bool | None = None
        self._bad_share = to_bad / whole if whole else 0.0

    def __call__(self) -> bool:
        change, loss = self._rng.random(2)
        if self._bad is None:
            self._bad = bool(change < self._bad_share)
        elif change < self._change[self._bad]:
            self._bad = not self._bad
        return bool(loss < self._lost[self._bad])


def chain_of(share: float, burst: float, in_good: float, in_bad: float) -> tuple[float, float]:
    """`to_bad` and `to_good` such that a share of all packets is lost and the bad state lasts
    `burst` packets on average. Raises `ValueError` where no such chain exists."""
    bad_share = (share - in_good) / (in_bad - in_good) if in_bad > in_good else -1.0
    to_good = 1 / burst
    if not 0.0 < bad_share < 1.0:
        raise ValueError(f"a share lost between {100 * in_good:g} % and {100 * in_bad:g} %")
    to_bad = to_good * bad_share / (1 - bad_share)
    if to_bad > 1:
        raise ValueError(f"bursts of at least {bad_share / (1 - bad_share):.3g} packets, because "
                         f"{100 * bad_share:.3g} % of the time is bad")
    return to_bad, to_good


class Late:
    """Which packets come later than a fixed jitter buffer waits."""

    def __init__(self, rng: Generator, mean_ms: float, depth_ms: float) -> None:
        self._rng = rng
        self._share = float(np.exp(-depth_ms / mean_ms))

    def __call__(self) -> bool:
        # The delay is -mean * log(u) for a uniform u; it is beyond the depth exactly when
        # u < exp(-depth / mean).
        return bool(self._rng.random() < self._share)


class PacketStream:
    """Takes packets away and conceals them; sample for sample in place, any pieces."""

    delay_n = 0

    def __init__(self, rate_hz: int, missing: Missing, concealment: Concealment) -> None:
        self._rate_hz = rate_hz
        self._missing = missing
        self._repeats = concealment == "repeat"
        self._n = 0
        self._packet = -1
        self._end_n = 0
        self._gone = False
        self._gone_n = 0
        """Samples that have been concealed since the last packet that was there."""
        self._kept: list[Float32] = []
        self._last: Float32 | None = None
        self.packets_n = 0
        self.missing_n = 0

    def push(self, samples: Float32) -> Float32:
        """The next piece, float32 `(n,)`; as many samples back."""
        out = samples.copy()
        at = 0
        while at < len(out):
            if self._n == self._end_n:
                self._next_packet()
            length = min(len(out) - at, self._end_n - self._n)
            if self._gone:
                out[at : at + length] = self._concealed(length)
            elif self._repeats:
                self._kept.append(samples[at : at + length].copy())
            at += length
            self._n += length
        return out

    def _next_packet(self) -> None:
        if self._kept:
            self._last, self._kept = np.concatenate(self._kept), []
        self._packet += 1
        self._end_n = ns_to_n((self._packet + 1) * FRAME_NS, self._rate_hz)
        gone = self._missing()
        self._gone_n = self._gone_n if gone and self._gone else 0
        self._gone = gone
        self.packets_n += 1
        self.missing_n += gone

    def _concealed(self, length: int) -> Float32:
        since = self._gone_n + np.arange(length)
        self._gone_n += length
        if not self._repeats or self._last is None:
            return np.zeros(length, dtype=np.float32)
        ms = since * (1000 / self._rate_hz)
        gain = np.clip(1 - FADE_PER_MS * (ms - FULL_MS), 0.0, 1.0)
        repeated = self._last[since % len(self._last)] * gain
        return np.asarray(repeated, dtype=np.float32)


assert PACKET_MS * NS_PER_MS == FRAME_NS
assert NS_PER_S % FRAME_NS == 0
