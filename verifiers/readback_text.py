"""Dictated words against spoken ones: two coverages, no speech recogniser.

`tokens` and `matched` are the normaliser and the score of DSB-IFEval, appendix C.5: lower case,
runs of `[a-z0-9]`, spelled digits as digits, runs of digits split; then the share of the target
found in a multiset of what was said. The paper does not say what happens to a token that mixes
letters and digits: here "b12" is `b 1 2`, so that "B twelve" spelled "B one two" can match.

That score ignores order ("five four one" covers "four one five") and does not know that "thirty
six" is 36. `ordered_tokens` and `ordered_matched` are stored beside it and never decide: spelled
numbers below a million become digits, and the score is the longest common subsequence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

_PIECE = re.compile(r"[a-z]+|[0-9]")

_DIGITS = {"zero": 0, "oh": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6,
           "seven": 7, "eight": 8, "nine": 9}
_TEENS = {"ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15,
          "sixteen": 16, "seventeen": 17, "eighteen": 18, "nineteen": 19}
_TENS = {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70,
         "eighty": 80, "ninety": 90}


def tokens(text: str) -> tuple[str, ...]:
    """Normalised tokens of `text`: letter runs and single digits, in order."""
    return tuple(str(_DIGITS[piece]) if piece in _DIGITS else piece
                 for piece in _PIECE.findall(text.lower()))


def matched(target: Sequence[str], heard: Sequence[str]) -> int:
    """How many target tokens are found in `heard`, each heard token used once."""
    return (Counter(target) & Counter(heard)).total()


def ordered_tokens(text: str) -> tuple[str, ...]:
    """Like `tokens`, with spelled numbers read as numbers and split into their digits.

    "thirty six" is `3 6`, "two hundred and five" is `2 0 5`, "four one five" stays `4 1 5`;
    "and" belongs to a number only between hundreds or thousands and what follows them.
    """
    pieces = _PIECE.findall(text.lower())
    out: list[str] = []
    at = 0
    while at < len(pieces):
        number, after = _thousands(pieces, at)
        if number is None:
            out.append(pieces[at])
            at += 1
        else:
            out.extend(str(number))
            at = after
    return tuple(out)


def ordered_matched(target: Sequence[str], heard: Sequence[str]) -> int:
    """Length of the longest common subsequence, by the bit-vector method of Hyyrö (2004)."""
    places: dict[str, int] = {}
    for index, token in enumerate(target):
        places[token] = places.get(token, 0) | (1 << index)
    full = (1 << len(target)) - 1
    unmatched = full
    for token in heard:
        hits = unmatched & places.get(token, 0)
        unmatched = ((unmatched + hits) | (unmatched - hits)) & full
    return len(target) - unmatched.bit_count()


def _thousands(pieces: Sequence[str], at: int) -> tuple[int | None, int]:
    number, after = _hundreds(pieces, at)
    if number is None or number == 0 or _piece(pieces, after) != "thousand":
        return number, after
    rest, rest_after = _hundreds(pieces, _skip_and(pieces, after + 1))
    return (number * 1000, after + 1) if not rest else (number * 1000 + rest, rest_after)


def _hundreds(pieces: Sequence[str], at: int) -> tuple[int | None, int]:
    number, after = _below_hundred(pieces, at)
    if not number or _piece(pieces, after) != "hundred":
        return number, after
    rest, rest_after = _below_hundred(pieces, _skip_and(pieces, after + 1))
    return (number * 100, after + 1) if not rest else (number * 100 + rest, rest_after)


def _below_hundred(pieces: Sequence[str], at: int) -> tuple[int | None, int]:
    word = _piece(pieces, at)
    if word in _TENS:
        unit = _DIGITS.get(_piece(pieces, at + 1), 0)
        return _TENS[word] + unit, at + 2 if unit else at + 1
    if word in _TEENS:
        return _TEENS[word], at + 1
    if word in _DIGITS:
        return _DIGITS[word], at + 1
    return None, at


def _skip_and(pieces: Sequence[str], at: int) -> int:
    return at + 1 if _piece(pieces, at) == "and" else at


def _piece(pieces: Sequence[str], at: int) -> str:
    return pieces[at] if at < len(pieces) else ""
