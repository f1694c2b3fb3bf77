"""Sentences to sound, and sound to deltas."""

from __future__ import annotations

import cascade_testkit as kit
import numpy as np
import pytest

from adapters.cascade.speech import PIECE_N, Voice, pieces
from audio.errors import InputError

SENTENCE = "I have four one five, two zero six."


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("size_n", [1, 2_399, 2_400, 2_401, 24_000])
def test_pieces_are_the_whole_sentence_and_the_whole_sound(size_n: int, first: bool) -> None:
    sound = np.arange(size_n).astype(np.int16)
    made = list(pieces(SENTENCE, sound, first=first))
    joined = np.concatenate([p.pcm for p in made])
    pause_n = 0 if first else 6_000
    assert not joined[:pause_n].any()
    assert np.array_equal(joined[pause_n:], sound)
    assert all(len(p.pcm) == PIECE_N for p in made[:-1])
    assert "".join(p.text for p in made) == ("" if first else " ") + SENTENCE


def test_words_come_with_the_sound_in_which_they_begin() -> None:
    made = list(pieces("aaaa bbbb", np.ones(9_600, np.int16), first=True))
    assert [p.text for p in made] == ["aaaa", "", " bbbb", ""]
    made = list(pieces("aaaa bbbb", np.ones(9_600, np.int16), first=False))
    # 6000 samples of pause: the first word begins in the third piece.
    assert [p.text for p in made] == ["", "", " aaaa", "", " bbbb", "", ""]


def test_the_voice_speaks_from_edge_to_edge_and_always_alike() -> None:
    sound = Voice().say(SENTENCE)
    assert sound.dtype == np.int16
    assert 1.5 < len(sound) / 24_000 < 4
    assert np.array_equal(sound, Voice().say(SENTENCE))
    # Cut to the speech: what pads it elsewhere is some hundreds of ms.
    loud = np.flatnonzero(np.abs(sound) > 300)
    assert loud[0] < 1_200
    assert len(sound) - loud[-1] < 2_400
    assert np.array_equal(sound, kit.speech(SENTENCE))


def test_what_cannot_be_spoken_is_refused() -> None:
    with pytest.raises(InputError, match="spoken form"):
        Voice().say("I have 415.")
