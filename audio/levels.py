"""How loud a channel is, and whether it was cut off at full scale."""

from __future__ import annotations

import numpy as np

from audio.buffers import Float32
from audio.timebase import FRAME_NS, ns_to_n

FULL_SCALE = 32767 / 32768
"""The largest PCM16 sample."""
CLIPPED_RUN_N = 4
"""Samples at full scale in a row: one alone may be a peak that just fits. Ours."""


def loudest_frame_dbfs(samples: Float32, rate_hz: int) -> float | None:
    """Level of the loudest 20 ms, in dB relative to a full-scale square wave; `None` for digital
    silence and for less than 20 ms."""
    frame_n = ns_to_n(FRAME_NS, rate_hz)
    whole = samples[: len(samples) // frame_n * frame_n].reshape(-1, frame_n)
    power = float(np.square(whole, dtype=np.float64).mean(axis=1).max(initial=0.0))
    return None if power == 0.0 else 10 * float(np.log10(power))


def is_clipped(samples: Float32) -> bool:
    """Whether `CLIPPED_RUN_N` samples in a row stand at full scale, on the same side."""
    for side in (samples >= FULL_SCALE, samples <= -FULL_SCALE):
        if side.any():
            change = np.diff(np.concatenate(([False], side, [False])).astype(np.int8))
            ends = np.flatnonzero(change)
            if int((ends[1::2] - ends[::2]).max()) >= CLIPPED_RUN_N:
                return True
    return False
