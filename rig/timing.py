"""The timing certificate: how well one session kept its own deadlines.

Lateness is measured after the send, against the absolute deadline of each frame. A session over
budget is `void`: it says nothing about the model and is run again.
"""

from __future__ import annotations

import math

import numpy as np
from pydantic import BaseModel, ConfigDict

from audio.timebase import FRAME_NS, NS_PER_MS, NS_PER_S

MAX_LATE_NEAR_WINDOW_MS = 40.0
"""No frame may be later than this within `NEAR_WINDOW_S` of a scored window (contract)."""
MAX_P99_LATE_MS = 15.0
"""Bound on the 99th percentile of lateness over the session (contract)."""
NEAR_WINDOW_S = 1.0


class TimingCertificate(BaseModel):
    """Lateness of the frames of one session, milliseconds; drift as a fitted slope."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    frames_n: int
    late_p50_ms: float
    late_p99_ms: float
    late_p999_ms: float
    late_max_ms: float
    late_max_near_window_ms: float | None
    drift_ppm: float | None
    void: bool
    void_reason: str | None = None


def certify(late_ns: list[int], window_ns: tuple[int, int] | None) -> TimingCertificate:
    """Certificate from the lateness of frames 0, 1, 2, ... in nanoseconds.

    Percentiles are nearest-rank (an actual frame's lateness). The drift slope is the least
    squares fit of lateness over the deadline, in parts per million; `None` below 2 frames.
    """
    if not late_ns:
        return TimingCertificate(
            frames_n=0, late_p50_ms=0.0, late_p99_ms=0.0, late_p999_ms=0.0, late_max_ms=0.0,
            late_max_near_window_ms=None, drift_ppm=None, void=True,
            void_reason="no frame was sent")
    late_ms = np.asarray(late_ns, dtype=np.float64) / NS_PER_MS
    ordered = np.sort(late_ms)
    near: float | None = None
    if window_ns is not None:
        margin_ns = int(NEAR_WINDOW_S * NS_PER_S)
        first = max(0, (window_ns[0] - margin_ns) // FRAME_NS)
        last = max(0, math.ceil((window_ns[1] + margin_ns) / FRAME_NS))
        part = late_ms[first:last]
        near = float(part.max()) if len(part) else None
    drift: float | None = None
    if len(late_ns) >= 2:
        deadline_ms = np.arange(1, len(late_ns) + 1, dtype=np.float64) * (FRAME_NS / NS_PER_MS)
        centred = deadline_ms - deadline_ms.mean()
        drift = float((centred * (late_ms - late_ms.mean())).sum() / (centred**2).sum() * 1e6)
    p99 = _rank(ordered, 0.99)
    reason: str | None = None
    if near is not None and near > MAX_LATE_NEAR_WINDOW_MS:
        reason = (f"a frame within {NEAR_WINDOW_S:g} s of the window was {near:.1f} ms late "
                  f"(budget {MAX_LATE_NEAR_WINDOW_MS:g} ms)")
    elif p99 > MAX_P99_LATE_MS:
        reason = f"lateness p99 {p99:.1f} ms is over the budget of {MAX_P99_LATE_MS:g} ms"
    return TimingCertificate(
        frames_n=len(late_ns), late_p50_ms=_rank(ordered, 0.5), late_p99_ms=p99,
        late_p999_ms=_rank(ordered, 0.999), late_max_ms=float(ordered[-1]),
        late_max_near_window_ms=near, drift_ppm=drift, void=reason is not None,
        void_reason=reason)


def _rank(ordered: np.ndarray, q: float) -> float:
    return float(ordered[max(0, math.ceil(q * len(ordered)) - 1)])
