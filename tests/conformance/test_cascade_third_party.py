"""Our OpenAI Realtime adapter completes a turn against a server that others wrote.

huggingface/speech-to-speech, with scripted words and voice: `make test-peers` installs it.
DUPLEXRIG_S2S_PYTHON names its Python; without it the test is skipped, and says so.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import cascade_testkit as kit
import numpy as np
import pytest

from adapters import registry
from adapters.base import (
    AgentEvent,
    AudioReceived,
    Fault,
    ResponseDone,
    ResponseStarted,
    SessionConfig,
    StateChanged,
    TextDelta,
)
from audio.buffers import pcm16_to_float
from rig.clock import SessionClock

pytestmark = pytest.mark.peer
SERVER = Path(__file__).parents[1] / "tools" / "s2s_server.py"
PYTHON = os.environ.get("DUPLEXRIG_S2S_PYTHON", "")
LIMIT_S = 60.0


@pytest.mark.skipif(not PYTHON, reason="DUPLEXRIG_S2S_PYTHON names no Python that has "
                                       "speech-to-speech 1.1.0; make test-peers")
def test_a_turn_against_speech_to_speech(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    server = subprocess.Popen([PYTHON, str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        events = asyncio.run(turn(int(server.stdout.readline())))
    finally:
        server.stdin.close()
        server.wait(LIMIT_S)
        server.stdout.close()
    assert [e.reason for e in events if isinstance(e, Fault)] == []
    states = [e.name for e in events if isinstance(e, StateChanged)]
    order = [f"input_audio_buffer.{kind}" for kind in ("speech_started", "speech_stopped",
                                                       "committed")]
    assert [s for s in states if s in order] == order
    started, = (e for e in events if isinstance(e, ResponseStarted))
    done, = (e for e in events if isinstance(e, ResponseDone))
    assert (done.response_id, done.status) == (started.response_id, "completed")
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) \
        == "This reply was scripted."
    sound = np.concatenate([e.samples for e in events if isinstance(e, AudioReceived)])
    # A second of a tone of 300 Hz, brought from 16 to 24 kHz by the server.
    assert len(sound) == 24_000
    crossings = np.count_nonzero(np.diff(np.signbit(sound[2_400:-2_400]).astype(int)) == 1)
    assert crossings == pytest.approx(300 * 0.8, abs=2)


async def turn(port: int) -> list[AgentEvent]:
    adapter = registry.create("openai_realtime", {"base_url": f"ws://127.0.0.1:{port}/v1"})
    clock = SessionClock()
    events: list[AgentEvent] = []
    config = SessionConfig(case_id="case", trial=0, system_prompt="Be brief.", seed=0)
    async with adapter.session(config, clock) as session, asyncio.timeout(LIMIT_S):
        clock.start()

        async def speak() -> None:
            pcm = kit.utterance("Good morning, everybody.", after_s=2.0)
            pcm = pcm[:len(pcm) // 480 * 480]
            for frame in kit.frames(pcm):
                await session.send(pcm16_to_float(frame))
                await asyncio.sleep(0.005)

        speaker = asyncio.create_task(speak())
        async for event in session.events():
            events.append(event)
            if isinstance(event, ResponseDone):
                break
        await speaker
    return events
