"""How much of one channel is heard on another: gain and delay of the leak, from the signals alone.

Definition: the linear path `h` from the source channel to the other is estimated by weighted least
squares over blocks of half a second, `H(f) = sum w Y(f) X*(f) / sum w |X(f)|^2`, on 8 kHz signals;
`w` is one over the block's power on the receiving channel, so that the blocks count most in which
little else is heard there. Speech of the other side is independent of the source and averages out.
The leak is the largest tap of `h` within the lags looked at; its gain is that of the taps within
16 ms of it for the source's own spectrum, less what the estimate shows elsewhere (the median of 15
other places).

One block in which the receiver holds next to nothing but the last instants of a word outweighs all
others, and its chance likeness to the source then looks like a path. So the blocks are taken in two
halves, every other one in each, and a leak is one only if both show it at the same lag.

Limits: one path that does not change over the call. A leak through a speech codec keeps its delay
but loses coherence, so its gain is too small; `PEAK_OVER_NOISE` decides what is a leak at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audio.buffers import Float32

RATE_HZ = 8_000
_BLOCK_N = 4_096
_EARLY_N = 800
"""Lags from -0.1 s: a leak cannot come first, but channels may be offset."""
_LATE_N = 4_000
"""Up to 0.5 s: the longest one-way delay that ITU-T G.114 has is 0.4 s."""
_AROUND_N = _EARLY_N + _BLOCK_N + _LATE_N
_FFT_N = 9_000
"""At least `_AROUND_N`, of small factors: in less the latest lags wrap around, and a leak 0.49 s
late is found 2 dB too weak."""
_NEAR_N = 128
PEAK_OVER_NOISE = 20.0
"""How far the largest tap must stand above the median one. Ours: 4,800 taps of noise alone, and two
sides of made and real calls without a leak, reach about 6; leaks of -40 and -50 dB in calls of half
a minute and more 100 to 800."""
HALF_OVER_NOISE = 10.0
"""The same for the tap of each half at that lag. Ours: of 240 made calls in which two words end
together without a leak, 160 pass `PEAK_OVER_NOISE` and one this; leaks of -10 to -50 dB in calls of
16 s and more give both halves 50 and more, in line noise of -50 dB 10 to 400."""
_SAME_LAG_N = 4
"""0.5 ms: how far the largest tap moves with the spectrum of what is said."""
_HALVES = 2
_LEAST_GAIN = 1e-9
"""-90 dB: under the steps of 16-bit sound, where a path is an artefact of the arithmetic."""
_LEAST_PART = 1e-3
"""Blocks 30 dB under the loudest so far hold no speech of that side."""
SEGMENTS = 4
"""The call is also looked at in quarters: a delay that moves is a clock that drifts."""


@dataclass(frozen=True, slots=True)
class Leak:
    """A path from one channel to another.

    gain_db: level of the leak relative to its source. lag_s: how much later it comes.
    peak_over_noise: largest over median tap. lags_s: the delay in each quarter of
    the call, `None` where nothing is found in it.
    """

    gain_db: float
    lag_s: float
    peak_over_noise: float
    lags_s: tuple[float | None, ...]


class LeakEstimator:
    """Takes two channels piece by piece; memory does not grow with the length."""

    def __init__(self, total_n: int) -> None:
        """`total_n`: samples at 16 kHz that will come."""
        self._blocks_n = max(1, -(-(total_n // 2) // _BLOCK_N))
        self._held = np.zeros((2, _EARLY_N), np.float32)
        self._at = 0
        bins = _FFT_N // 2 + 1
        self._loudest = np.zeros(2)
        # [from channel][segment][half]: cross spectrum with the other one, power of the source.
        self._cross = np.zeros((2, SEGMENTS, _HALVES, bins), np.complex128)
        self._power = np.zeros((2, SEGMENTS, _HALVES, bins), np.float64)
        self._heard_n = [0, 0]

    def push(self, first: Float32, second: Float32) -> None:
        """Equally many samples of both channels at 16 kHz, an even number of them."""
        # The mean of two samples is filter enough: what folds back is weak and hits both alike.
        both = np.stack([first, second])
        pair = (both[:, ::2] + both[:, 1::2]) / np.float32(2)
        held = np.concatenate([self._held, pair], axis=1)
        at = 0
        while at + _AROUND_N <= held.shape[1]:
            self._block(held[:, at : at + _AROUND_N])
            at += _BLOCK_N
        self._held = held[:, at:].copy()

    def flush(self) -> None:
        """The channels have ended."""
        missing = _AROUND_N - self._held.shape[1]
        self._block(np.pad(self._held, ((0, 0), (0, missing))))

    def _block(self, around: Float32) -> None:
        segment = min(SEGMENTS - 1, self._at * SEGMENTS // self._blocks_n)
        self._at += 1
        source = around[:, _EARLY_N : _EARLY_N + _BLOCK_N]
        sounding = np.einsum("ij,ij->i", source, source) / _BLOCK_N
        heard = np.einsum("ij,ij->i", around, around) / around.shape[1]
        self._loudest = np.maximum(self._loudest, sounding)
        for here in (0, 1):
            # A side that does not speak shows nothing of its path.
            if sounding[here] <= _LEAST_PART * self._loudest[here]:
                continue
            there = 1 - here
            half = self._heard_n[here] % _HALVES
            self._heard_n[here] += 1
            weight = 1.0 / (float(heard[there]) + 1e-9)
            spectrum = np.fft.rfft(source[here], _FFT_N)
            # The receiving side from _EARLY_N before the block: the lag axis begins there.
            self._cross[here, segment, half] += weight * (
                np.fft.rfft(around[there], _FFT_N) * np.conj(spectrum))
            self._power[here, segment, half] += weight * (
                np.square(spectrum.real) + np.square(spectrum.imag))

    def leak(self, source: int) -> Leak | None:
        """The path from channel `source` (0 or 1) to the other; `None` where none is found."""
        cross, power = self._cross[source], self._power[source]
        whole_power = power.sum(axis=(0, 1))
        path = _path(cross.sum(axis=(0, 1)), whole_power)
        if path is None:
            return None
        peak, noise, at = _largest(path)
        # The gain costs most: it is worked out where there is something to have one.
        if noise == 0.0 or peak < PEAK_OVER_NOISE * noise:
            return None
        gain = _gain(path, whole_power, at)
        if gain < _LEAST_GAIN:
            return None
        for half in range(_HALVES):
            taps = _taps(cross[:, half].sum(axis=0), power[:, half].sum(axis=0))
            near = taps[max(0, at - _SAME_LAG_N) : at + _SAME_LAG_N + 1]
            if near.max() <= HALF_OVER_NOISE * float(np.median(taps)):
                return None
        lags: list[float | None] = []
        for segment in range(SEGMENTS):
            part = _path(cross[segment].sum(axis=0), power[segment].sum(axis=0))
            top, middle, place = (0.0, 0.0, 0) if part is None else _largest(part)
            found = middle > 0 and top >= PEAK_OVER_NOISE * middle
            lags.append((place - _EARLY_N) / RATE_HZ if found else None)
        return Leak(10 * float(np.log10(gain)), (at - _EARLY_N) / RATE_HZ, peak / noise,
                    tuple(lags))


def _taps(cross: NDArray[np.complex128], power: NDArray[np.float64]) -> NDArray[np.float64]:
    """Size of every tap of the path; zeros where the source has no power."""
    top = float(power.max())
    return np.abs(_response(cross, power, top)) if top else np.zeros(_EARLY_N + _LATE_N)


def _response(cross: NDArray[np.complex128], power: NDArray[np.float64],
              top: float) -> NDArray[np.float64]:
    # Bands that the source never fills would be noise divided by nothing.
    return np.fft.irfft(cross / (power + 1e-3 * top), _FFT_N)[: _EARLY_N + _LATE_N]


def _path(
    cross: NDArray[np.complex128], power: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """The taps of the path; `None` where the source has no power."""
    top = float(power.max())
    return _response(cross, power, top) if top else None


def _largest(path: NDArray[np.float64]) -> tuple[float, float, int]:
    """Largest tap, median tap, place of the largest."""
    taps = np.abs(path)
    at = int(np.argmax(taps))
    return float(taps[at]), float(np.median(taps)), at


def _gain(path: NDArray[np.float64], power: NDArray[np.float64], at: int) -> float:
    """Power gain of the taps around one, less what other places show."""
    # Weighted by the source's own spectrum: taps alone would miss what empty bands do not show.
    windows = [path[max(0, k - _NEAR_N) : k + _NEAR_N + 1]
               for k in (at, *range(_NEAR_N, len(path) - _NEAR_N, len(path) // 16))]
    response = np.square(np.abs(np.fft.rfft(np.stack([np.pad(w, (0, 2 * _NEAR_N + 1 - len(w)))
                                                      for w in windows]), _FFT_N, axis=1)))
    gains = (response * power).sum(axis=1) / power.sum()
    return float(gains[0] - np.median(gains[1:]))
