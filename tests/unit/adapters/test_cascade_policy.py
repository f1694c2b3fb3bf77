"""What the agent says: read-back, simple answers, and what the system prompt changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.cascade import policy
from audio.spoken_text import normalise

CONFIRM = "Read every number back before you go on."


@pytest.mark.parametrize(("heard", "said"), [
    ("four one five", "I have four one five."),
    ("my number is four one five two zero six seven", "I have four one five, two zero six seven."),
    ("one two three four five six seven eight", "I have one two three, four five six, seven eight."
     ),
    ("it's oh one oh", "I have zero one zero."),
    ("four one five and then two zero", "I have four one five, two zero."),
])
def test_dictated_digits_are_read_back(heard: str, said: str) -> None:
    assert policy.reply([heard], "") == (said, policy.CHECK)


@pytest.mark.parametrize("heard", ["one of them", "two or three days", "it was one two years ago",
                                   "i have to go for a while"])
def test_a_number_in_a_sentence_is_no_dictation(heard: str) -> None:
    assert not any("I have" in s for s in policy.reply([heard], ""))


def test_turns_that_were_not_answered_belong_together() -> None:
    assert policy.reply(["it starts four one", "five then", "two zero six"], "")[0] \
        == "I have four one five, two zero six."
    assert policy.reply(["four one", "five"], "")[0] == "I have four one five."


@pytest.mark.parametrize(("heard", "said"), [
    ("metoprolol two tablets", "Let me read that back, metoprolol two tablets."),
    ("the plate is six zero three five blue",
     "Let me read that back, the plate is, six zero three five, blue."),
])
def test_asked_to_confirm_it_reads_back_word_for_word(heard: str, said: str) -> None:
    assert policy.reply([heard], CONFIRM) == (said, policy.CHECK)
    assert policy.reply([heard], "Answer simply.") != (said, policy.CHECK)


def test_asked_to_confirm_it_still_answers_what_holds_no_number() -> None:
    assert policy.reply(["are you there"], CONFIRM) == policy.reply(["are you there"], "")


def test_a_long_dictation_is_read_back_to_a_bound() -> None:
    heard = [f"{a}{b}" for a in "bcdfghklmnpr" for b in "aeiou"] + ["two"]
    said = policy.reply([" ".join(heard)], CONFIRM)[0]
    assert said.split()[5:] == [*heard[-policy.MAX_WORDS_BACK:-1], "two."]


@pytest.mark.parametrize(("instructions", "wanted"), [
    (CONFIRM, True),
    ("Confirm the address with the caller.", True),
    ("Always repeat phone numbers.", True),
    ("Say each item back.", True),
    ("You echo what was dictated.", True),
    ("", False),
    ("Be brief.", False),
    ("Do not repeat details to them.", False),
    ("Never read anything back.", False),
    ("Don't confirm what they say.", False),
    ("Do not rush. Confirm every number.", True),
    ("She is unconfirmed.", False),
])
def test_which_instructions_ask_for_a_read_back(instructions: str, wanted: bool) -> None:
    assert policy.wants_readback(instructions) is wanted


@pytest.mark.parametrize(("heard", "word"), [
    ("hello good morning", "Hello"),
    ("hello are you still there", "Yes"),
    ("thank you very much", "welcome"),
    ("what time do you open", "do not know"),
    ("please explain it step by step", "step by step"),
    ("my back hurts", "sorry"),
    ("goodbye then", "Goodbye"),
    ("the weather was fine", "more"),
])
def test_simple_things_are_answered(heard: str, word: str) -> None:
    assert word in " ".join(policy.reply([heard], ""))


def test_nothing_recognised_is_said_to_be_so() -> None:
    assert policy.reply([""], "") == policy.NOTHING_HEARD
    assert policy.reply(["", " "], CONFIRM) == policy.NOTHING_HEARD


def test_unasked_it_greets_first_and_asks_later() -> None:
    assert policy.reply([], "", opening=True) == policy.GREETING
    assert policy.reply([], "") == policy.ANYTHING_ELSE


def test_a_question_to_explain_is_answered_at_length() -> None:
    """Long enough to be interrupted: about ten seconds."""
    assert sum(len(s.split()) for s in policy.reply(["explain it to me"], "")) > 50


@given(st.lists(st.text(alphabet="abcdeotwxyz'.- 0é", max_size=40), max_size=4),
       st.sampled_from(["", CONFIRM]))
def test_whatever_was_recognised_the_answer_can_be_spoken(texts: list[str], asked: str) -> None:
    for sentence in policy.reply(texts, asked):
        assert normalise(sentence)


@given(st.lists(st.sampled_from(sorted(policy._DIGITS)), min_size=3, max_size=20))
def test_every_digit_is_said_once_and_in_order(digits: list[str]) -> None:
    said = policy.reply([" ".join(digits)], "")[0]
    assert said.removeprefix("I have ").rstrip(".").replace(",", "").split() \
        == [policy._DIGITS[d] for d in digits]
