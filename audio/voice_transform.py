"""One trained voice made into others: pitch and formants moved apart from each other.

hibari's network gives, for every frame of 12.5 ms, a pitch and spectra of 601 bins (20 Hz each)
that `hibari.dsp.synth` turns into sound: a pulse train at that pitch through a harmonic filter,
plus noise, plus a part with phases of its own. Source and filter are apart there, so another voice
needs no processing of sound: the pitch is multiplied, the spectra are stretched along frequency,
and the package synthesises as ever. Durations do not change, unvoiced frames stay unvoiced, and no
sound is overlapped or cut.

The part with its own phases carries no pitch: in voiced frames its correlation one period later is
-0.03 in the median (0.88 for the harmonic part). Its magnitudes are stretched, its phases stay.

Stretching the spectra is what vocal tract length normalisation of recognisers undoes; a map that is
straight in two pieces, to keep the band full, is usual there, the place of its bend is ours. One
speaker at two tract lengths is a simple model of two speakers, not two people: accent, timing and
intonation are shared (docs/voices.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audio.buffers import Float32

TRANSFORM_VERSION = "1"
"""Raised with every change of the samples that `transform` leads to; part of every cache key."""
BIN_HZ = 20.0
UNVOICED_HZ = 40.0
"""hibari's own threshold (`hibari.dsp.pulses`): frames at or below it have no pulses."""
BEND = 0.7
"""Of the band: beyond it, source or target, the map runs straight to the upper end."""

SEMITONES_RANGE = (-12.0, 6.0)
FORMANT_RANGE = (0.75, 1.25)
"""Ours: where speech still sounds like speech; `Shift` refuses what lies outside."""


@dataclass(frozen=True, slots=True)
class Frames:
    """What the network gives for one sentence of F frames.

    `harmonic`, `noise` and `free` are log magnitudes, `turn` and `phase` phases, all float32
    `(601, F)` from 0 to 12 kHz; `f0_hz` is float32 `(F,)`, at most `UNVOICED_HZ` where unvoiced.
    """

    harmonic: Float32
    turn: Float32
    noise: Float32
    free: Float32
    phase: Float32
    f0_hz: Float32


@dataclass(frozen=True, slots=True)
class Shift:
    """How a voice differs from the one it is made of: pitch in semitones, formants as a factor."""

    semitones: float
    formants: float

    def __post_init__(self) -> None:
        low, high = SEMITONES_RANGE
        if not low <= self.semitones <= high:
            raise ValueError(f"expected {low} to {high} semitones, got {self.semitones}")
        low, high = FORMANT_RANGE
        if not low <= self.formants <= high:
            raise ValueError(f"expected a formant factor of {low} to {high}, got {self.formants}")


def transform(frames: Frames, source: NDArray[np.complex64], shift: Shift) -> Frames:
    """The same sentence in another voice: as many frames, the same ones of them voiced.

    `source` `(601, F)` is the spectrum of the pulse train that belongs to `frames`.
    """
    ratio = 2.0 ** (shift.semitones / 12)
    voiced = frames.f0_hz > UNVOICED_HZ
    f0_hz = np.where(voiced, np.maximum(frames.f0_hz * ratio, UNVOICED_HZ + 1), frames.f0_hz)
    at = source_bins(frames.harmonic.shape[0], shift.formants)
    harmonic, turn = between_harmonics(frames, source)
    # A lower pitch has more harmonics in the same band, all of one size: the level is kept.
    level = np.float32(0.5 * np.log(ratio))
    return Frames(
        harmonic=_stretch(harmonic, at) + level,
        turn=_stretch(turn, at),
        noise=_stretch(frames.noise, at),
        free=_stretch(frames.free, at),
        phase=frames.phase,
        f0_hz=f0_hz.astype(np.float32),
    )


def between_harmonics(
    frames: Frames, source: NDArray[np.complex64]
) -> tuple[Float32, Float32]:
    """Harmonic filter and its phase, known at the harmonics of the pitch and straight between them.

    Between two harmonics the source has next to nothing, so what the network says there is of no
    weight and at places wild (some hundred times its neighbours); another pitch would sound it.
    The value at a harmonic is the power mean of the filter over the bins nearest to it, weighted
    by the source's power; below the first and above the last one it goes on level.
    """
    bins, count = frames.harmonic.shape
    voiced = np.flatnonzero(frames.f0_hz > UNVOICED_HZ)
    if not voiced.size:
        return frames.harmonic, frames.turn
    # A frame without a pitch of its own may overlap one that has: it takes its neighbours'.
    step = np.interp(np.arange(count), voiced, frames.f0_hz[voiced]) / BIN_HZ
    weight = (np.abs(source).astype(np.float64) ** 2).T + 1e-12
    filtered = weight * np.exp(2.0 * np.minimum(frames.harmonic.T.astype(np.float64), 7.0))
    harmonic = np.empty((count, bins))
    turn = np.empty((count, bins))
    every = np.arange(bins)
    for i in range(count):
        numbers = np.arange(1, max(2, int((bins - 1) / step[i]) + 1))
        starts = np.minimum(np.ceil((numbers - 0.5) * step[i]).astype(np.int64), bins - 1)
        mean = np.add.reduceat(filtered[i], starts) / np.add.reduceat(weight[i], starts)
        at = numbers * step[i]
        harmonic[i] = np.interp(every, at, 0.5 * np.log(mean))
        nearest = np.minimum(np.round(at).astype(np.int64), bins - 1)
        turn[i] = np.interp(every, at, frames.turn[nearest, i])
    return harmonic.T.astype(np.float32), turn.T.astype(np.float32)


def source_bins(bins: int, formants: float) -> NDArray[np.float64]:
    """Where each of `bins` bins of the new spectrum is read in the old one, `(bins,)`, in bins.

    Bin `k` is read at `k / formants` up to the bend; from there straight to the last bin, so that
    the band stays full.
    """
    last = bins - 1
    bend = BEND * last * min(1.0, formants)  # in the new spectrum; the other side is at most BEND
    return np.interp(np.arange(bins), [0.0, bend, last], [0.0, bend / formants, last])


def _stretch(spectrum: Float32, at: NDArray[np.float64]) -> Float32:
    """`spectrum` `(bins, F)` read at the fractional bins `at`, linear between neighbours."""
    low = np.minimum(at.astype(np.int64), spectrum.shape[0] - 2)
    share = (at - low).astype(np.float32)[:, None]
    out: Float32 = spectrum[low] * (1 - share) + spectrum[low + 1] * share
    return out
