"""Does a persona give the directive away? Imperative lint, content-word overlap, length.

Definitions: DSB-IFEval, appendix B.6 (gates V3 and V4). Texts in, numbers and offending words out.
"""

from __future__ import annotations

import re

JACCARD_LIMIT = 0.15
"""Overlap must be below this (appendix B.6)."""
PERSONA_WORDS = (60, 120)
"""Allowed length of a persona, inclusive (appendix B.6)."""

IMPERATIVES = (
    "interrupt", "backchannel", "wait", "pause", "yield", "acknowledge", "respond", "reply",
    "speak", "stay silent", "keep quiet", "let me finish", "let them finish", "jump in", "cut in",
    "take the floor", "hold the floor", "talk over", "repeat back", "read back",
)
"""The blocklist of appendix B.6, matched at word boundaries in any case."""

_STOP_TEXT = """
a about above after again against all also although am among an and any are around as at be because
been before being below between both but by can cannot could did do does doing down during each
either else even ever every few for from further had has have having he her here hers herself him
himself his how however i if in into is it its itself just less me might mine more most much must my
myself neither never no nor not of off often on once onto or other others our ours ourselves out
over own per perhaps quite she should since so some still such than that the their theirs them then
there these they this those though through to together too toward towards under until unless up
upon us very was we were what whatever when whenever where which while who whole whom whose why
will with within without would yet you your yours yourself yourselves
don't doesn't didn't isn't aren't wasn't weren't won't wouldn't can't couldn't shouldn't it's
that's there's they're you're we're i'm i've you've they've he's she's
"""
STOP_WORDS = frozenset(_STOP_TEXT.split())
"""Function words only. The paper's list is not published, so this one is ours; it leaves in what
table 17 counts as content (`back`, `nothing`, `one`, `rather`, `themselves`)."""

_TOKEN = re.compile(r"[a-z']+")
_IMPERATIVE = re.compile(
    r"\b(?:" + "|".join(re.escape(w).replace(r"\ ", r"\s+") for w in IMPERATIVES) + r")\b",
    re.IGNORECASE)


def imperatives(persona: str) -> tuple[str, ...]:
    """Blocklisted words in a persona, as written, in order."""
    return tuple(m.group(0) for m in _IMPERATIVE.finditer(persona))


def content_words(text: str) -> frozenset[str]:
    """Lower-cased `[a-z']+` tokens without stop words and single characters.

    Typographic apostrophes count as `'`; apostrophes at the edge of a token are quotes and fall
    away.
    """
    plain = text.lower().replace("’", "'")
    tokens = (t.strip("'") for t in _TOKEN.findall(plain))
    return frozenset(t for t in tokens if len(t) > 1 and t not in STOP_WORDS)


def overlap(persona: str, directive: str) -> tuple[float, tuple[str, ...]]:
    """Jaccard index of the content words of both, 0 to 1, and the shared words.

    Raises `ValueError` when neither text has a content word: there is no index then.
    """
    left, right = content_words(persona), content_words(directive)
    if not left | right:
        raise ValueError("no content words in either text")
    shared = left & right
    return len(shared) / len(left | right), tuple(sorted(shared))


def word_count(text: str) -> int:
    """Words separated by white space, dashes that stand alone not counted."""
    return sum(1 for w in text.split() if any(c.isalnum() for c in w))
