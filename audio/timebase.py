"""The one place where time is converted.

Event time is an integer count of nanoseconds from session start (`_ns`), media time an integer
sample index on its own track (`_n`), seconds (`_s`, float) exist only in spec files and reports.
Every conversion rounds to nearest, ties upwards; nothing is clamped and signs are kept.

All arithmetic is on whole numbers of any size, also for seconds, whose exact value a float is: a
product of floats would be rounded twice. NumPy integers are taken, floats for an index refused
(`TypeError`).
"""

from __future__ import annotations

import math
from operator import index

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000

SESSION_RATE_HZ = 24_000
"""The common session clock (DSB-IFEval, appendix F.1)."""
ANALYSIS_RATE_HZ = 16_000
"""Speech activity is measured at 16 kHz (DSB-IFEval, appendix C.2)."""
FRAME_NS = 20 * NS_PER_MS
"""Streaming chunk of 20 ms (DSB-IFEval, appendix F.2)."""
FRAMES_PER_S = NS_PER_S // FRAME_NS


def s_to_ns(seconds: float) -> int:
    """Seconds to nanoseconds. Raises `ValueError` when `seconds` is not finite."""
    return _scaled(seconds, NS_PER_S)


def ns_to_s(ns: int) -> float:
    """Nanoseconds to seconds; `s_to_ns` gives the same integer back below 2**52 ns (52 days)."""
    return index(ns) / NS_PER_S


def ms_to_ns(milliseconds: float) -> int:
    """Milliseconds to nanoseconds. Raises `ValueError` when not finite."""
    return _scaled(milliseconds, NS_PER_MS)


def n_to_ns(n: int, rate_hz: int) -> int:
    """Sample index at `rate_hz` to nanoseconds."""
    rate_hz = _rate(rate_hz)
    return (2 * index(n) * NS_PER_S + rate_hz) // (2 * rate_hz)


def ns_to_n(ns: int, rate_hz: int) -> int:
    """Nanoseconds to the nearest sample index at `rate_hz`."""
    return (2 * index(ns) * _rate(rate_hz) + NS_PER_S) // (2 * NS_PER_S)


def s_to_n(seconds: float, rate_hz: int) -> int:
    """Seconds to the nearest sample index at `rate_hz`."""
    return _scaled(seconds, _rate(rate_hz))


def n_to_s(n: int, rate_hz: int) -> float:
    """Sample index at `rate_hz` to seconds."""
    return index(n) / _rate(rate_hz)


def convert_n(n: int, from_hz: int, to_hz: int) -> int:
    """Sample index on one rate to the nearest index on another."""
    from_hz, to_hz = _rate(from_hz), _rate(to_hz)
    return (2 * index(n) * to_hz + from_hz) // (2 * from_hz)


def _scaled(time: float, factor: int) -> int:
    """`time` * `factor` to the nearest integer, from the exact value of the float."""
    if not math.isfinite(time):
        raise ValueError(f"time must be finite, got {time!r}")
    numerator, denominator = time.as_integer_ratio()
    return (2 * numerator * factor + denominator) // (2 * denominator)


def _rate(rate_hz: int) -> int:
    rate_hz = index(rate_hz)
    if rate_hz <= 0:
        raise ValueError(f"sample rate must be positive, got {rate_hz}")
    return rate_hz
