"""From any signal to what the detector is given: one channel, 16 kHz, offset removed."""

from __future__ import annotations

import numpy as np

from audio.buffers import Float32
from audio.errors import InputError
from audio.resample import resample
from audio.timebase import ANALYSIS_RATE_HZ


def analysis_samples(samples: Float32, rate_hz: int) -> Float32:
    """The in-memory twin of `audio.files.read_analysis_channel`, and sample for sample equal to it.

    `samples`: float32 `(frames,)`. The mean is taken over the whole channel at its own rate and
    subtracted before resampling. Raises `InputError` for other shapes and non-finite samples.
    """
    if samples.ndim != 1:
        raise InputError.expected("one channel, shape (frames,)", got=samples.shape,
                                  where="analysis_samples")
    mean = float(samples.sum(dtype=np.float64)) / len(samples) if len(samples) else 0.0
    centred = (samples.astype(np.float64) - mean).astype(np.float32)
    return resample(centred, rate_hz, ANALYSIS_RATE_HZ)
