"""The server's side of the protocol, message by message: order, counts, refusals, endings."""

from __future__ import annotations

import base64
import json
from typing import Any

import cascade_testkit as kit
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.cascade.protocol import MAX_HELD_N, Recognise, Say, ServerSession

TURN = [
    "input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped",
    "input_audio_buffer.committed", "conversation.item.added", "conversation.item.done",
    "response.created", "response.output_item.added", "conversation.item.added",
    "response.content_part.added"]
DELTAS = ["response.output_audio_transcript.delta", "response.output_audio.delta"]
ENDING = [
    "response.output_audio.done", "response.output_audio_transcript.done",
    "response.content_part.done", "response.output_item.done", "conversation.item.done",
    "response.done"]
HELLO = kit.utterance("Good morning, everybody.")


@pytest.fixture
def client() -> kit.Client:
    made = kit.Client()
    made.forget()
    return made


@pytest.fixture
def patient() -> kit.Client:
    """The brain answers only when it is told to."""
    made = kit.Client(automatic=False)
    made.forget()
    return made


def manual(client: kit.Client) -> None:
    client.send("session.update", session={
        "type": "realtime", "audio": {"input": {"turn_detection": None}}})
    client.forget()


def replying(client: kit.Client, pieces_n: int = 5) -> str:
    """A reply is under way: this many of its pieces are out. Gives its id."""
    client.write(HELLO)
    recognise, = client.jobs
    assert isinstance(recognise, Recognise)
    client.take(client.session.recognised(recognise.item_id, ("explain", "it")))
    say = client.jobs[-1]
    assert isinstance(say, Say)
    client.say(say, pieces_n)
    return say.response_id


def error(events: list[dict[str, Any]], code: str, about: str | None = None) -> dict[str, Any]:
    """The one event that was the answer, which is this error."""
    event, = events
    assert event["type"] == "error"
    assert event["error"]["type"] == "invalid_request_error"
    assert event["error"]["code"] == code, event
    assert event["error"]["event_id"] == about
    assert event["error"]["message"]
    return event["error"]


# --- one turn


def test_the_session_opens_with_its_settings() -> None:
    event, = kit.Client().events
    assert event["type"] == "session.created"
    session = event["session"]
    assert session["type"] == "realtime"
    assert session["audio"]["input"]["turn_detection"] == {
        "type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 300,
        "silence_duration_ms": 500, "idle_timeout_ms": None, "create_response": True,
        "interrupt_response": True}


def test_the_events_of_a_turn_come_in_their_order(client: kit.Client) -> None:
    client.write(HELLO)
    kinds = client.kinds
    assert kinds[:len(TURN)] == TURN
    assert kinds[-len(ENDING):] == ENDING
    between = kinds[len(TURN):-len(ENDING)]
    assert set(between) == set(DELTAS)
    assert between[:2] == DELTAS


def test_every_event_has_an_id_of_its_own(client: kit.Client) -> None:
    client.write(HELLO)
    ids = [event["event_id"] for event in client.events]
    assert len(set(ids)) == len(ids)


def test_the_events_of_a_turn_speak_of_the_same_things(client: kit.Client) -> None:
    client.write(HELLO)
    started, stopped, committed, added, done, created = client.events[:6]
    user = started["item_id"]
    assert {user} == {stopped["item_id"], committed["item_id"], added["item"]["id"],
                      done["item"]["id"]}
    assert committed["previous_item_id"] is None
    assert added["item"]["content"] == [{"type": "input_audio", "transcript": None}]
    response_id = created["response"]["id"]
    assert created["response"]["status"] == "in_progress"
    final = client.events[-1]["response"]
    assert (final["id"], final["status"]) == (response_id, "completed")
    item = final["output"][0]
    assert (item["role"], item["status"]) == ("assistant", "completed")
    for event in client.events[6:-1]:
        if event["type"].startswith("response."):
            assert event["response_id"] == response_id
            assert event.get("item_id", item["id"]) == item["id"]
    _, assistant = client.of("conversation.item.added")
    assert assistant["previous_item_id"] == user


def test_transcript_and_audio_are_the_sum_of_their_deltas(client: kit.Client) -> None:
    client.write(HELLO)
    said = "".join(e["delta"] for e in client.of(DELTAS[0]))
    assert said == "Hello, I can hear you. What can I do for you?"
    assert client.of("response.output_audio_transcript.done")[0]["transcript"] == said
    assert client.of("conversation.item.done")[-1]["item"]["content"] == [
        {"type": "output_audio", "transcript": said}]
    pcm = b"".join(base64.b64decode(e["delta"]) for e in client.of(DELTAS[1]))
    assert len(pcm) == 2 * (24_000 + 6_000 + 24_000)  # two sentences of 1 s, 0.25 s between them


def test_a_second_turn_follows_the_first(client: kit.Client) -> None:
    client.write(HELLO)
    first = client.of("conversation.item.done")[-1]["item"]["id"]
    client.forget()
    client.write(HELLO)
    assert client.of("input_audio_buffer.committed")[0]["previous_item_id"] == first
    assert client.of("response.done")[0]["response"]["status"] == "completed"


def test_the_recogniser_gets_the_audio_of_the_turn(patient: kit.Client) -> None:
    patient.write(HELLO)
    started, stopped = patient.events[0], patient.events[1]
    job, = patient.jobs
    assert isinstance(job, Recognise)
    assert np.array_equal(job.pcm, HELLO[started["audio_start_ms"] * 24:
                                         stopped["audio_end_ms"] * 24])
    assert len(job.pcm) > len(kit.speech("Good morning, everybody."))


# --- milliseconds of audio


def test_the_edges_count_audio_written_with_padding_and_silence(client: kit.Client) -> None:
    client.write(kit.silence(2.0))
    client.write(kit.utterance("Good morning, everybody.", before_s=1.0, after_s=1.0))
    started, stopped = client.events[0], client.events[1]
    speech_ms = len(kit.speech("Good morning, everybody.")) / 24
    assert started["audio_start_ms"] == pytest.approx(3000 - 300, abs=100)
    assert stopped["audio_end_ms"] == pytest.approx(3000 + speech_ms + 500, abs=150)


@pytest.mark.parametrize("chunk_n", [480, 24_000, 10**7])
def test_how_the_audio_is_cut_does_not_move_the_edges(chunk_n: int) -> None:
    client = kit.Client()
    client.forget()
    client.write(np.concatenate([HELLO, HELLO]), chunk_n)
    edges = [(e["type"], e.get("audio_start_ms", e.get("audio_end_ms"))) for e in client.events
             if e["type"].startswith("input_audio_buffer.speech")]
    assert len(edges) == 4
    reference = kit.Client()
    reference.write(np.concatenate([HELLO, HELLO]), 777)
    assert edges == [(e["type"], e.get("audio_start_ms", e.get("audio_end_ms")))
                     for e in reference.events if e["type"].startswith("input_audio_buffer.speech")]


def test_padding_never_reaches_before_the_first_sample(client: kit.Client) -> None:
    client.send("session.update", session={"type": "realtime", "audio": {"input": {
        "turn_detection": {"type": "server_vad", "prefix_padding_ms": 5000}}}})
    client.write(HELLO)
    assert client.of("input_audio_buffer.speech_started")[0]["audio_start_ms"] == 0


def test_padding_never_reaches_into_the_turn_before(client: kit.Client) -> None:
    client.send("session.update", session={"type": "realtime", "audio": {"input": {
        "turn_detection": {"type": "server_vad", "prefix_padding_ms": 5000}}}})
    client.write(np.concatenate([HELLO, HELLO]))
    first_end = client.of("input_audio_buffer.speech_stopped")[0]["audio_end_ms"]
    second_start = client.of("input_audio_buffer.speech_started")[1]["audio_start_ms"]
    assert second_start == first_end


def test_the_count_goes_on_after_clear(client: kit.Client) -> None:
    client.write(kit.silence(4.0))
    assert [e["type"] for e in client.send("input_audio_buffer.clear")] == [
        "input_audio_buffer.cleared"]
    client.write(HELLO)
    assert client.of("input_audio_buffer.speech_started")[0]["audio_start_ms"] > 4000


# --- interruption and cancellation


def test_speech_during_a_reply_ends_it(patient: kit.Client) -> None:
    response_id = replying(patient)
    patient.forget()
    patient.write(HELLO[:24_000])
    assert patient.kinds == ["input_audio_buffer.speech_started", *ENDING]
    response = patient.events[-1]["response"]
    assert response["id"] == response_id
    assert response["status"] == "cancelled"
    assert response["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
    assert response["output"][0]["status"] == "incomplete"
    assert patient.session.active_response is None


def test_what_was_not_sent_before_an_interruption_never_is(patient: kit.Client) -> None:
    replying(patient)
    say = patient.jobs[-1]
    patient.write(HELLO[:24_000])
    patient.forget()
    patient.say(say)
    assert patient.events == []


def test_speech_before_the_reply_begins_cancels_it_without_output(patient: kit.Client) -> None:
    patient.write(HELLO)
    patient.forget()
    patient.write(HELLO[:24_000])
    assert patient.kinds == ["input_audio_buffer.speech_started", "response.done"]
    assert patient.events[-1]["response"]["output"] == []


def test_an_interrupted_turn_is_answered_with_the_next(client: kit.Client) -> None:
    """Dictation with pauses: what was cut off is still to be answered."""
    client.automatic = False
    client.write(HELLO)
    first, = client.jobs
    client.write(HELLO)
    second = client.jobs[-1]
    assert isinstance(first, Recognise)
    assert isinstance(second, Recognise)
    client.take(client.session.recognised(second.item_id, ("two", "zero", "six")))
    assert not any(isinstance(job, Say) for job in client.jobs)  # the first is not known yet
    client.take(client.session.recognised(first.item_id, ("four", "one", "five")))
    say = client.jobs[-1]
    assert isinstance(say, Say)
    assert say.sentences[0] == "I have four one five, two zero six."


def test_without_interruption_the_reply_is_finished_and_the_turn_answered_after(
    patient: kit.Client,
) -> None:
    patient.send("session.update", session={"type": "realtime", "audio": {"input": {
        "turn_detection": {"type": "server_vad", "interrupt_response": False}}}})
    patient.forget()
    response_id = replying(patient)
    patient.forget()
    patient.write(HELLO)
    assert patient.kinds == TURN[:5]
    patient.take(patient.session.finish(response_id))
    assert patient.kinds[5:] == [*ENDING, "response.created"]
    assert patient.of("response.done")[0]["response"]["status"] == "completed"


def test_without_automatic_replies_the_client_asks_for_them(client: kit.Client) -> None:
    client.send("session.update", session={"type": "realtime", "audio": {"input": {
        "turn_detection": {"type": "server_vad", "create_response": False}}}})
    client.forget()
    client.write(HELLO)
    assert client.kinds == TURN[:5]
    client.send("response.create")
    assert client.of("response.done")[0]["response"]["status"] == "completed"


def test_the_client_cancels(patient: kit.Client) -> None:
    response_id = replying(patient)
    patient.forget()
    events = patient.send("response.cancel", response_id=response_id)
    assert [e["type"] for e in events] == ENDING
    assert events[-1]["response"]["status_details"] == {
        "type": "cancelled", "reason": "client_cancelled"}


def test_cancelling_nothing_is_an_error_and_no_more(patient: kit.Client) -> None:
    error(patient.send("response.cancel", event_id="e1"), "response_cancel_not_active", "e1")
    response_id = replying(patient)
    error(patient.send("response.cancel", response_id="resp_other"), "response_cancel_not_active")
    assert patient.session.active_response == response_id


def test_a_second_reply_at_once_is_refused(patient: kit.Client) -> None:
    replying(patient)
    error(patient.send("response.create"), "conversation_already_has_active_response")


# --- truncation


def spoken_item(client: kit.Client) -> tuple[str, int]:
    """A finished reply: its item, and its audio in ms."""
    client.write(HELLO)
    item = client.of("response.done")[-1]["response"]["output"][0]
    pcm = b"".join(base64.b64decode(e["delta"]) for e in client.of(DELTAS[1]))
    return item["id"], len(pcm) // 48


def truncate(client: kit.Client, item: object, ms: object, index: object = 0) -> list[dict]:
    return client.send("conversation.item.truncate", item_id=item, content_index=index,
                       audio_end_ms=ms)


def test_truncating_removes_what_was_not_heard(client: kit.Client) -> None:
    item, total_ms = spoken_item(client)
    assert total_ms == 2250
    event, = truncate(client, item, 1300)
    assert {k: v for k, v in event.items() if k != "event_id"} == {
        "type": "conversation.item.truncated", "item_id": item, "content_index": 0,
        "audio_end_ms": 1300}
    shown, = client.send("conversation.item.retrieve", item_id=item)
    assert shown["item"]["content"][0]["transcript"] == "Hello, I can hear you."


def test_truncating_to_exactly_what_was_sent_is_allowed(client: kit.Client) -> None:
    item, total_ms = spoken_item(client)
    assert truncate(client, item, total_ms)[0]["type"] == "conversation.item.truncated"


@pytest.mark.parametrize(("ms", "index"), [
    (2251, 0), (10**9, 0), (0, 0), (-1, 0), ("100", 0), (100.5, 0), (True, 0), (None, 0),
    (100, 1), (100, False), (100, None)])
def test_what_cannot_be_truncated_is_an_error(client: kit.Client, ms: object, index: object,
                                              ) -> None:
    item, _ = spoken_item(client)
    error(truncate(client, item, ms, index), "invalid_value")
    assert truncate(client, item, 1000)[0]["type"] == "conversation.item.truncated"


def test_truncating_again_beyond_the_cut_is_an_error(client: kit.Client) -> None:
    item, _ = spoken_item(client)
    truncate(client, item, 1000)
    error(truncate(client, item, 1001), "invalid_value")
    assert truncate(client, item, 1000)[0]["type"] == "conversation.item.truncated"


def test_only_assistant_audio_that_is_there_can_be_truncated(client: kit.Client) -> None:
    spoken_item(client)
    user = client.of("input_audio_buffer.committed")[0]["item_id"]
    error(truncate(client, user, 100), "invalid_value")
    error(truncate(client, "item_none", 100), "item_not_found")
    error(truncate(client, ["x"], 100), "item_not_found")


def test_a_reply_that_was_not_heard_to_its_end_leaves_its_question_open(
    client: kit.Client,
) -> None:
    client.words = lambda job: ("four", "one", "five")
    item, total_ms = spoken_item(client)
    truncate(client, item, total_ms - 100)
    client.words = lambda job: ("two", "zero", "six")
    client.write(HELLO)
    assert client.of("response.output_audio_transcript.done")[-1]["transcript"].startswith(
        "I have four one five, two zero six.")


# --- without turn detection


def test_manual_turns_commit_and_ask(client: kit.Client) -> None:
    manual(client)
    client.write(HELLO)
    assert client.events == []
    events = client.send("input_audio_buffer.commit")
    assert [e["type"] for e in events] == TURN[2:5]
    job, = client.jobs
    assert isinstance(job, Recognise)
    assert np.array_equal(job.pcm, HELLO)
    client.send("response.create")
    assert client.kinds[-1] == "response.done"


def test_committing_nothing_is_an_error(client: kit.Client) -> None:
    manual(client)
    error(client.send("input_audio_buffer.commit", event_id="c"),
          "input_audio_buffer_commit_empty", "c")
    client.write(HELLO)
    client.send("input_audio_buffer.clear")
    error(client.send("input_audio_buffer.commit"), "input_audio_buffer_commit_empty")


def test_the_buffer_is_bounded_without_turn_detection(client: kit.Client) -> None:
    manual(client)
    client.write(np.zeros(MAX_HELD_N, np.int16), 24_000 * 10)
    error(client.take(client.session.receive(json.dumps(kit.append(np.zeros(1, np.int16))))),
          "input_audio_buffer_full")
    client.send("input_audio_buffer.commit")
    assert client.take(client.session.receive(json.dumps(kit.append(HELLO)))) == []


def test_a_turn_that_never_pauses_is_ended_at_the_bound(
    patient: kit.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adapters.cascade.protocol.MAX_HELD_N", 2 * 24_000)
    patient.send("session.update", session={"type": "realtime", "audio": {"input": {
        "turn_detection": {"type": "server_vad", "silence_duration_ms": 10_000}}}})
    patient.write(np.concatenate([HELLO] * 3))
    for job in patient.jobs:
        assert isinstance(job, Recognise)
        assert len(job.pcm) <= 2 * 24_000 + 2_400
    assert patient.kinds.count("input_audio_buffer.speech_stopped") == len(patient.jobs) >= 1


def test_the_client_commits_in_the_middle_of_a_turn(patient: kit.Client) -> None:
    patient.write(HELLO[:24_000])
    started, = patient.events
    patient.send("input_audio_buffer.commit")
    assert patient.kinds == ["input_audio_buffer.speech_started", *TURN[2:5]]
    assert patient.events[1]["item_id"] == started["item_id"]


# --- items


def test_a_text_message_is_answered_like_a_spoken_one(client: kit.Client) -> None:
    events = client.send("conversation.item.create", item={
        "type": "message", "role": "user",
        "content": [{"type": "input_text", "text": "My number is four one five."}]})
    assert [e["type"] for e in events] == ["conversation.item.added", "conversation.item.done"]
    client.send("response.create")
    assert client.of("response.output_audio_transcript.done")[0]["transcript"] \
        == "I have four one five. Is that right?"


def test_items_go_where_they_are_put(client: kit.Client) -> None:
    def create(item_id: str, **where: Any) -> list[dict[str, Any]]:
        return client.send("conversation.item.create", item={
            "id": item_id, "type": "message", "role": "system",
            "content": [{"type": "input_text", "text": "x"}]}, **where)

    assert create("a")[0]["previous_item_id"] is None
    assert create("c")[0]["previous_item_id"] == "a"
    assert create("b", previous_item_id="a")[0]["previous_item_id"] == "a"
    assert create("zero", previous_item_id="root")[0]["previous_item_id"] is None
    assert create("d")[0]["previous_item_id"] == "c"
    error(create("a"), "item_exists")
    error(create("e", previous_item_id="none"), "item_not_found")
    deleted, = client.send("conversation.item.delete", item_id="b")
    assert (deleted["type"], deleted["item_id"]) == ("conversation.item.deleted", "b")
    error(client.send("conversation.item.retrieve", item_id="b"), "item_not_found")
    error(client.send("conversation.item.delete", item_id="b"), "item_not_found")


def test_ids_that_the_server_will_give_are_its_own(client: kit.Client) -> None:
    """A client that takes them would take turns away, or break the session."""
    def create(item_id: str) -> list[dict[str, Any]]:
        return client.send("conversation.item.create", item={
            "id": item_id, "type": "message", "role": "user",
            "content": [{"type": "input_text", "text": "My number is four one five."}]})

    for number in (900, 10**17):
        error(create(f"item_{number}"), "invalid_value")
    assert create("item_0")[0]["item"]["id"] == "item_0"
    client.write(kit.utterance("Good morning.", after_s=0.0))
    heard = client.of("input_audio_buffer.speech_started")[-1]["item_id"]
    error(create(heard), "invalid_value")
    client.write(kit.silence(1.0))
    assert client.of("input_audio_buffer.committed")[-1]["item_id"] == heard
    assert client.of("response.done")[-1]["response"]["status"] == "completed"


@pytest.mark.parametrize("item", [
    None, {}, {"type": "function_call_output"}, {"type": "message", "role": "tool"},
    {"type": "message", "role": "user", "content": []},
    {"type": "message", "role": "user", "content": [{"type": "input_audio", "audio": ""}]},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": 3}]},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x" * 10_001}]},
    {"id": "", "type": "message", "role": "user",
     "content": [{"type": "input_text", "text": "x"}]},
])
def test_items_that_are_none_are_refused(client: kit.Client, item: object) -> None:
    event, = client.send("conversation.item.create", item=item)
    assert event["type"] == "error"


def test_deleting_what_waits_to_be_recognised_lets_the_reply_go_on(patient: kit.Client) -> None:
    patient.write(HELLO)
    job, = patient.jobs
    assert isinstance(job, Recognise)
    patient.send("conversation.item.delete", item_id=job.item_id)
    assert patient.take(patient.session.recognised(job.item_id, ("hello",))) == []
    assert patient.session.active_response is not None


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
