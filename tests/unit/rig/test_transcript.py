"""Estimated word times against hand-computed ones."""

from __future__ import annotations

import random
import time
from types import SimpleNamespace

import pytest

from audio.errors import AudioFileError
from rig.playout import Arrival, Interruption, Placement, place
from rig.record import AudioEvent, TextEvent
from rig.transcript import first_words, heard_transcript, heard_wordless

MS = 1_000_000
RATE = 1000


def record(events, mode):
    return SimpleNamespace(
        events=events,
        adapter=SimpleNamespace(capabilities={"transcript": mode, "output_rate_hz": RATE}))


def audio(t_ms, n, response="r1"):
    return AudioEvent(seq=0, t_ns=t_ms * MS, n=n, response_id=response)


def text(t_ms, words, response="r1", received_n=0, audio_n=None):
    return TextEvent(seq=0, t_ns=t_ms * MS, text=words, response_id=response,
                     received_n=received_n, audio_n=audio_n)


def heard(events, mode="response", stop_ms=None, recorded_ms=100_000):
    arrivals = [Arrival(e.t_ns, e.n, e.response_id) for e in events if isinstance(e, AudioEvent)]
    stops = [] if stop_ms is None else [Interruption(stop_ms * MS)]
    placements = place(arrivals, stops, "flush" if stops else "hold", RATE)
    found = heard_transcript(record(events, mode), placements, recorded_ms * MS)
    return None if found is None else [(t.text, t.start_ns // MS, t.end_ns // MS) for t in found]


def test_words_share_the_audio_by_characters():
    # 1000 ms of audio heard from 200 ms on; "four five" is 8 characters: 125 ms each
    assert heard([text(100, "four "), audio(200, 1000), text(300, "five")]) == [
        ("four", 200, 700), ("five", 700, 1199)]


def test_words_whose_audio_was_dropped_are_not_heard():
    events = [text(0, "aaaa bbbb cccc dddd"), audio(0, 1000)]
    assert [w for w, _, _ in heard(events, stop_ms=450)] == ["aaaa", "bbbb"]
    assert len(heard(events)) == 4


def test_words_after_the_end_of_the_recording_are_not_heard():
    events = [text(0, "aaaa bbbb cccc dddd"), audio(0, 1000)]
    assert [w for w, _, _ in heard(events, recorded_ms=500)] == ["aaaa", "bbbb"]


def test_text_without_sound_was_not_heard():
    assert heard([text(0, "four one five")]) == []


def test_no_transcript_is_not_an_empty_one():
    assert heard([audio(0, 100)], mode="none") is None


def test_responses_keep_their_own_audio():
    events = [audio(0, 100, "r1"), audio(0, 100, "r2"), text(5, "two", "r2"), text(6, "one", "r1")]
    assert heard(events) == [("one", 0, 99), ("two", 100, 199)]


def test_stream_words_are_heard_with_the_audio_that_had_arrived():
    events = [audio(0, 100, None), text(1, "hel", None, 100), audio(400, 100, None),
              text(401, "lo world", None, 200)]
    assert heard(events, mode="stream") == [("hello", 99, 99), ("world", 499, 499)]


def test_stream_words_are_heard_where_the_system_says_that_they_are():
    # 200 ms heard from 0 on and 200 ms from 400 on; the text comes when all of it is there
    events = [audio(0, 200, None), audio(400, 200, None),
              text(700, "one tw", None, 400, audio_n=150), text(701, "o", None, 400, audio_n=199),
              text(702, " three", None, 400, audio_n=200), text(703, " four", None, 400),
              text(704, " never", None, 400, audio_n=400)]
    assert heard(events, mode="stream") == [
        ("one", 150, 150), ("two", 150, 150), ("three", 400, 400), ("four", 599, 599)]
    # What was flushed was not heard, however late its text came.
    assert [w for w, _, _ in heard(events, mode="stream", stop_ms=450)] == ["one", "two", "three"]


def test_the_first_words_are_told_with_how_many_more_there_are():
    events = [audio(0, 300, "r1"), audio(300, 300, "r2"), text(5, "d e f", "r2"),
              text(6, "a b c", "r1")]
    placements = place([Arrival(e.t_ns, e.n, e.response_id) for e in events[:2]], [], "hold", RATE)
    for most, words, left in ((2, "ab", 4), (6, "abcdef", 0), (None, "abcdef", 0), (0, "", 6)):
        found = first_words(record(events, "response"), placements, 10**12, most)
        assert found is not None
        assert ("".join(t.text for t in found[0]), found[1]) == (words, left)


@pytest.mark.parametrize("mode", ["response", "stream"])
def test_the_first_words_are_those_of_all(mode):
    """Of responses whose sound comes in turns, part of it dropped."""
    draw = random.Random(7)
    for _ in range(40):
        events, arrived_n = [], 0
        for k in range(30):
            response = draw.choice(["r1", "r2", "r3"])
            n = draw.randint(0, 120)
            events += [audio(30 * k, n, response),
                       text(30 * k, draw.choice(["one ", "two three", " ", "x y z "]), response,
                            arrived_n + n)]
            arrived_n += n
        arrivals = [Arrival(e.t_ns, e.n, e.response_id) for e in events[::2]]
        stops = [Interruption(draw.randint(0, 900) * MS)]
        placements = place(arrivals, stops, "flush", RATE)
        every, none_left = first_words(record(events, mode), placements, 10**12, None)
        assert none_left == 0
        for most in (0, 1, 5, 30, 1000):
            assert first_words(record(events, mode), placements, 10**12, most) == (
                every[:most], max(0, len(every) - most))


@pytest.mark.parametrize(("mode", "events", "expected"), [
    ("response", [audio(0, 100), text(1, "one")], ()),
    ("response", [audio(0, 100)], ((0, 100),)),
    ("response", [audio(0, 100), text(1, " \n")], ((0, 100),)),
    ("response", [audio(0, 100), text(1, "one"), audio(500, 50, "r2"), audio(550, 50, "r2")],
     ((500, 600),)),
    ("response", [audio(0, 100), text(1, "one", "r2")], ((0, 100),)),
    ("response", [text(1, "one")], ()),
    ("stream", [audio(0, 100, None)], ((0, 100),)),
    ("stream", [audio(0, 100, None), audio(900, 100, None), text(1, "one", None, 100)], ()),
    ("none", [audio(0, 100)], ()),
])
def test_where_audio_was_heard_whose_words_never_came(mode, events, expected):
    arrivals = [Arrival(e.t_ns, e.n, e.response_id) for e in events if isinstance(e, AudioEvent)]
    found = heard_wordless(record(events, mode), place(arrivals, [], "hold", RATE))
    assert tuple((a // MS, b // MS) for a, b in found) == expected


def test_a_place_behind_all_audio_is_never_heard():
    events = [audio(0, 100, None), text(1, "one", None, 100, audio_n=99),
              text(1, " two", None, 100, audio_n=10**30)]
    assert heard(events, mode="stream") == [("one", 99, 99)]


@pytest.mark.parametrize(("start_ns", "n"), [(10**30, 10), (0, 10**30), (0, 1 << 32)])
def test_numbers_that_no_session_has_are_one_line(start_ns, n):
    broken = record([audio(0, 10), text(1, "one")], "response")
    broken.case_id, broken.trial = "R1", 2
    with pytest.raises(AudioFileError, match=r"^the record of R1 t2: expected times and counts"):
        heard_transcript(broken, [Placement(start_ns, 0, n, 0, "r1")], 10**12)


@pytest.mark.parametrize("mode", ["response", "stream"])
def test_a_flood_of_words_over_many_pieces_of_audio_takes_seconds(mode):
    """Not words times pieces: 2e9 steps, which take minutes."""
    events = [audio(i, 1, "ab"[i % 2]) for i in range(4000)]
    words = text(0, "lorem " * 500_000, "a", received_n=4000, audio_n=3999)
    began_s = time.process_time()
    found = heard([*events, words], mode)
    assert time.process_time() - began_s < 20
    assert len(found) == 500_000
    assert found[0][1] == (0 if mode == "response" else 3999)
