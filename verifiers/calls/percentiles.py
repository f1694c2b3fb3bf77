"""Percentiles of latencies: the one definition that every figure of a call uses."""

from __future__ import annotations

from collections.abc import Sequence


def percentile(values: Sequence[float], percent: int) -> float | None:
    """Linear interpolation between order statistics (Hyndman and Fan, type 7); `None` for none."""
    if not values:
        return None
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent
    low, rest = divmod(place, 100)
    if rest == 0:
        return ordered[low]
    return ordered[low] + (ordered[low + 1] - ordered[low]) * rest / 100
