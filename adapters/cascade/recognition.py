"""Speech to words, offline: PocketSphinx twice over the same audio, and the two put together.

1. Free recognition with the package's US English model.
2. Recognition with a grammar of nothing but digits. It hears every dictated digit, and takes
   everything else for digits too.

A digit of pass 2 is believed where pass 1 heard a digit at that place (a *seed*), and next to a
believed one where its acoustic score is not much below what pass 1 reached there by other words
("four to six" for "four two six"). Scores are natural logarithms of likelihoods over the same
frames, so they can be compared. Thresholds were set on 40 strings of `bench`-like dev speech that
no test uses; docs/cascade.md has the figures.

A decoder keeps nothing of an utterance: its normalisation is computed over each utterance alone
(tests/unit/adapters/test_cascade_recognition.py).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audio.buffers import Float32, Int16, float_to_pcm16, pcm16_to_float
from audio.errors import RigError
from audio.resample import resample
from audio.silero import frame_probabilities
from audio.silero_graph import FRAME_N
from audio.timebase import ANALYSIS_RATE_HZ, SESSION_RATE_HZ, s_to_n

DIGITS = ("zero", "oh", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
GRAMMAR = f"#JSGF V1.0; grammar digits; public <all> = <digit>+; <digit> = {' | '.join(DIGITS)};"
MAX_ACTIVE = 3000
"""States the free search may keep a frame. A third faster than without, same words (docs)."""
FRAMES_PER_S = 100
"""The decoder's: frames of 10 ms."""
WEAK_NATS = -0.7
"""Per frame of 10 ms: how far a digit without a seed of its own may lie below free recognition."""
SHORT_FRAMES = 12
"""A digit shorter than this that is not believed does not end a run: the grammar puts a stray
"eight" on the closing consonant of a word."""
SPEECH_PROBABILITY = 0.5
"""Silero's; audio without one such frame holds no words. The decoder makes some up otherwise: it
hears "so" and "dog" in digital silence."""
AROUND_S = 0.3
"""Kept before the first and after the last frame of speech, filled up with zeros where the audio
ends sooner. Ours: the protocol's own prefix padding."""

_VARIANT = re.compile(r"\(\d+\)$")
_WORD = re.compile(r"[a-z][a-z'.-]*")


class RecognitionError(RigError):
    """The recogniser failed. Never reported as silence."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A word on frames of 10 ms `[start, end)`, with the log-likelihood of its sound (nats)."""

    word: str
    start: int
    end: int
    score: float


class Recogniser:
    """Both decoders, loaded on first use."""

    def __init__(self) -> None:
        self._free: Any = None
        self._digits: Any = None

    def load(self) -> None:
        """Load both models now (half a second). Raises `RecognitionError`."""
        from pocketsphinx import Decoder

        try:
            self._free = Decoder(loglevel="FATAL", maxhmmpf=MAX_ACTIVE)
            self._digits = Decoder(lm=None, loglevel="FATAL")
            self._digits.add_jsgf_string("digits", GRAMMAR)
            self._digits.activate_search("digits")
        except RuntimeError as error:
            raise RecognitionError(f"pocketsphinx: cannot load: {error}") from error

    def words(self, pcm: Int16) -> tuple[str, ...]:
        """Lower-case words of PCM16 `(n,)` at 24 kHz, none where nobody speaks.

        Raises `RecognitionError`; the next call begins with fresh decoders.
        """
        x16k = resample(pcm16_to_float(pcm), SESSION_RATE_HZ, ANALYSIS_RATE_HZ)
        return tuple(word for word, _, _ in self.timed_words(x16k))

    def timed_words(self, x16k: Float32) -> tuple[tuple[str, float, float], ...]:
        """Each word of float32 `(n,)` at 16 kHz with its start and end, seconds.

        Raises as `words`.
        """
        if self._free is None:
            self.load()
        speech = np.flatnonzero(frame_probabilities(x16k) >= SPEECH_PROBABILITY)
        if not speech.size:
            return ()
        first = int(speech[0])
        data = float_to_pcm16(_cut(x16k, first, int(speech[-1]) + 1)).tobytes()
        before_s = first * FRAME_N / ANALYSIS_RATE_HZ - AROUND_S
        try:
            found = merged(_decode(self._free, data), _decode(self._digits, data))
            return tuple((s.word, before_s + s.start / FRAMES_PER_S,
                          before_s + s.end / FRAMES_PER_S) for s in found)
        except RuntimeError as error:
            self._free = self._digits = None
            raise RecognitionError(f"pocketsphinx: {error}") from error


def merge(free: Sequence[Segment], digits: Sequence[Segment]) -> tuple[str, ...]:
    """The words of `merged`."""
    return tuple(segment.word for segment in merged(free, digits))


def merged(free: Sequence[Segment], digits: Sequence[Segment]) -> list[Segment]:
    """The words of free recognition with the believed digits in their places.

    Both passes come whole, silence and noise included: their scores count, they are no words.
    """
    said = [d for d in digits if d.word in DIGITS]
    believed = [d for d, yes in zip(said, _believed(free, said), strict=True) if yes]
    kept = [f for f in free if _WORD.fullmatch(f.word)
            and sum(_overlap(f, d) for d in believed) <= 0.5 * (f.end - f.start)]
    # At the same place a digit goes first: it was heard within the longer word.
    order = sorted([(d.start, 0, d.word, d) for d in believed]
                   + [(f.start, 1, f.word, f) for f in kept], key=lambda item: item[:3])
    return [segment for *_, segment in order]


def _believed(free: Sequence[Segment], digits: Sequence[Segment]) -> list[bool]:
    """Which digits of the second pass were said."""
    per_frame = _frame_scores(free, max((s.end for s in (*free, *digits)), default=0))
    weak = [_margin(d, per_frame) >= WEAK_NATS for d in digits]
    out = []
    for digit, plausible in zip(digits, weak, strict=True):
        there = {f.word for f in free if _overlap(f, digit) > 0.5 * (digit.end - digit.start)}
        out.append(digit.word in there or (plausible and not there.isdisjoint(DIGITS)))
    for order in (range(len(digits)), range(len(digits) - 1, -1, -1)):
        running = False
        for k in order:
            if not out[k] and running and weak[k]:
                out[k] = True
            elif not out[k] and digits[k].end - digits[k].start >= SHORT_FRAMES:
                running = False
            running = running or out[k]
    return out


def _margin(digit: Segment, free_scores: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """Nats per frame by which the digit explains its frames better than free recognition did."""
    free = float(free_scores[digit.start:digit.end].sum())
    return (digit.score - free) / (digit.end - digit.start)


def _frame_scores(
    free: Sequence[Segment], frames: int
) -> np.ndarray[Any, np.dtype[np.float64]]:
    out = np.zeros(frames)
    for segment in free:
        out[segment.start:segment.end] = segment.score / (segment.end - segment.start)
    return out


def _overlap(a: Segment, b: Segment) -> int:
    return max(0, min(a.end, b.end) - max(a.start, b.start))


def _cut(x16k: Float32, first: int, past_last: int) -> Float32:
    """The frames `[first, past_last)` of the detector with `AROUND_S` on either side."""
    around_n = s_to_n(AROUND_S, ANALYSIS_RATE_HZ)
    padded = np.pad(x16k, (around_n, around_n + FRAME_N))
    return padded[first * FRAME_N:past_last * FRAME_N + 2 * around_n]


def _decode(decoder: Any, pcm16k: bytes) -> list[Segment]:
    decoder.start_utt()
    decoder.process_raw(pcm16k, full_utt=True)
    decoder.end_utt()
    # pocketsphinx gives the likelihood itself, as a float that may underflow to 0.
    return [Segment(_VARIANT.sub("", s.word), s.start_frame, s.end_frame + 1,
                    math.log(max(s.ascore, 5e-324)))
            for s in decoder.seg() or () if s.end_frame >= s.start_frame]
