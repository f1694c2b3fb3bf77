"""A wire of the Realtime protocol that a test drives, message by message."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

from adapters.base import (
    AgentEvent,
    AudioReceived,
    Fault,
)
from adapters.wire.base import Output
from adapters.wire.openai_realtime import RealtimeWire
from adapters.wire.openai_session import SessionSettings

MS = 1_000_000
PCM = np.random.default_rng(3).integers(-20_000, 20_000, 24_000).astype("<i2").tobytes()


class Driven:
    """A wire, ready, and everything that came of what it was given."""

    def __init__(self, *, ready: bool = True, prompt: str = "Be kind.", **changes: Any) -> None:
        self.settings = SessionSettings(**changes)
        self.wire = RealtimeWire(self.settings, prompt)
        self.events: list[AgentEvent] = []
        self.messages: list[dict[str, Any]] = []
        if ready:
            self.give({"type": "session.created", "session": {"id": "s"}})
            self.give({"type": "session.updated", "session": self.settings.session(prompt)})
            assert self.wire.ready
            self.events.clear()
            self.messages.clear()

    def give(self, event: dict[str, Any] | bytes | str, t_ms: float = 0.0) -> Output:
        if isinstance(event, dict):
            event = json.dumps(event)
        data = event.encode() if isinstance(event, str) else event
        output = self.wire.receive(data, round(t_ms * MS))
        self.events += output.events
        self.messages += [json.loads(m) for m in output.messages]
        return output

    def audio(self, data: bytes | str, t_ms: float = 0.0, response: str = "r1",
              item: str | None = "i1", **more: Any) -> Output:
        delta = data if isinstance(data, str) else base64.b64encode(data).decode()
        event = {"type": "response.output_audio.delta", "response_id": response, "delta": delta,
                 "content_index": 0, **more}
        return self.give(event if item is None else {**event, "item_id": item}, t_ms)

    def begin(self, response: str = "r1", t_ms: float = 0.0) -> None:
        self.give({"type": "response.created", "response": {"id": response}}, t_ms)

    def done(self, response: str = "r1", status: str | None = "completed", t_ms: float = 0.0,
             details: dict[str, Any] | None = None) -> None:
        self.give({"type": "response.done", "response": {
            "id": response, "status": status, "status_details": details}}, t_ms)

    def speech_started(self, t_ms: float) -> None:
        self.give({"type": "input_audio_buffer.speech_started", "audio_start_ms": 5,
                   "item_id": f"u{t_ms}"}, t_ms)

    def of(self, *kinds: type) -> list[Any]:
        return [e for e in self.events if isinstance(e, kinds)]

    @property
    def pcm(self) -> bytes:
        return b"".join((e.samples * 32768).astype("<i2").tobytes() for e in self.of(AudioReceived))

    @property
    def faults(self) -> list[tuple[str, str]]:
        return [(f.severity, f.reason) for f in self.of(Fault)]
