"""Sounds that are loud and no speech: single tones, DTMF, ringback, hold music.

A frame is 512 samples at 16 kHz, the detector's own. A frame is tonal when its two strongest
spectral peaks (with the lobe of the Hann window around each) hold nearly all power: one or two
tones. It is harmonic when its eight strongest do: chords, but also vowels, which is why only frames
are looked at that the speech detector rejects.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from audio.buffers import Float32
from audio.silero_graph import FRAME_N

_LOBE = 2
"""Bins of 31.25 Hz on each side: the main lobe of a Hann window."""
_LOWEST = 3
"""Below 94 Hz is hum, not signal of a telephone line."""
_WINDOW = np.hanning(FRAME_N).astype(np.float32)


def peak_shares(frames: Float32) -> tuple[Float32, Float32, NDArray[np.int16]]:
    """Share of the power in the two and in the eight strongest peaks, and the strongest bin.

    frames: float32 `(n, 512)`. Silent frames have shares of 0.
    """
    count = len(frames)
    power = np.square(np.abs(np.fft.rfft(frames * _WINDOW, axis=1))).astype(np.float32)
    power[:, :_LOWEST] = 0.0
    total = power.sum(axis=1)
    rows = np.arange(count)
    left, two = power.copy(), np.zeros(count, np.float32)
    strongest = left.argmax(axis=1).astype(np.int16)
    taken = np.zeros(count, np.float32)
    for peak in range(8):
        at = left.argmax(axis=1)
        for step in range(-_LOBE, _LOBE + 1):
            bins = np.clip(at + step, 0, power.shape[1] - 1)
            taken += left[rows, bins]
            left[rows, bins] = 0.0
        if peak == 1:
            two = taken.copy()
    safe = np.where(total > 0, total, 1.0)
    return (two / safe).astype(np.float32), (taken / safe).astype(np.float32), strongest
