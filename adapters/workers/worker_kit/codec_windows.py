"""A codec that is not made for streaming, used on a stream: windows with context.

A neural codec encodes and decodes a whole recording: each frame depends on its neighbours. On a
stream each frame is encoded together with so many frames before it (and, where one waits for them,
after it), and its codes alone are kept; each frame of codes is decoded behind so many earlier ones,
and the end of what comes out is kept. With as much context as the codec looks at, every kept
frame is that of the whole recording; with less it is not. Standard library and numpy alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .protocol import Float32

Codes = NDArray[np.int64]
Encode = Callable[[Float32], Codes]
"""`(frames * frame_n,)` samples to `(codebooks, frames)`."""
Decode = Callable[[Codes], Float32]
"""`(codebooks, frames)` to `(frames * frame_n,)` samples."""


class EncodingWindow:
    """Audio in, in pieces of any length; codes out, a column for every frame of it.

    `context_frames` are given to the codec before a frame, where there have been so many.
    `lookahead_frames` are waited for after it: they make the codes those of the whole recording
    where the codec looks ahead, and each of them is a frame of latency.
    """

    def __init__(self, encode: Encode, codebooks: int, frame_n: int, context_frames: int,
                 lookahead_frames: int = 0) -> None:
        self._encode, self._codebooks, self._frame_n = encode, codebooks, frame_n
        self._context, self._lookahead = context_frames, lookahead_frames
        self._heard = np.zeros(0, np.float32)
        self._past_frames = 0
        """Of what is kept: those whose codes have been given."""

    def push(self, samples: Float32) -> Codes:
        """Codes `(codebooks, k)` of the k frames that can be encoded now; k may be 0."""
        self._heard = np.concatenate([self._heard, samples])
        given = [self._next() for _ in range(self._ready())]
        return (np.concatenate(given, axis=1) if given
                else np.zeros((self._codebooks, 0), np.int64))

    def _ready(self) -> int:
        whole = len(self._heard) // self._frame_n
        return max(0, whole - self._past_frames - self._lookahead)

    def _next(self) -> Codes:
        frames = self._past_frames + 1 + self._lookahead
        codes = np.asarray(self._encode(self._heard[: frames * self._frame_n]), np.int64)
        if codes.shape != (self._codebooks, frames):
            raise RuntimeError(f"the codec gave codes of shape {codes.shape}, expected "
                               f"{(self._codebooks, frames)}")
        column = codes[:, self._past_frames : self._past_frames + 1]
        self._past_frames += 1
        if (too_many := self._past_frames - self._context) > 0:
            self._heard = self._heard[too_many * self._frame_n :]
            self._past_frames -= too_many
        return column


class DecodingWindow:
    """Columns of codes in, so many at a time as there are; their audio out, at once.

    `context_frames` are decoded again before each, where there have been so many.
    """

    def __init__(self, decode: Decode, codebooks: int, frame_n: int, context_frames: int) -> None:
        self._decode, self._frame_n, self._context = decode, frame_n, context_frames
        self._past = np.zeros((codebooks, 0), np.int64)

    def push(self, codes: Codes) -> Float32:
        """`(codebooks, k)` to `(k * frame_n,)` samples."""
        k = codes.shape[1]
        if k == 0:
            return np.zeros(0, np.float32)
        window = np.concatenate([self._past, codes], axis=1)
        audio = np.asarray(self._decode(window), np.float32)
        if audio.shape != (window.shape[1] * self._frame_n,):
            raise RuntimeError(f"the codec gave audio of shape {audio.shape}, expected "
                               f"{(window.shape[1] * self._frame_n,)}")
        self._past = window[:, max(0, window.shape[1] - self._context) :]
        return audio[-k * self._frame_n :]
