"""Round trip by sound: a chirp goes out, comes back, and is found by cross-correlation.

Definitions
-----------
- Chirp: 50 ms, 500 Hz to 6 kHz (to 0.4 of a lower rate), Hann window; what telephones pass, and
  narrow in its autocorrelation (0.2 ms).
- Found: the largest value of the normalised cross-correlation in what is searched, 1 for an exact
  copy; refined by a parabola through its neighbours. Below `MIN_QUALITY` nothing was found.
- Round trip: input sample at which it begins less output sample at which it was put, milliseconds.
- Level: of the chirp found against the chirp sent, dB. With the agent's own wiring instead of a
  loop it is the echo: how loud the user comes back on the channel that the agent is recorded on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from audio.buffers import Float32
from audio.errors import InputError

CHIRP_S = 0.05
CHIRP_HZ = (500.0, 6_000.0)
MIN_QUALITY = 0.5
"""A chirp with as much noise as itself in its 50 ms has 0.7, noise alone some 0.1. Ours."""
REPEATABLE_MS = 5.0
"""Openings of the stream that differ by more cannot be corrected by one number. Ours: the bound
that recorded tracks are held to."""
MAX_FILE_BYTES = 65_536
VERSION = 1
_MATCHING = ("rate_hz", "latency_ms", "block_ms")


def chirp(rate_hz: int, level: float = 0.5) -> Float32:
    """The chirp, float32 `(n,)`, peak `level`."""
    n = round(CHIRP_S * rate_hz)
    low, high = CHIRP_HZ[0], min(CHIRP_HZ[1], 0.4 * rate_hz)
    t = np.arange(n) / rate_hz
    phase = 2 * np.pi * (low * t + (high - low) / (2 * CHIRP_S) * t**2)
    return (level * np.sin(phase) * np.hanning(n)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Found:
    """Where the chirp begins in what was searched (samples), how alike it is, how loud (dB)."""

    at_n: float
    quality: float
    level_db: float


def find(recording: Float32, sent: Float32) -> Found | None:
    """Look for `sent` in `recording`, both float32 `(n,)`; `None` where it is not."""
    if len(recording) < len(sent):
        return None
    length = 1 << (len(recording) + len(sent) - 1).bit_length()
    spectrum = np.fft.rfft(recording, length) * np.conj(np.fft.rfft(sent, length))
    match = np.fft.irfft(spectrum, length)[: len(recording) - len(sent) + 1]
    energy = np.concatenate(([0.0], np.cumsum(recording.astype(np.float64) ** 2)))
    window = energy[len(sent):] - energy[: -len(sent)]
    own = float(np.sum(sent.astype(np.float64) ** 2))
    # A window far quieter than the chirp is rounding, not sound: -100 dB.
    quality = match / np.sqrt(own * np.maximum(window, own * 1e-10))
    best = int(np.argmax(quality))
    if quality[best] < MIN_QUALITY:
        return None
    return Found(best + _between(match, best), float(quality[best]),
                 20 * float(np.log10(max(match[best] / own, 1e-9))))


def _between(match: Any, at: int) -> float:
    """The peak of a parabola through three values, from the middle one: -0.5 to 0.5."""
    if not 0 < at < len(match) - 1:
        return 0.0
    before, here, after = match[at - 1: at + 2]
    bend = before - 2 * here + after
    return float(np.clip(0.5 * (before - after) / bend, -0.5, 0.5)) if bend < 0 else 0.0


@dataclass(frozen=True, slots=True)
class Summary:
    """Round trips of several openings of the stream, several chirps each; milliseconds."""

    round_trip_ms: float
    """Median of the openings' medians."""
    p95_ms: float
    """95th percentile of all chirps (nearest rank)."""
    within_ms: float
    """Largest range inside one opening."""
    between_ms: float
    """Range of the openings' medians."""
    level_db: float
    openings_ms: tuple[float, ...]
    chirps_n: int

    @property
    def repeatable(self) -> bool:
        return self.within_ms <= REPEATABLE_MS and self.between_ms <= REPEATABLE_MS


def summarise(openings: Sequence[Sequence[tuple[float, float]]]) -> Summary:
    """From (round trip ms, level dB) of every chirp found, opening by opening; none is empty."""
    medians = [float(np.median([ms for ms, _ in found])) for found in openings]
    every = sorted(ms for found in openings for ms, _ in found)
    return Summary(
        round_trip_ms=float(np.median(medians)),
        p95_ms=every[max(0, -(-len(every) * 95 // 100) - 1)],
        within_ms=max(max(ms for ms, _ in f) - min(ms for ms, _ in f) for f in openings),
        between_ms=max(medians) - min(medians),
        level_db=float(np.median([db for found in openings for _, db in found])),
        openings_ms=tuple(round(m, 3) for m in medians), chirps_n=len(every))


def calibration_text(summary: Summary, settings: dict[str, Any]) -> str:
    """What `rig calibrate-card --out` writes."""
    return json.dumps({"schema_version": VERSION, **asdict(summary),
                       **{name: settings[name] for name in (*_MATCHING, "input", "output")}},
                      indent=2) + "\n"


def read_calibration(path: str, settings: dict[str, Any], *, where: str) -> float:
    """The round trip of a calibration file in ms. Raises `InputError` for a file that is none, or
    was made with other settings than `settings`."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        value = json.loads(data) if len(data) <= MAX_FILE_BYTES else None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError.expected("a file that rig calibrate-card --out wrote",
                                  got=type(error).__name__, where=f"{where} {path}") from None
    if not isinstance(value, dict) or value.get("schema_version") != VERSION:
        raise InputError.expected("a file that rig calibrate-card --out wrote",
                                  got="something else", where=f"{where} {path}")
    round_trip_ms = value.get("round_trip_ms")
    if isinstance(round_trip_ms, bool) or not isinstance(round_trip_ms, int | float) \
            or not 0 < round_trip_ms <= 1000:
        raise InputError.expected("round_trip_ms over 0 and up to 1000",
                                  got=repr(round_trip_ms)[:40], where=f"{where} {path}")
    for name in _MATCHING:
        if value.get(name) != settings[name]:
            raise InputError.expected(
                f"a calibration made with {name}={settings[name]}", got=repr(value.get(name))[:40],
                where=f"{where} {path}")
    return float(round_trip_ms)
