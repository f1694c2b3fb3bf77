"""What the agent says: a small, deterministic dialogue policy over recognised words.

It reads dictated digits back, answers a few simple things by keyword, and otherwise asks for more.
It knows nothing and pretends nothing: no facts, no promises, no names. What it may say beyond its
own sentences are words that it recognised.

Instructions (the system prompt) change one thing: where they ask to confirm, repeat or read back
numbers or details, a turn that holds a number is read back word for word, before anything else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

_DIGITS = {"zero": "zero", "oh": "zero", "one": "one", "two": "two", "three": "three",
           "four": "four", "five": "five", "six": "six", "seven": "seven", "eight": "eight",
           "nine": "nine"}
_NUMBERS = frozenset(_DIGITS) | frozenset((
    "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen",
    "eighteen", "nineteen", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty",
    "ninety", "hundred", "thousand", "half"))

DICTATED_RUN = 3
"""So many digits in a row are dictation; fewer are words of a sentence ("one of them"). Ours."""
JOINED_RUN = 2
"""In a turn with dictation, runs of at least this many digits belong to it. Ours."""
GROUP = 3
"""Digits are read back in threes; a rest of one goes with the group before it."""
MAX_WORDS_BACK = 40
"""Longest word-for-word read-back: about 15 s of speech. Ours; the last words are kept."""

_WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")
_CONFIRM = re.compile(
    r"\b(?:read(?:s|ing)?[ -]?(?:\w+ ){0,3}back|readback|confirm\w*|repeat\w*|"
    r"say (?:\w+ ){0,3}back|echo(?:es|ing)?)\b", re.IGNORECASE)
_NOT = re.compile(r"(?:\b(?:not|never|without|avoid|no need to|rather than|instead of)\b|n't\b)"
                  r"[^.;,]*$", re.IGNORECASE)

NOTHING_HEARD = ("Sorry, I did not catch that.", "Could you say it once more?")
GREETING = ("Hello, I can hear you.", "What can I do for you?")
ANYTHING_ELSE = ("Is there anything else I can do for you?",)
NEUTRAL = ("I see.", "Could you tell me a little more about that?")
CHECK = "Is that right?"
_LONG = (
    "Let us go through it slowly, step by step.",
    "The first thing is to get an overview, so that nothing gets lost on the way.",
    "Then we look at every part by itself and put what matters most at the top.",
    "After that we talk about what you have tried already and how it went.",
    "When all of this is clear, we can think about what to do next and who should be asked.",
    "Tell me which part you would like to begin with.",
)
_ANSWERS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = tuple(
    (re.compile(rf"\b(?:{words})\b"), answer) for words, answer in (
        ("are you (?:still )?there|can you hear me|you with me|still there",
         ("Yes, I am here and I can hear you.",)),
        ("goodbye|good bye|bye|hang up", ("Goodbye.",)),
        ("your name|who are you|who am i (?:talking|speaking) (?:to|with)|are you (?:a|an) \\w+",
         ("I am a small voice agent that runs on this machine.", "I can take down numbers.")),
        ("explain|step by step|walk me through|tell me (?:all|everything|more)|rundown|"
         "everything (?:i|that)|all about|in detail", _LONG),
        ("thanks|thank you|appreciate", ("You are welcome.", "Is there anything else?")),
        ("sorry|hurts?|pain|sick|died|afraid|scared|worried|lost",
         ("I am sorry to hear that.", "Tell me what would help you now.")),
        ("what|when|where|why|who|which|how|(?:can|could|would|will|do|does|did|is|are|should) "
         "(?:i|you|we|it|that|this|there|they|he|she)",
         ("I am only a simple agent and do not know that.",
          "I can write the question down for somebody who does.")),
        ("hello|hi|hey|good (?:morning|afternoon|evening)", GREETING),
    ))


def wants_readback(instructions: str) -> bool:
    """Whether the system prompt asks for confirmation or repetition, and does not forbid it.

    A negation earlier in the same clause ("never repeat their words") turns a mention around.
    """
    return any(not _NOT.search(instructions[:found.start()])
               for found in _CONFIRM.finditer(instructions))


def reply(texts: Sequence[str], instructions: str, *, opening: bool = False) -> tuple[str, ...]:
    """Sentences to say, at least one.

    `texts`: recognised words of every user turn that has not been answered yet, oldest first; an
    empty text is a turn in which nothing was recognised. With no text at all the agent speaks
    unasked: `opening` says that nobody has spoken before.
    """
    if not texts:
        return GREETING if opening else ANYTHING_ELSE
    words = _WORD.findall(" ".join(texts).lower())
    if not words:
        return NOTHING_HEARD
    back = read_back(words, in_full=wants_readback(instructions))
    if back:
        return (back, CHECK)
    text = " ".join(words)
    return next((answer for pattern, answer in _ANSWERS if pattern.search(text)), NEUTRAL)


def read_back(words: Sequence[str], *, in_full: bool) -> str:
    """The sentence that repeats what was dictated, empty where nothing was."""
    if in_full and not _NUMBERS.isdisjoint(words):
        said = [_DIGITS.get(word, word) for word in words[-MAX_WORDS_BACK:]]
        return f"Let me read that back, {_with_pauses(said)}."
    runs = [list(run) for is_digit, run in groupby(words, _DIGITS.__contains__) if is_digit]
    if max(map(len, runs), default=0) < DICTATED_RUN:
        return ""
    groups = [group for run in runs if len(run) >= JOINED_RUN for group in _groups(run)]
    return f"I have {', '.join(groups)}."


def _with_pauses(words: Sequence[str]) -> str:
    """Longer runs of digits in groups and set off by commas, everything else as it is."""
    parts: list[str] = []
    loose: list[str] = []
    for is_digit, run in groupby(words, _DIGITS.__contains__):
        together = list(run)
        if is_digit and len(together) >= DICTATED_RUN:
            parts += [" ".join(loose), *_groups(together)]
            loose = []
        else:
            loose += together
    return ", ".join(part for part in (*parts, " ".join(loose)) if part)


def _groups(run: Sequence[str]) -> list[str]:
    digits = [_DIGITS[word] for word in run]
    ends = [*range(GROUP, len(digits) - 1, GROUP), len(digits)]
    return [" ".join(digits[a:b]) for a, b in zip([0, *ends], ends, strict=False)]
