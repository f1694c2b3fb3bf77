"""Figures as they stand in the document: a rate with its n, an interval as a pair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sweeps.clustered import clustered_rate


def rate(parts: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """`{n, count, rate, ci}` of counts a call; nothing counted is `None` with a reason."""
    count, n = (sum(p[k] for p in parts) for k in (0, 1))
    out: dict[str, Any] = {"n": n, "count": count, "rate": count / n if n else None,
                           "ci": pair(clustered_rate(parts))}
    if not n:
        out["reason"] = "nothing to count"
    return out


def pair(interval: tuple[float, float] | None) -> list[float] | None:
    """An interval for JSON."""
    return None if interval is None else list(interval)
