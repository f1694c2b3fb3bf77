"""A text as the pieces that an engine is given one by one, and their sound as one again."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from audio.buffers import Float32
from audio.edges import trim
from audio.errors import InputError
from audio.timebase import s_to_n

SENTENCE_PAUSE_S = 0.35
"""Ours: an ordinary pause between two sentences of one speaker, and shorter than the silence after
which common turn detectors answer (0.5 s). Engines leave 0.2 to 0.8 s there, as it comes."""

_SENTENCE_END = re.compile(r"(?<=[.!?]) +")


def split_sentences(text: str) -> tuple[str, ...]:
    """The sentences of a normalised text, each with its mark."""
    return tuple(part for part in _SENTENCE_END.split(text) if part)


def pack_sentences(text: str, max_chars: int, *, engine: str) -> tuple[str, ...]:
    """Pieces of at most `max_chars` characters, each as many whole sentences as fit.

    Raises `InputError` for a sentence that is longer: cut inside, it would be spoken with the
    melody of two ends.
    """
    pieces: list[str] = []
    for sentence in split_sentences(text):
        if len(sentence) > max_chars:
            raise InputError.expected(f"sentences of at most {max_chars} characters",
                                      got=len(sentence), where=f"{engine}: {sentence[:60]!r}")
        if pieces and len(pieces[-1]) + 1 + len(sentence) <= max_chars:
            pieces[-1] += " " + sentence
        else:
            pieces.append(sentence)
    return tuple(pieces)


def join_sentences(parts: Sequence[Float32], rate_hz: int) -> Float32:
    """Spoken pieces in order, each cut to its speech edges, with `SENTENCE_PAUSE_S` of exact zeros
    between them. A single one is left as it is. Raises as `edges.measure_edges`."""
    if len(parts) == 1:
        return parts[0]
    pause = np.zeros(s_to_n(SENTENCE_PAUSE_S, rate_hz), np.float32)
    out: list[Float32] = []
    for part in parts:
        out += [pause, trim(part, rate_hz)[0]]
    return np.concatenate(out[1:])
