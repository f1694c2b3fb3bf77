"""Interval of a proportion."""

from __future__ import annotations

import math

Z_95 = 1.959963984540054
"""Two-sided 95 % point of the normal distribution."""


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
