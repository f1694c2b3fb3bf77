"""The server's side of the protocol: replies as they are asked for, and hostile input."""

from __future__ import annotations

import json

import cascade_testkit as kit
import pytest
from cascade_turns import ENDING, HELLO, error, replying
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.cascade.protocol import Recognise, ServerSession

# --- replies as they are asked for


def test_a_reply_can_have_its_own_instructions(client: kit.Client) -> None:
    client.words = lambda job: ("two", "tablets")
    client.send("session.update", session={"type": "realtime", "audio": {"input": {
        "turn_detection": {"type": "server_vad", "create_response": False}}}})
    client.write(HELLO)
    client.send("response.create", response={"instructions": "Repeat numbers.",
                                             "metadata": {"k": "v"}})
    response = client.of("response.done")[0]["response"]
    assert response["metadata"] == {"k": "v"}
    assert response["output"][0]["content"][0]["transcript"].startswith("Let me read that back")


def test_a_reply_beyond_its_tokens_is_incomplete(client: kit.Client) -> None:
    client.send("response.create", response={"max_output_tokens": 3})
    response = client.of("response.done")[0]["response"]
    assert response["status"] == "incomplete"
    assert response["status_details"] == {"type": "incomplete", "reason": "max_output_tokens"}
    assert response["output"][0]["content"][0]["transcript"] == "Hello, I can."
    assert response["usage"]["output_tokens"] == 3


@pytest.mark.parametrize("given", [
    3, {"tools": [{"type": "function"}]}, {"conversation": "none"}, {"input": []}, {"x": 1},
    {"metadata": {"k": 1}}, {"metadata": {str(k): "" for k in range(17)}}, {"audio": {}},
    {"output_modalities": ["text"]}, {"instructions": 1}, {"max_output_tokens": 0}])
def test_replies_it_cannot_give_are_refused(client: kit.Client, given: object) -> None:
    event, = client.send("response.create", response=given)
    assert event["type"] == "error"
    assert client.session.active_response is None


def test_a_brain_that_fails_fails_the_response(patient: kit.Client) -> None:
    patient.send("session.update", session={"type": "realtime", "audio": {"input": {
        "transcription": {"model": "any"}}}})
    patient.write(HELLO)
    job, = patient.jobs
    assert isinstance(job, Recognise)
    patient.forget()
    patient.take(patient.session.recognised(job.item_id, None))
    assert patient.kinds == ["conversation.item.input_audio_transcription.failed", "response.done"]
    response = patient.events[-1]["response"]
    assert response["status"] == "failed"
    assert response["status_details"]["error"]["code"] == "recognition_failed"
    response_id = replying(patient)
    patient.forget()
    patient.take(patient.session.finish(response_id, "the voice is gone"))
    assert patient.kinds == ENDING
    assert patient.events[-1]["response"]["status_details"]["error"]["message"] \
        == "the voice is gone"


def test_transcription_is_told_when_it_was_asked_for(client: kit.Client) -> None:
    client.words = lambda job: ("good", "morning")
    client.write(HELLO)
    assert not client.of("conversation.item.input_audio_transcription.completed")
    client.send("session.update", session={"type": "realtime", "audio": {"input": {
        "transcription": {"model": "any"}}}})
    client.write(HELLO)
    event, = client.of("conversation.item.input_audio_transcription.completed")
    assert event["transcript"] == "good morning"
    assert event["item_id"] == client.of("input_audio_buffer.committed")[-1]["item_id"]


# --- hostile input


@pytest.mark.parametrize("data", [
    "", "{", "null", "[]", "3", '"x"', "{}", '{"type": null}', '{"type": "session.created"}',
    '{"type": ["x"]}', "[" * 100_000, b"\xff\xfe", '{"type": NaN}', '{"a": 1' + "0" * 5000 + "}",
    '{"type": "output_audio_buffer.clear"}', '{"type": "x", "event_id": 7}', "\ud800",
    '{"type": "session.update"}', '{"type": "input_audio_buffer.append"}',
    '{"type": "conversation.item.create"}', '{"type": "conversation.item.truncate"}',
    '{"type": "input_audio_buffer.commit"}', '{"type": "conversation.item.delete"}',
])
def test_what_is_no_event_is_answered_with_an_error(client: kit.Client, data: str | bytes) -> None:
    event, = client.take(client.session.receive(data))
    assert event["type"] == "error"
    client.forget()
    client.write(HELLO)
    assert client.kinds[-1] == "response.done"


@pytest.mark.parametrize("audio", [
    None, 3, [], "!!!!", "AAA", "A", "AA==", "AAAA", "é", " AAA="])
def test_audio_that_is_none_is_refused_and_not_counted(client: kit.Client, audio: object) -> None:
    event, = client.send("input_audio_buffer.append", audio=audio)
    assert event["error"]["param"] == "audio"
    client.write(HELLO)
    clean = kit.Client()
    clean.write(HELLO)
    assert client.of("input_audio_buffer.speech_started")[0]["audio_start_ms"] \
        == clean.of("input_audio_buffer.speech_started")[0]["audio_start_ms"]


def test_an_append_beyond_its_bound_is_refused(client: kit.Client) -> None:
    error(client.send("input_audio_buffer.append", audio="A" * (21 * 1024 * 1024)),
          "string_above_max_length")


def test_an_empty_append_is_taken(client: kit.Client) -> None:
    assert client.send("input_audio_buffer.append", audio="") == []


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 10**6) | st.floats(allow_nan=False) | st.text(
        max_size=5), lambda x: st.lists(x, max_size=2) | st.dictionaries(
            st.sampled_from(["type", "audio", "input", "turn_detection", "id", "role", "content",
                             "text", "output", "voice"]), x, max_size=3), max_leaves=6)
_KINDS = ["session.update", "input_audio_buffer.append", "input_audio_buffer.commit",
          "input_audio_buffer.clear", "conversation.item.create", "conversation.item.retrieve",
          "conversation.item.delete", "conversation.item.truncate", "response.create",
          "response.cancel"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(_KINDS), st.dictionaries(
    st.sampled_from(["session", "audio", "item", "item_id", "content_index", "audio_end_ms",
                     "response", "response_id", "previous_item_id"]), _JSON, max_size=3)),
    max_size=8))
def test_whatever_a_client_sends_it_gets_events(messages: list[tuple[str, dict]]) -> None:
    session = ServerSession("sess_1")
    session.opening()
    for kind, fields in messages:
        for event in session.receive(json.dumps({**fields, "type": kind})).events:
            assert isinstance(event["type"], str)
            json.dumps(event, allow_nan=False)
