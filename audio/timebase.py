"""The one place where time is converted.

Event time is an integer count of nanoseconds from session start (`_ns`), media time an integer
sample index on its own track (`_n`), seconds (`_s`, float) exist only in spec files and reports.
Every conversion rounds to nearest, ties upwards; nothing is clamped and signs are kept.
"""

from __future__ import annotations

import math

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000

SESSION_RATE_HZ = 24_000
"""The common session clock (seed 002, appendix F.1)."""
ANALYSIS_RATE_HZ = 16_000
"""Speech activity is measured at 16 kHz (seed 002, appendix C.2)."""
FRAME_NS = 20 * NS_PER_MS
"""Streaming chunk of 20 ms (seed 002, appendix F.2)."""


def s_to_ns(seconds: float) -> int:
    """Seconds to nanoseconds. Raises `ValueError` when `seconds` is not finite."""
    if not math.isfinite(seconds):
        raise ValueError(f"time must be finite, got {seconds!r}")
    return math.floor(seconds * NS_PER_S + 0.5)


def ns_to_s(ns: int) -> float:
    """Nanoseconds to seconds; `s_to_ns` gives the same integer back below 2**52 ns (52 days)."""
    return ns / NS_PER_S


def ms_to_ns(milliseconds: float) -> int:
    """Milliseconds to nanoseconds. Raises `ValueError` when not finite."""
    if not math.isfinite(milliseconds):
        raise ValueError(f"time must be finite, got {milliseconds!r}")
    return math.floor(milliseconds * NS_PER_MS + 0.5)


def n_to_ns(n: int, rate_hz: int) -> int:
    """Sample index at `rate_hz` to nanoseconds."""
    _check_rate(rate_hz)
    return (2 * n * NS_PER_S + rate_hz) // (2 * rate_hz)


def ns_to_n(ns: int, rate_hz: int) -> int:
    """Nanoseconds to the nearest sample index at `rate_hz`."""
    _check_rate(rate_hz)
    return (2 * ns * rate_hz + NS_PER_S) // (2 * NS_PER_S)


def s_to_n(seconds: float, rate_hz: int) -> int:
    """Seconds to the nearest sample index at `rate_hz`."""
    _check_rate(rate_hz)
    if not math.isfinite(seconds):
        raise ValueError(f"time must be finite, got {seconds!r}")
    return math.floor(seconds * rate_hz + 0.5)


def n_to_s(n: int, rate_hz: int) -> float:
    """Sample index at `rate_hz` to seconds."""
    _check_rate(rate_hz)
    return n / rate_hz


def convert_n(n: int, from_hz: int, to_hz: int) -> int:
    """Sample index on one rate to the nearest index on another."""
    _check_rate(from_hz)
    _check_rate(to_hz)
    return (2 * n * to_hz + from_hz) // (2 * from_hz)


def _check_rate(rate_hz: int) -> None:
    if rate_hz <= 0:
        raise ValueError(f"sample rate must be positive, got {rate_hz}")
