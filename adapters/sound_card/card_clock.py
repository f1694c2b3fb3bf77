"""The card's clock on the rig's: offset and drift, fitted over callbacks.

Definitions
-----------
- A callback says when its first input sample was at the ADC and when its first output sample will
  be at the DAC, on a clock of the card's host (PortAudio, `PaStreamCallbackTimeInfo`). Which clock
  that is differs by host (monotonic, wall clock): so the difference to the rig's is taken from the
  data, as the least of `rig - current` over the callbacks (a callback can only come late).
- Offset and drift: a line through (sample, time), slope by Theil and Sen (median of the slopes of
  all pairs), offset as the median of what is left. Drift in parts per million: how much longer a
  sample of the card takes than its nominal rate says.
- Times that no card can have (constant, or a slope off by more than `MAX_DRIFT_PPM`) are not used:
  then the line goes through the moments of the callbacks themselves, and `source` says `callback`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from adapters.sound_card.bridge import Callback
from audio.timebase import NS_PER_MS, NS_PER_S

MAX_POINTS = 200
"""Points of a fit; more callbacks are thinned evenly (20,000 pairs). Ours."""
MIN_POINTS = 8
MAX_DRIFT_PPM = 5_000.0
"""Crystals are within some 100 ppm; a second of a software device's wandering latency may look like
thousands. Ours."""


@dataclass(frozen=True, slots=True)
class Line:
    """`time_ns = offset_ns + n * (1 + drift_ppm / 1e6) / rate`, on the rig's monotonic clock."""

    source: Literal["card", "callback"]
    offset_ns: int
    drift_ppm: float
    residual_p95_ms: float
    callbacks_n: int

    def facts(self) -> dict[str, Any]:
        """Plain JSON types, rounded to what they can mean."""
        return {**asdict(self), "drift_ppm": round(self.drift_ppm, 1),
                "residual_p95_ms": round(self.residual_p95_ms, 3)}


def fit(log: Sequence[Callback], rate_hz: int, which: Literal["adc", "dac"]) -> Line | None:
    """The line of one converter; `None` for fewer than `MIN_POINTS` callbacks."""
    if len(log) < MIN_POINTS:
        return None
    base_ns = base_offset_ns(log)
    every = -(-len(log) // MAX_POINTS)
    points = list(log)[::every]
    n = np.array([c.first_n for c in points], dtype=np.float64)
    card_ns = np.array([(c.adc_s if which == "adc" else c.dac_s) * NS_PER_S + base_ns
                        for c in points])
    line = _line(n, card_ns, rate_hz, "card", len(log)) if np.isfinite(card_ns).all() else None
    if line is not None and abs(line.drift_ppm) <= MAX_DRIFT_PPM:
        return line
    return _line(n, np.array([float(c.rig_ns) for c in points]), rate_hz, "callback", len(log))


def base_offset_ns(log: Sequence[Callback]) -> float:
    """What is added to PortAudio's time to get the rig's, nanoseconds."""
    return min(c.rig_ns - c.current_s * NS_PER_S for c in log)


def reported_round_trip_ms(log: Sequence[Callback]) -> float:
    """DAC time less ADC time of the same callback, median: what the card itself says of the way
    from an output sample to the input sample of the same index."""
    return float(np.median([(c.dac_s - c.adc_s) * 1e3 for c in log]))


def _line(n: Any, time_ns: Any, rate_hz: int, source: Literal["card", "callback"],
          callbacks_n: int) -> Line:
    origin_ns = time_ns[0]
    late = (time_ns - origin_ns) - (n - n[0]) * (NS_PER_S / rate_hz)
    first, second = np.triu_indices(len(n), 1)
    slope = float(np.median((late[second] - late[first]) / (n[second] - n[first])))
    rest = late - slope * (n - n[0])
    middle = float(np.median(rest))
    per_sample_ns = NS_PER_S / rate_hz + slope
    return Line(
        source=source, offset_ns=round(origin_ns + middle - n[0] * per_sample_ns),
        drift_ppm=slope * rate_hz / NS_PER_S * 1e6,
        residual_p95_ms=float(np.quantile(np.abs(rest - middle), 0.95)) / NS_PER_MS,
        callbacks_n=callbacks_n)
