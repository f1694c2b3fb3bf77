"""Words that hold the floor without an answer in them: where does the substance begin?

Three kinds, each with its source; nothing else is a filler. "Yes", "no", "sure" and names answer.

- filled pauses: "um", "uh" and their spellings (Clark and Fox Tree 2002, Cognition 84:73-111;
  "er", "erm" are the British spellings of the same two);
- discourse markers that open a turn: oh, well, so, now, okay, right, you know, I mean
  (Schiffrin 1987, "Discourse Markers"; "okay", "alright" and "right": Stenström 1994, "An
  Introduction to Spoken Interaction"), and "like" (Fox Tree 2006);
- lines that ask for time: "let me check", "one moment" (voicegateway#243, row 33 of the field
  problems: a filler line that closes the turn makes latency look too good), with what belongs to
  them ("that for you", "please").

Deviation: a marker opens, so "okay" alone counts as a filler with nothing behind it, and "let me
check that box" as a filler before "box". English alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_PAUSE = r"u+h+m*|u+m+|e+r+m*|e+h+|a+h+|h+m+|m+|mhm|mmhm|mm hm|mm hmm|uh huh"
_MARKER = r"oh|well|so|now|okay|ok|alright|all right|right|like|you know|i mean"
_SPAN = r"(?:moment|second|sec|minute|bit)"
_TAIL = r"(?: (?:for you|please|real quick|quickly|now))*"
_HOLD = (
    rf"(?:(?:just|please) )*(?:one|a|another) (?:quick |short )?{_SPAN}{_TAIL}"
    rf"|(?:just |please |can you |could you )*hold (?:on|the line)"
    rf"(?: for)?(?: (?:just )?(?:one|a) {_SPAN})?{_TAIL}"
    rf"|(?:just )?(?:give me|wait)(?: for)?(?: just)? (?:one|a) {_SPAN}{_TAIL}"
    rf"|(?:please )?bear with me(?: for)?(?: just)?(?: (?:one|a) {_SPAN})?{_TAIL}"
    r"|(?:(?:let me|let's|lets)(?: just)? (?:check|see|look|think|find out)"
    r"|(?:i'll|i will)(?: just)? (?:check|look))"
    rf"(?: (?:that|this|it))?(?: (?:up|into))?{_TAIL}"
    rf"|(?:let me|i'll|i will)(?: just)? (?:look|pull) (?:that|this|it) up{_TAIL}")
_FILLER = re.compile(rf"(?:{_HOLD}|{_MARKER}|{_PAUSE})(?= |$)")
_PUNCTUATION = re.compile(r"[^\w']+|_+")
_TYPOGRAPHIC = str.maketrans({"\u2018": "'", "\u2019": "'"})


def is_spoken(word: str) -> bool:
    """Has it a letter or a digit? Some transcripts give punctuation marks as words."""
    return bool(_pieces(word))


def _pieces(word: str) -> list[str]:
    """Its parts between punctuation, in lower case."""
    apart = _PUNCTUATION.sub(" ", word.lower().translate(_TYPOGRAPHIC)).split()
    return [piece for part in apart if (piece := part.strip("'"))]


def fillers_n(words: Sequence[str]) -> int:
    """How many words the reply spends before its first meaningful one; all, where none is.

    Case and punctuation do not matter; a "word" of punctuation alone is passed over. Letters of
    other scripts are no filler.
    """
    said: list[str] = []
    owner: list[int] = []
    for index, word in enumerate(words):
        for piece in _pieces(word):
            said.append(piece)
            owner.append(index)
    text, at, passed = " ".join(said), 0, 0
    while at < len(text):
        found = _FILLER.match(text, at)
        if found is None:
            return owner[passed]
        passed += found.group().count(" ") + 1
        at = found.end() + 1
    return len(words)
