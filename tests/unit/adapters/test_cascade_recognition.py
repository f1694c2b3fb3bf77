"""Two passes over one utterance, and how they are put together."""

from __future__ import annotations

import cascade_testkit as kit
import numpy as np
import pytest

from adapters.cascade.recognition import (
    WEAK_NATS,
    Recogniser,
    RecognitionError,
    Segment,
    merge,
)


@pytest.fixture(scope="module")
def recogniser() -> Recogniser:
    return Recogniser()


def free(*words: tuple[str, int, float], at: int = 0) -> list[Segment]:
    """(word, frames, nats a frame), one after another."""
    out = []
    for word, frames, nats in words:
        out.append(Segment(word, at, at + frames, nats * frames))
        at += frames
    return out


# --- the two passes put together


def test_where_nobody_said_digits_the_free_words_stay() -> None:
    words = free(("<s>", 10, -1), ("good", 20, -1), ("morning", 30, -1), ("</s>", 10, -1))
    forced = free(("<sil>", 10, -1), ("two", 25, -4), ("nine", 25, -4), ("</s>", 10, -1))
    assert merge(words, forced) == ("good", "morning")
    assert merge(words, []) == ("good", "morning")
    assert merge([], []) == ()


def test_a_digit_heard_by_both_is_a_digit() -> None:
    words = free(("number", 30, -1), ("four", 20, -1), ("one", 20, -1))
    forced = free(("nine", 30, -5), ("four", 20, -1), ("one", 20, -1))
    assert merge(words, forced) == ("number", "four", "one")


def test_a_likeness_next_to_a_digit_is_taken_for_a_digit() -> None:
    words = free(("four", 20, -1), ("to", 20, -1), ("sex", 20, -1))
    forced = free(("four", 20, -1), ("two", 20, -1.2), ("six", 20, -1.3))
    assert merge(words, forced) == ("four", "two", "six")


def test_a_likeness_with_no_digit_beside_it_is_not() -> None:
    words = free(("go", 20, -1), ("to", 20, -1), ("bed", 20, -1))
    forced = free(("oh", 20, -5), ("two", 20, -0.9), ("eight", 20, -5))
    assert merge(words, forced) == ("go", "to", "bed")


@pytest.mark.parametrize(("margin", "expected"), [
    (WEAK_NATS + 0.01, ("four", "two")), (WEAK_NATS - 0.01, ("four", "to"))])
def test_how_much_worse_a_digit_may_fit(margin: float, expected: tuple[str, ...]) -> None:
    words = free(("four", 20, -1), ("to", 20, -1))
    forced = free(("four", 20, -1), ("two", 20, -1 + margin))
    assert merge(words, forced) == expected


def test_two_digits_within_one_word_come_back_in_order() -> None:
    words = free(("four", 20, -1), ("twenty", 40, -1), ("six", 20, -1))
    forced = free(("four", 20, -1), ("two", 20, -1), ("eight", 20, -1), ("six", 20, -1))
    assert merge(words, forced) == ("four", "two", "eight", "six")


def test_a_bad_digit_ends_the_run_unless_it_is_very_short() -> None:
    words = free(("four", 20, -1), ("street", 8, -1), ("to", 20, -1))
    forced = free(("four", 20, -1), ("eight", 8, -9), ("two", 20, -1))
    assert merge(words, forced) == ("four", "street", "two")
    words = free(("four", 20, -1), ("street", 30, -1), ("to", 20, -1))
    forced = free(("four", 20, -1), ("three", 30, -9), ("two", 20, -1))
    assert merge(words, forced) == ("four", "street", "to")


def test_silence_and_noise_are_no_words() -> None:
    heard = free(("<s>", 5, -1), ("[NOISE]", 20, -1), ("<sil>", 20, -1), ("++SPN++", 9, -1))
    assert merge(heard, free(("<sil>", 54, -1))) == ()


# --- real speech


def test_dictated_digits_are_heard_within_a_sentence(recogniser: Recogniser) -> None:
    words = recogniser.words(kit.utterance("My number is four one five, two zero six, seven."))
    assert words[:2] == ("my", "number")
    assert words[-7:] == ("four", "one", "five", "two", "zero", "six", "seven")


def test_what_was_heard_before_changes_nothing(recogniser: Recogniser) -> None:
    first, second = (kit.utterance(t) for t in ("Nine nine three, eight.", "Good morning."))
    fresh = Recogniser()
    assert (second_alone := fresh.words(second)) == ("good", "morning")
    recogniser.words(first)
    assert recogniser.words(second) == second_alone
    assert fresh.words(first) == recogniser.words(first) == ("nine", "nine", "three", "eight")


def test_nothing_is_heard_where_there_is_nothing(recogniser: Recogniser) -> None:
    assert recogniser.words(np.zeros(0, np.int16)) == ()
    assert recogniser.words(np.zeros(7, np.int16)) == ()
    assert recogniser.words(kit.silence(2.0)) == ()
    noise = np.random.default_rng(0).normal(0, 1000, 48_000).astype(np.int16)
    assert recogniser.words(noise) == ()


def test_silence_around_the_speech_changes_nothing(recogniser: Recogniser) -> None:
    text = "Four one five, two zero six."
    long = kit.utterance(text, before_s=3.0, after_s=5.0)
    assert recogniser.words(long) == recogniser.words(kit.utterance(text)) \
        == ("four", "one", "five", "two", "zero", "six")


def test_a_failure_is_an_error_and_the_next_call_works(
    recogniser: Recogniser, monkeypatch: pytest.MonkeyPatch
) -> None:
    recogniser.load()

    class Broken:
        def start_utt(self) -> None:
            raise RuntimeError("out of order")

    monkeypatch.setattr(recogniser, "_free", Broken())
    # Digits, because a fresh decoder has heard nothing to adapt to and may mishear one short word.
    spoken = kit.utterance("Four one five, two zero six.")
    with pytest.raises(RecognitionError, match="out of order"):
        recogniser.words(spoken)
    assert recogniser.words(spoken) == ("four", "one", "five", "two", "zero", "six")
