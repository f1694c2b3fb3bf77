"""When each received sample is heard: the explicit playout model.

    play_start = max(arrival, end of what is queued)

`hold` drops nothing (DSB-IFEval, F.3: bursts are placed one after the other). `flush` drops
what is still queued when the server signals an interruption, as a real client does, and what
arrives later for the interrupted response. Both are derived offline from the arrival log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from audio.buffers import Float32
from audio.resample import resample
from audio.spans import Spans
from audio.timebase import n_to_ns, ns_to_n

Policy = Literal["hold", "flush"]
POLICIES: tuple[Policy, ...] = ("hold", "flush")


@dataclass(frozen=True, slots=True)
class Arrival:
    """One chunk of model audio: `n` samples received at `t_ns`."""

    t_ns: int
    n: int
    response_id: str | None = None


@dataclass(frozen=True, slots=True)
class Interruption:
    """The server said at `t_ns` that the queue (of one response, or all) is void."""

    t_ns: int
    response_id: str | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """`n` source samples from `source_n` on are heard from `start_ns` on.

    `run` numbers stretches without a gap; within one, samples are continuous.
    """

    start_ns: int
    source_n: int
    n: int
    run: int
    response_id: str | None = None


class PlayoutQueue:
    """The playback queue, chunk by chunk; positions never drift by rounding."""

    def __init__(self, rate_hz: int) -> None:
        self._rate_hz = rate_hz
        self._run = -1
        self._run_start_ns = 0
        self._run_n = 0
        self.end_ns = 0
        """When everything queued so far has been heard; 0 before anything came."""

    def add(self, arrival: Arrival, source_n: int) -> Placement:
        """Queue one chunk."""
        if self._run < 0 or arrival.t_ns > self.end_ns:
            self._begin_run(arrival.t_ns)
        placement = Placement(self.end_ns, source_n, arrival.n, self._run, arrival.response_id)
        self._run_n += arrival.n
        self.end_ns = self._run_start_ns + n_to_ns(self._run_n, self._rate_hz)
        return placement

    def drop_after(self, t_ns: int) -> None:
        """Forget what would be heard from `t_ns` on; the next chunk opens a new run."""
        if t_ns < self.end_ns:
            self._begin_run(t_ns)

    def _begin_run(self, t_ns: int) -> None:
        self._run += 1
        self._run_start_ns = self.end_ns = t_ns
        self._run_n = 0


def place(
    arrivals: Sequence[Arrival],
    interruptions: Iterable[Interruption],
    policy: Policy,
    rate_hz: int,
) -> list[Placement]:
    """Where every received sample is heard under `policy`; dropped samples have no placement."""
    queue = PlayoutQueue(rate_hz)
    pending = deque(sorted(interruptions, key=lambda i: i.t_ns) if policy == "flush" else ())
    void_responses: set[str] = set()
    placed: list[Placement] = []
    source_n = 0
    for arrival in arrivals:
        while pending and pending[0].t_ns <= arrival.t_ns:
            _interrupt(placed, queue, pending.popleft(), void_responses, rate_hz)
        if arrival.n > 0 and arrival.response_id not in void_responses:
            placed.append(queue.add(arrival, source_n))
        source_n += arrival.n
    for interruption in pending:
        _interrupt(placed, queue, interruption, void_responses, rate_hz)
    return placed


def _interrupt(
    placed: list[Placement],
    queue: PlayoutQueue,
    interruption: Interruption,
    void_responses: set[str],
    rate_hz: int,
) -> None:
    """Cut `placed` where the interruption is. What was heard before it is never looked at: a peer
    may interrupt as often as it sends audio."""
    t_ns = interruption.t_ns
    if interruption.response_id is not None:
        void_responses.add(interruption.response_id)
    queue.drop_after(t_ns)
    cut: Placement | None = None
    while placed and placed[-1].start_ns + n_to_ns(placed[-1].n, rate_hz) > t_ns:
        cut = placed.pop()
        if interruption.response_id is None and cut.response_id is not None:
            void_responses.add(cut.response_id)
        heard_n = min(cut.n, max(0, ns_to_n(t_ns - cut.start_ns, rate_hz)))
        if heard_n > 0:
            # Those before it end where it begins, or earlier.
            placed.append(Placement(cut.start_ns, cut.source_n, heard_n, cut.run,
                                    cut.response_id))
            return


def render(
    placements: Sequence[Placement],
    source: Float32,
    source_rate_hz: int,
    track_rate_hz: int,
    track_n: int,
) -> Float32:
    """The heard track: float32 `(track_n,)`, zeros where nothing is heard.

    Each gapless run is resampled as a whole, so that chunk edges leave no mark. What would be
    heard before or after the track is cut.
    """
    track = np.zeros(track_n, dtype=np.float32)
    first = 0
    while first < len(placements):
        last = first
        while last + 1 < len(placements) and placements[last + 1].run == placements[first].run:
            last += 1
        run = placements[first : last + 1]
        samples = np.concatenate([source[p.source_n : p.source_n + p.n] for p in run])
        if source_rate_hz != track_rate_hz:
            samples = resample(samples, source_rate_hz, track_rate_hz)
        at_n = ns_to_n(run[0].start_ns, track_rate_hz)
        # A negative index would write to the end of the track.
        first_n, last_n = max(at_n, 0), min(at_n + len(samples), track_n)
        if first_n < last_n:
            track[first_n:last_n] = samples[first_n - at_n : last_n - at_n]
        first = last + 1
    return track


def heard_spans_ns(placements: Iterable[Placement], rate_hz: int) -> Spans:
    """When the playback queue was not empty, whatever the audio holds."""
    return Spans.of((p.start_ns, p.start_ns + n_to_ns(p.n, rate_hz)) for p in placements)
