"""Sentences to sound, and sound to the pieces in which it is sent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from audio.buffers import Float32, Int16, float_to_pcm16
from audio.edges import trim
from audio.resample import resample
from audio.spoken_text import normalise
from audio.synthesis import Engine, engine
from audio.timebase import SESSION_RATE_HZ, s_to_n

ENGINE = "hibari"
SEED = 1
"""Of the engine's noise: the same sentence always sounds the same."""
PAUSE_S = 0.25
"""Between two sentences. Ours: below the 0.3 s at which the rig would part the speech in two."""
PIECE_N = SESSION_RATE_HZ // 10
"""One audio delta: 100 ms. Ours."""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """One delta of a response: PCM16 `(n,)` at 24 kHz and the words that begin in it.

    `text` goes out before the audio; the texts of all pieces of a reply joined are its transcript.
    """

    text: str
    pcm: Int16


class Voice:
    """The speaker, loaded on first use."""

    def __init__(self) -> None:
        self._engine: Engine = engine(ENGINE)

    def say(self, sentence: str) -> Int16:
        """PCM16 `(n,)` at 24 kHz between the edges of the speech.

        Raises `InputError` for a text that is not in spoken form, `SynthesisError`.
        """
        spoken = self._engine.synthesize(normalise(sentence), self._engine.voices()[0], SEED)
        samples: Float32 = resample(spoken, self._engine.sample_rate_hz, SESSION_RATE_HZ)
        return float_to_pcm16(trim(samples, SESSION_RATE_HZ)[0])


def pieces(sentence: str, pcm: Int16, *, first: bool) -> Iterator[Piece]:
    """A spoken sentence in pieces of 100 ms; all but the first sentence begin with a pause.

    Words are spread over the sound by their letters: the voice gives no times. That is good enough
    for a transcript that streams, and for cutting it where the listener stopped hearing.
    """
    pause_n = 0 if first else s_to_n(PAUSE_S, SESSION_RATE_HZ)
    sound = np.concatenate([np.zeros(pause_n, np.int16), pcm])
    words = sentence.split()
    starts_n = _starts_n(words, len(pcm))
    said = 0
    for at_n in range(0, len(sound), PIECE_N):
        end_n = min(at_n + PIECE_N, len(sound))
        text = ""
        while said < len(words) and (pause_n + starts_n[said] < end_n or end_n == len(sound)):
            text += words[said] if first and not said else f" {words[said]}"
            said += 1
        yield Piece(text, sound[at_n:end_n])


def _starts_n(words: list[str], size_n: int) -> list[int]:
    """Where each word begins, in proportion to the letters before it."""
    letters = np.cumsum([0, *map(len, words)])
    return [size_n * int(before) // max(int(letters[-1]), 1) for before in letters[:-1]]
