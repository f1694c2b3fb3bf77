"""A loopback server that speaks vLLM-Omni's full-duplex protocol, written from its page and tests.

It opens a session with the first `session.update` alone, numbers what it sends, takes audio in the
agreed format and decides once a unit to listen or to speak; emits items under both names, one
transcript delta a piece of audio, and keeps a ledger of what was played. Scenarios are found by the
first part of the path.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
from agent_server import AgentConversation, AgentScenario, AgentServer
from live_server import reply_pcm
from realtime_server import Conversation, _Over, merge, words_of
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

UNIT_MS = {"openbmb/MiniCPM-o-4_5": 1000, "nvidia/personaplex-7b-v1": 80,
           "nvidia/NVIDIA-NemotronLabs-VoiceChat-11B": 80}
BARGE_IN = {"openbmb/MiniCPM-o-4_5"}
DTYPES = {"pcm16": "<i2", "pcm_f32le": "<f4"}


@dataclass
class DuplexScenario(AgentScenario):
    capable: bool = True
    """It is a duplex deployment, and says so."""
    spelling: str = "response.output_audio"
    """How audio and its words are named; `response.audio` in one passage of the page."""
    both_spellings: bool = False
    precreated: bool = False
    """Before each reply a response is opened and ends in the decision to listen."""
    delta_rate_hz: int | None = None
    """What each piece says of its rate, when not what was agreed."""


class DuplexConversation(AgentConversation):
    scenario: DuplexScenario

    def __init__(self, socket: ServerConnection, scenario: DuplexScenario) -> None:
        super().__init__(socket, scenario)
        self.opened: dict[str, Any] = {}
        """The session that was asked for."""
        self.appends: list[dict] = []
        self.acks: list[dict] = []
        """`playback.ack`, in order."""
        self.acked_seqs: list[int] = []
        self.errors: list[dict] = []
        self.closed_reason: str | None = None
        self.generated_ms: dict[str, int] = {}
        self._seq = 0
        self._epoch = 0
        self._unit_n = 0
        self._open_response: str | None = None
        self._last_response: str | None = None
        self._heard_until_ns = 0

    # what goes out

    async def emit(self, event: dict) -> None:
        """Number an event; unlike OpenAI's it has no id."""
        self._seq += 1
        event = {**event, "server_event_seq": self._seq}
        self.sent.append(event)
        for out in self._mangle(event) if self._mangle else (event,):
            self.note(out)
            await self.raw(json.dumps(out) if isinstance(out, dict) else out)

    async def error(self, message: str, about: dict | None, code: str = "bad_event") -> None:
        event: dict[str, Any] = {"type": "error", "error": {
            "type": "invalid_request_error", "code": code, "message": message,
            "event_id": (about or {}).get("event_id")}}
        if not self.opened:
            # Before the session is bound the shape is flat.
            event = {"type": "error", "error": message, "code": code}
        self.errors.append(event)
        await self.emit(event)

    # what comes in

    async def take(self, message: str | bytes) -> None:
        assert isinstance(message, str)
        event = json.loads(message)
        kind = event["type"]
        if kind == "session.update" and not self.opened:
            await self._open(event)
        elif not self.opened:
            self.audio_before_ready += kind == "input_audio_buffer.append"
            await self.error("Send session.update first.", event)
        elif kind == "input_audio_buffer.append":
            await self._append(event)
        elif kind == "playback.ack":
            await self._played(event)
        elif kind == "session.event_ack":
            self.acked_seqs.append(event["server_event_seq"])
        elif kind == "session.heartbeat":
            self.messages.append(event)
            await self.emit({"type": "session.heartbeat_ack", "session_id": "duplex-1"})
        elif kind == "session.close":
            self.messages.append(event)
            await self.end("client_close")
        else:
            await self.error(f"unknown event {kind}", event)

    async def _open(self, event: dict) -> None:
        asked = event["session"]
        self.messages.append(event)
        if asked["model"] == "openbmb/MiniCPM-o-4_5" and not asked.get(
                "ref_audio", "").startswith("data:audio/wav;base64,"):
            await self.error("MiniCPM-o needs ref_audio", event, "ref_audio_required")
            return
        if (asked.get("turn_detection") or {}).get("interrupt_response") is False:
            await self.error("turn_detection.interrupt_response=false is unsupported", event,
                             "unsupported_turn_detection")
            return
        self.user_rate_hz = asked["sample_rate_hz"]
        self.rate_hz = asked["audio"]["output"]["sample_rate_hz"]
        self._unit_n = UNIT_MS[asked["model"]] * self.user_rate_hz // 1000
        self.opened = asked
        if not self.scenario.say_created:
            return
        barge_in = asked["model"] in BARGE_IN
        session = {
            "object": "realtime.session", "type": "realtime", "id": "duplex-1", "state": "open",
            "turn_state": "idle", "epoch": 0, "turn_id": 0, "instructions": "", "voice": None,
            **{k: v for k, v in asked.items() if k not in ("audio", "ref_audio")},
            "audio": {"input": {"format": {"type": "audio/pcm", "rate": self.user_rate_hz},
                                "sample_rate_hz": self.user_rate_hz},
                      "output": {"format": {"type": "audio/pcm", "rate": self.rate_hz}}},
            "playback": {"generated_ms": 0, "sent_ms": 0, "played_ms": 0, "committed_ms": 0}}
        if self.scenario.capable:
            session["capabilities"] = {
                "implementation_level": "model_native_duplex", "supports_input_append": True,
                "supports_barge_in": barge_in, "supports_audio_truncate": barge_in,
                "chunk_period_ms": UNIT_MS[asked["model"]]}
        session = merge(session, self.scenario.granted)
        await self.emit({"type": "session.created", "attachment_generation": 1,
                         "resume_token": "rt_1", "session": session})
        await self.emit({"type": "session.updated", "session": session})

    async def _append(self, event: dict) -> None:
        data = base64.b64decode(event["audio"], validate=True)
        samples = np.frombuffer(data, dtype=DTYPES[event["format"]])
        assert event["format"] == self.opened["input_audio_format"]
        assert event["sample_rate_hz"] == self.user_rate_hz
        assert len(samples) * 1000 == event["duration_ms"] * self.user_rate_hz
        self.appends.append({k: v for k, v in event.items() if k != "audio"})
        if self._unit_n < len(samples):
            await self.error("more than one frame", event)
            return
        if samples.dtype.kind == "f":
            samples = np.round(np.clip(samples, -1, 1) * 32767).astype(np.int16)
        before = len(self.audio) // 2 // self._unit_n
        await self.hear(samples)
        speaking = self._response is not None and not self._response.done()
        if len(self.audio) // 2 // self._unit_n > before and not speaking:
            await self._listen()

    async def _listen(self, response_id: str | None = None) -> None:
        named = {} if response_id is None else {"response_id": response_id}
        await self.emit({
            "type": "response.listen", "session_id": "duplex-1", "epoch": self._epoch, **named,
            "response": {"object": "realtime.response", "status": "listening", "metadata": {
                "type": "response.listen", "reason": "model_listen"}}})

    async def _played(self, event: dict) -> None:
        generated = self.generated_ms.get(event["response_id"])
        self.acks.append(event)
        if generated is None or event["played_ms"] > generated:
            await self.error("played more than was generated", event)
            return
        await self.emit({"type": "playback.acknowledged", "event": {
            "type": "playback.acknowledged", "item_id": event["item_id"],
            "played_ms": event["played_ms"], "committed_ms": event["committed_ms"],
            "truncate": event.get("truncate", False), "playback": {
                "generated_ms": generated, "sent_ms": generated,
                "played_ms": event["played_ms"], "committed_ms": event["committed_ms"]}}})

    # responses

    def playing(self) -> bool:
        return super().playing() or self.now_ns() < self._heard_until_ns

    async def put_clear(self) -> None:
        """The model stops: what was sent is not to be heard either."""
        response_id = self._open_response or self._last_response
        self._heard_until_ns = 0
        self._epoch += 1
        await self.emit({"type": "overlap.decision", "session_id": "duplex-1",
                         "epoch": self._epoch, "policy": "barge_in_on_speech",
                         "action": "barge_in", "reason": "server_vad_utterance_active"})
        await self.emit({"type": "output_audio_buffer.cleared", "response_id": response_id})
        if self._open_response is not None:
            await self._finish(self._open_response, "", "cancelled",
                               {"type": "cancelled", "reason": "barge_in"})

    async def _begin(self, response_id: str) -> dict:
        item = {"id": f"item_{response_id}", "object": "realtime.item", "type": "message",
                "role": "assistant", "status": "in_progress", "content": []}
        self._open_response = self._last_response = response_id
        await self.emit({"type": "response.created", "response_id": response_id, "response": {
            "id": response_id, "object": "realtime.response", "status": "in_progress",
            "status_details": None, "output": [], "metadata": {}}})
        for kind in ("added", "created"):
            await self.emit({"type": f"conversation.item.{kind}", "item": item,
                             "previous_item_id": None})
        await self.emit({"type": "response.output_item.added", "response_id": response_id,
                         "output_index": 0, "item": item})
        return {"response_id": response_id, "item_id": item["id"], "output_index": 0,
                "content_index": 0}

    async def _finish(self, response_id: str, transcript: str, status: str,
                      details: dict | None) -> None:
        where = {"response_id": response_id, "item_id": f"item_{response_id}", "output_index": 0,
                 "content_index": 0}
        item = {"id": where["item_id"], "type": "message", "role": "assistant", "status": status,
                "content": [{"type": "output_audio", "transcript": transcript}]}
        prefix = self.scenario.spelling
        self._open_response = None
        if status != "listening":
            await self.emit({"type": f"{prefix}.done", **where})
            if self.scenario.say_words:
                await self.emit({"type": f"{prefix}_transcript.done", **where,
                                 "transcript": transcript})
        await self.emit({"type": "response.output_item.done", "response_id": response_id,
                         "output_index": 0, "item": item})
        await self.emit({"type": "conversation.item.done", "previous_item_id": None, "item": item})
        if self.scenario.say_done:
            await self.emit({"type": "response.done", "response_id": response_id, "response": {
                "id": response_id, "object": "realtime.response", "status": status,
                "status_details": details, "output": [item],
                "metadata": {"playback": {"generated_ms": self.generated_ms.get(response_id, 0)}}}})
            await self.emit({"type": "rate_limits.updated", "rate_limits": []})

    async def _reply(self, number: int) -> None:
        s = self.scenario
        await asyncio.sleep(s.think_s)
        if s.precreated:
            await self._begin(f"resp_{number}_listen")
            await self._listen(f"resp_{number}_listen")
            await self._finish(f"resp_{number}_listen", "", "completed", None)
        response_id = f"resp_{number}"
        where = await self._begin(response_id)
        self.generated_ms[response_id] = 0
        await self.emit({"type": "response.content_part.added", **where,
                         "part": {"type": "audio", "transcript": ""}})
        await self.emit({"type": "response.speak", **where, "metadata": {"model_speak": True}})
        pcm = (s.speak or reply_pcm)(number, s.replies_s[min(number, len(s.replies_s)) - 1],
                                     self.rate_hz)
        self.replies.append(b"")
        words, said, held = words_of(number) if s.say_words else [], "", []
        chunk = round(s.chunk_s * self.rate_hz) * 2
        keep_to = len(pcm) - s.held_back * chunk
        for at in range(0, len(pcm), chunk):
            self._deltas += 1
            if s.at_delta is not None and s.at_delta[0] == self._deltas:
                await self._do(s.at_delta[1])
            word = words.pop(0) if words and not s.transcript_after_done else ""
            last = at + chunk >= len(pcm)
            if last and not s.transcript_after_done:
                word, words = word + "".join(words), []
            said += word
            piece = self._piece(where, pcm[at:at + chunk], word, last)
            if at >= keep_to:
                held += piece
                continue
            for event in piece:
                await self.emit(event)
            if s.pace_s:
                await asyncio.sleep(s.pace_s)
        for word in words:
            said += word
            await self.emit({"type": f"{s.spelling}_transcript.delta", **where, "delta": word})
        await self._finish(response_id, said, s.status, s.status_details)
        for event in held:
            await self.emit(event)
        if s.after_done is not None:
            await self._do(s.after_done)

    def _piece(self, where: dict, pcm: bytes, word: str, last: bool) -> list[dict]:
        s, n = self.scenario, len(pcm) // 2
        self.replies[-1] += pcm
        total_ms = len(self.replies[-1]) // 2 * 1000 // self.rate_hz
        self.generated_ms[where["response_id"]] = total_ms
        self._heard_until_ns = max(self.now_ns(), self._heard_until_ns) + n * 10**9 // self.rate_hz
        audio = {**where, "delta": base64.b64encode(pcm).decode(), "format": "pcm16",
                 "sample_rate_hz": s.delta_rate_hz or self.rate_hz,
                 "metadata": {"session_id": "duplex-1", "epoch": self._epoch, "model_speak": True,
                              "end_of_turn": last, "audio_duration_ms": total_ms}}
        names = [s.spelling]
        if s.both_spellings:
            names = ["response.output_audio", "response.audio"]
        events = [{"type": f"{name}.delta", **audio} for name in names]
        if s.say_words and not s.transcript_after_done:
            events += [{"type": f"{name}_transcript.delta", **where, "delta": word}
                       for name in names]
        return events

    async def end(self, reason: str, kind: str = "session.closed") -> None:
        """Say that the session is over, and close."""
        self.closed_reason = reason
        with contextlib.suppress(ConnectionClosed):
            await self.emit({"type": kind, "session_id": "duplex-1", "epoch": self._epoch,
                             "reason": reason})
            await self.socket.close()
        raise _Over


def end_with(reason: str, kind: str = "session.expired") -> Any:
    """The server ends the session by itself."""

    async def act(conversation: Conversation) -> None:
        assert isinstance(conversation, DuplexConversation)
        await conversation.end(reason, kind)

    return act


class DuplexServer(AgentServer):
    """Serves scenarios by path."""

    def __init__(self, scenarios: dict[str, Any]) -> None:
        super().__init__(scenarios, DuplexConversation)

    def _name(self, path: str) -> str:
        parts = urlsplit(path)
        query = parse_qs(parts.query)
        assert parts.path.endswith("/v1/realtime"), parts.path
        assert (query["duplex"], query["autostart"]) == (["1"], ["0"])
        assert query["model"][0] in UNIT_MS
        return parts.path.split("/")[2]
