"""Pitch and formants of speech, measured on samples alone: numpy, nothing of the rig's synthesis.

Definitions
-----------
- Pitch: in frames of 40 ms every 10 ms, the highest peak of the normalised autocorrelation at lags
  of 60 to 400 Hz, corrected for the window (Boersma, 1993); voiced where it reaches 0.6 and the
  frame lies within 30 dB of the loudest. A peak an octave lower must be 0.05 higher to win.
- Spectral envelope: linear prediction of order 14 (autocorrelation method) of the same frames at
  12 kHz, pre-emphasised; log power on a logarithmic frequency axis, 250 to 5000 Hz.
- Formant factor of a voice against another: of the same text with the same timing, the stretch of
  the frequency axis at which the envelopes of all frames that are voiced in both agree best
  (smallest squared difference, each frame's mean and slope taken out).
"""

from __future__ import annotations

import numpy as np
import soxr
from numpy.typing import NDArray

PITCH_RANGE_HZ = (60.0, 400.0)
VOICED_FROM = 0.6
QUIET_DB = 30.0
FRAME_S, HOP_S = 0.040, 0.010
LPC_RATE_HZ = 12_000
LPC_ORDER = 14
ENVELOPE_HZ = (250.0, 5000.0)
STEP = 0.005
"""Of the logarithmic frequency axis: half a per cent."""
FACTORS = np.exp(np.arange(-60, 61) * STEP)

Samples = NDArray[np.float32]


def _frames(samples: Samples, rate_hz: int) -> NDArray[np.float64]:
    size, hop = round(FRAME_S * rate_hz), round(HOP_S * rate_hz)
    view = np.lib.stride_tricks.sliding_window_view(samples.astype(np.float64), size)
    return view[::hop]


def pitch_hz(samples: Samples, rate_hz: int) -> NDArray[np.float64]:
    """Pitch of every frame; 0 where unvoiced."""
    frames = _frames(samples, rate_hz)
    frames = frames - frames.mean(axis=1, keepdims=True)
    power = (frames**2).mean(axis=1)
    size = frames.shape[1]
    window = np.hanning(size)
    padded = 1 << (2 * size - 1).bit_length()

    def correlate(x: NDArray[np.float64]) -> NDArray[np.float64]:
        r = np.fft.irfft(np.abs(np.fft.rfft(x, padded)) ** 2)[..., :size]
        return np.asarray(r / np.maximum(r[..., :1], 1e-20))

    low = int(rate_hz / PITCH_RANGE_HZ[1])
    high = min(size // 2 + size // 4, int(rate_hz / PITCH_RANGE_HZ[0]))
    r = (correlate(frames * window) / np.maximum(correlate(window), 1e-3))[:, :high + 2]
    lags = np.arange(low, high)
    peak = (r[:, lags] >= r[:, lags - 1]) & (r[:, lags] > r[:, lags + 1])
    score = np.where(peak, r[:, lags] - 0.05 * np.log2(lags / low), -1.0)
    best = lags[score.argmax(axis=1)]
    rows = np.arange(len(r))
    a, b, c = r[rows, best - 1], r[rows, best], r[rows, best + 1]
    curve = np.minimum(a - 2 * b + c, -1e-12)  # below zero at a peak
    exact = best + np.clip(0.5 * (a - c) / curve, -0.5, 0.5)
    voiced = (b >= VOICED_FROM) & (score.max(axis=1) > 0) & (
        power > power.max() * 10 ** (-QUIET_DB / 10))
    return np.where(voiced, rate_hz / exact, 0.0)


def median_pitch_hz(samples: Samples, rate_hz: int) -> float:
    """Median over voiced frames."""
    found = pitch_hz(samples, rate_hz)
    return float(np.median(found[found > 0]))


def envelopes(samples: Samples, rate_hz: int) -> NDArray[np.float64]:
    """Log power envelopes `(frames, points)` on the logarithmic axis, dB."""
    low = soxr.resample(samples.astype(np.float64), rate_hz, LPC_RATE_HZ)
    low = np.append(low[0], low[1:] - 0.95 * low[:-1])
    frames = _frames(low, LPC_RATE_HZ) * np.hanning(round(FRAME_S * LPC_RATE_HZ))
    size = 1 << (2 * frames.shape[1] - 1).bit_length()
    r = np.fft.irfft(np.abs(np.fft.rfft(frames, size)) ** 2)[:, :LPC_ORDER + 1]
    r[:, 0] = r[:, 0] * 1.0001 + 1e-12
    index = np.abs(np.arange(LPC_ORDER)[:, None] - np.arange(LPC_ORDER))
    a = np.linalg.solve(r[:, index], r[:, 1:, None])[..., 0]
    polynomial = np.concatenate((np.ones((len(a), 1)), -a), axis=1)
    points = np.exp(np.arange(np.log(ENVELOPE_HZ[0]), np.log(ENVELOPE_HZ[1]), STEP))
    spin = np.exp(-2j * np.pi * np.outer(np.arange(LPC_ORDER + 1), points) / LPC_RATE_HZ)
    return np.asarray(-20 * np.log10(np.abs(polynomial @ spin)))


def formant_factor(samples: Samples, reference: Samples, rate_hz: int) -> float:
    """How far the formants of `samples` lie above those of `reference`, 1.0 where they agree.

    Both say the same text with the same timing, sample by sample.
    """
    both = (pitch_hz(samples, rate_hz) > 0) & (pitch_hz(reference, rate_hz) > 0)
    new, old = envelopes(samples, rate_hz), envelopes(reference, rate_hz)
    count = min(len(both), len(new), len(old))
    keep = np.flatnonzero(both[:count])
    new, old = new[keep], old[keep]
    errors = []
    for steps in range(-60, 61):
        # a factor above 1 moves the envelope to the right by so many steps
        a = new[:, max(0, steps):new.shape[1] + min(0, steps)]
        b = old[:, max(0, -steps):old.shape[1] + min(0, -steps)]
        line = np.polynomial.polynomial.polyvander(np.linspace(-1, 1, a.shape[1]), 1)
        basis, _ = np.linalg.qr(line)
        difference = a - b
        difference = difference - difference @ basis @ basis.T
        errors.append(float(np.mean(np.minimum(difference**2, 400.0))))
    at = int(np.clip(np.argmin(errors), 1, len(errors) - 2))
    a0, b0, c0 = errors[at - 1:at + 2]
    shift = 0.5 * (a0 - c0) / (a0 - 2 * b0 + c0) if a0 - 2 * b0 + c0 > 0 else 0.0
    return float(np.exp((at - 60 + shift) * STEP))
