"""Interval of a proportion."""

from __future__ import annotations

import math
from collections.abc import Sequence

Z_95 = 1.959963984540054
"""Two-sided 95 % point of the normal distribution."""
TAIL = 0.025
"""What lies beyond either end of a two-sided 95 % interval."""


def wilson(passed: int, n: int, z: float = Z_95) -> tuple[float, float] | None:
    """Wilson score interval of `passed / n`, without continuity correction (Wilson 1927).

    Both ends lie in [0, 1]. `None` when `n` is 0. At 0 of `n` the upper end is
    `z² / (n + z²)`, about 3.84/n; the exact one-sided 95 % bound is about 3/n, the "rule of
    three". The trials are taken as independent: repeated trials of a case, or cases that share
    their audio, are not, and there the interval is too narrow.
    Raises `ValueError` unless `0 <= passed <= n`.
    """
    if not 0 <= passed <= n:
        raise ValueError(f"expected 0 <= passed <= n, got {passed} of {n}")
    if n == 0:
        return None
    rate, z2 = passed / n, z * z
    middle = (rate + z2 / (2 * n)) / (1 + z2 / n)
    half = z / (1 + z2 / n) * math.sqrt(rate * (1 - rate) / n + z2 / (4 * n * n))
    # At the ends one limit is exactly 0 or 1; rounding must not step over it.
    low = 0.0 if passed == 0 else middle - half
    high = 1.0 if passed == n else middle + half
    return low, high


def quantile_interval(values: Sequence[float], q: float) -> tuple[float | None, float | None]:
    """95 % interval of the quantile `q` (0..1, both ends excluded) of what `values` were drawn
    from, between two of the values: free of any distribution (Conover, Practical Nonparametric
    Statistics, "confidence interval for a quantile").

    An end is `None` where so few values have none: the upper end of a p90 takes 36. The values are
    taken as independent. Raises `ValueError` for another `q`.
    """
    if not 0.0 < q < 1.0:
        raise ValueError(f"expected a quantile between 0 and 1, got {q}")
    ordered, n = sorted(values), len(values)
    low = high = None
    below = 0.0  # chance that fewer than `rank` values lie under the quantile
    for rank, value in enumerate(ordered, start=1):
        below += math.exp(math.lgamma(n + 1) - math.lgamma(rank) - math.lgamma(n - rank + 2)
                          + (rank - 1) * math.log(q) + (n - rank + 1) * math.log1p(-q))
        if below <= TAIL:
            low = value
        if high is None and 1.0 - below <= TAIL:
            high = value
    return low, high
