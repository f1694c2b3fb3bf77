"""What conditions do to samples that no other module knows: a gain, noise, echo, dither.

A stream takes samples and gives as many, whatever the pieces. The telephone line is in
`audio.narrowband`, packets are in `audio.packets`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

from audio.buffers import PCM16_SCALE, Float32
from audio.noise import generator

Heard = Callable[[int, int], Float32]
"""`heard(start_n, n)`: the system's own audio as heard, at the rate of the chain, from the instant
`start_n` of the session on; zeros where nothing is heard, also before the session."""


class Stream(Protocol):
    """Samples in, as many out, `delay_n` later."""

    delay_n: int

    def push(self, samples: Float32) -> Float32: ...


class GainStream:
    """One gain."""

    delay_n = 0

    def __init__(self, gain_db: float) -> None:
        self.gain_db = gain_db
        self._gain = np.float32(10 ** (gain_db / 20))

    def push(self, samples: Float32) -> Float32:
        return np.asarray(samples * self._gain, dtype=np.float32)


class Adding:
    """Adds something and keeps account of its power."""

    delay_n = 0

    def __init__(self) -> None:
        self._energy = 0.0
        self._n = 0

    @property
    def added_dbov(self) -> float | None:
        """Mean power of what was added so far."""
        return 10 * math.log10(self._energy / self._n) if self._energy else None

    def _plus(self, samples: Float32, added: Float32) -> Float32:
        self._energy += float(np.square(added, dtype=np.float64).sum())
        self._n += len(added)
        return np.asarray(samples + added, dtype=np.float32)


class NoiseStream(Adding):
    """A loop of mean power 1, brought to a level, from a random place on."""

    def __init__(self, loop: Float32, level_dbov: float, rng: np.random.Generator) -> None:
        super().__init__()
        self._loop = loop * np.float32(10 ** (level_dbov / 20))
        self._at = int(rng.integers(0, len(loop)))

    def push(self, samples: Float32) -> Float32:
        where = np.arange(self._at, self._at + len(samples)) % len(self._loop)
        self._at = (self._at + len(samples)) % len(self._loop)
        return self._plus(samples, self._loop[where])


class EchoStream(Adding):
    """What was heard `delay` ago, at a gain."""

    def __init__(self, heard: Heard | None, echo_n: int, gain_db: float) -> None:
        super().__init__()
        self._heard = heard
        self._gain = np.float32(10 ** (gain_db / 20))
        self._next_n = -echo_n

    def push(self, samples: Float32) -> Float32:
        if self._heard is None:
            return samples
        heard = self._heard(self._next_n, len(samples))
        self._next_n += len(samples)
        return self._plus(samples, heard * self._gain)


class DitherStream:
    """Triangular noise of two uniform ones, at most one LSB of PCM16 either way: it makes the error
    of rounding free of the signal (Lipshitz, Wannamaker, Vanderkooy, JAES 40, 1992)."""

    delay_n = 0

    def __init__(self, seed: int) -> None:
        self._rng = generator(seed)

    def push(self, samples: Float32) -> Float32:
        two = self._rng.random((len(samples), 2)).sum(axis=1) - 1.0
        return np.asarray(samples + two / PCM16_SCALE, dtype=np.float32)
