"""A second opinion on where speech is: energy against an adaptive noise floor.

It shares nothing with the network of `audio.silero`: no weights, no spectrum, other frames. Where
both give one verdict, the verdict does not hang on the detector. It is no better detector: a door
that slams is speech to it.

Definition, after Martin (1993), "An efficient algorithm to estimate the instantaneous SNR of speech
signals", Eurospeech: the noise floor is the minimum of the smoothed power within a window that is
longer than any word.

1. Power in frames of 10 ms; smoothed over 50 ms for the floor.
2. The floor of a frame is the least smoothed power within 1.5 s on either side. Recordings are
   whole, so that it looks ahead as well: then it falls as soon as speech ends.
3. A frame is active when its power lies more than `margin_db` above the floor and is at least
   `LEAST_DBFS`.
4. Spans by the rules of `audio.vad`, in the same order and by the same settings: pauses shorter
   than `min_silence_ms` are bridged, spans not longer than `min_speech_ms` dropped, spans less
   than `merge_gap_s` apart joined. No padding: frames are short, and the hangover that such
   detectors add at the end would be a bias.

Known limits: steady sound is taken for noise where it lasts longer than 3 s without a dip; noise
that sets in is taken for speech for up to 1.5 s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audio.buffers import Float32
from audio.edges import runs_of
from audio.errors import InputError
from audio.spans import Spans
from audio.timebase import ANALYSIS_RATE_HZ, s_to_n
from audio.vad import VadSettings

FRAME_N = ANALYSIS_RATE_HZ // 100
SMOOTHED_FRAMES = 5
"""50 ms: the shortest stretch over which stationary noise has a steady power. Ours."""
FLOOR_FRAMES = 150
"""1.5 s on either side: longer than a phrase without a dip. Ours; Martin names the trade-off."""
MARGIN_DB = 9.0
"""Ours: white noise stays below 4 dB over its own least power, and a whispered phone lies some
10 dB over a quiet room. docs/instrument.md shows 6 and 12 beside it."""
LEAST_DBFS = -70.0
"""Ours: just above the idle noise of a mu-law line, whose smallest step is -72 dB, and 20 dB below
where a channel is flagged as near silent (`near_silent`)."""
MARGIN_RANGE_DB = (1.0, 40.0)


@dataclass(frozen=True, slots=True)
class Levels:
    """Power and noise floor of a channel, one value for every 10 ms; the last frame is filled up
    with zeros."""

    power: NDArray[np.float64]
    floor: NDArray[np.float64]
    samples_n: int


def energy_spans(x16k: Float32, vad: VadSettings, *, margin_db: float = MARGIN_DB) -> Spans:
    """Merged speech spans of one channel, in samples at 16 kHz.

    Args:
        x16k: float32 `(n,)`, finite, full scale 1.
        vad: gives `min_silence_ms`, `min_speech_ms` and `merge_gap_s`; the rest is the network's.
        margin_db: how far above the noise floor speech lies, 1 to 40.

    Raises `InputError` for other shapes, samples that are not finite and margins out of range.
    """
    return spans_of(levels_of(x16k), vad, margin_db=margin_db)


def levels_of(x16k: Float32) -> Levels:
    """Rules 1 and 2, which know no setting. Raises as `energy_spans`."""
    if x16k.ndim != 1 or not np.isfinite(x16k).all():
        raise InputError.expected("finite samples of shape (n,)", got=f"shape {x16k.shape}",
                                  where="energy detector")
    frames = -(-len(x16k) // FRAME_N)
    padded = np.zeros(frames * FRAME_N, dtype=np.float64)
    padded[: len(x16k)] = x16k
    power = np.square(padded).reshape(frames, FRAME_N).mean(axis=1)
    return Levels(power, _floor(power) if frames else power, len(x16k))


def spans_of(levels: Levels, vad: VadSettings, *, margin_db: float = MARGIN_DB) -> Spans:
    """Rules 3 and 4. Raises as `energy_spans`."""
    low, high = MARGIN_RANGE_DB
    if not low <= margin_db <= high:
        raise InputError.expected(f"a margin of {low:g} to {high:g} dB", got=f"{margin_db:g}",
                                  where="energy detector")
    least = 10 ** (LEAST_DBFS / 10)
    active = levels.power > np.maximum(levels.floor * 10 ** (margin_db / 10), least)
    found = Spans(tuple((int(first) * FRAME_N, min(levels.samples_n, int(past) * FRAME_N))
                        for first, past in runs_of(active)))
    bridged = found.merge_gaps(s_to_n(vad.min_silence_ms / 1000, ANALYSIS_RATE_HZ))
    least_n = vad.min_speech_ms * ANALYSIS_RATE_HZ / 1000
    kept = Spans(tuple((start, end) for start, end in bridged if end - start > least_n))
    return kept.merge_gaps(s_to_n(vad.merge_gap_s, ANALYSIS_RATE_HZ))


def _floor(power: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rule 2. Beyond the ends there is no frame: they are no silence."""
    half = SMOOTHED_FRAMES // 2
    smooth = np.lib.stride_tricks.sliding_window_view(
        np.pad(power, half, mode="edge"), SMOOTHED_FRAMES).mean(axis=1)
    wide = np.pad(smooth, FLOOR_FRAMES, constant_values=np.inf)
    return np.asarray(np.lib.stride_tricks.sliding_window_view(
        wide, 2 * FLOOR_FRAMES + 1).min(axis=1))
