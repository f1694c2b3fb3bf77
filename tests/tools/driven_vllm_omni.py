"""A wire of vLLM-Omni that a test drives, message by message."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

from adapters.base import (
    AgentEvent,
)
from adapters.wire.vllm_omni import DuplexWire
from adapters.wire.vllm_omni_session import DuplexSettings

PCM = np.random.default_rng(3).integers(-20_000, 20_000, 24_000).astype("<i2").tobytes()
MS = 1_000_000
MODEL = "openbmb/MiniCPM-o-4_5"


class Driven:
    """A wire and all its events and messages."""

    def __init__(self, *, ready: bool = True, prompt: str = "Be kind.",
                 capabilities: dict[str, Any] | None = None, **changes: Any) -> None:
        self.settings = DuplexSettings(**{
            "model": MODEL, "playback_commit_policy": "ack_only", **changes})
        self.wire = DuplexWire(self.settings, prompt)
        self.events: list[AgentEvent] = []
        self.said: list[dict[str, Any]] = []
        self._seq = 0
        if ready:
            self.created(capabilities=capabilities)
            assert self.wire.ready
            self.events.clear()
            self.said.clear()

    def created(self, capabilities: Any = None, **changes: Any) -> None:
        session = self.settings.session("Be kind.")
        session.pop("audio")
        self.give({"type": "session.created", "session": {
            **session, "id": "duplex-1", "capabilities": capabilities or {"chunk_period_ms": 1000},
            **changes}})

    def give(self, event: dict[str, Any], t_ms: int = 0) -> None:
        self._seq += 1
        self.raw({"server_event_seq": self._seq, **event}, t_ms)

    def raw(self, event: Any, t_ms: int = 0) -> None:
        output = self.wire.receive(json.dumps(event).encode(), t_ms * MS)
        self.events += output.events
        self.said += [json.loads(m) for m in output.messages]

    def audio(self, data: bytes, t_ms: int = 0, *, response: str = "r1",
              kind: str = "response.output_audio.delta", **more: Any) -> None:
        self.give({"type": kind, "response_id": response, "item_id": f"item_{response}",
                   "delta": base64.b64encode(data).decode(), "format": "pcm16",
                   "sample_rate_hz": self.settings.output_rate_hz, **more}, t_ms)

    def text(self, text: Any, response: str = "r1") -> None:
        self.give({"type": "response.output_audio_transcript.delta", "response_id": response,
                   "delta": text})

    def begin(self, response: str = "r1") -> None:
        self.give({"type": "response.created", "response_id": response,
                   "response": {"id": response, "status": "in_progress"}})

    def done(self, response: str = "r1", status: str = "completed", t_ms: int = 0,
             **more: Any) -> None:
        self.give({"type": "response.done", "response_id": response,
                   "response": {"id": response, "status": status, **more}}, t_ms)

    def tick(self, t_ms: int) -> list[dict[str, Any]]:
        return [json.loads(m) for m in self.wire.tick(t_ms * MS)]

    def of(self, kind: type) -> list[Any]:
        return [e for e in self.events if isinstance(e, kind)]

    def acks(self) -> list[dict[str, Any]]:
        return [m for m in self.said if m["type"] == "playback.ack"]
