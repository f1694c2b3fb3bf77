"""The Realtime protocol, message by message: no socket, no clock, exact times."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.base import (
    AgentEvent,
    AudioReceived,
    Fault,
    Interrupted,
    ResponseDone,
    ResponseStarted,
    StateChanged,
    TextDelta,
)
from adapters.wire import event_stream
from adapters.wire import openai_realtime as module
from adapters.wire.base import Output
from adapters.wire.openai_realtime import RealtimeWire
from adapters.wire.openai_session import SessionSettings, compare
from adapters.wire.payload import excerpt

MS = 1_000_000
PCM = np.random.default_rng(3).integers(-20_000, 20_000, 24_000).astype("<i2").tobytes()


class Driven:
    """A wire, ready, and everything that came of what it was given."""

    def __init__(self, *, ready: bool = True, prompt: str = "Be kind.", **changes: Any) -> None:
        self.settings = SessionSettings(**changes)
        self.wire = RealtimeWire(self.settings, prompt)
        self.events: list[AgentEvent] = []
        self.messages: list[dict[str, Any]] = []
        if ready:
            self.give({"type": "session.created", "session": {"id": "s"}})
            self.give({"type": "session.updated", "session": self.settings.session(prompt)})
            assert self.wire.ready
            self.events.clear()
            self.messages.clear()

    def give(self, event: dict[str, Any] | bytes | str, t_ms: float = 0.0) -> Output:
        if isinstance(event, dict):
            event = json.dumps(event)
        data = event.encode() if isinstance(event, str) else event
        output = self.wire.receive(data, round(t_ms * MS))
        self.events += output.events
        self.messages += [json.loads(m) for m in output.messages]
        return output

    def audio(self, data: bytes | str, t_ms: float = 0.0, response: str = "r1",
              item: str | None = "i1", **more: Any) -> Output:
        delta = data if isinstance(data, str) else base64.b64encode(data).decode()
        event = {"type": "response.output_audio.delta", "response_id": response, "delta": delta,
                 "content_index": 0, **more}
        return self.give(event if item is None else {**event, "item_id": item}, t_ms)

    def begin(self, response: str = "r1", t_ms: float = 0.0) -> None:
        self.give({"type": "response.created", "response": {"id": response}}, t_ms)

    def done(self, response: str = "r1", status: str | None = "completed", t_ms: float = 0.0,
             details: dict[str, Any] | None = None) -> None:
        self.give({"type": "response.done", "response": {
            "id": response, "status": status, "status_details": details}}, t_ms)

    def speech_started(self, t_ms: float) -> None:
        self.give({"type": "input_audio_buffer.speech_started", "audio_start_ms": 5,
                   "item_id": f"u{t_ms}"}, t_ms)

    def of(self, *kinds: type) -> list[Any]:
        return [e for e in self.events if isinstance(e, kinds)]

    @property
    def pcm(self) -> bytes:
        return b"".join((e.samples * 32768).astype("<i2").tobytes() for e in self.of(AudioReceived))

    @property
    def faults(self) -> list[tuple[str, str]]:
        return [(f.severity, f.reason) for f in self.of(Fault)]


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


# broken pieces

@pytest.mark.parametrize(("delta", "severity"), [
    *((d, "transparent") for d in ("", "\n", None)),
    *((d, "infrastructure") for d in ("!!!!", "A", "AA=A", "AAAA====A", "é", 5, True, ["AAAA"],
                                      {"a": 1}))])
def test_a_piece_without_audio_is_counted_and_audio_that_is_lost_ends_the_session(
    delta: Any, severity: str
) -> None:
    d = Driven()
    d.begin()
    d.audio(PCM[:960])
    d.give({"type": "response.output_audio.delta", "response_id": "r1", "item_id": "i1",
            "content_index": 0, "delta": delta})
    d.audio(PCM[960:1920])
    assert d.pcm == PCM[:1920]
    (found,) = d.faults
    assert found[0] == severity
    assert re.match("audio delta( skipped)?: expected ", found[1])


@pytest.mark.parametrize("write", [
    lambda b: base64.b64encode(b).decode().rstrip("="),
    lambda b: base64.urlsafe_b64encode(b).decode(),
    lambda b: base64.encodebytes(b).decode(),
    lambda b: " \r\n" + base64.b64encode(b).decode() + "\t",
])
def test_every_way_to_write_base64_is_the_same_audio(write: Any) -> None:
    d = Driven()
    d.begin()
    for k in range(0, 1_000, 200):
        d.give({"type": "response.output_audio.delta", "response_id": "r1", "item_id": "i1",
                "content_index": 0, "delta": write(PCM[k : k + 200])})
    assert d.pcm == PCM[:1_000]
    assert d.faults == []


@pytest.mark.parametrize("event", [
    {"type": "response.output_audio.delta", "response_id": "ghost", "delta": ""},
    {"type": "response.output_audio.done", "response_id": "ghost"},
    {"type": "response.output_audio_transcript.done", "response_id": "ghost", "transcript": ""},
    {"type": "response.output_audio_transcript.delta", "response_id": "ghost", "delta": ""}])
def test_an_end_or_an_empty_piece_begins_no_response(event: dict[str, Any]) -> None:
    """Nothing would ever end it, and the schedule would wait for that."""
    d = Driven()
    d.begin()
    d.give(event)
    assert [e.response_id for e in d.events if isinstance(e, ResponseStarted)] == ["r1"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 400), min_size=1, max_size=12))
def test_audio_in_any_pieces_is_the_same_audio(cuts: list[int]) -> None:
    whole = PCM[:1_000]
    d = Driven()
    d.begin()
    at = 0
    for cut in [*cuts, len(whole)]:
        d.audio(whole[at:at + cut])
        at = min(len(whole), at + cut)
    d.give({"type": "response.output_audio.done", "response_id": "r1", "item_id": "i1",
            "content_index": 0})
    assert d.pcm == whole[:at]  # `at` is even or a half sample was left over
    assert all(s == "transparent" for s, _ in d.faults)


def test_half_a_sample_is_carried_within_one_item_and_never_into_another() -> None:
    d = Driven()
    d.begin()
    d.audio(PCM[:3], item="a")
    d.audio(PCM[10:13], item="b")
    d.audio(PCM[3:6], item="a")
    d.audio(PCM[20:22], item="b", content_index=1)
    assert d.pcm == PCM[:2] + PCM[10:12] + PCM[2:6] + PCM[20:22]
    d.give({"type": "response.output_audio.done", "response_id": "r1", "item_id": "a",
            "content_index": 0})
    assert not any("left over" in reason for _, reason in d.faults)
    d.done()
    assert d.faults[-1] == ("transparent", "half a sample left over at the end of r1")


def test_a_single_byte_is_no_event_and_not_lost() -> None:
    d = Driven()
    d.begin()
    for k in range(5):
        d.audio(PCM[k:k + 1], float(k))
    assert [(e.t_ns, len(e.samples)) for e in d.of(AudioReceived)] == [(MS, 1), (3 * MS, 1)]
    assert d.pcm == PCM[:4]


@pytest.mark.parametrize("data", [
    b"", b"{", b"[]", b"null", b"3", b'"x"', b"\xff\xfe", b'{"type": 5}', b'{"type": ""}',
    b'{"type": "' + b"x" * 300 + b'"}', b'{"a": NaN, "type": "x"}', b"[" * 100_000,
    b'{"type": "x", "n": ' + b"9" * 5_000 + b"}", b'{"type": null}', b'{"a":' * 50_000])
def test_a_message_that_is_no_event_is_skipped_and_counted(data: bytes) -> None:
    d = Driven()
    d.begin()
    d.give(data, 7)
    d.audio(PCM[:960])
    assert d.pcm == PCM[:960]
    ((severity, reason),) = d.faults
    assert severity == "transparent"
    assert reason.startswith("unreadable message skipped: ")
    assert len(reason) < 300
    assert "\n" not in reason


@settings(max_examples=100, deadline=None)
@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(
        st.sampled_from(["id", "response", "session", "error", "item_id", "delta", "status",
                         "status_details", "transcript", "audio", "code", "response_id"]),
        below, max_size=6), max_leaves=12),
    st.sampled_from(sorted({*module.LOGGED, *RealtimeWire(SessionSettings(), "")._handlers})))
def test_no_event_of_whatever_shape_raises(body: Any, kind: str) -> None:
    d = Driven()
    event = {**(body if isinstance(body, dict) else {"response": body, "error": body}),
             "type": kind}
    for t_ms in (1, 2):
        d.give(event, t_ms)
    d.begin("fresh")
    d.give({**event, "response_id": "fresh", "response": {"id": "fresh", "status": body}}, 3)
    assert all(isinstance(e.t_ns, int) for e in d.events)


def test_an_unknown_event_is_kept_by_name() -> None:
    d = Driven()
    d.give({"type": "response.mood.delta", "mood": "fine"}, 2)
    assert d.events == [StateChanged(2 * MS, "unknown_event", "response.mood.delta")]


def test_a_repeated_event_is_skipped_but_equal_audio_is_not() -> None:
    d = Driven()
    d.begin()
    d.audio(PCM[:960], event_id="e1")
    d.audio(PCM[:960], event_id="e1")
    d.audio(PCM[:960], event_id="e2")
    d.audio(PCM[:960])
    d.audio(PCM[:960])
    d.audio(PCM[960:1920], event_id="e1")  # the same id, other audio: a careless server
    assert d.pcm == PCM[:960] * 4 + PCM[960:1920]
    assert d.faults == [("transparent", "repeated event skipped: response.output_audio.delta")]


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


# barge-in

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
