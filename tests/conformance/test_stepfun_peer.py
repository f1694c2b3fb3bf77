"""The official `openai` package against the loopback server of the beta dialect.

The package knows the GA events alone: the session is sent as plain JSON, and an event that it does
not know still carries its type.
"""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import numpy as np
import pytest
from beta_server import BetaConversation, BetaScenario
from realtime_server import RealtimeServer, tone_pcm

from adapters.wire.beta_session import BetaSessionSettings

pytestmark = pytest.mark.peer


async def official_client(server: RealtimeServer) -> list[Any]:
    """One turn; every event until the response has ended."""
    openai = pytest.importorskip("openai", reason="the extra `peers` is not installed")
    client = openai.AsyncOpenAI(
        api_key="test", base_url=server.base_url.replace("ws://", "http://"))
    session = BetaSessionSettings(vad_silence_duration_ms=200).session("hello")
    seen: list[Any] = []
    async with client.realtime.connect(model="peer") as connection, asyncio.timeout(20):
        await connection.send({"type": "session.update", "session": session})

        async def speak() -> None:
            loud = (np.random.default_rng(1).uniform(-0.2, 0.2, 480) * 32767).astype("<i2")
            for k in range(200):
                frame = loud if k < 10 else np.zeros(480, dtype="<i2")
                await connection.input_audio_buffer.append(
                    audio=base64.b64encode(frame.tobytes()).decode())
                await asyncio.sleep(0.02)

        speaker = asyncio.create_task(speak())
        try:
            async for event in connection:
                seen.append(event)
                if event.type == "response.done":
                    break
        finally:
            speaker.cancel()
            await asyncio.gather(speaker, return_exceptions=True)
    await client.close()
    return seen


def test_the_official_client_holds_a_turn_with_the_loopback_server_of_the_beta_dialect() -> None:
    async def main() -> tuple[list[Any], list[dict[str, Any]]]:
        async with RealtimeServer({"peer": BetaScenario(replies_s=(0.4,))},
                                  BetaConversation).running() as server:
            seen = await official_client(server)
            return seen, server.conversations["peer"][0].sent

    seen, sent = asyncio.run(main())
    assert [e.type for e in seen] == [e["type"] for e in sent]
    assert {"response.audio.delta", "response.audio_transcript.delta",
            "conversation.item.created", "response.thinking.done"} <= {e.type for e in seen}
    heard = b"".join(base64.b64decode(e.delta) for e in seen if e.type == "response.audio.delta")
    assert heard == tone_pcm(1, 0.4)
    assert seen[-1].response.status == "completed"
