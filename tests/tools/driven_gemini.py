"""A wire of Gemini Live that a test drives, message by message."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

from adapters.base import (
    AgentEvent,
    StateChanged,
)
from adapters.wire.gemini_live import GeminiWire
from adapters.wire.gemini_setup import GeminiSettings

PCM = np.random.default_rng(3).integers(-20_000, 20_000, 24_000).astype("<i2").tobytes()


class Driven:
    """A wire and all its events; `at` in seconds."""

    def __init__(self, *, ready: bool = True, **chosen: Any) -> None:
        self.wire = GeminiWire(GeminiSettings(**chosen), "Be kind.")
        self.events: list[AgentEvent] = []
        self.t_ns = 0
        if ready:
            self.give({"setupComplete": {}})
            self.events.clear()

    def give(self, message: dict[str, Any] | bytes, at: float | None = None) -> None:
        if at is not None:
            self.t_ns = round(at * 1e9)
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.events += self.wire.receive(data, self.t_ns).events

    def content(self, at: float | None = None, **fields: Any) -> None:
        self.give({"serverContent": fields}, at)

    def audio(self, at: float | None = None, data: bytes = PCM[:960], **more: Any) -> None:
        self.content(at, modelTurn=turn(data), **more)

    def text(self, text: Any, at: float | None = None) -> None:
        self.content(at, outputTranscription={"text": text})

    def of(self, kind: type) -> list[Any]:
        return [e for e in self.events if isinstance(e, kind)]

    @property
    def told(self) -> list[AgentEvent]:
        """Without the log, and audio by length."""
        return [e for e in self.events if not isinstance(e, StateChanged)]


def turn(data: bytes, mime_type: str | None = "audio/pcm;rate=24000") -> dict[str, Any]:
    inline: dict[str, Any] = {"data": base64.b64encode(data).decode()}
    if mime_type is not None:
        inline["mimeType"] = mime_type
    return {"parts": [{"inlineData": inline}]}


def names(events: list[AgentEvent]) -> list[tuple[str, str | None]]:
    return [(type(e).__name__, getattr(e, "response_id", None)) for e in events]
