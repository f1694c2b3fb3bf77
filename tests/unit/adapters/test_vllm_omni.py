"""The vLLM-Omni adapter's protocol, message by message: opening, audio, words, playback."""

from __future__ import annotations

import base64
import json
import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from driven_vllm_omni import MODEL, MS, PCM, Driven
from hypothesis import given
from hypothesis import strategies as st

from adapters.base import (
    AudioReceived,
    Fault,
    ResponseDone,
    ResponseStarted,
    StateChanged,
    TextDelta,
)
from adapters.wire.vllm_omni import DuplexWire
from adapters.wire.vllm_omni_session import DuplexSettings


def test_the_first_update_opens_the_session() -> None:
    d = Driven(ready=False)
    (message,) = d.wire.opening()
    assert json.loads(message) == {"event_id": "session_1", "type": "session.update",
                                   "session": d.settings.session("Be kind.")}
    assert d.wire.due_ns is None


@pytest.mark.parametrize(("change", "strict", "reason"), [
    ({"capabilities": None}, False, "expected capabilities, got none"),
    ({"capabilities": {"supports_input_append": False}}, False, "supports_input_append is false"),
    ({"output_audio_format": "g711_ulaw"}, False,
     "another audio format: output_audio_format: g711_ulaw instead of pcm16"),
    ({"input_audio_format": "pcm_s16le"}, True, None),
    ({"audio": {"output": {"format": {"type": "audio/pcm", "rate": 16000}}}}, False,
     "audio.output.format.rate: 16000 instead of 24000"),
    ({"audio": {"input": {"sample_rate_hz": 24000}}}, False,
     "audio.input.sample_rate_hz: 24000 instead of 16000"),
    ({"audio": {"input": {"sample_rate_hz": True}}}, False,
     "audio.input.sample_rate_hz: true instead of 16000"),
    ({"playback_commit_policy": "commit_all_on_done"}, True,
     "playback_commit_policy: commit_all_on_done instead of ack_only"),
    ({"playback_commit_policy": "commit_all_on_done"}, False, None),
    ({"model": "other"}, True, f"did not apply .*model: other instead of {MODEL}")])
def test_the_session_that_is_reported_is_compared(
    change: dict[str, Any], strict: bool, reason: str | None,
) -> None:
    d = Driven(ready=False, strict_session=strict)
    session = {**d.settings.session("Be kind."), "id": "s", "audio": None,
               "capabilities": {"chunk_period_ms": 1000}, **change}
    d.give({"type": "session.created", "session": session})
    assert d.wire.ready == (reason is None)
    if reason is not None:
        (fault,) = d.of(Fault)
        assert fault.severity == "infrastructure"
        assert re.search(reason, fault.reason)
        assert fault.hopeless == ("capabilities" in change)


@pytest.mark.parametrize(("form", "rate_hz", "append_ms", "wanted_n"), [
    ("pcm16", 16_000, 20, 320), ("pcm_f32le", 16_000, 80, 1_280), ("pcm_f32le", 24_000, 40, 960)])
def test_user_audio_is_appended_in_the_models_format_and_measure(
    form: Any, rate_hz: int, append_ms: int, wanted_n: int,
) -> None:
    wire = DuplexWire(DuplexSettings(MODEL, input_format=form, input_rate_hz=rate_hz,
                                     append_ms=append_ms), "")
    k = append_ms // 20
    frames = [np.full(rate_hz // 50, i / 32_768, np.float32) for i in range(2 * k)]
    sent = [json.loads(m) for frame in frames for m in wire.audio(frame)]
    dtype, scale = ("<i2", 1) if form == "pcm16" else ("<f4", 32_768)
    for number, event in enumerate(sent, 1):
        samples = np.frombuffer(base64.b64decode(event.pop("audio")), dtype=dtype)
        assert event == {"event_id": f"audio_{number}", "type": "input_audio_buffer.append",
                         "format": form, "sample_rate_hz": rate_hz, "duration_ms": append_ms,
                         "audio_end_ms": number * append_ms}
        assert len(samples) == wanted_n
        assert list(samples[::rate_hz // 50] * scale) == list(range((number - 1) * k, number * k))
    assert len(sent) == 2
    with pytest.raises(ValueError, match="expected a frame of shape"):
        wire.audio(np.zeros(7, np.float32))
    with pytest.raises(ValueError, match="finite"):
        wire.audio(np.full(rate_hz // 50, np.nan, np.float32))


def test_every_numbered_event_is_acknowledged_once_and_a_gap_is_told() -> None:
    d = Driven()
    for seq in (7, 8, 8, 10, True, -1):
        d.raw({"type": "turn.event", "server_event_seq": seq})
    assert [m["server_event_seq"] for m in d.said] == [7, 8, 10]
    assert {m["type"] for m in d.said} == {"session.event_ack"}
    assert [f.reason for f in d.of(Fault)] == ["repeated event skipped: turn.event"]
    assert [e.detail for e in d.of(StateChanged) if e.name == "server_event_seq"] == [
        "7 after 1", "10 after 8"]


# responses

def test_a_response_begins_with_its_first_sound_and_ends_once() -> None:
    d = Driven()
    d.begin()
    d.give({"type": "response.speak", "response_id": "r1"})
    assert d.of(ResponseStarted) == []
    d.audio(PCM[:4_800])
    d.text("one")
    d.done()
    d.done()
    assert [(e.response_id, e.status) for e in d.of(ResponseDone)] == [("r1", "completed")]
    assert [e.response_id for e in d.of(ResponseStarted)] == ["r1"]
    assert [f.reason for f in d.of(Fault)] == ["response.done again for r1 skipped"]


def test_a_response_that_ends_in_listening_never_was_one() -> None:
    d = Driven()
    d.begin("r0")
    d.give({"type": "response.listen", "response_id": "r0", "response": {"status": "listening"}})
    d.done("r0")
    assert d.of(ResponseStarted) == d.of(ResponseDone) == d.of(Fault) == []


def test_units_of_listening_are_logged_once_a_run() -> None:
    d = Driven()
    for _ in range(5):
        d.give({"type": "response.listen", "epoch": 0})
    d.begin()
    d.audio(PCM[:480])
    d.give({"type": "response.listen", "epoch": 0})
    assert [e.name for e in d.of(StateChanged)].count("response.listen") == 2


def test_output_without_a_beginning_begins() -> None:
    d = Driven()
    d.audio(PCM[:480], response="rx")
    assert [e.response_id for e in d.of(ResponseStarted)] == ["rx"]
    assert [f.severity for f in d.of(Fault)] == ["transparent"]


def test_a_failed_response_ends_the_session() -> None:
    d = Driven()
    d.begin()
    d.audio(PCM[:480])
    d.done(status="failed", status_details={"reason": "response_error"})
    assert d.of(Fault) == [Fault(0, "infrastructure", "response r1 failed: response_error")]


# audio and words

@given(cuts=st.lists(st.integers(1, 4_799), max_size=12))
def test_audio_in_any_pieces_is_the_same_audio(cuts: list[int]) -> None:
    d = Driven()
    for a, b in pairwise([0, *sorted(set(cuts)), 4_800]):
        d.audio(PCM[a:b])
    got = np.concatenate([e.samples for e in d.of(AudioReceived)])
    assert (got * 32768).astype("<i2").tobytes() == PCM[:4_800]
    assert {e.response_id for e in d.of(AudioReceived)} == {"r1"}
    assert all(f.severity == "transparent" for f in d.of(Fault))


@pytest.mark.parametrize(("more", "reason"), [
    ({"sample_rate_hz": 22_050}, "sample_rate_hz: 22050 instead of 24000"),
    ({"sample_rate_hz": True}, "sample_rate_hz: true instead of 24000"),
    ({"format": "pcm_f32le"}, "format: pcm_f32le instead of pcm16"),
    ({"delta": "!!!!"}, "expected base64")])
def test_audio_that_is_not_what_was_agreed_ends_the_session(
    more: dict[str, Any], reason: str,
) -> None:
    d = Driven()
    d.audio(PCM[:480], **more)
    assert d.of(AudioReceived) == []
    (fault,) = d.of(Fault)
    assert fault.severity == "infrastructure"
    assert reason in fault.reason


def test_a_piece_under_both_names_is_heard_once_and_a_repeated_sound_twice() -> None:
    for first, second in (("response.output_audio.delta", "response.audio.delta"),
                          ("response.audio.delta", "response.output_audio.delta")):
        d = Driven()
        d.begin()
        for _ in range(3):
            d.audio(bytes(960), kind=first)
            d.audio(bytes(960), kind=second)
        assert len(d.of(AudioReceived)) == 3
        assert len(d.of(Fault)) == 3
    d = Driven()
    for _ in range(3):
        d.audio(bytes(960))  # silence, three times
    d.audio(PCM[:960], kind="response.audio.delta")  # and another piece by the other name
    assert len(d.of(AudioReceived)) == 4
    assert [f.reason for f in d.of(Fault)] == ["output of r1 before its response.created"]


def test_words_begin_with_the_piece_of_audio_before_them() -> None:
    d = Driven()
    d.begin()
    d.text("early ")
    d.audio(PCM[:960])
    d.text("one")
    d.audio(PCM[:1_920])
    d.text(" two")
    d.text("")
    d.done()
    d.begin("r2")
    d.audio(PCM[:480], response="r2")
    d.text("three", response="r2")
    assert [(e.text, e.audio_n) for e in d.of(TextDelta)] == [
        ("early ", 0), ("one", 0), (" two", 480), (" three", 1_440)]
    assert d.of(Fault) == []


def test_words_are_placed_by_their_arrival_when_that_is_asked_for() -> None:
    d = Driven(transcript_times="arrival")
    d.audio(PCM[:960])
    d.text("one")
    assert [e.audio_n for e in d.of(TextDelta)] == [None]


def test_the_whole_transcript_adds_what_no_delta_brought() -> None:
    d = Driven()
    for response, deltas, whole in (("r1", ["It is"], "It is sunny"), ("r2", ["Now"], "Now"),
                                    ("r3", [], "All"), ("r4", ["cut off here"], "cut off")):
        d.begin(response)
        d.audio(PCM[:480], response=response)
        for delta in deltas:
            d.text(delta, response)
        d.give({"type": "response.output_audio_transcript.done", "response_id": response,
                "transcript": whole})
    assert "".join(e.text for e in d.of(TextDelta)) == "It is sunny Now All cut off here"
    assert d.of(Fault) == []
    d.give({"type": "response.output_audio_transcript.done", "response_id": "r1",
            "transcript": "something else"})
    assert "is not what its deltas said" in d.of(Fault)[0].reason


# playback and interruptions

def test_playback_is_told_while_it_lasts_and_no_longer() -> None:
    d = Driven(ack_interval_s=0.1)
    d.begin()
    d.audio(PCM[:24_000], t_ms=1_000)  # half a second
    assert d.wire.due_ns == 1_100 * MS
    assert d.tick(1_099) == []
    heard = []
    while (due_ns := d.wire.due_ns) is not None and due_ns < 20_000 * MS:
        heard += d.tick(due_ns // MS)
    assert [m["played_ms"] for m in heard] == [100, 200, 300, 400, 500]
    assert {k: v for k, v in heard[0].items() if k != "event_id"} == {
        "type": "playback.ack", "response_id": "r1", "item_id": "item_r1", "played_ms": 100,
        "committed_ms": 100}
    d.audio(PCM[:4_800], t_ms=3_000)
    assert [m["played_ms"] for m in d.tick(3_100)] == [600]


def test_what_was_due_is_said_before_an_event_is_read() -> None:
    d = Driven(ack_interval_s=0.1)
    d.begin()
    d.audio(PCM[:24_000], t_ms=0)
    d.said.clear()
    d.give({"type": "turn.event"}, t_ms=250)
    assert [(m["type"], m.get("played_ms")) for m in d.said] == [
        ("playback.ack", 250), ("session.event_ack", None)]
