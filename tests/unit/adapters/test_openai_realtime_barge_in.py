"""The Realtime protocol: the user speaks while a reply is heard, and what is truncated."""

from __future__ import annotations

import pytest
from driven_realtime import MS, PCM, Driven
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.base import (
    Interrupted,
    StateChanged,
)


@pytest.mark.parametrize(("at_ms", "audio_end_ms"), [
    (40.0, 40), (40.9, 40), (0.9, None), (0.0, None), (199.99, 199)])
def test_a_barge_in_interrupts_and_tells_how_much_was_heard(
    at_ms: float, audio_end_ms: int | None,
) -> None:
    d = Driven(truncate_on_barge_in=True)
    d.begin()
    d.audio(PCM[:9600], 100)  # 200 ms of audio
    d.speech_started(100 + at_ms)
    assert d.of(Interrupted) == [Interrupted(round((100 + at_ms) * MS), "r1")]
    expected = [] if audio_end_ms is None else [
        {"event_id": "truncate_2", "type": "conversation.item.truncate", "item_id": "i1",
         "content_index": 0, "audio_end_ms": audio_end_ms}]
    assert d.messages == expected


def test_nothing_is_truncated_unless_it_is_asked_for() -> None:
    d = Driven()
    d.begin()
    d.audio(PCM[:9600], 100)
    d.speech_started(150)
    assert len(d.of(Interrupted)) == 1
    assert d.messages == []


def test_what_was_heard_is_never_more_than_what_was_received() -> None:
    d = Driven(truncate_on_barge_in=True)
    d.begin()
    d.audio(PCM[:4824], 0)  # 100.5 ms; the response is still open when it has been heard
    d.speech_started(5_000)
    assert d.of(Interrupted) == [Interrupted(5_000 * MS, "r1")]
    assert [m["audio_end_ms"] for m in d.messages] == [100]


def test_gaps_are_not_counted_as_heard() -> None:
    d = Driven(truncate_on_barge_in=True)
    d.begin()
    d.audio(PCM[:4800], 0)      # heard 0-100
    d.audio(PCM[:4800], 300)    # heard 300-400
    d.audio(PCM[:4800], 310)    # queued 400-500
    d.speech_started(450)
    assert [m["audio_end_ms"] for m in d.messages] == [250]


def test_the_user_speaking_while_nothing_is_heard_interrupts_nothing() -> None:
    d = Driven(truncate_on_barge_in=True)
    d.speech_started(1)
    d.begin()
    d.audio(PCM[:4800], 10)
    d.done(t_ms=20)
    d.speech_started(200)  # heard to its end at 110, and done
    assert d.of(Interrupted) == []
    assert d.messages == []
    assert [e.name for e in d.of(StateChanged)].count("input_audio_buffer.speech_started") == 2


def test_a_finished_response_that_is_still_being_heard_is_interrupted() -> None:
    d = Driven(truncate_on_barge_in=True)
    d.begin()
    d.audio(PCM[:48000], 10)  # a second, all at once
    d.done(t_ms=20)
    d.speech_started(510)
    d.speech_started(520)
    assert d.of(Interrupted) == [Interrupted(510 * MS, "r1")]
    assert [m["audio_end_ms"] for m in d.messages] == [500]


def test_an_open_response_without_audio_is_void_but_nothing_is_truncated() -> None:
    d = Driven(truncate_on_barge_in=True)
    d.begin("r1")
    d.audio(PCM[:4800], 0)
    d.done("r1", t_ms=1)
    d.begin("r2", 200)
    d.speech_started(210)
    assert d.of(Interrupted) == [Interrupted(210 * MS, "r2")]
    assert d.messages == []


def test_audio_after_the_interruption_is_not_counted_as_heard() -> None:
    d = Driven(truncate_on_barge_in=True)
    d.begin("r1")
    d.audio(PCM[:48000], 0)
    d.speech_started(100)
    d.audio(PCM[:48000], 110)
    d.done("r1", "cancelled", 120)
    d.begin("r2", 500)
    d.audio(PCM[:9600], 500, response="r2", item="i2")
    d.speech_started(550)
    assert [(m["item_id"], m["audio_end_ms"]) for m in d.messages] == [("i1", 100), ("i2", 50)]
    assert [e.response_id for e in d.of(Interrupted)] == ["r1", "r2"]


def test_the_item_being_heard_is_truncated_and_not_the_one_behind_it() -> None:
    d = Driven(truncate_on_barge_in=True)
    d.begin("r1")
    d.audio(PCM[:9600], 0, item="i1")
    d.audio(PCM[:9600], 0, item="i2")
    d.speech_started(150)
    assert [(m["item_id"], m["audio_end_ms"]) for m in d.messages] == [("i1", 150)]


def test_without_an_item_id_there_is_nothing_to_truncate() -> None:
    d = Driven(truncate_on_barge_in=True)
    d.begin()
    d.audio(PCM[:9600], 0, item=None)
    d.speech_started(50)
    assert len(d.of(Interrupted)) == 1
    assert d.messages == []


def test_a_server_that_does_not_interrupt_flushes_nothing() -> None:
    d = Driven(truncate_on_barge_in=True, interrupt_response=False)
    d.begin()
    d.audio(PCM[:9600], 0)
    d.speech_started(50)
    assert d.of(Interrupted) == []
    assert d.messages == []


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 5_000)), min_size=1, max_size=8),
       st.integers(0, 2_000))
def test_the_truncation_equals_a_sample_by_sample_playout(
    chunks: list[tuple[int, int]], stop_ms: int,
) -> None:
    d = Driven(truncate_on_barge_in=True)
    d.begin()
    free, heard, received, t = 0, 0, 0, 0
    stop = stop_ms * 24  # in samples of 24 kHz: whole milliseconds are whole samples
    for wait_ms, n in chunks:
        if t + wait_ms > stop_ms:
            break
        t += wait_ms
        d.audio(PCM[:2 * n], t)
        start = max(t * 24, free)
        free = start + n
        received += n
        heard += max(0, min(free, stop) - start)
    d.speech_started(stop_ms)
    sent = [m["audio_end_ms"] for m in d.messages]
    assert sent == ([heard // 24] if heard >= 24 else [])
    assert all(ms * 24 <= received for ms in sent)
