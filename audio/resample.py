"""Sample-rate conversion on the time axis of the recording: nothing is moved, nothing is lost.

Engine: soxr (libsoxr), linear phase, quality `VHQ` by default. Why `VHQ`:

- It computes in double precision and rounds once to float32. Its error on a tone lies at the
  float32 rounding floor (152 to 158 dB below the tone, against 130 to 137 dB for `HQ`, measured at
  24/16/8/48/44.1 kHz), so different processors give the same PCM16 far more surely, and rendered
  speech keeps its hash. `HQ` computes in float32.
- The price is time that an offline tool does not miss: about 2400 to 8000 times faster than real
  time on one core, `HQ` twice that.
- `HQ` has the same pass band and holds fewer samples back. It is for live detection alone.

Guarantees, each with a test:

- Output sample `k` belongs to the instant `k / to_hz`, as input sample `j` belongs to
  `j / from_hz`: the delay of the filter is compensated.
- Output length is `convert_n(frames, from_hz, to_hz)`.
- Pushed in any chunks or whole, the result is bit for bit the same; so is a channel on its own or
  among others.
- The signal is taken as zero before its first and after its last sample. The filter rings: within
  about 20 ms of a hard edge exact silence becomes very small numbers. Whoever needs exact silence
  inserts it after resampling.

What a stream holds back (input time, worst case after a push of 20 ms, measured with soxr 1.1.0;
it works in blocks, so the value moves between about 6 ms and this):

    from_hz  to_hz   VHQ ms   HQ ms
     24000   16000     77       37
     16000   24000     77       37
     48000   16000     77       37
     44100   16000     84       40
      8000   16000    112      116
     24000    8000    153       73
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import soxr

from audio.buffers import Float32
from audio.errors import InputError
from audio.timebase import convert_n

Quality = Literal["VHQ", "HQ"]

RATE_MIN_HZ = 1_000
"""Our bound: an eighth of the lowest rate that telephony uses (8000 Hz)."""
RATE_MAX_HZ = 768_000
"""Our bound: the highest rate that audio converters are sold for. Both bounds keep a hostile
header from asking for a conversion that fills the memory."""
CHANNELS_MAX = 1_024
"""libsndfile's own limit on the channels of a file."""

_BLOCK_N = 1 << 18
"""Longest piece handed to soxr in one call, so that a long push needs no second copy of itself."""


def resample(
    samples: Float32, from_hz: int, to_hz: int, *, quality: Quality = "VHQ"
) -> Float32:
    """Convert a whole signal.

    Args:
        samples: float `(frames,)` or `(frames, channels)`, finite; may be empty.
        from_hz: rate of `samples`, Hz, RATE_MIN_HZ to RATE_MAX_HZ.
        to_hz: rate wanted, Hz, same range. Equal rates give a copy.
        quality: see the module's head.

    Returns:
        float32 of the same number of dimensions, `convert_n(frames, from_hz, to_hz)` frames long.

    Raises:
        InputError: a rate outside the range, samples that are not finite floats of that shape.
    """
    array = np.asarray(samples)
    if array.ndim not in (1, 2):
        raise InputError.expected(
            "samples of shape (frames,) or (frames, channels)", got=array.shape, where="resample"
        )
    channels = 1 if array.ndim == 1 else array.shape[1]
    stream = StreamResampler(from_hz, to_hz, channels, quality=quality)
    flat = array[:, 0] if array.ndim == 2 and channels == 1 else array
    head = stream.push(flat)
    whole = np.concatenate((head, stream.flush()))
    return whole.reshape(-1, 1) if array.ndim == 2 and channels == 1 else whole


class StreamResampler:
    """Convert a signal that arrives piece by piece. Single use: after `flush` it takes no more.

    With `channels` = 1 pieces have shape `(frames,)`, otherwise `(frames, channels)`. The pieces
    that come back, joined, are exactly `resample` of the joined input.
    """

    def __init__(
        self, from_hz: int, to_hz: int, channels: int = 1, *, quality: Quality = "VHQ"
    ) -> None:
        """Raises `InputError` for rates, a channel count or a quality outside their range."""
        _check_rate("from_hz", from_hz)
        _check_rate("to_hz", to_hz)
        if not _is_int(channels) or not 1 <= channels <= CHANNELS_MAX:
            raise InputError.expected(
                f"1 to {CHANNELS_MAX} channels", got=repr(channels), where="StreamResampler"
            )
        if quality not in ("VHQ", "HQ"):
            raise InputError.expected(
                "quality VHQ or HQ", got=repr(quality), where="StreamResampler"
            )
        self.from_hz = int(from_hz)
        self.to_hz = int(to_hz)
        self.channels = int(channels)
        self._pushed_n = 0
        self._given_n = 0
        self._flushed = False
        self._soxr = (
            None
            if self.from_hz == self.to_hz
            else soxr.ResampleStream(
                self.from_hz, self.to_hz, self.channels, dtype="float32", quality=quality
            )
        )

    @property
    def held_n(self) -> int:
        """Input samples taken whose instant the output has not reached yet; 0 after `flush`."""
        if self._flushed:
            return 0
        return self._pushed_n - self._given_n * self.from_hz // self.to_hz

    def push(self, samples: Float32) -> Float32:
        """Take the next piece and give whatever output is ready, often nothing.

        Raises `InputError` when the samples are not finite floats of the stream's shape (the
        position is counted from the start of the stream), or after `flush`.
        """
        if self._flushed:
            raise InputError.expected(
                "a stream that is still open", got="push after flush", where="StreamResampler"
            )
        piece = self._checked(samples)
        parts = [
            self._convert(piece[at : at + _BLOCK_N]) for at in range(0, len(piece), _BLOCK_N)
        ]
        self._pushed_n += len(piece)
        out = np.concatenate(parts) if parts else piece.copy()
        self._given_n += len(out)
        return out

    def flush(self) -> Float32:
        """Give the rest, so that the whole output has `convert_n(pushed, from_hz, to_hz)` frames.

        Raises `InputError` on a second call.
        """
        if self._flushed:
            raise InputError.expected(
                "one flush a stream", got="a second one", where="StreamResampler"
            )
        self._flushed = True
        missing_n = convert_n(self._pushed_n, self.from_hz, self.to_hz) - self._given_n
        # libsoxr multiplies by an inexact ratio and so may round a half frame down where the time
        # base rounds it up. A few zeros more, which the filter supposes anyway, settle the length.
        pad_n = 2 + self.from_hz // self.to_hz
        tail = self._convert(self._zeros(pad_n), last=True)
        if self._soxr is None:
            tail = tail[:0]
        if not 0 <= missing_n <= len(tail):
            raise AssertionError(f"soxr gave {len(tail)} closing frames, {missing_n} are needed")
        self._given_n += missing_n
        return tail[:missing_n].copy()

    def _convert(self, piece: Float32, *, last: bool = False) -> Float32:
        if self._soxr is None:
            return piece.copy()
        out: Float32 = self._soxr.resample_chunk(np.ascontiguousarray(piece), last=last)
        return out

    def _zeros(self, frames: int) -> Float32:
        shape = (frames,) if self.channels == 1 else (frames, self.channels)
        return np.zeros(shape, dtype=np.float32)

    def _checked(self, samples: Float32) -> Float32:
        array = np.asarray(samples)
        fits = array.ndim == 1 if self.channels == 1 else (
            array.ndim == 2 and array.shape[1] == self.channels
        )
        if not fits:
            wanted = "(frames,)" if self.channels == 1 else f"(frames, {self.channels})"
            raise InputError.expected(
                f"samples of shape {wanted}", got=array.shape, where="StreamResampler"
            )
        # Integers are refused: int16 taken for floats would be 32768 times too loud.
        if array.dtype not in (np.float32, np.float64):
            raise InputError.expected(
                "float32 or float64 samples", got=array.dtype, where="StreamResampler"
            )
        with np.errstate(over="ignore"):
            piece: Float32 = array.astype(np.float32, copy=False)
        bad = ~np.isfinite(piece)
        if bad.any():
            at = int(np.argmax(bad.reshape(len(piece), -1).any(axis=1)))
            raise InputError.expected(
                "finite samples",
                got=f"{piece[at]} at sample {self._pushed_n + at}",
                where="StreamResampler",
            )
        return piece


def _is_int(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _check_rate(name: str, rate_hz: int) -> None:
    if not _is_int(rate_hz) or not RATE_MIN_HZ <= rate_hz <= RATE_MAX_HZ:
        raise InputError.expected(
            f"{name} as a whole number of {RATE_MIN_HZ} to {RATE_MAX_HZ} Hz",
            got=repr(rate_hz),
            where="resample",
        )
