"""Intervals over calls: turns of one call are not independent, so whole calls are drawn.

Percentile bootstrap over clusters (Efron 1979; Davison and Hinkley 1997, section 3.8): a draw takes
as many calls as there are, with replacement, pools their parts and forms the ratio or percentile
last. Draws are seeded, so that the same calls give the same interval. With fewer than two calls
that hold anything there is no interval between calls; for one call's rate see `sweeps.intervals`.
Below about ten calls such intervals are too narrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeps.intervals import wilson

DRAWS = 2_000
SEED = 20_260_729
INTERVAL_PERCENT = (2.5, 97.5)
_BATCH = 200


def clustered_rate(parts: Sequence[tuple[int, int]]) -> tuple[float, float] | None:
    """95 % interval of `sum(count) / sum(n)` over calls given as `(count, n)`.

    Calls with `n` of 0 hold nothing and are left out; one call left: Wilson. `None` for none. Where
    all calls are at 0 or all at 1 a bootstrap has no width: Wilson then, with calls for trials.
    Raises `ValueError` unless every `0 <= count <= n`.
    """
    if any(not 0 <= count <= n for count, n in parts):
        raise ValueError(f"expected 0 <= count <= n, got {list(parts)}")
    held = [(count, n) for count, n in parts if n]
    if len(held) < 2:
        return wilson(*held[0]) if held else None
    if all(count == 0 for count, _ in held) or all(count == n for count, n in held):
        return wilson(len(held) if held[0][0] else 0, len(held))
    counts, ns = np.array(held, dtype=np.float64).T
    rates = [(weights @ counts) / (weights @ ns) for weights in _weights(len(held))]
    return _ends(np.concatenate(rates))


def clustered_percentile(
    parts: Sequence[Sequence[float]], percent: int
) -> tuple[float, float] | None:
    """95 % interval of a pooled percentile (type 7) over calls given as their values.

    `None` with fewer than two calls that have any.
    """
    held = [values for values in parts if len(values)]
    if len(held) < 2:
        return None
    pool = _Pool(held)
    return _ends(np.array([pool.percentile(row, percent)
                           for weights in _weights(len(held)) for row in weights]))


def clustered_percentile_difference(
    first: Sequence[Sequence[float]], second: Sequence[Sequence[float]], percent: int
) -> tuple[float, float] | None:
    """95 % interval of `percentile(second) - percentile(first)`, both pooled over the same calls.

    The same calls are drawn for both. Calls that hold nothing of either are left out; `None` with
    fewer than two others. Raises `ValueError` where a call holds values of one alone.
    """
    if [bool(len(v)) for v in first] != [bool(len(v)) for v in second]:
        raise ValueError("expected values of both kinds from each call, or none")
    pools = [[values for values in parts if len(values)] for parts in (first, second)]
    if len(pools[0]) < 2:
        return None
    one, two = map(_Pool, pools)
    return _ends(np.array([two.percentile(row, percent) - one.percentile(row, percent)
                           for weights in _weights(len(pools[0])) for row in weights]))


class _Pool:
    """Values of calls, sorted, each knowing its call."""

    def __init__(self, calls: Sequence[Sequence[float]]) -> None:
        values = np.concatenate([np.asarray(v, dtype=np.float64) for v in calls])
        order = np.argsort(values, kind="stable")
        self._values = values[order]
        self._owner = np.repeat(np.arange(len(calls)), [len(v) for v in calls])[order]

    def percentile(self, row: NDArray[Any], percent: int) -> float:
        """Type 7, each call taken `row` times."""
        upto = np.cumsum(row[self._owner], dtype=np.int64)
        place = (float(upto[-1]) - 1) * percent / 100
        low = int(np.floor(place))
        pair = self._values[np.searchsorted(upto, [low, min(low + 1, upto[-1] - 1)], side="right")]
        return float(pair[0] + (pair[1] - pair[0]) * (place - low))


@lru_cache(maxsize=2)
def _weights(clusters: int) -> tuple[NDArray[Any], ...]:
    """How often each cluster is in each draw: batches of (draws, clusters), of the smallest
    integers that hold them. For thousands of calls they take longer to draw than to use, and
    figures that stand together are of the same calls."""
    random = np.random.Generator(np.random.PCG64(SEED))
    even = np.full(clusters, 1.0 / clusters)
    drawn = (random.multinomial(clusters, even, size=_BATCH) for _ in range(DRAWS // _BATCH))
    return tuple(batch.astype(np.min_scalar_type(int(batch.max()))) for batch in drawn)


def _ends(found: NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.percentile(found, INTERVAL_PERCENT)
    return float(low), float(high)
