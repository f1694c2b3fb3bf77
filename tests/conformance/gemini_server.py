"""A loopback server that speaks Gemini Live, written from the protocol, not from our client.

It honours the order (`setup` first, audio after `setupComplete`), closes with 1007 over fields
that the protocol does not have, and takes both spellings of those it has. It hears the user in
audio time at the declared rate, generates faster than real time, waits for the playback that it
assumes before `turnComplete`, and breaks a turn off with `interrupted` and `turnComplete`, without
`generationComplete`. Messages carry no ids. Scenarios are chosen by the first part of the path.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import socket as sockets
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

import numpy as np
from realtime_server import Conversation, Raw, RealtimeServer, Scenario, _Over, tone_pcm, words_of
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

OUTPUT_HZ = 24_000
_ANY: dict[str, Any] = {"*": None}
SETUP: dict[str, Any] = {
    "model": None,
    "generationConfig": {
        "responseModalities": None, "temperature": None, "topP": None, "topK": None,
        "maxOutputTokens": None, "mediaResolution": None, "seed": None,
        "speechConfig": {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": None}},
                         "languageCode": None}},
    "systemInstruction": {"parts": _ANY, "role": None},
    "tools": _ANY,
    "sessionResumption": {"handle": None, "transparent": None},
    "inputAudioTranscription": _ANY, "outputAudioTranscription": _ANY,
    "realtimeInputConfig": {
        "automaticActivityDetection": {
            "disabled": None, "startOfSpeechSensitivity": None, "endOfSpeechSensitivity": None,
            "prefixPaddingMs": None, "silenceDurationMs": None},
        "activityHandling": None, "turnCoverage": None},
    "contextWindowCompression": {"triggerTokens": None, "slidingWindow": {"targetTokens": None}},
    "historyConfig": _ANY}
"""What a setup may hold. Affective dialog is no more: the model closes over it."""


def camel(value: Any) -> Any:
    """The same with all names spelt `likeThis`, as a server of protocol buffers reads them."""
    if isinstance(value, list):
        return [camel(v) for v in value]
    if not isinstance(value, dict):
        return value
    return {re.sub(r"_([a-z])", lambda m: m.group(1).upper(), k): camel(v)
            for k, v in value.items()}


def snake(value: Any) -> Any:
    """The same with all names spelt `like_this`."""
    if isinstance(value, list):
        return [snake(v) for v in value]
    if not isinstance(value, dict):
        return value
    return {re.sub(r"[A-Z]", lambda m: f"_{m.group().lower()}", k): snake(v)
            for k, v in value.items()}


def unknown_field(value: Any, known: Any, where: str) -> str | None:
    """The first field that `known` does not have."""
    if not isinstance(known, dict) or "*" in known or not isinstance(value, dict):
        return None
    for key, below in value.items():
        if key not in known:
            return f'Unknown name "{key}" at \'{where}\''
        found = unknown_field(below, known[key], f"{where}.{key}")
        if found is not None:
            return found
    return None


@dataclass
class GeminiScenario(Scenario):
    silence_ms: int = 200
    """What ends the user's turn when the setup does not say."""
    words_come: Literal["beside", "before", "after_generation", "after_turn"] = "beside"
    say_generation_complete: bool = True
    say_turn_complete: bool = True
    waits_for_playback: bool = True
    bundled: bool = False
    """The last audio, the last words and all ends in one message."""
    mime_type: str | None = "audio/pcm;rate=24000"
    audio_after_interrupted: int = 0
    """Pieces that were under way when the turn was broken off."""


def pieces_of(message: Any) -> Iterator[dict[str, Any]]:
    """Every piece of audio in a message, spelt `likeThis`."""
    content = message.get("serverContent") if isinstance(message, dict) else None
    turn = content.get("modelTurn") if isinstance(content, dict) else None
    for part in (turn or {}).get("parts", ()):
        if "inlineData" in part:
            yield part["inlineData"]


class GeminiConversation(Conversation):
    scenario: GeminiScenario

    def __init__(self, socket: ServerConnection, scenario: GeminiScenario) -> None:
        super().__init__(socket, scenario)
        self.setup: dict[str, Any] = {}
        self.rates: set[str] = set()
        """Every rate that user audio was declared with."""
        self.closed_over: str | None = None
        self._rate_hz = 16_000

    # sending

    async def emit(self, message: dict) -> None:
        self.sent.append(message)
        for out in self._mangle(message) if self._mangle else (message,):
            self.note(out)
            await self.raw(json.dumps(out) if isinstance(out, dict) else out)

    def note(self, message: dict | Raw) -> None:
        if not isinstance(message, dict):
            return
        now_ns = self._clock.origin_ns + self._clock.now_ns()
        for inline in pieces_of(camel(message)):
            if inline.get("data"):
                characters = len(inline["data"].rstrip("="))
                self.log.audio.append((now_ns, characters * 3 // 8))
        if (camel(message).get("serverContent") or {}).get("interrupted"):
            self.log.interruptions.append(now_ns)

    async def content(self, **fields: Any) -> None:
        await self.emit({"serverContent": fields})

    async def refuse(self, reason: str, code: int = 1007) -> None:
        """The only way in which this server says no."""
        self.closed_over = reason
        await self.socket.close(code, reason)
        raise _Over

    # receiving

    async def _greet(self) -> None:
        """Nothing: the client speaks first."""

    async def _receive(self, message: dict) -> None:
        self.received.append(message)
        message = camel(message)
        if "setup" in message:
            await self._set_up(message["setup"])
        elif not self._ready:
            self.audio_before_ready += "realtimeInput" in message
            await self.refuse("setup must be the first message and only the first message")
        elif "realtimeInput" in message:
            await self._realtime(message["realtimeInput"])
        else:
            await self.refuse(f'Unknown name "{next(iter(message), "")}": Cannot find field.')

    async def _set_up(self, setup: dict) -> None:
        wrong = unknown_field(setup, SETUP, "setup")
        if self.setup or wrong:
            await self.refuse(f"Invalid JSON payload received. {wrong or 'A second setup'}")
        if not str(setup.get("model")).startswith("models/"):
            await self.refuse("models/ is missing", 1008)
        if setup.get("generationConfig", {}).get("responseModalities") != ["AUDIO"]:
            await self.refuse("Request contains an invalid argument.")
        self.setup = setup
        if self.scenario.say_updated:
            self._ready = True
            await self.emit({"setupComplete": {"sessionId": "session-1"}})

    async def _realtime(self, given: dict) -> None:
        if set(given) != {"audio"} or set(given["audio"]) != {"data", "mimeType"}:
            await self.refuse("Request contains an invalid argument.")
        kind, _, rate = given["audio"]["mimeType"].partition(";rate=")
        if kind != "audio/pcm":
            await self.refuse("error when processing input audio, please check its format")
        self.rates.add(rate)
        self._rate_hz = int(rate or 16_000)
        # Both alphabets, as JSON of protocol buffers has it; the official client sends `-_`.
        pcm = base64.b64decode(given["audio"]["data"].translate(str.maketrans("-_", "+/")),
                               validate=True)
        assert len(pcm) % 2 == 0
        self.audio += pcm
        samples = np.frombuffer(pcm, dtype="<i2")
        await self._hear(bool(np.abs(samples.astype(float)).mean() > 300), len(samples))

    # the model

    @property
    def _detection(self) -> dict:
        return self.setup.get("realtimeInputConfig", {})

    async def _hear(self, loud: bool, n: int) -> None:
        if loud:
            self._loud_run_n += n
            self._quiet_n = 0
        else:
            self._loud_run_n = 0
            self._quiet_n += n
        silence_ms = self._detection.get("automaticActivityDetection", {}).get(
            "silenceDurationMs", self.scenario.silence_ms)
        if self._speaking_since is None and self._loud_run_n >= 0.06 * self._rate_hz:
            self._speaking_since = self._written_n
            if (self._detection.get("activityHandling") != "NO_INTERRUPTION"
                    and self._response and not self._response.done()):
                self._response.cancel()
                await asyncio.gather(self._response, return_exceptions=True)
        elif (self._speaking_since is not None
              and self._quiet_n >= silence_ms * self._rate_hz // 1000):
            self._speaking_since = None
            if "inputAudioTranscription" in self.setup:
                await self.content(inputTranscription={"text": "what the user said"})
            if self.scenario.respond:
                self._responses += 1
                self._response = asyncio.create_task(
                    self._respond(self._responses, self._response))
                self._tasks.add(self._response)

    async def _respond(self, number: int, before: asyncio.Task[None] | None) -> None:
        s = self.scenario
        if before is not None:
            await asyncio.wait([before])
        seconds = s.replies_s[min(number, len(s.replies_s)) - 1]
        pcm = (s.speak or tone_pcm)(number, seconds)
        words = words_of(number) if s.say_words and "outputAudioTranscription" in self.setup else []
        usage = {"promptTokenCount": 25, "responseTokenCount": round(seconds * 25),
                 "totalTokenCount": 25 + round(seconds * 25)}
        with contextlib.suppress(ConnectionClosed, _Over):
            try:
                await asyncio.sleep(s.think_s)
                began_s = asyncio.get_running_loop().time()
                held = await self._generate(pcm, words, began_s)
                if s.say_done and s.say_generation_complete and not s.bundled:
                    await self.content(generationComplete=True)
                for piece in held:
                    await self._say(piece)
                if s.words_come == "after_generation":
                    await self._tell(words)
                if s.waits_for_playback and not s.bundled:
                    ends_s = began_s + seconds
                    await asyncio.sleep(max(0.0, ends_s - asyncio.get_running_loop().time()))
            except asyncio.CancelledError:
                await self.content(interrupted=True)
                for k in range(s.audio_after_interrupted):
                    await self._say(pcm[k * 960:k * 960 + 960])
            if s.say_done and s.say_turn_complete and not s.bundled:
                await self.emit({"serverContent": {"turnComplete": True}, "usageMetadata": usage})
            if s.words_come == "after_turn":
                await self._tell(words)
            if s.after_done is not None:
                await self._do(s.after_done)

    async def _generate(self, pcm: bytes, words: list[str], began_s: float) -> list[bytes]:
        """Send a reply, as fast as the scenario says; gives what it holds back."""
        s = self.scenario
        chunk = round(s.chunk_s * OUTPUT_HZ) * 2
        pieces = [pcm[at:at + chunk] for at in range(0, len(pcm), chunk)]
        held = pieces[len(pieces) - s.held_back:] if s.held_back else []
        waiting = list(words) if s.words_come == "beside" else []
        if s.words_come == "before":
            await self._tell(words)
        last = len(pieces) - len(held) - 1
        for k, piece in enumerate(pieces[:last + 1]):
            self._deltas += 1
            if s.at_delta is not None and s.at_delta[0] == self._deltas:
                await self._do(s.at_delta[1])
            if s.bundled and k == last:
                await self.content(
                    turnComplete=True, generationComplete=True, modelTurn=self._turn(piece),
                    outputTranscription={"text": "".join(waiting), "finished": True})
                return []
            await self._say(piece)
            if waiting:
                await self._tell([waiting.pop(0)])
            due_s = began_s + (k + 1) * s.pace_s
            if s.pace_s:
                await asyncio.sleep(max(0.0, due_s - asyncio.get_running_loop().time()))
        await self._tell(waiting)
        return held

    def _turn(self, piece: bytes) -> dict[str, Any]:
        inline = {"data": base64.b64encode(piece).decode()}
        if self.scenario.mime_type is not None:
            inline = {"mimeType": self.scenario.mime_type, **inline}
        return {"parts": [{"inlineData": inline}]}

    async def _say(self, piece: bytes) -> None:
        await self.content(modelTurn=self._turn(piece))

    async def _tell(self, words: list[str]) -> None:
        for word in words:
            await self.content(outputTranscription={"text": word})


class GeminiServer(RealtimeServer):
    """Serves scenarios by path; over TLS when it is given a context."""

    def __init__(self, scenarios: dict[str, GeminiScenario],
                 tls: ssl.SSLContext | None = None) -> None:
        super().__init__(scenarios, GeminiConversation)
        self._tls = tls

    def url_of(self, name: str) -> str:
        return f"{self.base_url}/{name}"

    def _name(self, path: str) -> str:
        parts = urlsplit(path)
        assert parts.query == ""  # no key in an address
        found = re.fullmatch(r"/v1/([^/]+)/ws/google\.ai\.generativelanguage\.(v1|v1beta|v1alpha)"
                             r"\.GenerativeService\.BidiGenerateContent", parts.path)
        assert found, parts.path
        return found.group(1)

    async def _process_request(
        self, socket: ServerConnection, request: Request
    ) -> Response | None:
        _, scenario = self._scenario(request)
        if scenario.http is None:
            return None
        status, headers, body = scenario.http
        data = body.replace("$KEY", request.headers["x-goog-api-key"]).encode()
        return Response(status, "Scripted", Headers(
            {**headers, "Content-Length": str(len(data)), "Connection": "close"}), data)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[GeminiServer]:
        if self._tls is None:
            async with super().running():
                yield self
            return
        listener = sockets.socket(proto=sockets.IPPROTO_TCP)
        listener.bind(("127.0.0.1", 0))
        async with serve(self._serve, sock=listener, process_request=self._process_request,
                         ssl=self._tls, max_size=None, ping_interval=None,
                         close_timeout=0.2) as self._server:
            yield self


def go_away(time_left: str | None, then: Callable[[Any], object]) -> Callable[[Any], object]:
    """Announce the end of the connection, and end it."""

    async def act(conversation: GeminiConversation) -> None:
        await conversation.emit({"goAway": {} if time_left is None else {"timeLeft": time_left}})
        await conversation._do(then)

    return act
