from __future__ import annotations

import itertools
import random

import pytest

from verifiers.readback_text import matched, ordered_matched, ordered_tokens, tokens


@pytest.mark.parametrize(("text", "expected"), [
    ("", ""),
    ("!?., --", ""),
    ("Four-One, FIVE.", "4 1 5"),
    ("zero oh one two three four five six seven eight nine", "0 0 1 2 3 4 5 6 7 8 9"),
    ("415 Elm", "4 1 5 elm"),
    ("1,250.5", "1 2 5 0 5"),
    ("flat b12, 2nd floor", "flat b 1 2 2 nd floor"),
    ("don't", "don t"),
    ("thirty six", "thirty 6"),
    ("ten", "ten"),
    ("Zoë ٣", "zo"),
])
def test_tokens(text, expected):
    assert " ".join(tokens(text)) == expected


@pytest.mark.parametrize(("target", "heard", "expected"), [
    ("", "4 1 5", 0),
    ("4 1 5", "", 0),
    ("4 1 5", "four one five", 3),
    ("4 1 5", "5 1 4", 3),
    ("4 4 5", "4 5", 2),
    ("4 5", "4 4 4 5", 2),
    ("4 4", "4 4 4", 2),
])
def test_each_heard_token_counts_once(target, heard, expected):
    assert matched(tokens(target), tokens(heard)) == expected


@pytest.mark.parametrize(("text", "expected"), [
    ("four one five", "4 1 5"),
    ("oh seven", "0 7"),
    ("thirty six", "3 6"),
    ("thirty", "3 0"),
    ("thirty zero", "3 0 0"),
    ("nineteen eighty four", "1 9 8 4"),
    ("twenty twenty four", "2 0 2 4"),
    ("two hundred", "2 0 0"),
    ("two hundred five", "2 0 5"),
    ("two hundred and five", "2 0 5"),
    ("two hundred and sixty one milligrams", "2 6 1 milligrams"),
    ("two hundred and then five", "2 0 0 and then 5"),
    ("two hundred oh five", "2 0 0 0 5"),
    ("hundred", "hundred"),
    ("zero hundred", "0 hundred"),
    ("a thousand", "a thousand"),
    ("zero thousand", "0 thousand"),
    ("one thousand", "1 0 0 0"),
    ("one thousand and one", "1 0 0 1"),
    ("one thousand and so on", "1 0 0 0 and so on"),
    ("twelve thousand three hundred and forty", "1 2 3 4 0"),
    ("one hundred twenty three thousand four hundred fifty six", "1 2 3 4 5 6"),
    ("five and six", "5 and 6"),
    ("36 and thirty six", "3 6 and 3 6"),
    ("four hundred", "4 0 0"),
    ("ends with twenty", "ends with 2 0"),
])
def test_ordered_tokens_read_spelled_numbers(text, expected):
    assert " ".join(ordered_tokens(text)) == expected


@pytest.mark.parametrize(("target", "heard", "expected"), [
    ("", "a", 0),
    ("a", "", 0),
    ("a b c", "a b c", 3),
    ("a b c", "c b a", 1),
    ("a b c d", "x a x c b x d", 3),
    ("a a b", "a b a", 2),
])
def test_ordered_matched(target, heard, expected):
    assert ordered_matched(target.split(), heard.split()) == expected


def slow_lcs(a: str, b: str) -> int:
    if not a or not b:
        return 0
    if a[-1] == b[-1]:
        return slow_lcs(a[:-1], b[:-1]) + 1
    return max(slow_lcs(a[:-1], b), slow_lcs(a, b[:-1]))


def test_ordered_matched_equals_the_recursive_definition():
    words = ["".join(w) for n in range(5) for w in itertools.product("ab", repeat=n)]
    for a, b in random.Random(3).sample([(a, b) for a in words for b in words], 300):
        assert ordered_matched(a, b) == slow_lcs(a, b), (a, b)
