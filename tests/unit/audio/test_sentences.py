"""Sentences: split and packed within a limit, joined with exact silence."""

from __future__ import annotations

import numpy as np
import pytest

from audio.edges import measure_edges
from audio.errors import InputError
from audio.sentences import SENTENCE_PAUSE_S, join_sentences, pack_sentences, split_sentences

RATE_HZ = 24_000


def spoken(gain: float, silence_s: float) -> np.ndarray:
    """A tone of 0.3 s with silence around it."""
    tone = gain * np.sin(2 * np.pi * 220 * np.arange(round(0.3 * RATE_HZ)) / RATE_HZ)
    pad = np.zeros(round(silence_s * RATE_HZ))
    return np.concatenate((pad, tone, pad)).astype(np.float32)


def test_sentences_keep_their_marks() -> None:
    assert split_sentences("Hi there. Are you well? Yes! Fine, thanks,") == (
        "Hi there.", "Are you well?", "Yes!", "Fine, thanks,")
    assert split_sentences("no end") == ("no end",)


def test_pieces_are_as_long_as_they_may_be_and_no_longer() -> None:
    text = "Abcd efg. Hijk lmn. Opqr stu."  # 9 characters each
    assert pack_sentences(text, 29, engine="x") == (text,)
    assert pack_sentences(text, 28, engine="x") == ("Abcd efg. Hijk lmn.", "Opqr stu.")
    assert pack_sentences(text, 19, engine="x") == ("Abcd efg. Hijk lmn.", "Opqr stu.")
    assert pack_sentences(text, 18, engine="x") == ("Abcd efg.", "Hijk lmn.", "Opqr stu.")
    with pytest.raises(InputError, match=r"x: 'Abcd efg\.': expected sentences of at most 8 "
                                         "characters, got 9"):
        pack_sentences(text, 8, engine="x")


def test_joined_sentences_are_apart_by_the_pause_whatever_the_engine_left() -> None:
    for silence_s in (0.05, 0.5):
        joined = join_sentences([spoken(0.5, silence_s), spoken(0.4, silence_s)], RATE_HZ)
        pause_s = measure_edges(joined, RATE_HZ).longest_pause_n / RATE_HZ
        # 5 ms of margin on either side, and the edges' own windows
        assert pause_s == pytest.approx(SENTENCE_PAUSE_S + 0.01, abs=0.012)
        assert joined.size == pytest.approx((0.6 + 0.35) * RATE_HZ, abs=0.03 * RATE_HZ)


def test_a_single_sentence_is_left_as_it_is() -> None:
    one = spoken(0.5, 0.3)
    assert join_sentences([one], RATE_HZ) is one
