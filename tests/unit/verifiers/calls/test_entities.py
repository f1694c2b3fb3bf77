"""U1: entities and alignments whose right values are counted by hand."""

from __future__ import annotations

import itertools
import random

import pytest

from verifiers.calls.entities import TOKENS_MAX, align, entities, tokens, understanding


@pytest.mark.parametrize(("one", "other"), [
    ("thirty six", "36"), ("three six", "36"), ("$36.50", "thirty six fifty dollars"),
    ("1,250 euros", "one thousand two hundred and fifty Euro"), ("May 3rd", "May three"),
    ("the twenty third of May", "the 23rd of May"), ("two oh five", "205"), ("nine oh", "90"),
    ("5%", "five percent"),
    ("a hundred pounds", "£100"), ("It's", "its")])
def test_what_is_the_same(one, other):
    assert tokens(one) == tokens(other)


@pytest.mark.parametrize(("text", "expected"), [
    ("my name is Robin Miller", [("name", "robin miller")]),
    ("I paid 36 dollars for 2 boxes", [("amount", "3 6 dollar"), ("number", "2")]),
    ("on Friday the 3rd of May", [("date", "friday"), ("date", "3 of may")]),
    ("May 12 or in June", [("date", "may 1 2"), ("date", "june")]),
    ("you may march on", []), ("the one on top", []), ("Oh, I see", []),
    ("room one", []), ("one dollar", [("amount", "1 dollar")]),
    ("call four one five oh two", [("number", "4 1 5 0 2")])])
def test_entities_of_a_reference(text, expected):
    said = tokens(text)
    found = entities(said, [tokens("Robin Miller"), tokens("Robin")])
    assert [(e.kind, " ".join(said[e.start:e.end])) for e in found] == expected


@pytest.mark.parametrize(("heard", "wrong"), [
    ("it costs thirty six dollars", 0), ("it costs 36 dollars", 0), ("it costs 360 dollars", 1),
    ("it costs 1 36 dollars", 1), ("it costs 63 dollars", 1), ("it costs 3 or 6 dollars", 1),
    ("it costs 36", 1), ("", 1), ("well it really costs 36 dollars now", 0)])
def test_one_amount(heard, wrong):
    found = understanding("it costs 36 dollars", heard)
    assert found.entities == {"name": 0, "number": 0, "amount": 1, "date": 0}
    assert found.wrong["amount"] == wrong


def test_a_digit_added_to_a_number():
    assert understanding("room 36 please", "room 360 please").wrong["number"] == 1
    assert understanding("room 36 please", "room 236 please").wrong["number"] == 1
    assert understanding("room 36", "room 36").wrong["number"] == 0
    assert understanding("36 dollars", "1 36 dollars").wrong["amount"] == 1
    assert understanding("36 dollars for 9", "36 dollars for 9").wrong["amount"] == 0


def test_rates_of_a_text_counted_by_hand():
    found = understanding("My name is Robin, come on Friday at 9 for 20 euros",
                          "my name is Robert come on Friday at nine for 30 euro", ["Robin"])
    # my name is robin come on friday at 9 for 2 0 euro: 13 tokens, two of them heard wrong
    assert (found.reference_n, found.edits_n) == (13, 2)
    assert found.entities == {"name": 1, "number": 1, "amount": 1, "date": 1}
    assert found.wrong == {"name": 1, "number": 0, "amount": 1, "date": 0}


def test_the_alignment_is_the_shortest():
    """Against the textbook recurrence on random texts."""
    draw = random.Random(5)
    for _ in range(150):
        one, two = ([draw.choice("abc") for _ in range(draw.randrange(9))] for _ in range(2))
        table = [[max(i, j) if not i * j else 0 for j in range(len(two) + 1)]
                 for i in range(len(one) + 1)]
        for i in range(1, len(one) + 1):
            for j in range(1, len(two) + 1):
                table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1,
                                  table[i - 1][j - 1] + (one[i - 1] != two[j - 1]))
        edits, places = align(one, two)
        assert edits == table[-1][-1]
        used = [p for p in places if p is not None]
        assert used == sorted(set(used))
        assert all(one[i] == two[p] for i, p in enumerate(places) if p is not None)
        # Between two matches the longer side is what was substituted, put in or left out.
        ends = [(-1, -1), *((i, p) for i, p in enumerate(places) if p is not None),
                (len(one), len(two))]
        assert edits == sum(max(i - h, p - o) - 1
                            for (h, o), (i, p) in itertools.pairwise(ends))


def test_what_cannot_be_compared():
    with pytest.raises(ValueError, match="a reference with words"):
        understanding("...", "hello")
    with pytest.raises(ValueError, match=f"at most {TOKENS_MAX} .*got {TOKENS_MAX + 1}"):
        understanding("a", "a " * (TOKENS_MAX + 1))
    assert understanding("a", "b " * TOKENS_MAX).edits_n == TOKENS_MAX
