"""Estimated word times against hand-computed ones."""

from __future__ import annotations

from types import SimpleNamespace

from rig.playout import Arrival, Interruption, place
from rig.record import AudioEvent, TextEvent
from rig.transcript import heard_transcript

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
