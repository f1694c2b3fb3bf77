"""Pitch and spectrum of speech, over its voiced frames.

Pitch: Boersma (1993), "Accurate short-term analysis of the fundamental frequency", as in Praat,
through the optional package `praat-parselmouth` (extra `prosody`). Nothing is interpolated: an
unvoiced frame has no pitch.

Spectrum: the long-term average over voiced frames (unvoiced ones would measure how many fricatives
were said), in the telephone band alone. In that band neither figure knows the recording's rate: one
voice at 8, 16, 24, 44.1 and 48 kHz is told within 0.02 dB an octave and 0.2 %, so that nothing has
to be resampled to a common rate (16 kHz elsewhere in this package).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from audio.buffers import Float32
from audio.errors import RigError

FLOOR_HZ, CEILING_HZ = 75.0, 500.0
"""Praat's standard range for speech of either sex (manual, "Sound: To Pitch": 75 Hz; 500 Hz for
female voices). Telephone audio keeps the harmonics from which F0 below 300 Hz is found."""
STEP_S = 0.01
BAND_HZ = (300.0, 3400.0)
"""The telephone band (ITU-T G.712): the same for recordings of every rate."""
EXTRA = "prosody"
MISSING = ("pitch needs the extra prosody (pip install -c constraints.txt -e '.[prosody]' where "
           "duplexrig is)")


class ProsodyError(RigError):
    """The package for pitch is not installed."""


def load() -> Any:
    """The package. Raises `ProsodyError` with how to get it."""
    try:
        import parselmouth
    except ImportError as error:
        raise ProsodyError(MISSING) from error
    return parselmouth


def voiced_frames(
    samples: Float32, rate_hz: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Middle (s) and F0 (Hz, `FLOOR_HZ`..`CEILING_HZ`) of each voiced frame, every 10 ms.

    Empty for less than the three periods of `FLOOR_HZ` that one frame needs. Raises
    `ProsodyError`.
    """
    parselmouth = load()
    if len(samples) <= 3 * rate_hz / FLOOR_HZ + 1:
        return np.zeros(0), np.zeros(0)
    sound = parselmouth.Sound(samples.astype(np.float64), sampling_frequency=float(rate_hz))
    found = sound.to_pitch_ac(time_step=STEP_S, pitch_floor=FLOOR_HZ, pitch_ceiling=CEILING_HZ)
    hz = np.asarray(found.selected_array["frequency"], dtype=np.float64)
    return np.asarray(found.xs(), dtype=np.float64)[hz > 0], hz[hz > 0]


def window_n(rate_hz: int) -> int:
    """Samples of a spectrum's window of 32 ms: even, so that the last bin is half the rate."""
    return 2 * round(0.016 * rate_hz)


def voiced_spectrum(samples: Float32, rate_hz: int,
                    middles_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum of the power spectra of 32 ms (Hann) around `middles_s`, of those that fit; its bins are
    `rate_hz / 2 / (len - 1)` apart."""
    count = window_n(rate_hz)
    firsts = np.round(middles_s * rate_hz).astype(np.int64) - count // 2
    firsts = firsts[(firsts >= 0) & (firsts + count <= len(samples))]
    total = np.zeros(count // 2 + 1)
    window = np.hanning(count)
    for first in firsts:
        piece = samples[first:first + count] * window
        total += np.abs(np.fft.rfft(piece)) ** 2
    return total


def centroid_hz(spectrum: NDArray[np.float64], rate_hz: int) -> float | None:
    """Spectral centroid: the mean frequency, weighted by power, in `BAND_HZ` (Peeters 2004, "A
    large set of audio features", there of amplitude); `None` without any."""
    hz, power = _band(spectrum, rate_hz)
    total = float(power.sum())
    return float((hz * power).sum()) / total if total > 0 else None


def tilt_db_per_octave(spectrum: NDArray[np.float64], rate_hz: int) -> float | None:
    """Spectral tilt: the slope of the level over the binary logarithm of frequency in `BAND_HZ`,
    least squares over third octaves, so that each octave counts alike; -6 for harmonics of
    amplitude 1/k. `None` without power in each third octave."""
    hz, power = _band(spectrum, rate_hz)
    octave = np.floor(3 * np.log2(hz / BAND_HZ[0])).astype(int)
    means = [(float(np.log2(hz[octave == k]).mean()), float(power[octave == k].mean()))
             for k in np.unique(octave)]
    if any(mean <= 0 for _, mean in means) or len(means) < 2:
        return None
    x, y = np.array([(m[0], 10 * np.log10(m[1])) for m in means]).T
    return float(np.polyfit(x, y, 1)[0])


def _band(
    spectrum: NDArray[np.float64], rate_hz: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    hz = np.linspace(0, rate_hz / 2, len(spectrum))
    inside = (hz >= BAND_HZ[0]) & (hz < BAND_HZ[1])
    return hz[inside], spectrum[inside]


def semitones(hz: NDArray[np.float64], reference_hz: float = 100.0) -> NDArray[np.float64]:
    """Twelve times the binary logarithm of the ratio to `reference_hz`."""
    out: NDArray[np.float64] = 12 * np.log2(hz / reference_hz)
    return out
