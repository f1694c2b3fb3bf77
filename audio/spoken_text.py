"""Text as it is spoken: what an engine is given, and the words that an aligner looks for.

Texts are written in spoken form ("four one five", "eight hundred milligrams", "half past three").
The normaliser covers only what cannot change a word:

- typographic quotes and apostrophes become ASCII; double quotes are dropped;
- dashes between words become a comma; runs of white space become one space;
- a run of sentence punctuation becomes one mark: `?` if it holds one, else `!` if it holds one,
  else a comma where dots are followed by a lower-case word, else its first mark. Runs of dots are
  known to run away in eSpeak NG ("wait.. what");
- a text that ends without a mark gets a full stop, since short texts without one end in noise.

Everything else is refused with an `InputError`: digits, symbols, letters outside ASCII, texts
without a word, texts over `MAX_CHARS`. An engine would read "911" in one way and the aligner in
another, and nothing would say so.
"""

from __future__ import annotations

import re

from audio.errors import InputError

MAX_CHARS = 600
"""Refused above. Four times the longest segment of DSB-IFEval (140); engines cut or fail beyond
some hundreds of characters (XTTS: 250 characters, 400 tokens)."""

_REPLACE = str.maketrans({
    "\u2018": "'", "\u2019": "'", "\u02bc": "'", "\u201c": '"', "\u201d": '"',
    "\u2013": " - ", "\u2014": " - ", "\u2026": "...", "\u00a0": " ",
})
_DASH = re.compile(r"(?<![A-Za-z'])-+|-+(?![A-Za-z'])")
_BLANK_BEFORE_MARK = re.compile(r"\s+(?=[.,!?;:])")
_PUNCTUATION_RUN = re.compile(r"[.,!?;:](?:\s*[.,!?;:])*")
_CROWDED = re.compile(r"([.,!?;:])(?=[A-Za-z'])")
_ALLOWED = re.compile(r"[A-Za-z' .,!?;:-]*")
_WORD = re.compile(r"'?[A-Za-z]+(?:'[A-Za-z]+)*")
_CLIPPED = frozenset({
    "'bout", "'cause", "'course", "'cuse", "'em", "'gain", "'kay", "'n", "'round", "'til", "'tis",
    "'twas",
})
"""Words that are written with an apostrophe in front; elsewhere it is a quotation mark."""

_LETTER_A = re.compile(r"\bA\b(?!')")
_LETTER_BEFORE = re.compile(r"\b[A-Z] $")
_LETTER_AFTER = re.compile(r"^ ([A-Z]\b|(as|is|and|or|to|equals|plus|minus|times|over)\b)")
_SENTENCE_START = re.compile(r"(^|[.!?] )$")


def normalise(text: str) -> str:
    """Text as every engine is given it; idempotent.

    Raises:
        InputError: the text holds what is not in spoken form, no word, or too many characters.
    """
    if len(text) > MAX_CHARS:
        raise InputError.expected(
            f"at most {MAX_CHARS} characters a segment", got=len(text), where=_shown(text)
        )
    out = text.translate(_REPLACE).replace('"', "")
    out = " ".join(_DASH.sub(", ", out).split())
    out = _BLANK_BEFORE_MARK.sub("", out)
    out = _PUNCTUATION_RUN.sub(_one_mark, out).lstrip(" .,!?;:-")
    out = _CROWDED.sub(r"\1 ", out)
    stray = _ALLOWED.sub("", out)
    if stray:
        raise InputError.expected(
            "words in spoken form (letters, apostrophes, hyphens, . , ! ? ; :)",
            got=repr(stray[0]), where=_shown(text),
        )
    if not _WORD.search(out):
        raise InputError.expected("at least one word", got="none", where=_shown(text))
    return out if out[-1] in ".,!?" else out.rstrip(" ;:") + "."


def words(text: str) -> tuple[str, ...]:
    """The spoken words of a normalised text in order, case kept, hyphenated words apart."""
    found = (match.group() for match in _WORD.finditer(text))
    return tuple(
        word if word.lower() in _CLIPPED else word.removeprefix("'") for word in found
    )


def mark_letter_a(text: str, spoken: str) -> str:
    """Replace every "A" that is a letter's name, for engines that would read the article.

    A capital A inside a sentence is a letter: the article is small there. At the start of a
    sentence it is one where a letter stands next to it, or a word that no article goes before.
    """

    def replace(match: re.Match[str]) -> str:
        before, after = text[:match.start()], text[match.end():]
        spelled = _LETTER_BEFORE.search(before) or _LETTER_AFTER.search(after)
        return "A" if _SENTENCE_START.search(before) and not spelled else spoken

    return _LETTER_A.sub(replace, text)


def _one_mark(run: re.Match[str]) -> str:
    """The mark that a run of punctuation stands for."""
    marks = run.group().replace(" ", "")
    following = run.string[run.end():].lstrip()[:1]
    if len(marks) == 1:
        return marks
    for mark in "?!":
        if mark in marks:
            return mark
    return "," if marks.startswith("..") and following.islower() else marks[0]


def _shown(text: str) -> str:
    """The text for a one-line message."""
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= 80 else flat[:77] + "...")
