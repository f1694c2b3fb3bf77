"""What is spoken: nothing that changes a word, and a refusal for the rest."""

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audio.errors import InputError
from audio.spoken_text import MAX_CHARS, mark_letter_a, normalise, words


@pytest.mark.parametrize(("text", "expected"), [
    ("wait.. what", "wait, what."),  # field problem 80: runs of dots run away in eSpeak NG
    ("Well... I went.", "Well. I went."),
    ("Hello\u2026there", "Hello,there.".replace(",", ", ")),
    ("\u201cYes,\u201d he said \u2014 maybe", "Yes, he said, maybe."),
    ("I was go- going -- to", "I was go, going, to."),
    ("it\u2019s", "it's."),
    ("well,", "well,"),
    ("  one\n two\t three ", "one two three."),
    ("What?! no", "What? no."),
    ("Stop!.. now", "Stop! now."),
    ("stop.Now", "stop. Now."),
    ("...so", "so."),
    ("twenty-one", "twenty-one."),
    ("a list;", "a list."),
    (":-A", "A."),
])
def test_normalise(text: str, expected: str) -> None:
    assert normalise(text) == expected


@pytest.mark.parametrize(
    "text", ["call 911", "it's $5", "caf\u00e9", "a@b", "[x](/y/)", "a_b", "a/b"]
)
def test_what_is_not_spoken_is_refused_and_named(text: str) -> None:
    with pytest.raises(InputError, match="spoken form") as caught:
        normalise(text)
    assert text.split()[-1] in str(caught.value)


@pytest.mark.parametrize("text", ["", " ", "...", "-- ,", "''"])
def test_no_word_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="at least one word"):
        normalise(text)


def test_length_bound() -> None:
    assert normalise("a" * (MAX_CHARS - 1) + ".")
    with pytest.raises(InputError, match=f"at most {MAX_CHARS} characters.*got {MAX_CHARS + 1}"):
        normalise("a" * (MAX_CHARS + 1))


def test_words() -> None:
    text = normalise("'Cause I'm twenty-one, he said 'hello' to 'em. W H I T!")
    assert words(text) == ("'Cause", "I'm", "twenty", "one", "he", "said", "hello", "to", "'em",
                           "W", "H", "I", "T")


@pytest.mark.parametrize(("text", "marked"), [
    ("A man came.", "A man came."),
    ("He came. A man came.", "He came. A man came."),
    ("plan A,", "plan <A>,"),
    ("A N N A", "<A> N N <A>"),
    ("A is one.", "<A> is one."),
    ("It ends. A as in apple.", "It ends. <A> as in apple."),
    ("two A's", "two A's"),
])
def test_the_letter_a(text: str, marked: str) -> None:
    assert mark_letter_a(text, "<A>") == marked


@settings(max_examples=100)
@given(st.text(string.ascii_letters + " '.,!?;:-\u2014\u2019\n\"", min_size=1, max_size=60))
def test_normalise_is_idempotent_and_keeps_the_letters(text: str) -> None:
    try:
        once = normalise(text)
    except InputError:
        assert not any(c in string.ascii_letters for c in text)
        return
    assert normalise(once) == once
    letters = [c for c in text if c in string.ascii_letters]
    assert [c for c in once if c in string.ascii_letters] == letters
    assert [c for word in words(once) for c in word if c != "'"] == letters
