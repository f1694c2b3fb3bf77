"""RTVI messages into events."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.base import (
    AgentEvent,
    Fault,
    Interrupted,
    ResponseDone,
    ResponseStarted,
    StateChanged,
    TextDelta,
)
from adapters.wire import event_stream
from adapters.wire.rtvi import Rtvi, client_ready


def message(kind: str, **data: Any) -> bytes:
    return json.dumps({"label": "rtvi-ai", "type": kind, "data": data}).encode()


def told(reader: Rtvi, *messages: bytes) -> list[AgentEvent]:
    return [e for t, m in enumerate(messages) for e in reader.message(m, t, 1_000 * t)]


def output(segment: int, spoken: str, rest: str) -> bytes:
    return message("bot-output", text=f"{spoken}{rest}", segment_id=segment, spoken_progress={
        "accumulated_text": spoken, "remaining_text": rest})


def test_the_client_says_that_it_is_ready() -> None:
    assert json.loads(client_ready("x")) == {
        "label": "rtvi-ai", "type": "client-ready", "id": "ready_1",
        "data": {"version": "2.2.0", "about": {"library": "x"}}}


def measured(*events: AgentEvent) -> list[AgentEvent]:
    """Without what is only logged."""
    return [e for e in events if not isinstance(e, StateChanged)]


def test_speaking_is_a_response() -> None:
    found = told(Rtvi(), message("bot-started-speaking"), message("bot-stopped-speaking"),
                 message("bot-stopped-speaking"), message("bot-started-speaking"),
                 message("bot-started-speaking"))
    assert measured(*found) == [
        ResponseStarted(0, "speech_1"), ResponseDone(1, "speech_1"),
        Fault(2, "transparent", "bot-stopped-speaking without a beginning skipped"),
        ResponseStarted(3, "speech_2"),
        Fault(4, "transparent", "bot-started-speaking again skipped")]


def test_an_interruption_counts_once_and_where_something_is_said() -> None:
    cut = message("bot-interrupted")
    found = told(Rtvi(), cut, message("bot-started-speaking"), cut, cut,
                 message("bot-stopped-speaking"), cut)
    assert measured(*found) == [
        ResponseStarted(1, "speech_1"), Interrupted(2), ResponseDone(4, "speech_1", "interrupted")]


def test_words_are_those_that_were_spoken_each_once() -> None:
    """In the order in which Pipecat 1.14.0 was seen to send them."""
    events = told(Rtvi(), output(1, "Hello", " there."), message("bot-started-speaking"),
                  output(1, "", "Hello there."), output(1, "Hello there.", ""),
                  output(1, "Hello there.", ""), message("bot-stopped-speaking"))
    assert [e for e in events if isinstance(e, TextDelta)] == [
        TextDelta(0, "Hello"), TextDelta(3, " there.")]


def test_a_sentence_that_is_told_at_its_end_is_spread_over_its_audio() -> None:
    """Samples come at 1,000 a message: from bot-started-speaking on they are the sentence's."""
    events = told(Rtvi("bot-tts-text"), *[message("metrics")] * 4, message("bot-started-speaking"),
                  *[message("metrics")] * 5, message("bot-tts-text", text="good morning"))
    assert [(e.text, e.audio_n) for e in events if isinstance(e, TextDelta)] == [
        ("good", 4_000), (" morning", 4_000 + 6_000 * 4 // 11)]


def test_one_kind_of_message_is_the_transcript() -> None:
    messages = (output(1, "Hello", ""), message("bot-tts-text", text="hello"),
                message("bot-transcription", text="Hello."), message("bot-llm-text", text="He"))
    assert measured(*told(Rtvi(), *messages)) == [TextDelta(0, "Hello")]
    assert measured(*told(Rtvi("bot-tts-text"), *messages)) == [TextDelta(1, "hello")]
    assert measured(*told(Rtvi("none"), *messages, message("none", text="no"))) == []


@pytest.mark.parametrize(("sent", "severity", "reason"), [
    (message("error", error="a hiccup"), "infrastructure", "the agent reports an error: a hiccup"),
    (message("error", error="dead", fatal=True), "infrastructure", "reports a fatal error: dead"),
    (message("error-response", error="what?"), "transparent", "error-response: what?"),
    (json.dumps({"type": "signalling", "message": {"type": "peerLeft"}}).encode(),
     "infrastructure", "the agent says that it leaves"),
    (b"hello", "transparent", "unreadable message skipped: expected a JSON object"),
    (message("bot-output"), "transparent", "bot-output skipped: expected a text"),
])
def test_trouble_is_told(sent: bytes, severity: str, reason: str) -> None:
    (event,) = told(Rtvi(), sent)
    assert isinstance(event, Fault)
    assert event.severity == severity
    assert reason in event.reason


def test_an_error_that_is_let_pass_is_noted_unless_it_is_fatal() -> None:
    for fatal, severity in ((False, "transparent"), (True, "infrastructure")):
        (event,) = told(Rtvi(service_errors="log"), message("error", error="x", fatal=fatal))
        assert event.severity == severity


def test_what_is_known_is_logged_and_what_is_not_is_named() -> None:
    transcription, mood = told(
        Rtvi(), message("user-transcription", text="hi", final=True),
        message("bot-audio-level", value=0.5), message("mood"))
    assert transcription.name == "user-transcription"
    assert '"data":{"text":"hi","final":true}' in transcription.detail
    assert mood == StateChanged(2, "unknown_event", "mood")
    for unlabelled in ({}, {"type": "signalling", "message": {"type": "renegotiate"}}):
        (event,) = told(Rtvi(), json.dumps(unlabelled).encode())
        assert event.name == "unknown_event"


def test_a_peer_that_speaks_something_else_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    events = told(Rtvi(), *[b"hello"] * 21)
    assert [e.severity for e in events if isinstance(e, Fault)] == [
        *["transparent"] * 20, "infrastructure"]
    monkeypatch.setattr(event_stream, "MAX_MESSAGES", 2)
    last = told(Rtvi(), *[message("mood")] * 3)[-1]
    assert last == Fault(2, "infrastructure", "the server sent more than 2 messages")
    monkeypatch.setattr(event_stream, "MAX_TEXT_CHARS", 5)
    last = told(Rtvi(), output(1, "123456", ""))[-1]
    assert last == Fault(0, "infrastructure",
                         "the server sent more than 5 characters of transcript")


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(st.binary(max_size=40), st.sampled_from(
    ["bot-output", "error", "signalling", "bot-interrupted"]).flatmap(
        lambda kind: st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                st.sampled_from(["text", "spoken_progress", "accumulated_text", "type", "error"]),
                inner, max_size=3), max_leaves=6).map(
            lambda data: json.dumps({"label": "rtvi-ai", "type": kind, "data": data,
                                     "message": data}).encode()))),
    max_size=12))
def test_nothing_that_is_sent_raises(messages: list[bytes]) -> None:
    told(Rtvi(), *messages)
