"""The official `openai` package as an independent peer of the wire code and of the loopback server.

Needs the extra `peers`. What is checked here without it: docs/adapters/openai_realtime.md lists the
fields, and the unit tests hold them.
"""

from __future__ import annotations

import asyncio
import base64
import json
from itertools import product
from typing import Any

import numpy as np
import pydantic
import pytest
from realtime_server import RealtimeServer, Scenario, tone_pcm

from adapters.wire.openai_realtime import RealtimeWire
from adapters.wire.openai_session import SessionSettings

pytestmark = pytest.mark.peer


@pytest.fixture(autouse=True)
def _installed() -> None:
    pytest.importorskip("openai", reason="the extra `peers` is not installed")


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


def client_events() -> list[dict[str, Any]]:
    """Everything that the wire can send."""
    events: list[dict[str, Any]] = []
    for detection, noise, model, tokens, empty in product(
            ("server_vad", "semantic_vad"), ("off", "near_field", "far_field"),
            ("", "gpt-4o-mini-transcribe"), (0, 500), ("send", "omit")):
        settings = SessionSettings(turn_detection=detection, noise_reduction=noise,
                                   input_transcription_model=model, max_output_tokens=tokens,
                                   empty_prompt=empty, truncate_on_barge_in=True)
        wire = RealtimeWire(settings, "")
        for event in (
                {"type": "session.created", "session": {}},
                {"type": "session.updated", "session": {}},
                {"type": "response.created", "response": {"id": "r"}},
                {"type": "response.output_audio.delta", "response_id": "r", "item_id": "i",
                 "content_index": 0, "delta": base64.b64encode(tone_pcm(1, 0.1)).decode()},
                {"type": "input_audio_buffer.speech_started", "audio_start_ms": 0}):
            output = wire.receive(json.dumps(event).encode(),
                                  50_000_000 if "speech" in event["type"] else 0)
            events += [json.loads(m) for m in output.messages]
        events += [json.loads(m) for m in wire.audio(np.zeros(480, dtype=np.float32))]
    return events


def test_everything_we_send_is_a_client_event_of_the_official_package() -> None:
    from openai.types.realtime import RealtimeClientEvent

    adapter = pydantic.TypeAdapter(RealtimeClientEvent)
    kinds = set()
    for event in client_events():
        parsed = adapter.validate_python(event)
        assert parsed.type == event["type"]
        assert unknown_fields(parsed) == []
        kinds.add(event["type"])
    assert kinds == {"session.update", "input_audio_buffer.append", "conversation.item.truncate"}


def test_a_wrong_field_would_be_noticed() -> None:
    from openai.types.realtime import RealtimeClientEvent

    adapter = pydantic.TypeAdapter(RealtimeClientEvent)
    session = SessionSettings().session("")
    session["audio"]["input"]["turn_detection"]["silence_ms"] = 800
    parsed = adapter.validate_python({"type": "session.update", "session": session})
    assert unknown_fields(parsed) == [".session.audio.input.turn_detection.silence_ms"]
    with pytest.raises(pydantic.ValidationError):
        adapter.validate_python({"type": "conversation.item.truncate", "item_id": "i",
                                 "content_index": 0, "audio_end_ms": "soon"})


async def official_client(server: RealtimeServer, model: str) -> list[Any]:
    """Two turns spoken by the official client; every event until the second `response.done`."""
    from openai import AsyncOpenAI

    client = AsyncOpenAI(
        api_key="test", base_url=server.base_url.replace("ws://", "http://"))
    seen: list[Any] = []
    async with client.realtime.connect(model=model) as connection, asyncio.timeout(20):
        await connection.session.update(session={
            "type": "realtime", "output_modalities": ["audio"], "instructions": "hello",
            "audio": {"input": {"format": {"type": "audio/pcm", "rate": 24000},
                                "turn_detection": {"type": "server_vad",
                                                   "silence_duration_ms": 200}},
                      "output": {"voice": "alloy"}}})

        async def speak() -> None:
            loud = (np.random.default_rng(1).uniform(-0.2, 0.2, 480) * 32767).astype("<i2")
            quiet = np.zeros(480, dtype="<i2")
            for k in range(400):
                frame = loud if k % 40 < 10 else quiet
                await connection.input_audio_buffer.append(
                    audio=base64.b64encode(frame.tobytes()).decode())
                await asyncio.sleep(0.02)

        speaker = asyncio.create_task(speak())
        try:
            async for event in connection:
                seen.append(event)
                if [e.type for e in seen].count("response.done") == 2:
                    break
        finally:
            speaker.cancel()
            await asyncio.gather(speaker, return_exceptions=True)
    await client.close()
    return seen


def test_the_official_client_understands_the_loopback_server() -> None:
    from openai.types.realtime import RealtimeServerEvent

    async def main() -> tuple[list[Any], list[dict[str, Any]]]:
        scenario = Scenario(replies_s=(4.0, 0.2), pace_s=0.05)
        async with RealtimeServer({"peer": scenario}).running() as server:
            seen = await official_client(server, "peer")
            return seen, server.conversations["peer"][0].sent

    seen, sent = asyncio.run(main())
    assert [e.type for e in seen] == [e["type"] for e in sent][: len(seen)]
    deltas = [e for e in seen if e.type == "response.output_audio.delta"]
    first = b"".join(base64.b64decode(e.delta) for e in deltas if e.response_id == "resp_1")
    assert tone_pcm(1, 4.0).startswith(first)
    done = [e.response for e in seen if e.type == "response.done"]
    assert [r.status for r in done] == ["cancelled", "completed"]
    assert done[0].status_details.reason == "turn_detected"
    adapter = pydantic.TypeAdapter(RealtimeServerEvent)
    for event in sent:
        parsed = adapter.validate_python(event)
        assert parsed.type == event["type"]
        # The real server reports these two; the package types the session as it is asked for.
        extra = set(unknown_fields(parsed)) - {".session.id", ".session.object"}
        assert extra == set(), event
