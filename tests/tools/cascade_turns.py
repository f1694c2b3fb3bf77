"""A client of the cascade in a turn: the events of it in their order, and how to get there."""

from __future__ import annotations

from typing import Any

import cascade_testkit as kit

from adapters.cascade.protocol import Recognise, Say

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
