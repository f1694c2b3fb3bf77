"""Array conventions and the PCM16 edge.

Arrays are float32 in [-1, 1], shape `(frames,)` for one channel or `(frames, channels)`.
PCM16 exists at wire and file edges only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]
Int16 = NDArray[np.int16]

PCM16_SCALE = 32768.0
"""Full scale of PCM16 as libsndfile uses it: int16 / 32768."""

SAMPLE_LIMIT = 100.0
"""Samples beyond this are refused before analysis: 40 dB over full scale is no recording, and PCM16
numbers taken for floats are. Far larger ones overflow inside the speech detector's network, which
then answers a plausible number. Ours."""


def float_to_pcm16(samples: Float32) -> Int16:
    """Float to PCM16: round to nearest even, saturate at the rails. Non-finite is refused."""
    if not np.isfinite(samples).all():
        raise ValueError("samples must be finite, got NaN or infinity")
    scaled = np.rint(samples.astype(np.float64) * PCM16_SCALE)
    return np.clip(scaled, -32768, 32767).astype(np.int16)


def pcm16_to_float(pcm: Int16) -> Float32:
    """PCM16 to float32: int16 / 32768, exact."""
    return (pcm.astype(np.float32) / np.float32(PCM16_SCALE)).astype(np.float32)
