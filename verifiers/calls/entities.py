"""U1: entity error rate of a transcript against a reference, and its ratio to the word error rate.

    errors / entities          errors / entities / WER

Definition: design page "Field study" (CallScreenBench, appendix A: names, numbers, amounts, dates;
24.0 %, 0.74 x WER, there against another recogniser and not the truth). Entities are found in the
*reference* alone; one is an error unless each of its tokens is matched, with nothing between and no
digit added to its ends ("36" heard as "360").

Tokens: lower case, `verifiers.readback_text.ordered_tokens` ("thirty six", "36" and "3 6" are all
`3 6`), ordinals as their numbers, "$20" as "20 dollars", plural units as singular. So a number is
one token a digit in the WER too.

- name: a phrase of the list that is given; none is guessed.
- amount: a number before a unit of money or "percent".
- date: a month next to a number ("3rd of May", "May 3"), any other month, a day of the week.
- number: any other run of digits. A lone "one" is none ("the one on Friday").

Deviation: two numbers side by side are one run; "may", "march" and "august" alone are no dates.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from verifiers.readback_text import ordered_tokens

TOKENS_MAX = 6_000
"""Of either text: the table of the alignment has as many rows and columns, 2 bytes a cell."""
KINDS = ("name", "number", "amount", "date")

_ORDINALS = {
    "first": "one", "third": "three", "fourth": "four", "fifth": "five", "sixth": "six",
    "seventh": "seven", "eighth": "eight", "ninth": "nine", "tenth": "ten", "eleventh": "eleven",
    "twelfth": "twelve", "thirteenth": "thirteen", "fourteenth": "fourteen",
    "fifteenth": "fifteen", "sixteenth": "sixteen", "seventeenth": "seventeen",
    "eighteenth": "eighteen", "nineteenth": "nineteen", "twentieth": "twenty",
    "thirtieth": "thirty"}
"""Without "second", which is a time as often."""
_UNITS = {"dollars": "dollar", "euros": "euro", "pounds": "pound", "cents": "cent",
          "pennies": "penny", "percent": "percent"}
_UNIT_TOKENS = frozenset(_UNITS.values()) | {"pence"}
_MONTHS = frozenset({"january", "february", "march", "april", "may", "june", "july", "august",
                     "september", "october", "november", "december"})
_ALSO_WORDS = frozenset({"may", "march", "august"})
_DAYS = frozenset({"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"})
_SIGNS = {"$": "dollars", "\u20ac": "euros", "\u00a3": "pounds"}
_MONEY = re.compile(r"([$\u20ac\u00a3])\s*(\d[\d.,]*\d|\d)")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_SUFFIX = re.compile(r"(?<=\d)(st|nd|rd|th)\b")
_WORDS = re.compile(r"[a-z]+")
_LONE_OH = re.compile(r"\boh\b")
_DIGIT_WORD = re.compile(
    r"(zero|oh|one|two|three|four|five|six|seven|eight|nine|ty|hundred|\d)[\s-]*$"
    r"|^[\s-]*(zero|one|two|three|four|five|six|seven|eight|nine|\d)")


@dataclass(frozen=True, slots=True)
class Entity:
    """Tokens `[start, end)` of the reference."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Understanding:
    """The additive parts. entities, wrong: counts by kind. reference_n: tokens of the reference;
    edits_n: substitutions, deletions and insertions, at least."""

    entities: dict[str, int]
    wrong: dict[str, int]
    reference_n: int
    edits_n: int


def understanding(reference: str, heard: str, names: Sequence[str] = ()) -> Understanding:
    """Compare a transcript with a reference.

    Raises `ValueError` where the reference has no word or a text over `TOKENS_MAX` tokens.
    """
    wanted, got = tokens(reference), tokens(heard)
    if not wanted:
        raise ValueError("expected a reference with words, got none")
    if max(len(wanted), len(got)) > TOKENS_MAX:
        raise ValueError(f"expected at most {TOKENS_MAX} tokens, got {max(len(wanted), len(got))}")
    found = entities(wanted, [tokens(name) for name in names])
    edits_n, places = align(wanted, got)
    wrong = Counter(e.kind for e in found if not _right(e, wanted, got, places))
    total = Counter(e.kind for e in found)
    return Understanding({k: total[k] for k in KINDS}, {k: wrong[k] for k in KINDS}, len(wanted),
                         edits_n)


def tokens(text: str) -> tuple[str, ...]:
    """Normalised tokens."""
    text = text.lower().replace("\u2019", "'").replace("'", "").replace("%", " percent")
    text = _THOUSANDS.sub("", text)
    text = _MONEY.sub(lambda m: f"{m[2]} {_SIGNS[m[1]]}", text)
    text = _SUFFIX.sub("", text)
    text = re.sub(r"\ba(?= (hundred|thousand)\b)", "one", text)
    text = _WORDS.sub(lambda m: _ORDINALS.get(m[0], _UNITS.get(m[0], m[0])), text)
    text = _LONE_OH.sub(lambda m: m[0] if _near_digit(text, m) else "ohh", text)
    return ordered_tokens(text)


def _near_digit(text: str, match: re.Match[str]) -> bool:
    """Is this "oh" a zero: right after or before a number?"""
    before, after = text[:match.start()][-12:], text[match.end():][:12]
    return any(_DIGIT_WORD.search(part) for part in (before, after))


def entities(wanted: Sequence[str], names: Sequence[Sequence[str]]) -> list[Entity]:
    """Entities of a reference, in order, none over another; a name goes first."""
    out: list[Entity] = []
    phrases = sorted({tuple(n) for n in names if n}, key=lambda n: (-len(n), n))
    at = 0
    while at < len(wanted):
        found = next((Entity("name", at, at + len(p)) for p in phrases
                      if tuple(wanted[at:at + len(p)]) == p), None) or _other(wanted, at)
        if found is not None:
            out.append(found)
        at = at + 1 if found is None else found.end
    return out


def _other(wanted: Sequence[str], at: int) -> Entity | None:
    token = wanted[at]
    if token in _MONTHS:
        end = _digits_end(wanted, at + 1)
        if end > at + 1 or token not in _ALSO_WORDS:
            return Entity("date", at, end)
        return None
    if token in _DAYS:
        return Entity("date", at, at + 1)
    end = _digits_end(wanted, at)
    if end == at:
        return None
    after = wanted[end] if end < len(wanted) else ""
    if after in _UNIT_TOKENS:
        return Entity("amount", at, end + 1)
    month = end + 1 if after == "of" else end
    if month < len(wanted) and wanted[month] in _MONTHS:
        return Entity("date", at, _digits_end(wanted, month + 1))
    return None if tuple(wanted[at:end]) == ("1",) else Entity("number", at, end)


def _digits_end(wanted: Sequence[str], at: int) -> int:
    while at < len(wanted) and wanted[at].isdigit():
        at += 1
    return at


def align(wanted: Sequence[str], got: Sequence[str]) -> tuple[int, list[int | None]]:
    """Fewest edits (Levenshtein) from `wanted` to `got`, and where in `got` each token of `wanted`
    is matched, `None` where it is not. Of equal alignments the one that matches latest."""
    ids = {token: k for k, token in enumerate(dict.fromkeys([*wanted, *got]))}
    columns = np.array([ids[t] for t in got], dtype=np.int32)
    along = np.arange(len(got) + 1, dtype=np.int32)
    rows: NDArray[np.uint16] = np.zeros((len(wanted) + 1, len(got) + 1), dtype=np.uint16)
    rows[0] = along
    for i, token in enumerate(wanted):
        before = rows[i].astype(np.int32)
        row = before + 1
        row[1:] = np.minimum(row[1:], before[:-1] + (columns != ids[token]))
        # An insertion costs one a column: the running minimum of what is left of it.
        rows[i + 1] = np.minimum.accumulate(row - along) + along
    places: list[int | None] = [None] * len(wanted)
    i, j = len(wanted), len(got)
    while i and j:
        here = int(rows[i, j])
        same = wanted[i - 1] == got[j - 1]
        if here == int(rows[i - 1, j - 1]) + (not same):
            i, j = i - 1, j - 1
            if same:
                places[i] = j
        elif here == int(rows[i - 1, j]) + 1:
            i -= 1
        else:
            j -= 1
    return int(rows[-1, -1]), places


def _right(entity: Entity, wanted: Sequence[str], got: Sequence[str],
           places: Sequence[int | None]) -> bool:
    """Matched whole, with nothing between and no digit put to an end of digits."""
    there = [p for p in places[entity.start:entity.end] if p is not None]
    if len(there) < entity.end - entity.start or there[-1] - there[0] != len(there) - 1:
        return False
    matched = set(places)
    for edge, beside in ((entity.start, there[0] - 1), (entity.end - 1, there[-1] + 1)):
        if (wanted[edge].isdigit() and 0 <= beside < len(got) and got[beside].isdigit()
                and beside not in matched):
            return False
    return True
