"""The server's side of the protocol: what is truncated, committed, put in and deleted."""

from __future__ import annotations

import base64
import json
from typing import Any

import cascade_testkit as kit
import numpy as np
import pytest
from cascade_turns import DELTAS, HELLO, TURN, error, manual

from adapters.cascade.protocol import MAX_HELD_N, Recognise

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
