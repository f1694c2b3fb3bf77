"""Whether the two channels of a recording are one signal, whatever the level and the sign."""

from __future__ import annotations

import numpy as np

from audio.buffers import Float32

IDENTICAL_CORRELATION = 0.98
"""livekit/agents#4462 (reference/field_problems, row 22): |correlation| above it at lag 0."""


class OneSignal:
    """The correlation at lag 0 of two channels that come in pieces, both without their mean."""

    def __init__(self) -> None:
        self._n = 0
        self._sums = np.zeros(2)
        self._products = np.zeros((2, 2))

    def push(self, first: Float32, second: Float32) -> None:
        """Take the next samples of both, finite, `(frames,)`."""
        both = np.stack((first, second)).astype(np.float64)
        self._n += len(first)
        self._sums += both.sum(axis=1)
        self._products += both @ both.T

    @property
    def correlation(self) -> float | None:
        """-1 to 1; `None` where a channel holds one value alone, as in digital silence."""
        if self._n == 0:
            return None
        around = self._products - np.outer(self._sums, self._sums) / self._n
        # What rounding leaves of a constant is no signal.
        if (around.diagonal() <= 1e-9 * self._products.diagonal()).any():
            return None
        return float(around[0, 1] / np.sqrt(around[0, 0] * around[1, 1]))

    @property
    def found(self) -> bool:
        """Whether they are one signal."""
        correlation = self.correlation
        return correlation is not None and abs(correlation) > IDENTICAL_CORRELATION
