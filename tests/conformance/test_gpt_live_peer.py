"""The official `openai` package as a peer of the GPT-Live wire and of its loopback server.

Needs the extra `peers`. What is checked here without it: docs/adapters/gpt_live.md.
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
from live_server import LiveScenario, LiveServer, reply_pcm

from adapters.wire.gpt_live import LOGGED, LiveSettings, LiveWire

pytestmark = pytest.mark.peer


@pytest.fixture(autouse=True)
def _installed() -> None:
    pytest.importorskip("openai", reason="the extra `peers` is not installed")


def unknown_fields(model: Any, where: str = "") -> list[str]:
    """Every field below a parsed model that its class does not have."""
    if not isinstance(model, pydantic.BaseModel):
        return []
    found = [f"{where}.{name}" for name in (model.model_extra or {})]
    for name in type(model).model_fields:
        found += unknown_fields(getattr(model, name), f"{where}.{name}")
    return found


def test_everything_we_send_is_a_client_event_of_the_official_package() -> None:
    from openai.types.live import ClientEvent

    adapter = pydantic.TypeAdapter(ClientEvent)
    kinds = set()
    for rate_hz, backend, prompt in product((16_000, 24_000), ("", "gpt-5.6-terra"), ("", "Hi")):
        wire = LiveWire(LiveSettings(rate_hz=rate_hz, backend_model=backend), prompt)
        for message in (*wire.opening(), *wire.audio(np.zeros(rate_hz // 50, np.float32)),
                        *wire.closing()):
            event = json.loads(message)
            parsed = adapter.validate_python(event)
            assert parsed.type == event["type"]
            assert unknown_fields(parsed) == []
            kinds.add(event["type"])
    assert kinds == {"session.start", "session.input_audio.append", "session.close"}


def test_a_wrong_field_would_be_noticed() -> None:
    from openai.types.live import ClientEvent

    session = LiveSettings().session("Hi")
    session["audio"]["output"]["speed"] = 2
    parsed = pydantic.TypeAdapter(ClientEvent).validate_python(
        {"type": "session.start", "session": session})
    assert unknown_fields(parsed) == [".session.audio.output.speed"]


def test_every_event_of_the_official_package_is_known_to_the_wire() -> None:
    from typing import get_args

    from openai.types.live import ConnectServerEvent

    union = get_args(ConnectServerEvent)[0]
    kinds = {get_args(kind)[0] for event in get_args(union)
             if (kind := event.model_fields["type"].annotation)}
    known = set(LOGGED) | set(LiveWire(LiveSettings(), "")._handlers)
    elsewhere = {k for k in kinds if k.startswith(("decision.", "transport."))} | {
        "session.input_audio.append"}  # reflected, on a sideband alone
    assert kinds - known - elsewhere == set()
    assert len(kinds & known) > 15


async def official_client(server: LiveServer) -> list[Any]:
    """One turn, then the end of the session; every event."""
    from openai import AsyncOpenAI

    client = AsyncOpenAI(
        api_key="test", base_url=server.url_of("peer").replace("ws://", "http://"))
    seen: list[Any] = []
    async with client.live.connect() as connection, asyncio.timeout(20):
        await connection.session.start(session={
            "model": "gpt-live-1", "instructions": "hello",
            "audio": {"format": {"type": "audio/pcm", "rate": 24000},
                      "output": {"voice": "marin"}}})
        seen.append(await connection.recv())

        async def speak() -> None:
            loud = (np.random.default_rng(1).uniform(-0.2, 0.2, 480) * 32767).astype("<i2")
            for k in range(120):
                frame = loud if k < 10 else np.zeros(480, dtype="<i2")
                await connection.session.input_audio.append(
                    audio=base64.b64encode(frame.tobytes()).decode())
                await asyncio.sleep(0.02)
            await connection.session.close()

        speaker = asyncio.create_task(speak())
        async for event in connection:
            seen.append(event)
            if event.type == "session.closed":
                break
        await speaker
    await client.close()
    return seen


def test_the_official_client_holds_a_session_with_the_loopback_server() -> None:
    from openai.types.live import ConnectServerEvent

    async def main() -> tuple[list[Any], list[dict[str, Any]], list[dict[str, Any]]]:
        scenario = LiveScenario(replies_s=(0.8,))
        async with LiveServer({"peer": scenario}).running() as server:
            seen = await official_client(server)
            (conversation,) = server.conversations["peer"]
            return seen, conversation.sent, conversation.errors

    seen, sent, errors = asyncio.run(main())
    assert errors == []
    assert [e.type for e in seen] == [e["type"] for e in sent]
    assert seen[0].type == "session.started"
    assert seen[-1].reason == "close_requested"
    heard = b"".join(base64.b64decode(e.delta) for e in seen
                     if e.type == "session.output_audio.delta")
    assert reply_pcm(1, 0.8).rstrip(b"\0") in heard
    words = [e for e in seen if e.type == "session.output_transcript.delta"]
    assert "".join(e.delta for e in words) == "reply1 is this one "
    assert all(e.end_ms - e.start_ms == 200 for e in words)
    adapter = pydantic.TypeAdapter(ConnectServerEvent)
    for event in sent:
        parsed = adapter.validate_python(event)
        assert parsed.type == event["type"]
        assert unknown_fields(parsed) == [], event
