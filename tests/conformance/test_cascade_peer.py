"""The official `openai` package as judge of the cascade: its types, and a turn with its client.

Needs the extra `peers`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
from typing import Any

import cascade_testkit as kit
import numpy as np
import pytest

from adapters.cascade.protocol import Recognise, Say

pytestmark = pytest.mark.peer
openai = pytest.importorskip("openai", reason="extra `peers` is not installed")
pydantic = pytest.importorskip("pydantic")

HELLO = kit.utterance("Good morning, everybody.")
EXPECTED_KINDS = {
    "session.created", "session.updated", "error",
    "input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped",
    "input_audio_buffer.committed", "input_audio_buffer.cleared",
    "conversation.item.added", "conversation.item.done", "conversation.item.retrieved",
    "conversation.item.deleted", "conversation.item.truncated",
    "conversation.item.input_audio_transcription.completed",
    "conversation.item.input_audio_transcription.failed",
    "response.created", "response.output_item.added", "response.content_part.added",
    "response.output_audio_transcript.delta", "response.output_audio.delta",
    "response.output_audio.done", "response.output_audio_transcript.done",
    "response.content_part.done", "response.output_item.done", "response.done"}
ENDINGS = {"completed", "cancelled", "incomplete", "failed"}


def every_event() -> list[dict[str, Any]]:
    """All that the server can say: turns, endings, items, refusals."""
    client = kit.Client()
    text = {"type": "message", "content": [{"type": "input_text", "text": "hello"}]}
    client.send("session.update", session={
        "type": "realtime", "instructions": "Repeat numbers.", "max_output_tokens": 50,
        "audio": {"input": {"transcription": {"model": "any", "language": "en"}}}})
    client.write(HELLO)
    item = client.of("response.done")[-1]["response"]["output"][0]["id"]
    client.send("conversation.item.truncate", item_id=item, content_index=0, audio_end_ms=500)
    client.send("conversation.item.truncate", item_id=item, content_index=0, audio_end_ms=9_999,
                event_id="mine")
    client.send("conversation.item.retrieve", item_id=item)
    client.send("conversation.item.delete", item_id=item)
    client.send("conversation.item.retrieve",
                item_id=client.of("input_audio_buffer.committed")[0]["item_id"])
    for role in ("user", "system"):
        client.send("conversation.item.create", item={**text, "role": role})
    client.send("conversation.item.create", item={
        "type": "message", "role": "assistant",
        "content": [{"type": "output_text", "text": "hello"}]})
    client.send("response.create", response={"max_output_tokens": 2, "metadata": {"a": "b"}})
    client.send("response.cancel")
    client.automatic = False
    client.write(HELLO)
    recognise = client.jobs[-1]
    assert isinstance(recognise, Recognise)
    client.take(client.session.recognised(recognise.item_id, ("explain", "it")))
    say = client.jobs[-1]
    assert isinstance(say, Say)
    client.say(say, 3)
    client.write(HELLO)  # interrupts
    recognise = client.jobs[-1]
    assert isinstance(recognise, Recognise)
    client.take(client.session.recognised(recognise.item_id, None))  # fails
    client.send("session.update", session={
        "type": "realtime", "audio": {"input": {"turn_detection": None, "transcription": None}}})
    client.send("input_audio_buffer.clear")
    client.send("input_audio_buffer.commit")  # is empty
    client.take(client.session.receive("no JSON"))
    return client.events


def unknown_fields(model: Any, where: str = "") -> list[str]:
    """Every field below a parsed model that its class does not have."""
    if isinstance(model, list):
        return [u for k, m in enumerate(model) for u in unknown_fields(m, f"{where}[{k}]")]
    if not isinstance(model, pydantic.BaseModel):
        return []
    found = [f"{where}.{name}" for name in (model.model_extra or {})]
    for name in type(model).model_fields:
        found += unknown_fields(getattr(model, name), f"{where}.{name}")
    return found


def test_every_event_is_one_of_the_official_package() -> None:
    from openai.types.realtime import RealtimeServerEvent
    from openai.types.realtime.realtime_session_create_response import (
        RealtimeSessionCreateResponse,
    )

    adapter = pydantic.TypeAdapter(RealtimeServerEvent)
    sessions = pydantic.TypeAdapter(RealtimeSessionCreateResponse)
    events = every_event()
    for event in events:
        parsed = adapter.validate_json(json.dumps(event))
        assert parsed.type == event["type"]
        unknown = unknown_fields(parsed)
        if event["type"] in ("session.created", "session.updated"):
            # The package types these events by the request; the answer of its REST call has both.
            assert set(unknown) == {".session.id", ".session.object"}
            assert unknown_fields(sessions.validate_json(json.dumps(event["session"]))) == []
        else:
            assert unknown == [], event
    assert {event["type"] for event in events} == EXPECTED_KINDS
    assert {e["response"]["status"] for e in events if e["type"] == "response.done"} == ENDINGS


def test_a_wrong_event_would_be_noticed() -> None:
    from openai.types.realtime import RealtimeServerEvent

    adapter = pydantic.TypeAdapter(RealtimeServerEvent)
    started = next(e for e in every_event() if e["type"] == "input_audio_buffer.speech_started")
    assert unknown_fields(adapter.validate_python({**started, "start_ms": 1})) == [".start_ms"]
    for wrong in ({**started, "audio_start_ms": "soon"}, {**started, "item_id": None}):
        with pytest.raises(pydantic.ValidationError):
            adapter.validate_python(wrong)


async def official_turns(base_url: str) -> tuple[list[Any], list[Any]]:
    """One turn by voice activity, one by hand, through the official client."""
    client = openai.AsyncOpenAI(api_key="none", base_url=base_url.replace("ws://", "http://"))
    spoken: list[Any] = []
    by_hand: list[Any] = []
    pcm = kit.utterance("My number is " + kit.spoken_digits([4, 1, 5, 2, 0, 6, 7], (3, 4)))
    async with client.realtime.connect(model="cascade") as connection, asyncio.timeout(120):
        await connection.session.update(session={
            "type": "realtime", "output_modalities": ["audio"], "instructions": "Be brief.",
            "audio": {"input": {
                "format": {"type": "audio/pcm", "rate": 24000},
                "transcription": {"model": "gpt-4o-mini-transcribe"},
                "turn_detection": {"type": "server_vad", "silence_duration_ms": 400}},
                "output": {"voice": "marin"}}})
        for frame in kit.frames(pcm, 2_400):
            await connection.input_audio_buffer.append(
                audio=base64.b64encode(frame.astype("<i2").tobytes()).decode())
        async for event in connection:
            spoken.append(event)
            if event.type == "response.done":
                break
        await connection.session.update(session={
            "type": "realtime", "audio": {"input": {"turn_detection": None}}})
        await connection.conversation.item.create(item={
            "type": "message", "role": "user",
            "content": [{"type": "input_text", "text": "are you there"}]})
        await connection.response.create()
        async for event in connection:
            by_hand.append(event)
            if event.type == "response.done":
                break
    await client.close()
    return spoken, by_hand


def test_the_official_client_completes_turns() -> None:
    child = subprocess.Popen([sys.executable, "-P", "-m", "adapters.cascade", "--pace", "0"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        spoken, by_hand = asyncio.run(
            official_turns(json.loads(child.stdout.readline())["base_url"]))
    finally:
        child.stdin.close()
        child.wait(60)
        child.stdout.close()
    kinds = [e.type for e in spoken]
    assert kinds[:2] == ["session.created", "session.updated"]
    order = ["input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped",
             "input_audio_buffer.committed", "conversation.item.added", "conversation.item.done",
             "response.created"]
    assert [k for k in kinds if k in order][:6] == order
    heard = next(e for e in spoken if e.type.endswith("input_audio_transcription.completed"))
    assert heard.transcript.endswith("four one five two zero six seven")
    for events, words in ((spoken, "I have four one five, two zero six seven. Is that right?"),
                          (by_hand, "Yes, I am here and I can hear you.")):
        response = events[-1].response
        assert response.status == "completed"
        assert response.output[0].content[0].transcript == words
        pcm = b"".join(base64.b64decode(e.delta) for e in events
                       if e.type == "response.output_audio.delta")
        assert np.abs(np.frombuffer(pcm, "<i2").astype(int)).max() > 3_000
