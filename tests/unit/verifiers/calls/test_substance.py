"""L2 and fillers on spans and words written by hand: every right value is by construction."""

from __future__ import annotations

import dataclasses

import pytest

from audio.spans import Spans
from verifiers.calls.fillers import fillers_n
from verifiers.calls.substance import SNAP_NS, Substance, Word, substance
from verifiers.calls.turns import DOUBT_MARGIN_NS, classify

MS = 1_000_000


def spans(*pairs) -> Spans:
    return Spans.of((round(a * 1000) * MS, round(b * 1000) * MS) for a, b in pairs)


def word(text: str, start: float, end: float) -> Word:
    return Word(text, (round(start * 1000) * MS, round(end * 1000) * MS))


def measured(caller, agent, *words, blind=()) -> Substance:
    return substance(classify(spans(*caller), spans(*agent), blind=spans(*blind)), words)


def ms(values) -> list[float]:
    return [v / MS for v in values]


@pytest.mark.parametrize(("said", "count"), [
    ("The price is ten", 0), ("Um, the price", 1), ("uhm uh the", 2), ("Well, so yes", 2),
    ("Let me check that for you. We have", 6), ("One moment please. Robin", 3),
    ("just a second the", 3), ("you know it is", 2), ("Mm-hm the", 1), ("hold on a moment yes", 4),
    ("Let me look that up: ten", 5), ("yes", 0), ("no thanks", 0), ("umbrella", 0),
    ("sometimes", 0), ("I mean it is", 2), ("ok", 1), ("", 0), ("let us go", 0), ("Er, er", 2),
    ("hold the line please. It", 4), ("Oh I’ll check it. Ten", 4), ("wellness", 0),
    ("give me a minute the", 4), ("please hold the line while", 4), ("- um - ten", 3),
    ("give me your name", 0), ("wait times are", 0), ("I'll see you", 0), ("hold your horses", 0),
    ("bear with me. Ten", 3), ("\u0434\u0430 um", 0), ("f\u00fcr um", 0), ("'um' ten", 1),
    ("__ ' ten", 2), ("let's see ten", 2)])
def test_where_the_substance_begins(said, count):
    assert fillers_n(said.split()) == count


def test_without_a_filler_l2_is_l1():
    found = measured([(1, 2)], [(2.8, 4)], word("Ten", 2.9, 3.1), word("euros", 3.1, 3.6))
    assert ms(found.l1_ns) == ms(found.l2_ns) == [800]
    assert (found.opens_n, found.words_n, found.dropped_n, found.given_n) == (0, 1, 0, 2)


def test_a_holding_line_and_the_answer_four_seconds_later():
    """voicegateway#243: 0.4 s of filler at +0.5 s, 4 s gap, the answer."""
    found = measured([(0, 2)], [(2.5, 2.9), (6.9, 8)], word("Let", 2.5, 2.6),
                     word("me", 2.6, 2.7), word("check.", 2.7, 2.9), word("Tuesday", 7.0, 7.5))
    assert ms(found.l1_ns) == [500]
    assert ms(found.l2_ns) == [4900]
    assert (found.opens_n, found.words_n, found.filler_only_n) == (1, 1, 0)


def test_a_filler_in_the_same_breath_takes_the_words_own_time():
    found = measured([(0, 2)], [(2.5, 5)], word("um", 2.5, 2.8), word("ten", 3.4, 3.8))
    assert ms(found.l2_ns) == [1400]
    assert found.opens_n == 1


def test_a_reply_of_filler_alone_has_no_l2_and_opens_with_one():
    found = measured([(0, 2), (6, 7)], [(2.5, 2.9), (7.5, 9)], word("Um", 2.5, 2.8),
                     word("ten", 7.5, 8))
    assert ms(found.l1_ns) == ms(found.l2_ns) == [500]
    assert (found.opens_n, found.words_n, found.filler_only_n) == (1, 2, 1)


def test_punctuation_alone_is_no_filler_and_no_word():
    found = measured([(0, 2), (6, 7)], [(2.5, 4), (7.5, 9)], word("-", 2.5, 2.6),
                     word("Ten", 3.0, 3.4), word("...", 7.5, 8), word("!", 5.0, 5.1))
    assert (found.opens_n, found.words_n, found.without_words_n) == (0, 1, 1)
    assert (found.dropped_n, found.given_n) == (0, 4)
    # The first word, not the dash before it, is the first of its span: it is placed 500 ms late.
    assert ms(found.l2_ns) == [1000]


def test_words_outside_detected_speech_are_dropped_and_counted():
    """A transcript that knows an answer where nobody speaks makes no latency."""
    found = measured([(0, 2)], [(4, 5)], word("Ten", 2.1, 2.4), word("euros", 4.1, 4.5))
    assert ms(found.l2_ns) == [2000]
    assert (found.dropped_n, found.given_n) == (1, 2)


def test_a_reply_without_words_is_in_no_figure():
    found = measured([(0, 2), (6, 7)], [(2.5, 4), (7.5, 9)], word("ten", 7.5, 8))
    assert (found.without_words_n, found.words_n, ms(found.l1_ns)) == (1, 1, [500])


@pytest.mark.parametrize(("late_ns", "l2_ns"), [
    (SNAP_NS, 500 * MS), (SNAP_NS + 1, 500 * MS + SNAP_NS + 1)])
def test_the_first_word_of_a_span_begins_with_its_sound(late_ns, l2_ns):
    start = 2500 * MS + late_ns
    call = classify(spans((0, 2)), spans((2.5, 4)))
    found = substance(call, [Word("ten", (start, start + 200 * MS))])
    assert found.l2_ns == (l2_ns,)


@pytest.mark.parametrize(("middle_ns", "dropped"), [
    (2500 * MS - DOUBT_MARGIN_NS - 1, 1), (2500 * MS - DOUBT_MARGIN_NS, 0),
    (4000 * MS + DOUBT_MARGIN_NS - 1, 0), (4000 * MS + DOUBT_MARGIN_NS, 1)])
def test_the_edge_of_detected_speech(middle_ns, dropped):
    call = classify(spans((0, 2)), spans((2.5, 4)))
    assert substance(call, [Word("ten", (middle_ns, middle_ns))]).dropped_n == dropped


def test_an_early_or_late_word_is_clipped_to_its_span():
    early = measured([(0, 2)], [(2.5, 4)], word("ten", 2.3, 2.9))
    assert ms(early.l2_ns) == [500]
    call = classify(spans((0, 2)), spans((2.5, 4)))
    late = 4050 * MS
    assert substance(call, [Word("ten", (late, late))]).l2_ns == (2000 * MS,)


def test_greetings_overlaps_and_backchannels_have_no_l2():
    found = measured([(3, 6), (9, 12)], [(0, 2), (4, 4.5), (11, 14)], word("Hello", 0, 1),
                     word("mhm", 4, 4.4), word("but", 11, 12))
    assert found == Substance((), 0, 0, 3, 0)


def test_an_overlap_ends_the_answer_before_it():
    """What the agent says into the caller's next turn is no substance of the last reply."""
    found = measured([(0, 2), (5, 9)], [(2.5, 3), (8, 11), (11.8, 13)], word("um", 2.5, 2.9),
                     word("ten", 8.2, 9), word("euros", 11.9, 12.5))
    assert (found.filler_only_n, found.l2_ns) == (1, ())


def test_a_doubtful_reply_is_left_out_and_counted():
    found = measured([(0, 2)], [(2.5, 4)], word("ten", 2.5, 3), blind=[(1.9, 2.6)])
    assert (found.doubtful_n, found.words_n, found.l2_ns) == (1, 0, ())


def test_words_in_any_order():
    words = [word("ten", 3.4, 3.8), word("um", 2.5, 2.8)]
    assert measured([(0, 2)], [(2.5, 5)], *words) == measured([(0, 2)], [(2.5, 5)],
                                                              *reversed(words))


def test_the_parts_are_frozen():
    found = measured([(0, 2)], [(2.5, 5)])
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.given_n = 1
