"""The loopback server in OpenAI's beta dialect, as StepFun documents it.

A flat session, beta event names, turn detection that is off unless it is asked for and has an
energy threshold; no truncate, no retrieve; the user's transcript always comes; a model that thinks
aloud. What its documents leave open or contradict is a scenario's to choose.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar

from realtime_server import Conversation, Scenario, merge

NAMES = {
    "response.output_audio.delta": "response.audio.delta",
    "response.output_audio.done": "response.audio.done",
    "response.output_audio_transcript.delta": "response.audio_transcript.delta",
    "response.output_audio_transcript.done": "response.audio_transcript.done",
    "conversation.item.added": "conversation.item.created",
}
UNKNOWN = ("conversation.item.done", "rate_limits.updated")
"""Events of the GA dialect that this one does not have."""
SESSION_FIELDS = (
    "modalities", "instructions", "voice", "input_audio_format", "output_audio_format", "tools",
    "turn_detection", "max_response_output_tokens")
DETECTION_FIELDS = (
    "type", "prefix_padding_ms", "silence_duration_ms", "energy_awakeness_threshold")


@dataclass
class BetaScenario(Scenario):
    cancelled_event: bool = False
    """A response that is broken off ends with `response.cancelled`, not with `response.done`."""


class BetaConversation(Conversation):
    default_session: ClassVar = {
        "object": "realtime.session", "modalities": ["text", "audio"], "instructions": "",
        "voice": "linjiajiejie", "input_audio_format": "pcm16", "output_audio_format": "pcm16",
        "tools": [], "turn_detection": None}

    async def emit(self, event: dict) -> None:
        kind = event["type"]
        if kind in UNKNOWN:
            return
        event = json.loads(json.dumps(event).replace('"output_audio"', '"audio"'))
        event["type"] = NAMES.get(kind, kind)
        if (kind == "response.done" and event["response"]["status"] == "cancelled"
                and isinstance(self.scenario, BetaScenario) and self.scenario.cancelled_event):
            event = {"type": "response.cancelled", "response_id": event["response"]["id"]}
        if kind == "response.content_part.added":
            where = {k: event[k] for k in ("response_id", "item_id", "output_index")}
            await super().emit({"type": "response.thinking.delta", **where, "delta": "Hm, well."})
            await super().emit({"type": "response.thinking.done", **where})
        await super().emit(event)
        if kind == "input_audio_buffer.committed":
            await super().emit({
                "type": "conversation.item.input_audio_transcription.completed",
                "item_id": event["item_id"], "content_index": 0, "transcript": "what was said"})

    @property
    def _detection(self) -> dict | None:
        return self.session["turn_detection"]

    async def _receive(self, event: dict) -> None:
        if event.get("type") == "conversation.item.truncate":
            self.received.append(event)
            await self.error("unknown event", event, "invalid_event")
        else:
            await super()._receive(event)

    async def _update(self, event: dict) -> None:
        change = event["session"]
        unknown = sorted(set(change) - set(SESSION_FIELDS)) + sorted(
            set(change.get("turn_detection") or {}) - set(DETECTION_FIELDS))
        if unknown:
            await self.error(f"unknown field {unknown[0]}", event, "invalid_value")
            return
        self.session = merge(self.session, change)
        if self.scenario.say_updated:
            self._ready = True
            await self.emit({"type": "session.updated",
                             "session": merge(self.session, self.scenario.granted)})
