"""What a timeline draws of sound: the least and greatest sample of every stretch, at 8 bits.

Samples are taken in pieces, so that a recording of hours costs no more memory than one of seconds.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audio.buffers import PCM16_SCALE, Float32, Int16

PER_S = 100
"""Stretches a second: 10 ms, a third of the detector's frame. Ours."""
MOST = 60_000
"""Stretches of one recording; ten minutes at `PER_S`, longer recordings are drawn coarser. Ours."""


def bucket_n(frames_n: int, rate_hz: int) -> int:
    """Samples of one stretch of a recording of `frames_n` samples."""
    return max(1, rate_hz // PER_S, -(-frames_n // MOST))


def waves(pieces: Iterable[Float32 | Int16], channels: int, rate_hz: int,
          n: int) -> list[dict[str, Any]]:
    """One wave a channel, for `timeline.js`, of pieces `(frames, channels)`, float or PCM16.

    `rate_hz`: stretches a second. `peaks`: base64 of int8, least and greatest sample in turn, on
    a full scale of 1; what lies beyond is at the edge. `loudest`: the greatest magnitude.
    """
    lows: list[NDArray[np.int8]] = []
    highs: list[NDArray[np.int8]] = []
    loudest = np.zeros(channels)
    rest: Float32 | Int16 | None = None

    def reduce(block: Float32 | Int16) -> None:
        # One channel after the other: where its samples are neighbours this is ten times as fast.
        each = [np.ascontiguousarray(block[:, c]).reshape(-1, n) for c in range(channels)]
        full_scale = 1 / PCM16_SCALE if block.dtype == np.int16 else 1.0
        low = np.stack([e.min(axis=1) for e in each], axis=1) * full_scale
        high = np.stack([e.max(axis=1) for e in each], axis=1) * full_scale
        np.maximum(loudest, np.maximum(-low.min(axis=0), high.max(axis=0)), out=loudest)
        # Away from zero: a stretch that is not silent is never drawn as silence.
        lows.append(np.floor(np.clip(low, -1, 1) * 127).astype(np.int8))
        highs.append(np.ceil(np.clip(high, -1, 1) * 127).astype(np.int8))

    for piece in pieces:
        samples = piece if rest is None else np.concatenate([rest, piece])
        whole = len(samples) // n * n
        if whole:
            reduce(samples[:whole])
        rest = samples[whole:].copy() if whole < len(samples) else None
    if rest is not None:
        # What is missing of the last stretch is its last sample again: it moves no extreme.
        reduce(np.concatenate([rest, np.repeat(rest[-1:], n - len(rest), axis=0)]))
    low = np.concatenate(lows) if lows else np.zeros((0, channels), dtype=np.int8)
    high = np.concatenate(highs) if highs else np.zeros((0, channels), dtype=np.int8)
    return [{"rate_hz": rate_hz / n, "loudest": float(loudest[c]),
             "peaks": _base64(np.stack((low[:, c], high[:, c]), axis=1))}
            for c in range(channels)]


def curve(values: Float32, rate_hz: float) -> dict[str, Any]:
    """Values in [0, 1] in 255 steps, for `timeline.js`: base64 of uint8, `rate_hz` a second.

    Of more than `MOST` values the greatest of each stretch is kept.
    """
    step = -(-max(1, len(values)) // MOST)
    if step > 1:
        padded = np.pad(values, (0, -len(values) % step), mode="edge")
        values = padded.reshape(-1, step).max(axis=1)
    return {"rate_hz": rate_hz / step,
            "values": _base64(np.rint(np.clip(values, 0, 1) * 255).astype(np.uint8))}


def _base64(values: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")
