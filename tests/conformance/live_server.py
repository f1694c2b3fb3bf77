"""A loopback server that speaks GPT-Live, written from the protocol, not from our client.

It honours the order (`session.start` first, audio only after `session.started`), refuses fields and
odd lengths that it does not know, lets session time advance with the user's audio alone, and sends
one continuous stream, silence included, with transcripts on boundaries of 200 ms that trail it. It
decides itself when to speak and when to stop. Scenarios are chosen by the first part of the path.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import numpy as np
from realtime_server import Conversation, RealtimeServer, Scenario, _Over, merge
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from adapters.simulated import voice
from audio.buffers import float_to_pcm16
from audio.resample import resample

FRAME_MS = 200
SESSION_FIELDS = {
    "": ("model", "instructions", "audio", "delegation", "input", "store", "safety_identifier",
         "triggers", "client"),
    "audio": ("format", "output"), "audio.format": ("type", "rate"), "audio.output": ("voice",),
    "delegation": ("type", "responses", "acknowledgement_delay_ms"),
    "delegation.responses": ("model", "instructions", "tools")}


@dataclass
class LiveScenario(Scenario):
    chunk_s: float = 0.1
    """Length of one piece of output."""
    trail_s: float = 0.3
    """How far a transcript trails its audio."""
    at_once: bool = False
    """A reply is sent whole the moment that it begins; the stream goes on when the session has
    caught up."""
    yields: bool = True
    """It stops within 0.2 s when the user speaks."""
    streams_silence: bool = True
    times_in_audio: bool = False
    times_in_text: bool = True
    answers_close: bool = True
    drain_s: float = 0.1


def reply_pcm(number: int, seconds: float, rate_hz: int = 24_000) -> bytes:
    """What the n-th reply sounds like."""
    samples = voice.talk(seconds, number).samples
    return float_to_pcm16(resample(samples, 24_000, rate_hz)).astype("<i2").tobytes()


def unknown_field(session: dict, where: str = "") -> str | None:
    for key, value in session.items():
        path = f"{where}.{key}" if where else key
        if key not in SESSION_FIELDS[where]:
            return path
        if isinstance(value, dict) and path in SESSION_FIELDS:
            found = unknown_field(value, path)
            if found is not None:
                return found
    return None


class LiveConversation(Conversation):
    scenario: LiveScenario

    def __init__(self, socket: ServerConnection, scenario: LiveScenario) -> None:
        super().__init__(socket, scenario)
        self.rate_hz = 24_000
        self.replies: list[tuple[int, int]] = []
        """Sample ranges of the session in which it spoke."""
        self.closed_reason: str | None = None
        self._track: dict[int, bytes] = {}
        self._sent_n = 0
        self._words: list[tuple[int, str]] = []
        self._session: dict = {}

    async def _greet(self) -> None:
        """Nothing: the client speaks first."""

    async def emit(self, event: dict) -> None:
        if event["type"] == "session.output_audio.delta":
            self.sent.append(event)
            for out in self._mangle(event) if self._mangle else (event,):
                self.note(out)
                await self.raw(json.dumps(out) if isinstance(out, dict) else out)
        else:
            await super().emit(event)

    async def refuse(self, code: str, message: str, about: dict, param: str | None = None) -> None:
        event = {"type": "error", "error": {
            "type": "invalid_request_error", "code": code, "message": message, "param": param,
            "client_event_id": about.get("event_id")}}
        self.errors.append(event)
        await self.emit(event)

    async def _receive(self, event: dict) -> None:
        self.received.append(event)
        kind = event.get("type")
        if not self._session and kind != "session.start":
            self.audio_before_ready += kind == "session.input_audio.append"
            await self.refuse("session_not_started", "Send session.start first.", event)
        elif kind == "session.start":
            await self._start(event)
        elif kind == "session.input_audio.append":
            await self._append(event)
        elif kind == "session.close":
            await self._close()
        else:
            await self.refuse("unknown_event", f"Invalid value: '{kind}'", event)

    async def _start(self, event: dict) -> None:
        asked = event["session"]
        unknown = unknown_field(asked)
        if self._session or unknown:
            await self.refuse("unknown_parameter", f"Unknown parameter: 'session.{unknown}'.",
                              event, f"session.{unknown}")
            return
        self.rate_hz = asked["audio"]["format"]["rate"]
        self._session = {**asked, "id": "sess_1", "status": "active", "expires_at": 1_790_000_000}
        if self.scenario.say_updated:
            granted = self.scenario.granted
            told = {"client_event_id": event["event_id"]} if "event_id" in event else {}
            await self.emit({"type": "session.started", **told,
                             "session": merge(self._session, granted)})

    async def _append(self, event: dict) -> None:
        pcm = base64.b64decode(event["audio"], validate=True)
        if len(pcm) % 2:
            await self.refuse("invalid_audio", "odd length", event, "audio")
            return
        self.audio += pcm
        samples = np.frombuffer(pcm, dtype="<i2")
        await self._detect(bool(np.abs(samples.astype(float)).mean() > 300), len(samples), {})
        await self._stream_on()

    async def _detect(self, loud: bool, n: int, detection: dict) -> None:
        """The model's own judgement: it replies after 0.2 s of silence and `think_s`."""
        if loud:
            self._loud_run_n += n
            self._quiet_n = 0
        else:
            self._loud_run_n = 0
            self._quiet_n += n
        if self._speaking_since is None and self._loud_run_n >= 0.06 * self.rate_hz:
            self._speaking_since = self._written_n
            if self.scenario.yields:
                self._stop(self._written_n + round(0.2 * self.rate_hz))
        elif self._speaking_since is not None and self._quiet_n >= 0.2 * self.rate_hz:
            self._speaking_since = None
            if self.scenario.respond:
                self._begin()

    def _begin(self) -> None:
        s = self.scenario
        self._responses += 1
        number = self._responses
        speak = s.speak or functools.partial(reply_pcm, rate_hz=self.rate_hz)
        pcm = speak(number, s.replies_s[min(number, len(s.replies_s)) - 1])
        start_n = max(self._written_n + round(s.think_s * self.rate_hz), self._sent_n)
        self._track[start_n] = pcm
        end_n = start_n + len(pcm) // 2
        self.replies.append((start_n, end_n))
        for k, word in enumerate((f"reply{number}", "is", "this", "one")):
            self._words.append((start_n + k * (end_n - start_n) // 4, word + " "))

    def _stop(self, at_n: int) -> None:
        for start_n, pcm in self._track.items():
            self._track[start_n] = pcm[:max(0, at_n - start_n) * 2]
        self.replies = [(a, min(b, max(a, at_n))) for a, b in self.replies]
        self._words = [w for w in self._words if w[0] < at_n]

    def _output(self, from_n: int, n: int) -> bytes:
        out = np.zeros(n, dtype="<i2")
        for start_n, pcm in self._track.items():
            samples = np.frombuffer(pcm, dtype="<i2")
            a, b = max(from_n, start_n), min(from_n + n, start_n + len(samples))
            if a < b:
                out[a - from_n:b - from_n] = samples[a - start_n:b - start_n]
        return out.tobytes()

    async def _stream_on(self) -> None:
        """Send what is due: up to session time, or to the end of a reply that goes out at once."""
        s = self.scenario
        chunk_n = round(s.chunk_s * self.rate_hz)
        until_n = self._written_n
        if s.at_once:
            until_n = max([until_n, *(b for a, b in self.replies if a <= self._written_n)])
        while self._sent_n + chunk_n <= until_n:
            self._deltas += 1
            if s.at_delta is not None and s.at_delta[0] == self._deltas:
                await self._do(s.at_delta[1])
            piece = self._output(self._sent_n, chunk_n)
            event = {"type": "session.output_audio.delta",
                     "delta": base64.b64encode(piece).decode()}
            if s.times_in_audio:
                event |= {"start_ms": self._ms(self._sent_n),
                          "end_ms": self._ms(self._sent_n + chunk_n)}
            self._sent_n += chunk_n
            if s.streams_silence or any(piece):
                await self.emit(event)
        trail_n = round(s.trail_s * self.rate_hz)
        while self._words and self._words[0][0] + trail_n <= min(self._sent_n, self._written_n):
            at_n, word = self._words.pop(0)
            start_ms = self._ms(at_n) // FRAME_MS * FRAME_MS
            event = {"type": "session.output_transcript.delta", "delta": word}
            if not s.say_words:
                continue
            if s.times_in_text:
                event |= {"start_ms": start_ms, "end_ms": start_ms + FRAME_MS}
            await self.emit(event)

    def _ms(self, n: int) -> int:
        return n * 1000 // self.rate_hz

    async def _close(self) -> None:
        if not self.scenario.answers_close:
            return
        await asyncio.sleep(self.scenario.drain_s)
        await self.end("close_requested")

    async def end(self, reason: str) -> None:
        """Say that the session is over, and close."""
        self.closed_reason = reason
        with contextlib.suppress(ConnectionClosed):
            await self.emit({"type": "session.closed", "reason": reason,
                             "usage": {"seconds": self._written_n / self.rate_hz},
                             "session": self._session})
            await self.socket.close()
        raise _Over


def end_with(reason: str) -> Callable[[Conversation], object]:
    """The server ends the session by itself."""

    async def act(conversation: LiveConversation) -> None:
        await conversation.end(reason)

    return act


class LiveServer(RealtimeServer):
    """Serves scenarios by path: the endpoint takes no query."""

    def __init__(self, scenarios: dict[str, LiveScenario]) -> None:
        voice.prepare()
        super().__init__(scenarios, LiveConversation)

    def url_of(self, name: str) -> str:
        return f"{self.base_url}/{name}"

    def _name(self, path: str) -> str:
        parts = urlsplit(path)
        assert parts.query == ""
        assert parts.path.endswith("/live/sessions"), parts.path
        return parts.path.split("/")[2]
