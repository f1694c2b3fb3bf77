"""How loud a channel is, and whether it was cut off at full scale."""

from __future__ import annotations

import numpy as np

from audio.buffers import Float32
from audio.timebase import FRAME_NS, ns_to_n

FULL_SCALE = 32767 / 32768
"""The largest PCM16 sample."""
_FULL_SCALES = {"ULAW": 32124 / 32768, "ALAW": 32256 / 32768, "PCM_U8": 127 / 128,
                "PCM_S8": 127 / 128}
"""The largest value of the two laws (ITU-T G.711) and of 8 bit, by libsndfile's name."""
CLIPPED_RUN_N = 4
"""Samples at full scale in a row: one alone may be a peak that just fits. Ours."""


def full_scale(subtype: str) -> float:
    """The largest sample of an encoding (`AudioInfo.subtype`); floats are taken as PCM16."""
    return _FULL_SCALES.get(subtype, FULL_SCALE)


def loudest_frame_dbfs(samples: Float32, rate_hz: int) -> float | None:
    """Level of the loudest 20 ms, in dB relative to a full-scale square wave; `None` for digital
    silence and for less than 20 ms."""
    return _dbfs(_loudest_power(samples, ns_to_n(FRAME_NS, rate_hz)))


def is_clipped(samples: Float32, top: float = FULL_SCALE) -> bool:
    """Whether `CLIPPED_RUN_N` samples in a row stand at full scale, on the same side."""
    for side in (samples >= top, samples <= -top):
        if side.any():
            change = np.diff(np.concatenate(([False], side, [False])).astype(np.int8))
            ends = np.flatnonzero(change)
            if int((ends[1::2] - ends[::2]).max()) >= CLIPPED_RUN_N:
                return True
    return False


class LevelMeter:
    """Both of a channel that comes in pieces: the same, however it is cut. Frames are counted from
    its first sample."""

    def __init__(self, rate_hz: int, top: float = FULL_SCALE) -> None:
        self._frame_n = ns_to_n(FRAME_NS, rate_hz)
        self._top = top
        self._power = 0.0
        self._frame = np.zeros(0, dtype=np.float32)
        self._last = np.zeros(0, dtype=np.float32)
        self.clipped = False

    def push(self, samples: Float32) -> None:
        """Take the next samples, finite, `(frames,)`."""
        self.clipped = self.clipped or is_clipped(np.concatenate((self._last, samples)), self._top)
        self._last = np.concatenate((self._last, samples))[1 - CLIPPED_RUN_N:]
        waiting = np.concatenate((self._frame, samples))
        self._power = max(self._power, _loudest_power(waiting, self._frame_n))
        self._frame = waiting[len(waiting) // self._frame_n * self._frame_n :]

    @property
    def loudest_dbfs(self) -> float | None:
        """Like `loudest_frame_dbfs`, of what has come."""
        return _dbfs(self._power)


def _loudest_power(samples: Float32, frame_n: int) -> float:
    whole = samples[: len(samples) // frame_n * frame_n].reshape(-1, frame_n)
    return float(np.square(whole, dtype=np.float64).mean(axis=1).max(initial=0.0))


def _dbfs(power: float) -> float | None:
    return None if power == 0.0 else 10 * float(np.log10(power))
