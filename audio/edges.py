"""Where speech begins and ends inside a rendered segment, measured from its energy.

Engines put 0.2 to 0.5 s of near-silence around what they speak. A segment is cut to its measured
edges before assembly, so that a pause of 2.5 s on the schedule is one that can be heard.

Definition
----------
- Power in windows of 5 ms every 1 ms.
- Speech level: mean power of the windows within 30 dB of the loudest. Leaving the pauses out is
  the idea of the active speech level of ITU-T P.56; the 30 dB are ours.
- A window is active when it lies less than 35 dB below the speech level.
- Speech begins (ends) at the centre of the first (last) window of a run of at least 8 active
  windows. A click of one sample makes a run of 5 and does not count; a plosive's burst makes more.

Why 35 dB: over 32 single words that begin or end in soft sounds, spoken by the default engine
(docs/synthesis.md), the level crosses 45 dB below speech a median of 8 ms before our onset and
28 ms after our end: breath and decay at the level of a quiet room. It crosses 25 dB 12 ms after our
onset and 27 ms before our end. 30 dB would cut up to 44 ms of an initial fricative ("thief",
"fish"), 45 dB would leave edges more than 20 ms from audible speech.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audio.buffers import Float32
from audio.errors import SynthesisError

WINDOW_MS = 5.0
HOP_MS = 1.0
ACTIVE_RANGE_DB = 30.0
EDGE_BELOW_LEVEL_DB = 35.0
MIN_RUN_WINDOWS = 8
MARGIN_MS = 5.0
"""Kept outside each measured edge; at most 10 ms are allowed (docs/synthesis.md)."""
FADE_MS = 2.0
"""Raised-cosine fade at each cut, inside the margin, so that silence joins without a click."""
END_NOISE_GAP_MS = 40.0
END_NOISE_REACH_MS = 15.0
"""Ours, from the noise that hibari-tts puts after "the,", "if,", "uh,": it begins 80 to 130 ms
after the speech and lasts to within 5 ms of the end."""

_TINY_POWER = 1e-14
"""-140 dB: below the quantisation noise of PCM16 (-101 dB), so that log10 stays finite."""


@dataclass(frozen=True, slots=True)
class SpeechEdges:
    """Measured edges `[start_n, end_n)` and the longest stretch without activity inside them."""

    start_n: int
    end_n: int
    speech_level_db: float
    """dB relative to full-scale power 1.0."""
    longest_pause_n: int


def measure_edges(
    samples: Float32, rate_hz: int, *, below_level_db: float = EDGE_BELOW_LEVEL_DB
) -> SpeechEdges:
    """Find the first and the last audible instant of `samples`.

    Args:
        samples: float32 `(frames,)`, finite.
        rate_hz: its sample rate.
        below_level_db: how far below the speech level a window may lie and still be speech.

    Raises:
        SynthesisError: nothing in it is speech (too short, all zero).
        ValueError: wrong shape or non-finite samples.
    """
    if samples.ndim != 1 or not np.isfinite(samples).all():
        raise ValueError(f"expected finite mono samples, got shape {samples.shape}")
    window_n = max(1, round(rate_hz * WINDOW_MS / 1000))
    hop_n = max(1, round(rate_hz * HOP_MS / 1000))
    power = window_power(samples, window_n, hop_n)
    if power.size < MIN_RUN_WINDOWS or float(power.max()) <= _TINY_POWER:
        raise SynthesisError(
            f"speech edges: expected speech, got {samples.size} samples without any"
        )
    level = float(power[power >= power.max() * 10 ** (-ACTIVE_RANGE_DB / 10)].mean())
    runs = runs_of(power > level * 10 ** (-below_level_db / 10))
    runs = runs[runs[:, 1] - runs[:, 0] >= MIN_RUN_WINDOWS]
    if not runs.size:
        raise SynthesisError("speech edges: expected speech, got clicks shorter than 8 ms")
    half_n = window_n // 2
    pauses = runs[1:, 0] - runs[:-1, 1]
    return SpeechEdges(
        start_n=int(runs[0, 0]) * hop_n + half_n,
        end_n=min(samples.size, int(runs[-1, 1] - 1) * hop_n + half_n + 1),
        speech_level_db=10 * float(np.log10(level)),
        longest_pause_n=int(pauses.max()) * hop_n if pauses.size else 0,
    )


def trim(samples: Float32, rate_hz: int, edges: SpeechEdges | None = None) -> tuple[Float32, int]:
    """Cut to the measured edges plus `MARGIN_MS`, with a fade of `FADE_MS` at both cuts.

    Returns the new float32 array and the index in `samples` at which it begins.
    Raises as `measure_edges`.
    """
    found = edges or measure_edges(samples, rate_hz)
    margin_n = round(rate_hz * MARGIN_MS / 1000)
    start_n = max(0, found.start_n - margin_n)
    end_n = min(samples.size, found.end_n + margin_n)
    out = samples[start_n:end_n].astype(np.float32, copy=True)
    fade_n = min(round(rate_hz * FADE_MS / 1000), out.size // 2)
    if fade_n:
        ramp = (0.5 - 0.5 * np.cos(np.pi * (np.arange(fade_n) + 0.5) / fade_n)).astype(np.float32)
        out[:fade_n] *= ramp
        out[-fade_n:] *= ramp[::-1]
    return out, start_n


def active_windows(samples: Float32, rate_hz: int) -> NDArray[np.bool_]:
    """Which windows are active, one every `HOP_MS`: window k lies at `[k, k + 5)` ms.

    Single clicks count here, unlike in `measure_edges`. Raises as `measure_edges`.
    """
    level_db = measure_edges(samples, rate_hz).speech_level_db
    window_n = max(1, round(rate_hz * WINDOW_MS / 1000))
    hop_n = max(1, round(rate_hz * HOP_MS / 1000))
    return window_power(samples, window_n, hop_n) > 10 ** ((level_db - EDGE_BELOW_LEVEL_DB) / 10)


def drop_end_noise(samples: Float32, rate_hz: int) -> Float32:
    """Cut off sound that comes after the speech and goes on to the last sample.

    For engines that always end with silence: what reaches the end and stands apart from the rest
    by at least `END_NOISE_GAP_MS` without activity is not speech. Single clicks count as activity
    here, unlike in `measure_edges`. Without such an end the array is returned as it is.
    Raises as `measure_edges`.
    """
    hop_n = max(1, round(rate_hz * HOP_MS / 1000))
    active = active_windows(samples, rate_hz)
    runs = runs_of(active)
    reach = active.size - round(END_NOISE_REACH_MS / HOP_MS)
    if runs[-1, 1] < reach:
        return samples
    apart = np.flatnonzero(runs[1:, 0] - runs[:-1, 1] >= END_NOISE_GAP_MS / HOP_MS)
    if not apart.size:
        return samples
    return samples[:int(runs[apart[-1] + 1, 0]) * hop_n]


def window_power(samples: Float32, window_n: int, hop_n: int) -> NDArray[np.float64]:
    """Mean power of every whole window."""
    if samples.size < window_n:
        return np.zeros(0)
    total = np.concatenate(([0.0], np.cumsum(samples.astype(np.float64) ** 2)))
    starts = np.arange(0, samples.size - window_n + 1, hop_n)
    return np.asarray((total[starts + window_n] - total[starts]) / window_n)


def runs_of(active: NDArray[np.bool_]) -> NDArray[np.int64]:
    """`[first, past_last)` of every stretch of True, shape (runs, 2)."""
    change = np.flatnonzero(np.diff(np.concatenate(([False], active, [False])).astype(np.int8)))
    return change.reshape(-1, 2).astype(np.int64)
