"""Signals whose edges are known: bursts of noise between silences, at 16 kHz."""

from __future__ import annotations

import numpy as np

from audio.buffers import Float32

RATE_HZ = 16_000
MS = RATE_HZ // 1000


def burst(ms: float, level_db: float = -20.0, seed: int = 1) -> Float32:
    """White noise of that mean power, as a stand-in for speech."""
    random = np.random.default_rng(seed).standard_normal(round(ms * MS))
    return (10 ** (level_db / 20) * random).astype(np.float32)


def signal(*parts: Float32 | float) -> Float32:
    """Numbers are milliseconds of silence."""
    return np.concatenate([p if isinstance(p, np.ndarray) else np.zeros(round(p * MS), np.float32)
                           for p in parts])
