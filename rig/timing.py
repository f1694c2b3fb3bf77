"""The timing certificate: how well one session kept its own deadlines.

Lateness is measured after the send, against the absolute deadline of each frame. A session over
budget is `void`: it says nothing about the model and is run again.

Definitions
-----------
- Percentiles are nearest-rank: the lateness of a frame that happened.
- Loop lag: how late the event loop came back to the sender for a frame, before anything was done
  for it. It is part of that frame's lateness, and a sample of what an arrival may wait for its
  stamp.
- Carried lateness: how late the heard track still was near the window because of a frame that was
  late before. Nothing is dropped under `hold`, so a stretch of it that began while the rig was
  behind is late by as much to its end, and so is a stream that the stall broke off, when it goes
  on: the gap is no longer than the stall and 0.1 s, within a second of it. A system that sends
  without a pause (a local model) never catches up.
- Drift: the slope of lateness over the deadline, in parts per million. Theil and Sen's estimate
  (the median of the slopes between all pairs) over the least late frames of whole seconds: what a
  busy machine adds is lateness, and no drift; a clock that drifts takes the punctual frames along.
- User underruns: frames more than their own length late, so that a listener without a buffer had
  nothing to hear.
- Model underruns: inside one response, how long the heard track fell silent because the next chunk
  was not there. The peer's or the network's doing as a rule.
- Detection behind: the longest that live speech detection lagged behind a question of the schedule.
- Events a second: those of the system, and of all systems of the run meanwhile, in the busiest
  second. Where a void session had a flood of them (`rig.flow`), its reason says so.
- Peer: lateness of the same frames where the peer says when it received them (by its clock, which
  on one machine is ours).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from adapters.base import PEER_FRAMES
from audio.timebase import FRAME_NS, NS_PER_MS, NS_PER_S, n_to_ns
from rig.flow import flood
from rig.playout import Placement

MAX_LATE_NEAR_WINDOW_MS = 40.0
"""No frame may be later than this within `NEAR_WINDOW_S` of a scored window (contract)."""
MAX_P99_LATE_MS = 15.0
"""Bound on the 99th percentile of lateness over the session (contract)."""
NEAR_WINDOW_S = 1.0
NEAR_WINDOW_NS = int(NEAR_WINDOW_S * NS_PER_S)
BROKEN_OFF_MS = 100.0
"""What a stream that goes on after a stall may need beyond it: a frame of a local model (80 ms) and
what the machine adds. Ours."""
DRIFT_BLOCK = NS_PER_S // FRAME_NS
"""Frames of a whole second."""
NO_CLOCK_PPM = 1e6
"""A peer's clock that runs twice as fast as ours, or stands still, is none. Ours."""
ONE_CLOCK_S = 5.0
"""A peer whose median lateness lies further from zero, or before the deadline, reads another clock:
then only its drift says something. Ours."""
MAX_FRAMES = 1_000_000
"""Frames that a peer may report: five hours and a half. Ours."""


class PeerTiming(BaseModel):
    """Lateness by the peer's clock; `None` where that clock is not ours."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    frames_n: int
    late_p50_ms: float | None
    late_p99_ms: float | None
    late_max_ms: float | None
    drift_ppm: float | None


class TimingCertificate(BaseModel):
    """Lateness of the frames of one session, milliseconds; drift as a fitted slope."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    frames_n: int
    late_p50_ms: float
    late_p99_ms: float
    late_p999_ms: float
    late_max_ms: float
    late_max_near_window_ms: float | None
    late_carried_ms: float | None = None
    drift_ppm: float | None
    void: bool
    void_reason: str | None = None
    loop_lag_p99_ms: float | None = None
    loop_lag_max_ms: float | None = None
    user_underruns_n: int = 0
    model_underruns_n: int = 0
    model_underrun_total_ms: float = 0.0
    model_underrun_max_ms: float = 0.0
    detection_behind_ms: float | None = None
    peer: PeerTiming | None = None
    events_per_s: int | None = None
    all_events_per_s: int | None = None


def certify(
    late_ns: Sequence[int],
    window_ns: tuple[int, int] | None,
    *,
    wake_ns: Sequence[int] = (),
    heard_ns: Sequence[tuple[int, int]] = (),
    underruns_ns: Sequence[int] = (),
    detection_behind_ns: int | None = None,
    peer: PeerTiming | None = None,
    events_per_s: int | None = None,
    all_events_per_s: int | None = None,
) -> TimingCertificate:
    """Certificate from the lateness of frames 0, 1, 2, ... in nanoseconds.

    `window_ns`: the scored window on the session clock. `wake_ns`: loop lag of the same frames.
    `heard_ns`: as `heard_without_a_gap` gives them. `underruns_ns`: as `model_underruns` gives
    them. `events_per_s`, `all_events_per_s`: of the busiest second, `None` where nobody counted.
    """
    if not late_ns:
        return TimingCertificate(
            frames_n=0, late_p50_ms=0.0, late_p99_ms=0.0, late_p999_ms=0.0, late_max_ms=0.0,
            late_max_near_window_ms=None, drift_ppm=None, void=True,
            void_reason="no frame was sent")
    late_ms = np.asarray(late_ns, dtype=np.float64) / NS_PER_MS
    ordered = np.sort(late_ms)
    near: float | None = None
    carried: float | None = None
    if window_ns is not None:
        near_ns = window_ns[0] - NEAR_WINDOW_NS, window_ns[1] + NEAR_WINDOW_NS
        first = max(0, near_ns[0] // FRAME_NS)
        last = max(0, math.ceil(near_ns[1] / FRAME_NS))
        part = late_ms[first:last]
        near = float(part.max()) if len(part) else None
        carried = _carried_ms(late_ms, heard_ns, near_ns)
    p99 = rank(ordered, 0.99)
    reason: str | None = None
    if near is not None and near > MAX_LATE_NEAR_WINDOW_MS:
        reason = (f"a frame within {NEAR_WINDOW_S:g} s of the window was {near:.1f} ms late "
                  f"(budget {MAX_LATE_NEAR_WINDOW_MS:g} ms)")
    elif carried is not None and carried > MAX_LATE_NEAR_WINDOW_MS:
        reason = (f"a frame was {carried:.1f} ms late (budget {MAX_LATE_NEAR_WINDOW_MS:g} ms), and "
                  "all that was heard from then until the window came as late")
    elif p99 > MAX_P99_LATE_MS:
        reason = f"lateness p99 {p99:.1f} ms is over the budget of {MAX_P99_LATE_MS:g} ms"
    if reason is not None and (cause := flood(events_per_s, all_events_per_s)) is not None:
        reason += f": {cause}"
    lag_ms = np.sort(np.asarray(wake_ns, dtype=np.float64)) / NS_PER_MS
    return TimingCertificate(
        frames_n=len(late_ns), late_p50_ms=rank(ordered, 0.5), late_p99_ms=p99,
        late_p999_ms=rank(ordered, 0.999), late_max_ms=float(ordered[-1]),
        late_max_near_window_ms=near, late_carried_ms=carried, drift_ppm=drift_ppm(late_ms),
        void=reason is not None, void_reason=reason,
        loop_lag_p99_ms=rank(lag_ms, 0.99) if len(lag_ms) else None,
        loop_lag_max_ms=float(lag_ms[-1]) if len(lag_ms) else None,
        user_underruns_n=int((late_ms > FRAME_NS / NS_PER_MS).sum()),
        model_underruns_n=len(underruns_ns),
        model_underrun_total_ms=sum(underruns_ns) / NS_PER_MS,
        model_underrun_max_ms=max(underruns_ns, default=0) / NS_PER_MS,
        detection_behind_ms=(None if detection_behind_ns is None
                             else detection_behind_ns / NS_PER_MS),
        peer=peer, events_per_s=events_per_s, all_events_per_s=all_events_per_s)


def rank(ordered: NDArray[np.float64], q: float) -> float:
    """Nearest-rank quantile of sorted values, at least one."""
    return float(ordered[max(0, math.ceil(q * len(ordered)) - 1)])


def drift_ppm(late_ms: NDArray[np.float64]) -> float | None:
    """Slope of lateness over time, parts per million; `None` below two whole seconds."""
    blocks = len(late_ms) // DRIFT_BLOCK
    if blocks < 2:
        return None
    # Hours of blocks would make millions of pairs; a thousand blocks say the same.
    every = -(-blocks // 1000)
    least = late_ms[: blocks * DRIFT_BLOCK].reshape(blocks, DRIFT_BLOCK).min(axis=1)[::every]
    at_ms = np.arange(len(least)) * (every * DRIFT_BLOCK * FRAME_NS / NS_PER_MS)
    first, second = np.triu_indices(len(least), 1)
    slopes = (least[second] - least[first]) / (at_ms[second] - at_ms[first])
    return float(np.median(slopes) * 1e6)


def heard_without_a_gap(placements: Iterable[Placement], rate_hz: int) -> list[tuple[int, int]]:
    """Stretches of the heard track, `[start, end)` in nanoseconds, in order."""
    found: list[tuple[int, int]] = []
    run = -1
    for piece in placements:
        end_ns = piece.start_ns + n_to_ns(piece.n, rate_hz)
        if piece.run == run:
            found[-1] = found[-1][0], end_ns
        else:
            found.append((piece.start_ns, end_ns))
        run = piece.run
    return found


def _carried_ms(late_ms: NDArray[np.float64], heard_ns: Sequence[tuple[int, int]],
                near_ns: tuple[int, int]) -> float | None:
    """The latest frame that what was heard near the window may be late by; `None` where nothing
    was heard there."""
    due_ms = (np.arange(len(late_ms)) + 1) * (FRAME_NS / NS_PER_MS)
    until_ms = due_ms + late_ms
    found: list[float] = []
    for k, (start_ns, end_ns) in enumerate(heard_ns):
        if start_ns >= near_ns[1] or end_ns <= near_ns[0]:
            continue
        start_ms = start_ns / NS_PER_MS
        carries = until_ms >= start_ms - FRAME_NS / NS_PER_MS
        if k:
            gap_ms = start_ms - heard_ns[k - 1][1] / NS_PER_MS
            carries |= ((until_ms >= start_ms - 1000 * NEAR_WINDOW_S)
                        & (gap_ms <= late_ms + BROKEN_OFF_MS))
        found.append(float(late_ms[(due_ms <= start_ms) & carries].max(initial=0.0)))
    return max(found, default=None)


def model_underruns(placements: Iterable[Placement], rate_hz: int) -> list[int]:
    """Silences in nanoseconds inside responses of the heard track, in order."""
    found: list[int] = []
    for before, after in pairwise(placements):
        gap_ns = after.start_ns - before.start_ns - n_to_ns(before.n, rate_hz)
        same = before.response_id is not None and before.response_id == after.response_id
        if same and before.run != after.run and gap_ns > 0:
            found.append(gap_ns)
    return found


def peer_timing(states: Iterable[tuple[str, str]], origin_ns: int | None) -> PeerTiming | None:
    """What a peer said of the frames it received: `(name, detail)` of every state event, in order.

    `None` when it said nothing, or not in the form of `PEER_FRAMES`, or without real time, or times
    of which one second is twice as long as ours or stands still: they are no clock's.
    """
    if origin_ns is None:
        return None
    late_ns: list[int] = []
    for name, detail in states:
        if name != PEER_FRAMES:
            continue
        received = _received_ns(detail, len(late_ns))
        if received is None or len(late_ns) + len(received) > MAX_FRAMES:
            return None
        for t_ns in received:
            late_ns.append(t_ns - origin_ns - (len(late_ns) + 1) * FRAME_NS)
    if not late_ns:
        return None
    late_ms = np.asarray(late_ns, dtype=np.float64) / NS_PER_MS
    ordered = np.sort(late_ms)
    ours = 0 <= rank(ordered, 0.5) <= ONE_CLOCK_S * 1000
    drift = drift_ppm(late_ms)
    if drift is not None and abs(drift) >= NO_CLOCK_PPM:
        return None
    return PeerTiming(
        frames_n=len(late_ns), late_p50_ms=rank(ordered, 0.5) if ours else None,
        late_p99_ms=rank(ordered, 0.99) if ours else None,
        late_max_ms=float(ordered[-1]) if ours else None, drift_ppm=drift)


def _received_ns(detail: str, next_frame: int) -> list[int] | None:
    """The times of one report; `None` when it is none, or not the next."""
    try:
        value: Any = json.loads(detail)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or value.get("first") != next_frame:
        return None
    times = value.get("received_ns")
    if not isinstance(times, list) or not all(
            isinstance(t, int) and not isinstance(t, bool) and abs(t) < 2**62 for t in times):
        return None
    return times
