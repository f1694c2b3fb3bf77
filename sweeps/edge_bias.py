"""How far detected edges lie from true ones, each end apart.

`error = detected - true`: positive is late. Times are integers of one unit, here nanoseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audio.spans import Interval, Spans
from audio.timebase import NS_PER_MS

PERCENTILES = (5, 50, 95)


@dataclass(frozen=True, slots=True)
class EdgeErrors:
    """One entry a true span in `onset_ns` and `offset_ns`; `None` where there is no edge to
    compare: the span was missed, or a neighbour was detected together with it."""

    onset_ns: tuple[int | None, ...]
    offset_ns: tuple[int | None, ...]
    missed_n: int
    """True spans that share no point with a detected one."""
    joined_n: int
    """Gaps between true spans that one detected span covers: an offset and an onset less."""
    split_n: int
    """True spans with more than one detected span, counted once each."""
    spurious_n: int
    """Detected spans that share no point with a true one."""


def edge_errors(true: Spans, detected: Spans) -> EdgeErrors:
    """Compare the outer edges: the start of the first detected span that touches a true one, and
    the end of the last. What a detector does inside a true span is counted, not timed."""
    onsets: list[int | None] = []
    offsets: list[int | None] = []
    missed = joined = split = 0
    before: Interval | None = None
    for start, end in true:
        touching = detected.touching(start, end).items
        if not touching:
            missed += 1
            onsets.append(None)
            offsets.append(None)
            before = None
            continue
        split += len(touching) != 1
        onsets.append(touching[0][0] - start)
        if touching[0] == before:
            joined += 1
            onsets[-1] = offsets[-1] = None
        offsets.append(touching[-1][1] - end)
        before = touching[-1]
    spurious = sum(not true.touching(start, end) for start, end in detected)
    return EdgeErrors(tuple(onsets), tuple(offsets), missed, joined, split, spurious)


def summary(errors_ns: Sequence[int | None]) -> dict[str, Any]:
    """Count and percentiles in milliseconds, linear between order statistics (Hyndman and Fan,
    type 7). `p95_abs_ms` and `max_abs_ms` are of the distance, whichever side. `None` without a
    value."""
    known = [value / NS_PER_MS for value in errors_ns if value is not None]
    out: dict[str, Any] = {"n": len(known), "without": len(errors_ns) - len(known)}
    for q in PERCENTILES:
        out[f"p{q}_ms"] = float(np.percentile(known, q, method="linear")) if known else None
    out["p95_abs_ms"] = float(np.percentile(np.abs(known), 95, method="linear")) if known else None
    out["max_abs_ms"] = float(np.abs(known).max()) if known else None
    return out
