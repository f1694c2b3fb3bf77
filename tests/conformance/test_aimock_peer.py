"""Our adapters against @copilotkit/aimock, a server that others wrote (npm; `make test-peers`).

Of GPT-Live it replays a session and is strict about everything that the client says, in order and
to the byte. Of OpenAI Realtime it takes a session and audio, hears nothing and never speaks by
itself. Of Gemini Live it takes the setup and no audio.

DUPLEXRIG_AIMOCK names its command-line file; without it, or without node, the tests are skipped.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator

import numpy as np
import pytest

from adapters import registry
from adapters.base import (
    AgentEvent,
    AudioReceived,
    Fault,
    ResponseStarted,
    SessionConfig,
    StateChanged,
    TextDelta,
)
from adapters.wire.base import LingeringWire
from audio.buffers import float_to_pcm16, pcm16_to_float
from audio.errors import InfrastructureError
from audio.timebase import FRAME_NS
from rig.clock import SessionClock

pytestmark = [pytest.mark.peer, pytest.mark.skipif(
    not os.environ.get("DUPLEXRIG_AIMOCK") or not shutil.which("node"),
    reason="DUPLEXRIG_AIMOCK names no aimock, or there is no node; make test-peers")]

RATE_HZ = 24_000
FRAMES_N = 100
FRAME_N = RATE_HZ // 50
PIECE_N = RATE_HZ // 10
PROMPT = "Be brief: señal."
LIMIT_S = 30.0
USER = float_to_pcm16(np.random.default_rng(1).uniform(-0.2, 0.2, FRAMES_N * FRAME_N).astype(
    np.float32)).astype("<i2")
REPLY = float_to_pcm16(np.random.default_rng(2).uniform(-0.3, 0.3, 8 * PIECE_N).astype(
    np.float32)).astype("<i2")
WORDS = ("This ", "was ", "replayed.")


class Tape:
    """A GPT-Live session as aimock replays it: what each side says, and the ids that are free."""

    def __init__(self) -> None:
        self.entries: list[dict[str, object]] = []
        self.bindings: list[dict[str, object]] = []
        self._commands = 0
        self._audio_bytes = 0

    def client(self, event: dict[str, object]) -> None:
        event["event_id"] = f"c{len(self.entries)}"
        self._bind("/event_id", f"client{len(self.entries)}", "define", "client")
        self.entries.append({"direction": "client", "atMs": len(self.entries), "event": event})
        if event["type"] == "session.input_audio.append":
            self._audio_bytes += len(base64.b64decode(str(event["audio"])))
        else:
            self._commands, self._audio_bytes = self._commands + 1, 0

    def server(self, event: dict[str, object], *, about: int | None = None) -> None:
        if event["type"] != "session.output_audio.delta":
            event["event_id"] = f"s{len(self.entries)}"
            self._bind("/event_id", f"server{len(self.entries)}", "define", "server")
        if about is not None:
            event["client_event_id"] = f"c{about}"
            self._bind("/client_event_id", f"client{about}", "reference", "client")
        if "session" in event:
            first = event["type"] == "session.started"
            self._bind("/session/id", "session", "define" if first else "reference", "server")
        self.entries.append({
            "direction": "server", "atMs": len(self.entries), "event": event,
            "barrier": {"command": self._commands, "audioBytes": self._audio_bytes}})

    def _bind(self, pointer: str, name: str, action: str, owner: str) -> None:
        self.bindings.append({"entry": len(self.entries), "pointer": pointer, "name": name,
                              "action": action, "owner": owner})


def tape() -> dict[str, object]:
    """A session of two seconds: a reply of 0.8 s begins after one."""
    asked = {"model": "gpt-live-1", "instructions": PROMPT,
             "audio": {"format": {"type": "audio/pcm", "rate": RATE_HZ},
                       "output": {"voice": "marin"}},
             "delegation": {"type": "responses", "responses": {"model": "gpt-5.6-terra"}}}
    session = {**asked, "id": "sess", "expires_at": 2_000_000_000, "status": "active", "input": []}
    t = Tape()
    t.client({"type": "session.start", "session": asked})
    t.server({"type": "session.started", "session": session}, about=0)
    for k in range(FRAMES_N):
        frame = USER[k * FRAME_N:(k + 1) * FRAME_N].tobytes()
        t.client({"type": "session.input_audio.append",
                  "audio": base64.b64encode(frame).decode()})
        if k % 5 == 4 and 0 <= (piece := k // 5 - 10) < 8:
            sound = REPLY[piece * PIECE_N:(piece + 1) * PIECE_N].tobytes()
            t.server({"type": "session.output_audio.delta",
                      "delta": base64.b64encode(sound).decode()})
            if piece < len(WORDS):
                t.server({"type": "session.output_transcript.delta",
                          "delta": WORDS[piece], "start_ms": 1000 + 200 * piece,
                          "end_ms": 1200 + 200 * piece})
    closing = len(t.entries)
    t.client({"type": "session.close"})
    t.server({"type": "session.closed", "reason": "close_requested", "usage": {"seconds": 2.0},
              "session": session}, about=closing)
    live = {"version": 1, "model": "gpt-live-1", "mode": "managed",
            "audio": {"encoding": "pcm16le", "sampleRateHz": RATE_HZ, "channels": 1},
            "configuration": asked, "entries": t.entries, "bindings": t.bindings,
            "capture": {"source": "authored", "complete": True, "terminalEntry": closing + 1}}
    return {"match": {"endpoint": "openai-live", "model": "gpt-live-1"},
            "response": {"live": live, "liveTiming": "immediate"}}


@pytest.fixture(scope="module")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    fixture = tmp_path_factory.mktemp("aimock") / "fixture.json"
    fixture.write_text(json.dumps({"fixtures": [tape()]}))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        ["node", os.environ["DUPLEXRIG_AIMOCK"], "-h", "127.0.0.1", "-p", str(port),
         "-f", str(fixture)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert server.stdout is not None
    try:
        said = []
        for line in server.stdout:
            said.append(line)
            if str(port) in line:
                break
        else:
            pytest.fail(f"aimock ended: {''.join(said)}")
        yield f"ws://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait(LIMIT_S)
        server.stdout.close()


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(name, "none")


async def played(adapter_name: str, settings: dict[str, str]) -> tuple[list[AgentEvent], object]:
    """What came while the user spoke for two seconds, and the wire as it was left."""
    adapter = registry.create(adapter_name, settings)
    clock = SessionClock()
    events: list[AgentEvent] = []
    config = SessionConfig(case_id="case", trial=1, system_prompt=PROMPT, seed=0)
    async with asyncio.timeout(LIMIT_S), adapter.session(config, clock) as session:
        clock.start()

        async def listen() -> None:
            async for event in session.events():
                events.append(event)

        listening = asyncio.create_task(listen())
        for k in range(FRAMES_N):
            await clock.sleep_until((k + 1) * FRAME_NS)
            await session.send(pcm16_to_float(USER[k * FRAME_N:(k + 1) * FRAME_N]))
        await clock.sleep_until((FRAMES_N + 25) * FRAME_NS)
    await listening
    return events, session._wire  # type: ignore[attr-defined]


def test_a_replayed_gpt_live_session_is_kept_to_the_byte(base_url: str) -> None:
    events, wire = asyncio.run(played("gpt_live", {"base_url": base_url}))
    assert [e.reason for e in events if isinstance(e, Fault)] == []
    sound = np.concatenate([e.samples for e in events if isinstance(e, AudioReceived)])
    assert float_to_pcm16(sound).astype("<i2").tobytes() == REPLY.tobytes()
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "".join(WORDS)
    assert isinstance(wire, LingeringWire)
    assert wire.over  # session.closed came, so our session.close was the one on the tape


def test_gpt_live_that_is_told_something_else_than_it_expects_is_no_behaviour(
    base_url: str
) -> None:
    with pytest.raises(InfrastructureError, match=r"not ready: the server closed the connection: "
                                                  r"1008 'Live session failed'"):
        asyncio.run(played("gpt_live", {"base_url": base_url, "voice": "cedar"}))


def test_a_realtime_server_that_hears_nothing_is_a_silent_system(base_url: str) -> None:
    events, _ = asyncio.run(played("openai_realtime", {"base_url": base_url}))
    assert [e.reason for e in events if isinstance(e, Fault)] == []
    assert {e.name for e in events if isinstance(e, StateChanged)} >= {"session.created"}
    assert not [e for e in events if isinstance(e, AudioReceived | ResponseStarted)]


def test_a_gemini_server_that_takes_no_audio_is_no_behaviour(base_url: str) -> None:
    """It takes the setup, and answers the first audio with an error."""
    events, _ = asyncio.run(played("gemini_live", {
        "base_url": base_url.removesuffix("/v1"), "api_version": "v1beta"}))
    first = next(e for e in events if isinstance(e, Fault))
    assert first.severity == "infrastructure"
    assert "Expected clientContent or toolResponse" in first.reason
    assert not [e for e in events if isinstance(e, AudioReceived | ResponseStarted)]
