"""No conversation of the built-in suite is another one with its nouns swapped.

Names, numbers and nouns are masked (by the HanTa tagger, which brings its English model along);
two conversations may share less than 15 % of their trigrams of what is left (Jaccard, sets).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations

import pytest
from HanTa.HanoverTagger import HanoverTagger

from probes.loader import load_suite
from probes.spec import Conversation

LIMIT = 0.15
MASK = "_"
NUMBERS = frozenset((
    "zero", "oh", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
    "nineteen", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
    "hundred", "thousand", "half", "quarter", "first", "second", "third", "fourth", "fifth"))
NOUNS_AND_NUMBERS = ("NN", "NP", "CRD", "ORD")
"""Tags of the British National Corpus that begin so: nouns, names, numerals."""

Trigrams = frozenset[tuple[str, str, str]]


@pytest.fixture(scope="module")
def tagger() -> HanoverTagger:
    return HanoverTagger("morphmodel_en.pgz")


def masked(tagger: HanoverTagger, text: str) -> Iterator[str]:
    """Words of a text in lower case. Letters are masked where a name or code is spelled, which
    takes two of them; the x of an equation is no name. Contractions the tagger cannot tag."""
    for sentence in re.split(r"(?<=[.?!])\s+", text):
        words = re.findall(r"[A-Za-z']+", sentence)
        letter = [len(w) == 1 and w not in ("a", "I") for w in words]
        for k, (word, _lemma, tag) in enumerate(tagger.tag_sent(words) if words else ()):
            spelled = letter[k] and True in (*letter[max(k - 1, 0) : k], *letter[k + 1 : k + 2])
            noun = tag.startswith(NOUNS_AND_NUMBERS) and "'" not in word and not letter[k]
            yield MASK if spelled or noun or word.lower() in NUMBERS else word.lower()


def trigrams(tagger: HanoverTagger, texts: list[str]) -> Trigrams:
    found: set[tuple[str, str, str]] = set()
    for text in texts:
        words = list(masked(tagger, text))
        found.update(zip(words, words[1:], words[2:], strict=False))
    return frozenset(found)


def jaccard(a: Trigrams, b: Trigrams) -> float:
    return len(a & b) / len(a | b)


def texts(conversation: Conversation) -> list[str]:
    return [conversation.turn1, " ".join(conversation.turn2.values())]


def test_a_swapped_noun_is_seen(tagger: HanoverTagger) -> None:
    """The measure itself: one text with other nouns, names and numbers is the same text."""
    a = trigrams(tagger, ["My wrist is swollen and I told Maria that four stairs were icy."])
    b = trigrams(tagger, ["My ankle is swollen and I told Peter that nine steps were icy."])
    c = trigrams(tagger, ["Could you move the dentist to a day when I'm not working late?"])
    assert jaccard(a, b) == 1.0
    assert jaccard(a, c) == 0.0


def test_unrelated_conversations_share_few_masked_trigrams(tagger: HanoverTagger) -> None:
    conversations = load_suite("dsb-ifeval").conversations
    found = {name: trigrams(tagger, texts(c)) for name, c in conversations.items()}
    assert len(found) == 224
    closest = max((jaccard(found[a], found[b]), a, b) for a, b in combinations(found, 2))
    print(f"\nclosest of {len(found)} conversations: {closest}")
    assert closest[0] < LIMIT
