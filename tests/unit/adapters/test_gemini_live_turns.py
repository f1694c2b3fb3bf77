"""Gemini Live, message by message: turns, their audio and their words."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from driven_gemini import PCM, Driven, names, turn
from hypothesis import given
from hypothesis import strategies as st

from adapters.base import (
    AudioReceived,
    Fault,
    Interrupted,
    ResponseDone,
    ResponseStarted,
    StateChanged,
    TextDelta,
)
from adapters.wire import gemini_live
from adapters.wire.gemini_setup import wrong_audio


@pytest.mark.parametrize("message", [
    {"setupComplete": {}}, {"setupComplete": {"sessionId": "s1"}}, {"setup_complete": {}},
    {"setupComplete": {}, "usageMetadata": {"totalTokenCount": 3}}])
def test_a_session_is_ready_when_its_setup_is_complete(message: dict[str, Any]) -> None:
    d = Driven(ready=False)
    assert not d.wire.ready
    d.give({"usageMetadata": {"totalTokenCount": 1}})
    d.give({"setupComplete": None})
    assert not d.wire.ready
    d.give(message)
    assert d.wire.ready
    d.give({"setupComplete": {}})
    assert d.of(Fault)[-1] == Fault(0, "transparent", "setupComplete again skipped")


def test_a_turn_ends_when_all_of_it_has_come_and_not_when_it_has_been_heard() -> None:
    d = Driven()
    d.audio(1.0)
    d.text("Hello", 1.1)
    d.audio(1.2)
    d.content(1.3, generationComplete=True)
    d.text(" there.", 1.4)
    d.content(9.0, turnComplete=True)
    d.audio(9.1)
    assert names(d.told) == [
        ("ResponseStarted", "turn_1"), ("AudioReceived", "turn_1"), ("TextDelta", "turn_1"),
        ("AudioReceived", "turn_1"), ("ResponseDone", "turn_1"), ("TextDelta", "turn_1"),
        ("ResponseStarted", "turn_2"), ("AudioReceived", "turn_2")]
    (done,) = d.of(ResponseDone)
    assert done == ResponseDone(1_300_000_000, "turn_1", "completed")
    assert b"".join((e.samples * 32768).astype("<i2").tobytes()
                    for e in d.of(AudioReceived)) == PCM[:960] * 3


def test_an_interrupted_turn_has_no_generation_complete() -> None:
    d = Driven()
    d.audio(1.0)
    d.content(1.5, interrupted=True)
    d.content(1.6, turnComplete=True)
    d.audio(1.7)
    assert names(d.told) == [
        ("ResponseStarted", "turn_1"), ("AudioReceived", "turn_1"), ("Interrupted", "turn_1"),
        ("ResponseDone", "turn_1"), ("ResponseStarted", "turn_2"), ("AudioReceived", "turn_2")]
    assert d.of(Interrupted)[0].t_ns == 1_500_000_000
    assert d.of(ResponseDone)[0].status == "interrupted"


def test_a_turn_may_be_interrupted_while_it_is_only_being_heard() -> None:
    d = Driven()
    d.audio(1.0)
    d.content(1.1, generationComplete=True)
    d.content(4.0, interrupted=True)
    d.content(4.0, interrupted=True)
    d.content(4.1, turnComplete=True)
    assert [type(e) for e in d.told] == [
        ResponseStarted, AudioReceived, ResponseDone, Interrupted, Fault]
    assert d.of(Interrupted) == [Interrupted(4_000_000_000, "turn_1")]
    assert d.of(ResponseDone)[0].status == "completed"
    assert d.of(Fault)[0].reason == "interrupted again for turn_1 skipped"


def test_an_interruption_after_the_turn_is_of_whatever_is_still_heard() -> None:
    d = Driven()
    d.audio(1.0)
    d.content(1.1, turnComplete=True)
    d.content(1.2, interrupted=True)
    d.content(1.3, turnComplete=True)
    assert d.of(Interrupted) == [Interrupted(1_200_000_000, None)]
    assert [e.status for e in d.of(ResponseDone)] == ["completed"]
    assert d.of(Fault) == []


def test_what_stands_beside_an_end_comes_before_it() -> None:
    """Gemini 3 sends its last words and sounds together with the end."""
    d = Driven()
    d.give({"usageMetadata": {"totalTokenCount": 9}, "serverContent": {
        "turnComplete": True, "generationComplete": True,
        "outputTranscription": {"text": "Hi", "finished": True}, "modelTurn": turn(PCM[:960])}})
    assert names(d.told) == [
        ("ResponseStarted", "turn_1"), ("AudioReceived", "turn_1"), ("TextDelta", "turn_1"),
        ("ResponseDone", "turn_1")]
    assert d.events[-1] == StateChanged(0, "usageMetadata", '{"totalTokenCount":9}')
    d.content(interrupted=True, modelTurn=turn(PCM[:960]))
    assert names(d.told)[-3:] == [
        ("AudioReceived", "turn_2"), ("Interrupted", "turn_2"), ("ResponseDone", "turn_2")]


@pytest.mark.parametrize(("after_s", "late"), [(0.1, True), (0.3, True), (0.31, False)])
@pytest.mark.parametrize("end", ["generationComplete", "interrupted"])
def test_audio_after_an_end_is_of_that_turn_only_if_it_comes_at_once(
    end: str, after_s: float, late: bool,
) -> None:
    d = Driven()
    d.audio(1.0)
    d.content(2.0, **{end: True})
    d.audio(2.0 + after_s)
    assert d.of(AudioReceived)[-1].response_id == ("turn_1" if late else "turn_2")
    told = {"generationComplete": "completed", "interrupted": "interrupted"}[end]
    assert [f.reason for f in d.of(Fault)] == [
        f"late audio of turn_1, which is {told}" if late else "turn_1 got no turnComplete"]


def test_a_turn_complete_alone_ends_a_turn_with_its_reason() -> None:
    d = Driven()
    d.audio(1.0)
    d.content(2.0, turnComplete=True, turnCompleteReason="RESPONSE_REJECTED")
    assert d.of(ResponseDone) == [ResponseDone(2_000_000_000, "turn_1", "RESPONSE_REJECTED")]
    assert "RESPONSE_REJECTED" in d.of(StateChanged)[-1].detail
    d.content(3.0, turnComplete=True, interactionStatus="IN_PROGRESS", waitingForInput=True)
    assert len(d.of(ResponseDone)) == 1
    assert "IN_PROGRESS" in d.of(StateChanged)[-1].detail
    assert d.of(Fault) == []


@pytest.mark.parametrize(("at", "response_id"), [(4.0, "turn_1"), (4.1, "turn_2")])
def test_a_turn_without_an_end_is_over_after_two_seconds_of_silence(
    at: float, response_id: str,
) -> None:
    d = Driven()
    d.audio(1.0, PCM)  # 1 s: heard from 1 s to 2 s
    d.audio(at)
    d.text("word", at)
    assert [e.response_id for e in d.of(AudioReceived)] == ["turn_1", response_id]
    assert d.of(TextDelta)[0].response_id == response_id
    ended = response_id == "turn_2"
    assert [(e.response_id, e.status) for e in d.of(ResponseDone)] == [
        ("turn_1", "unknown")] * ended
    assert [f.reason for f in d.of(Fault)] == ["turn_1 got no end"] * ended


@pytest.mark.parametrize("value", [False, None, "true", 1, {}])
def test_only_true_ends_anything(value: Any) -> None:
    d = Driven()
    d.audio(1.0)
    d.content(2.0, generationComplete=value, turnComplete=value, interrupted=value)
    assert [type(e) for e in d.told] == [ResponseStarted, AudioReceived]


def test_both_spellings_say_the_same() -> None:
    camel, snake = Driven(), Driven()
    messages = [
        {"serverContent": {"modelTurn": turn(PCM[:960])}},
        {"serverContent": {"outputTranscription": {"text": "Hi"}}},
        {"serverContent": {"inputTranscription": {"text": "user"}, "interrupted": True}},
        {"serverContent": {"turnComplete": True, "turnCompleteReason": "NEED_MORE_INPUT"}},
        {"goAway": {"timeLeft": "5s"}},
        {"sessionResumptionUpdate": {"newHandle": "h", "resumable": True}},
        {"toolCall": {"functionCalls": []}}]
    for message in messages:
        camel.give(message)
        text = json.dumps(message)
        for name in ("serverContent", "modelTurn", "inlineData", "mimeType", "outputTranscription",
                     "inputTranscription", "turnComplete", "turnCompleteReason", "goAway",
                     "timeLeft", "sessionResumptionUpdate", "newHandle", "toolCall"):
            text = text.replace(f'"{name}"', f'"{gemini_live._snake(name)}"')
        assert "modelTurn" not in text
        snake.give(text.encode())
    assert camel.of(Fault) == []
    camel_told, snake_told = (
        [(type(e), getattr(e, "name", ""), getattr(e, "response_id", "")) for e in d.events]
        for d in (camel, snake))
    assert camel_told == snake_told
    assert len(camel_told) > 8


# audio

@given(cuts=st.lists(st.integers(1, 4_799), max_size=12))
def test_audio_in_any_pieces_is_the_same_audio(cuts: list[int]) -> None:
    d = Driven()
    for a, b in pairwise([0, *sorted(set(cuts)), 4_800]):
        d.audio(data=PCM[a:b])
    got = np.concatenate([e.samples for e in d.of(AudioReceived)])
    assert (got * 32768).astype("<i2").tobytes() == PCM[:4_800]
    assert {e.response_id for e in d.of(AudioReceived)} == {"turn_1"}
    assert all(f.severity == "transparent" for f in d.of(Fault))


def test_several_parts_of_a_message_are_taken_in_order_and_text_is_no_speech() -> None:
    d = Driven()
    d.content(modelTurn={"parts": [
        {"text": "thinking", "thought": True}, *turn(PCM[:100])["parts"], {"text": "aside"},
        *turn(PCM[100:300])["parts"], {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]})
    assert [len(e.samples) for e in d.of(AudioReceived)] == [50, 100]
    assert d.of(TextDelta) == []
    assert [e.detail for e in d.of(StateChanged)] == [
        '{"text":"thinking","thought":true}', '{"text":"aside"}', '{"mimeType":"image/png"}']
    assert d.of(Fault) == []


def test_broken_audio_ends_the_session_and_an_empty_piece_begins_nothing() -> None:
    d = Driven()
    for nothing in ("", None):
        d.content(modelTurn={"parts": [{"inlineData": {"data": nothing}}]})
    assert [f.severity for f in d.of(Fault)] == ["transparent"] * 2
    assert d.of(ResponseStarted) == []
    d.content(modelTurn={"parts": [{"inlineData": {"data": "!!!!"}}]})
    assert d.of(Fault)[-1].severity == "infrastructure"
    assert d.of(ResponseStarted) == []


@pytest.mark.parametrize(("said", "reason"), [
    ("AAAA", "expected a modelTurn with a list of parts, got AAAA"),
    ([], "expected a modelTurn with a list of parts, got []"),
    ({"parts": {"inlineData": 1}}, "expected a modelTurn with a list of parts, got {"),
    ({"parts": [{"text": "x"}] * 1_001}, "expected a modelTurn of at most 1000 parts, got 1001")])
def test_a_turn_that_cannot_be_read_ends_the_session(said: object, reason: str) -> None:
    d = Driven()
    d.content(modelTurn=said)
    (fault,) = d.of(Fault)
    assert fault.severity == "infrastructure"
    assert fault.reason.startswith(reason)


def test_a_turn_without_parts_and_one_of_many_are_none_of_these() -> None:
    d = Driven()
    for said in (None, {}, {"parts": None}, {"parts": []}):
        d.content(modelTurn=said, waitingForInput=True)
    d.content(modelTurn={"parts": turn(PCM[:2])["parts"] * 1_000})
    assert d.of(Fault) == []
    assert [len(e.samples) for e in d.of(AudioReceived)] == [1] * 1_000


def test_of_a_thousand_unknown_fields_some_are_named_and_the_rest_counted() -> None:
    d = Driven()
    d.give({f"mood{k}": 1 for k in range(1_000)})
    d.content(**{f"tempo{k}": 1 for k in range(21)})
    d.content(**{f"key{k}": 1 for k in range(20)})
    told = [e.detail for e in d.of(StateChanged)]
    assert told == [*(f"mood{k}" for k in range(20)), "and 980 more of this message",
                    *(f"serverContent.tempo{k}" for k in range(20)), "and 1 more of this message",
                    *(f"serverContent.key{k}" for k in range(20))]


def test_half_a_sample_at_the_end_of_a_turn_is_told_and_spoils_no_other() -> None:
    d = Driven()
    d.audio(data=PCM[:3])
    d.content(generationComplete=True, turnComplete=True)
    d.audio(data=PCM[:4])
    assert "half a sample left over at the end of turn_1" in [f.reason for f in d.of(Fault)]
    assert (d.of(AudioReceived)[-1].samples * 32768).astype("<i2").tobytes() == PCM[:4]


@pytest.mark.parametrize(("mime_type", "wrong"), [
    (None, None), ("audio/pcm", None), ("audio/pcm;rate=24000", None),
    ("Audio/PCM; rate=24000", None), ("audio/L16;codec=pcm;rate=24000", None),
    ("audio/pcm;rate=24000;channels=1", None),
    ("audio/pcm;rate=16000", "another sample rate: audio/pcm;rate=16000 instead of "
                             "audio/pcm;rate=24000"),
    ("audio/pcm;rate=24000;channels=2", "more than one channel"),
    ("audio/ogg;codecs=opus", "another format"), ("audio/L16;codec=opus", "another format"),
    ({"a": 1}, "another format"), ("", "another format")])
def test_audio_that_is_declared_as_something_else_ends_the_session(
    mime_type: Any, wrong: str | None,
) -> None:
    found = wrong_audio(mime_type, 24_000)
    assert (found is None) == (wrong is None)
    assert wrong is None or (found is not None and found.startswith(wrong))
    if isinstance(mime_type, str) and mime_type.lower().startswith("audio/"):
        d = Driven()
        d.content(modelTurn=turn(PCM[:960], mime_type))
        assert bool(d.of(AudioReceived)) == (wrong is None)
        assert [f.reason for f in d.of(Fault)] == ([f"the server sends {found}"] if wrong else [])


# words

def test_words_ahead_of_any_sound_wait_for_it() -> None:
    d = Driven()
    d.text("Hi", 0.5)
    assert [e.name for e in d.of(StateChanged)] == ["transcript_ahead"]
    d.text(" there", 0.6)
    assert d.of(TextDelta) == []
    d.audio(1.0)
    assert names(d.told) == [("ResponseStarted", "turn_1"), ("TextDelta", "turn_1"),
                             ("TextDelta", "turn_1"), ("AudioReceived", "turn_1")]
    assert "".join(e.text for e in d.of(TextDelta)) == "Hi there"


@pytest.mark.parametrize(("after_s", "response_id"), [(0.9, "turn_1"), (1.1, "turn_2")])
@pytest.mark.parametrize("interrupted", [True, False])
def test_words_after_a_turn_are_of_that_turn_only_if_they_come_at_once(
    after_s: float, response_id: str, interrupted: bool,
) -> None:
    d = Driven()
    d.audio(1.0)
    d.content(2.0, interrupted=interrupted, turnComplete=True)
    d.text("late", 2.0 + after_s)
    d.audio(5.0)
    assert [e.response_id for e in d.of(TextDelta)] == [response_id]


def test_words_wait_after_an_interruption_whose_turn_is_never_completed() -> None:
    d = Driven()
    d.audio(1.0)
    d.content(2.0, interrupted=True)
    d.text("late", 2.5)
    d.text("new", 3.5)
    d.audio(3.6)
    assert [(e.text, e.response_id) for e in d.of(TextDelta)] == [
        ("late", "turn_1"), ("new", "turn_2")]


@pytest.mark.parametrize("said", [{"text": ""}, {"text": None}, {"text": 5}, {}, ["x"], "x"])
def test_a_transcript_that_is_no_text_is_skipped(said: Any) -> None:
    d = Driven()
    d.content(outputTranscription=said)
    assert [f.severity for f in d.of(Fault)] == ["transparent"]
    assert d.of(TextDelta) == []


def test_the_mark_of_a_finished_transcript_is_no_fault() -> None:
    d = Driven()
    d.content(outputTranscription={"finished": True})
    assert d.events == []
