"""The user's audio as the server holds it, and who ends a turn: Silero on audio time.

Every position counts samples at 24 kHz written to the buffer in this session, whatever the wall
clock does: audio that comes in faster than real time is timed like any other. Nothing here knows
of messages.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from audio.buffers import Float32, Int16, pcm16_to_float
from audio.resample import StreamResampler
from audio.silero import SileroModel, StreamingProbabilities
from audio.silero_graph import FRAME_N
from audio.timebase import ANALYSIS_RATE_HZ, SESSION_RATE_HZ, convert_n

RATE_HZ = SESSION_RATE_HZ
N_PER_MS = RATE_HZ // 1000
STEP_N = convert_n(FRAME_N, ANALYSIS_RATE_HZ, RATE_HZ)
"""One frame of the detector: 768 samples, 32 ms."""
MIN_SPEECH_FRAMES = 3
"""Frames in a row that must be speech before a turn begins: 96 ms. Ours, the least above the 90 ms
that the rig itself takes for speech (DSB-IFEval, C.2)."""
_EXIT_BELOW = 0.15
_EXIT_LEAST = 0.01
"""Speech pauses below `max(threshold - 0.15, 0.01)`: the rule of the silero-vad package."""


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """`server_vad` of the protocol. Defaults: the vendor's."""

    threshold: float = 0.5
    prefix_padding_ms: int = 300
    silence_duration_ms: int = 500


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """The user began to speak at `at_n`."""

    at_n: int


@dataclass(frozen=True, slots=True)
class SpeechStopped:
    """The user's turn is over at `at_n`: where the pause began, plus the silence asked for."""

    at_n: int


Edge = SpeechStarted | SpeechStopped


class TurnDetector:
    """Speech edges of audio that begins at sample `start_n` of the session."""

    def __init__(
        self, settings: TurnSettings, start_n: int, *, model: SileroModel | None = None
    ) -> None:
        self._threshold = settings.threshold
        self._exit = max(settings.threshold - _EXIT_BELOW, _EXIT_LEAST)
        self._silence_n = settings.silence_duration_ms * N_PER_MS
        self._resampler = StreamResampler(RATE_HZ, ANALYSIS_RATE_HZ, quality="HQ")
        self._probabilities = StreamingProbabilities(model)
        self._frame_n = start_n
        self._run_n: int | None = None
        self._pause_n: int | None = None
        self.speaking = False

    def push(self, samples: Float32) -> list[Edge]:
        """Take float32 `(n,)` at 24 kHz; the edges that are certain now, in order.

        An edge becomes certain a few tens of ms after it: the frame must be whole, and the
        resampler holds back up to 37 ms.
        """
        edges: list[Edge] = []
        for probability in self._probabilities.push(self._resampler.push(samples)).tolist():
            edge = self._frame(probability)
            if edge is not None:
                edges.append(edge)
        return edges

    def _frame(self, probability: float) -> Edge | None:
        at_n, end_n = self._frame_n, self._frame_n + STEP_N
        self._frame_n = end_n
        if probability >= self._threshold:
            self._pause_n = None
            if self._run_n is None:
                self._run_n = at_n
        elif probability < self._exit:
            if not self.speaking:
                self._run_n = None
            elif self._pause_n is None:
                self._pause_n = at_n
        if self.speaking:
            if self._pause_n is not None and end_n - self._pause_n >= self._silence_n:
                over_n = self._pause_n + self._silence_n
                self.speaking, self._run_n, self._pause_n = False, None, None
                return SpeechStopped(over_n)
        elif self._run_n is not None and end_n - self._run_n >= MIN_SPEECH_FRAMES * STEP_N:
            self.speaking = True
            return SpeechStarted(self._run_n)
        return None


class InputBuffer:
    """Audio written to the session and not yet used, PCM16 mono at 24 kHz.

    `written_n` counts everything ever written; `start_n` is the position of the first sample that
    is still held.
    """

    def __init__(self) -> None:
        self._pieces: deque[Int16] = deque()
        self.written_n = 0
        self.start_n = 0

    @property
    def held_n(self) -> int:
        return self.written_n - self.start_n

    def append(self, pcm: Int16) -> Float32:
        """Take samples and give them back as float32."""
        self._pieces.append(pcm)
        self.written_n += len(pcm)
        return pcm16_to_float(pcm)

    def take(self, from_n: int, to_n: int) -> Int16:
        """The samples of `[from_n, to_n)` as far as they are held; what lies before `to_n` goes."""
        held = np.concatenate([*self._pieces, np.zeros(0, np.int16)])
        cut_n = min(max(to_n - self.start_n, 0), len(held))
        out = held[max(from_n - self.start_n, 0):cut_n].copy()
        self._pieces = deque([held[cut_n:].copy()])
        self.start_n += cut_n
        return out

    def keep_last(self, n: int) -> None:
        """Forget whole pieces that lie entirely before the last `n` samples."""
        while self._pieces and self.held_n - len(self._pieces[0]) >= n:
            self.start_n += len(self._pieces.popleft())

    def clear(self) -> None:
        """Forget everything that is held."""
        self._pieces.clear()
        self.start_n = self.written_n
