"""The Realtime protocol, message by message: no socket, no clock, exact times."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
from driven_realtime import MS, PCM, Driven

from adapters.base import (
    AudioReceived,
    Fault,
    ResponseDone,
    ResponseStarted,
    StateChanged,
    TextDelta,
)
from adapters.wire import event_stream
from adapters.wire import openai_realtime as module
from adapters.wire.openai_session import SessionSettings, compare
from adapters.wire.payload import excerpt

# opening

def test_the_session_is_asked_for_once_after_created_with_the_papers_settings() -> None:
    d = Driven(ready=False)
    assert d.wire.opening() == ()
    d.give({"type": "session.created", "session": {"id": "sess_7", "model": "m"}}, 3)
    assert d.events == [StateChanged(3 * MS, "session.created", '{"id":"sess_7","model":"m"}')]
    assert not d.wire.ready
    (update,) = d.messages
    assert update == {"event_id": "session_1", "type": "session.update", "session": {
        "type": "realtime",
        "output_modalities": ["audio"],
        "instructions": "Be kind.",
        "audio": {
            "input": {"format": {"type": "audio/pcm", "rate": 24000},
                      "turn_detection": {
                          "type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 300,
                          "silence_duration_ms": 800, "create_response": True,
                          "interrupt_response": True}},
            "output": {"format": {"type": "audio/pcm", "rate": 24000}, "voice": "alloy"}}}}
    d.give({"type": "session.created", "session": {"id": "again"}})
    assert len(d.messages) == 1


@pytest.mark.parametrize(("prompt", "empty_prompt", "sent"), [
    ("", "send", {"instructions": ""}), ("", "omit", {}),
    ("Guten Tag", "send", {"instructions": "Guten Tag"}),
    ("Guten Tag", "omit", {"instructions": "Guten Tag"})])
def test_an_empty_prompt_is_sent_as_empty_or_left_to_the_server(
    prompt: str, empty_prompt: Any, sent: dict[str, str],
) -> None:
    session = SessionSettings(empty_prompt=empty_prompt).session(prompt)
    assert {k: v for k, v in session.items() if k == "instructions"} == sent


def test_optional_fields_are_sent_only_when_they_are_asked_for() -> None:
    session = SessionSettings(
        turn_detection="semantic_vad", vad_eagerness="low", noise_reduction="near_field",
        input_transcription_model="tm", max_output_tokens=50, create_response=False).session("x")
    assert session["audio"]["input"] == {
        "format": {"type": "audio/pcm", "rate": 24000}, "noise_reduction": {"type": "near_field"},
        "transcription": {"model": "tm"},
        "turn_detection": {"type": "semantic_vad", "eagerness": "low", "create_response": False,
                           "interrupt_response": True}}
    assert session["max_output_tokens"] == 50


def test_the_reported_session_is_compared_field_by_field() -> None:
    asked = SessionSettings().session("Hello")
    assert compare(asked, asked).differs == ()
    same = json.loads(json.dumps(asked))
    same["audio"]["input"]["turn_detection"]["threshold"] = 0.50000001
    same["instructions"] = "Hello "
    assert compare(asked, same).differs == ()
    other = json.loads(json.dumps(asked))
    other["audio"]["input"]["turn_detection"].update(silence_duration_ms=500, threshold=0.6,
                                                     create_response=1)
    other["instructions"] = "You are a helpful assistant."
    del other["audio"]["output"]["voice"]
    granted = compare(asked, other)
    assert granted.differs == (
        "audio.input.turn_detection.threshold: 0.6 instead of 0.5",
        "audio.input.turn_detection.silence_duration_ms: 500 instead of 800",
        "audio.input.turn_detection.create_response: 1 instead of true",
        "instructions: 28 characters instead of 5")
    assert granted.not_reported == ("audio.output.voice",)
    assert granted.wrong_format == ()
    assert compare(asked, None).not_reported == compare(asked, {}).not_reported
    other["audio"]["input"]["format"]["rate"] = 24001
    assert compare(asked, other).wrong_format == (
        "audio.input.format.rate: 24001 instead of 24000",)


def test_a_session_that_was_not_granted_is_not_ready() -> None:
    for change, strict, ready in (("voice", True, False), ("voice", False, True),
                                  ("rate", False, False)):
        d = Driven(ready=False, strict_session=strict)
        session = d.settings.session("Be kind.")
        if change == "voice":
            session["audio"]["output"]["voice"] = "marin"
        else:
            session["audio"]["output"]["format"]["rate"] = 8000
        d.give({"type": "session.created", "session": {}})
        d.give({"type": "session.updated", "session": session})
        assert d.wire.ready is ready
        assert [s for s, _ in d.faults] == ([] if ready else ["infrastructure"])


def test_user_audio_is_pcm16_in_base64_with_an_id() -> None:
    wire = Driven().wire
    frame = np.zeros(480, dtype=np.float32)
    frame[:3] = (0.5, -1.0, 2.0)
    first, second = json.loads(wire.audio(frame)[0]), json.loads(wire.audio(frame)[0])
    assert set(first) == {"event_id", "type", "audio"}
    assert first["type"] == "input_audio_buffer.append"
    pcm = base64.b64decode(first["audio"])
    assert len(pcm) == 960
    assert pcm[:6] == b"\x00\x40" b"\x00\x80" b"\xff\x7f"
    assert first["event_id"] != second["event_id"]
    with pytest.raises(ValueError, match=r"expected a frame of shape \(480,\), got \(320,\)"):
        wire.audio(np.zeros(320, dtype=np.float32))
    frame[0] = np.nan
    with pytest.raises(ValueError, match="finite"):
        wire.audio(frame)


# a turn

def test_a_turn_in_order_with_times_and_ids() -> None:
    d = Driven()
    d.begin("r1", 10)
    d.give({"type": "response.output_audio_transcript.delta", "response_id": "r1", "item_id": "i1",
            "content_index": 0, "delta": "Hi"}, 11)
    d.audio(PCM[:960], 12)
    d.done("r1", t_ms=13)
    assert [type(e) for e in d.events] == [ResponseStarted, TextDelta, AudioReceived, StateChanged,
                                           ResponseDone]
    assert [e.t_ns for e in d.events] == [10 * MS, 11 * MS, 12 * MS, 13 * MS, 13 * MS]
    assert d.events[1] == TextDelta(11 * MS, "Hi", "r1")
    assert d.events[2].response_id == "r1"
    assert d.events[2].samples.dtype == np.float32
    assert d.events[-1] == ResponseDone(13 * MS, "r1", "completed")
    assert d.pcm == PCM[:960]


def test_beta_names_mean_the_same() -> None:
    d = Driven()
    d.begin()
    d.audio(PCM[:960], type="response.audio.delta")
    d.give({"type": "response.audio_transcript.delta", "response_id": "r1", "item_id": "i1",
            "delta": "yes"})
    assert d.pcm == PCM[:960]
    assert d.of(TextDelta) == [TextDelta(0, "yes", "r1")]
    d.give({"type": "conversation.item.created", "item": {"id": "i"}})
    assert d.events[-1] == StateChanged(0, "conversation.item.added", '{"item":{"id":"i"}}')


@pytest.mark.parametrize(("status", "reason"), [
    ("completed", None), ("cancelled", "turn_detected"), ("cancelled", "client_cancelled"),
    ("incomplete", "max_output_tokens"), ("incomplete", "content_filter"),
    ("something_new", None)])
def test_every_status_but_failed_is_kept_as_behaviour(status: str, reason: str | None) -> None:
    d = Driven()
    d.begin()
    d.done("r1", status, 5, {"type": status, "reason": reason})
    assert d.events[-1] == ResponseDone(5 * MS, "r1", status)
    assert d.faults == []
    assert reason is None or reason in d.of(StateChanged)[0].detail


def test_a_status_that_is_missing_is_unknown() -> None:
    d = Driven()
    d.begin()
    d.done("r1", None)
    assert d.events[-1] == ResponseDone(0, "r1", "unknown")


@pytest.mark.parametrize(("details", "reason"), [
    ({"error": {"type": "rate_limit_error", "code": "rate_limit_exceeded",
                "message": "slow\ndown"}},
     "response r1 failed: rate_limit_error: rate_limit_exceeded: slow down"),
    ({"error": {"code": "insufficient_quota"}}, "response r1 failed: insufficient_quota"),
    ({"error": "odd"}, "response r1 failed: no cause given"),
    (None, "response r1 failed: no cause given")])
def test_a_failed_response_is_infrastructure_with_its_cause(details: Any, reason: str) -> None:
    d = Driven()
    d.begin()
    d.done("r1", "failed", 4, details)
    assert d.of(ResponseDone) == [ResponseDone(4 * MS, "r1", "failed")]
    assert d.of(Fault) == [Fault(4 * MS, "infrastructure", reason, "quota" in reason,
                                 "rate_limit" in reason)]


def test_responses_begin_and_end_once() -> None:
    d = Driven()
    d.begin()
    d.begin()
    d.done(t_ms=1)
    d.done(status="cancelled", t_ms=2)
    d.begin()
    assert d.of(ResponseStarted, ResponseDone) == [ResponseStarted(0, "r1"),
                                                   ResponseDone(MS, "r1", "completed")]
    assert d.faults == [("transparent", "response.created again for r1 skipped"),
                        ("transparent", "response.done again for r1 skipped"),
                        ("transparent", "response.created again for r1 skipped")]


def test_a_response_that_was_never_created_begins_with_its_first_sign() -> None:
    d = Driven()
    d.audio(PCM[:960], 1, response="r9")
    d.begin("r9", 2)
    d.done("r8", t_ms=3)
    assert d.of(ResponseStarted, ResponseDone, AudioReceived)[0] == ResponseStarted(MS, "r9")
    assert [e.response_id for e in d.of(ResponseStarted)] == ["r9", "r8"]
    assert [s for s, _ in d.faults] == ["transparent"] * 3


def test_output_without_a_response_id_belongs_to_the_open_one() -> None:
    d = Driven()
    d.begin("r1")
    d.give({"type": "response.output_audio.delta", "delta": "AAA="})
    d.give({"type": "response.done", "response": {"status": "completed"}})
    d.give({"type": "response.output_audio.delta", "delta": "AAA="})
    d.give({"type": "response.done"})
    assert [e.response_id for e in d.of(AudioReceived)] == ["r1", None]
    assert d.of(ResponseDone) == [ResponseDone(0, "r1", "completed")]


def test_late_audio_of_a_finished_response_is_kept_and_counted() -> None:
    d = Driven()
    d.begin()
    d.audio(PCM[:960], 1)
    d.done("r1", "cancelled", 2)
    d.audio(PCM[960:1920], 3)
    assert d.pcm == PCM[:1920]
    assert d.faults == [("transparent", "late audio of r1, which is cancelled")]


# words

def done_text(transcript: Any, response: str = "r1") -> dict[str, Any]:
    return {"type": "response.output_audio_transcript.done", "response_id": response,
            "item_id": "i1", "content_index": 0, "transcript": transcript}


def delta_text(text: Any, response: str = "r1") -> dict[str, Any]:
    return {"type": "response.output_audio_transcript.delta", "response_id": response,
            "item_id": "i1", "content_index": 0, "delta": text}


@pytest.mark.parametrize(("deltas", "whole", "texts", "faults"), [
    (["Hel", "lo"], "Hello", ["Hel", "lo"], 0),
    ([], "Hello", ["Hello"], 0),
    (["Hel"], "Hello", ["Hel", "lo"], 0),
    (["Hello", " you"], "Hello", ["Hello", " you"], 0),
    (["Hello"], "Good bye", ["Hello"], 1),
    (["Hello  you"], "Hello you", ["Hello  you"], 0),
    (["Hello"], None, ["Hello"], 0),
    (["Hello", "", 5, None], "Hello", ["Hello"], 3)])
def test_the_transcript_is_what_the_deltas_say_completed_by_the_end(
    deltas: list[Any], whole: Any, texts: list[str], faults: int,
) -> None:
    d = Driven()
    d.begin()
    for text in deltas:
        d.give(delta_text(text))
    d.give(done_text(whole))
    assert [e.text for e in d.of(TextDelta)] == texts
    assert [s for s, _ in d.faults] == ["transparent"] * faults


def test_a_transcript_after_the_response_still_belongs_to_it() -> None:
    d = Driven()
    d.begin()
    d.done()
    d.begin("r2")
    d.give(delta_text("late"), 9)
    assert d.of(TextDelta) == [TextDelta(9 * MS, "late", "r1")]
    assert d.faults == []


def test_written_answers_are_no_speech() -> None:
    d = Driven()
    d.begin()
    d.give({"type": "response.output_text.delta", "response_id": "r1", "delta": "typed"})
    assert d.of(TextDelta) == []


# errors and bounds

def error(kind: Any, code: Any = None, about: Any = None) -> dict[str, Any]:
    return {"type": "error", "event_id": "e", "error": {
        "type": kind, "code": code, "message": "because", "event_id": about}}


@pytest.mark.parametrize(("event", "severity"), [
    (error("invalid_request_error", "invalid_value"), "transparent"),
    (error("invalid_request_error", "invalid_value", "truncate_9"), "transparent"),
    (error("invalid_request_error", None), "transparent"),
    (error("invalid_request_error", "invalid_value", "audio_17"), "infrastructure"),
    (error("invalid_request_error", "session_expired"), "infrastructure"),
    (error("invalid_request_error", "rate_limit_exceeded"), "infrastructure"),
    (error("insufficient_quota", "insufficient_quota"), "infrastructure"),
    (error("server_error"), "infrastructure"),
    (error("new_kind_of_error"), "infrastructure"),
    (error(None), "infrastructure"),
    ({"type": "error"}, "infrastructure"),
    ({"type": "error", "error": "text"}, "infrastructure")])
def test_an_error_event_is_harmless_only_when_it_is_known_to_be(
    event: dict[str, Any], severity: str,
) -> None:
    d = Driven()
    d.give(event, 6)
    ((got, reason),) = d.faults
    assert got == severity
    assert reason.startswith("error event: ")


def test_every_error_before_the_session_is_ready_ends_it() -> None:
    d = Driven(ready=False)
    d.give(error("invalid_request_error", "invalid_value", "session_1"))
    assert d.faults == [("infrastructure", "error event: invalid_request_error: invalid_value: "
                                           "because (in answer to session_1)")]


@pytest.mark.parametrize(("bound", "value", "reason"), [
    ("MAX_MESSAGES", 3, "the server sent more than 3 messages"),
    ("MAX_AUDIO_S", 0.05, "the server sent more than 0.05 s of audio"),
    ("MAX_TEXT_CHARS", 10, "the server sent more than 10 characters of transcript"),
    ("MAX_RESPONSES", 1, "the server began more than 1 responses")])
def test_what_a_server_may_send_is_bounded(
    monkeypatch: pytest.MonkeyPatch, bound: str, value: float, reason: str,
) -> None:
    d = Driven()
    monkeypatch.setattr(module if bound == "MAX_RESPONSES" else event_stream, bound, value)
    d.begin("r1")
    d.audio(PCM[:960])
    d.audio(PCM[:960])
    d.audio(PCM[:960])
    d.give(delta_text("more than ten"))
    d.begin("r2")
    assert ("infrastructure", reason) in d.faults
    assert [r for s, r in d.faults if s == "infrastructure" and r != reason] == []


def test_bounds_are_inclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    d = Driven()
    monkeypatch.setattr(event_stream, "MAX_MESSAGES", 6)  # two are spent on the gate
    monkeypatch.setattr(event_stream, "MAX_AUDIO_S", 0.02)
    monkeypatch.setattr(event_stream, "MAX_TEXT_CHARS", 5)
    d.begin()
    d.audio(PCM[:960])
    d.give(delta_text("seven"[:5]))
    d.done()
    assert d.faults == []
    d.give({"type": "rate_limits.updated"})
    assert d.faults == [("infrastructure", "the server sent more than 6 messages")]


def test_how_far_back_a_repeated_event_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "REMEMBERED_EVENTS", 2)
    d = Driven()
    d.begin()
    for name in ("a", "b", "a", "c", "a"):
        d.audio(PCM[:960], event_id=name)
    # "a" again is known while two are remembered; after "b", "c" it is forgotten.
    assert len(d.of(AudioReceived)) == 4
    assert len(d.faults) == 1


@pytest.mark.parametrize(("index", "sent"), [(2, 2), (0, 0), (-1, 0), (True, 0), ("1", 0),
                                             (None, 0), (1.0, 0)])
def test_a_content_index_is_a_whole_number(index: Any, sent: int) -> None:
    d = Driven(truncate_on_barge_in=True)
    d.begin()
    d.audio(PCM[:9600], 0, content_index=index)
    d.speech_started(50)
    (message,) = d.messages
    assert message["content_index"] == sent
    assert message["content_index"] is not True


def test_where_the_server_heard_the_user_is_in_the_log() -> None:
    d = Driven()
    d.speech_started(3)
    assert d.events == [StateChanged(3 * MS, "input_audio_buffer.speech_started",
                                     '{"audio_start_ms":5,"item_id":"u3"}')]


@pytest.mark.parametrize(("value", "limit", "line"), [
    ("abcde", 5, "abcde"), ("abcdef", 5, "ab..."), ("a\nb\x1b[2J", 9, "a b [2J"),
    ({"a": [1, "é"]}, 40, '{"a":[1,"é"]}'), (object, 12, "\"<class '..."), (None, 9, "null")])
def test_excerpts_are_one_bounded_printable_line(value: Any, limit: int, line: str) -> None:
    assert excerpt(value, limit) == line


def test_a_peer_that_speaks_something_else_is_given_up() -> None:
    d = Driven()
    for _ in range(event_stream.MAX_UNREADABLE_RUN):
        d.give(b"HELO")
    assert {s for s, _ in d.faults} == {"transparent"}
    d.give({"type": "rate_limits.updated", "rate_limits": []})
    for _ in range(event_stream.MAX_UNREADABLE_RUN):
        d.give(b"HELO")
    assert {s for s, _ in d.faults} == {"transparent"}
    d.give(b"HELO")
    assert d.faults[-1][0] == "infrastructure"
    assert d.faults[-1][1].startswith("21 messages in a row are no events; the last: expected a "
                                      "JSON object, got 4 bytes that are none")


def test_ids_and_details_are_bounded() -> None:
    d = Driven()
    d.begin("r" * 257)
    d.begin("r" * 256)
    assert [len(e.response_id) for e in d.of(ResponseStarted)] == [256]
    d.give({"type": "rate_limits.updated", "rate_limits": ["x" * 100_000]})
    assert len(d.of(StateChanged)[-1].detail) <= 1_000


def test_text_that_no_file_can_hold_is_made_writable() -> None:
    d = Driven()
    d.give(b'{"type": "response.created", "response": {"id": "r\\ud800"}}')
    d.begin()
    d.give(b'{"type": "response.output_audio_transcript.delta", "response_id": "r1", '
           b'"item_id": "i", "delta": "a\\ud800b \\ud83d\\ude00"}')
    d.give(b'{"type": "rate_limits.updated", "rate_limits": "\\udfff"}')
    assert d.of(TextDelta)[0].text == "a?b \U0001f600"
    assert [e.response_id for e in d.of(ResponseStarted)] == ["r1"]
    for event in d.events:
        repr(event).encode("utf-8")


def test_the_same_messages_at_the_same_times_give_the_same_events() -> None:
    def run() -> tuple[list[str], list[dict[str, Any]]]:
        d = Driven(truncate_on_barge_in=True)
        d.begin()
        d.audio(PCM[:4801], 3)
        d.speech_started(50)
        d.give(b"nonsense", 51)
        d.done("r1", "cancelled", 52)
        return [repr(e) for e in d.events], d.messages

    assert run() == run()
