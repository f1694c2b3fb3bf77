"""A loopback server that speaks OpenAI Realtime (GA), written from the protocol, not our client.

It honours the order of a server-VAD turn, the counting of `audio_start_ms`/`audio_end_ms` in audio
written to the buffer, cancellation on a barge-in, and the rules of `conversation.item.truncate`.
What it says is scripted; what it does wrong is injected by `Scenario`. The scenario is chosen by
the `model` of the query, so that one server serves many sessions.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import copy
import itertools
import json
import socket as sockets
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import numpy as np
from faults import PeerLog
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from rig.clock import SessionClock

RATE_HZ = 24_000
Raw = str | bytes
Mangle = Callable[[dict], Iterable[dict | Raw]]


class _Over(Exception):
    """The script ends this connection."""


@dataclass
class Scenario:
    """What the system says, and what goes wrong. Times in seconds."""

    replies_s: tuple[float, ...] = (0.6, 0.4)
    """Audio of the first, second, ... response; the last one repeats."""
    think_s: float = 0.05
    chunk_s: float = 0.1
    pace_s: float = 0.01
    """Between two deltas: ten times faster than real time."""
    mangle: Mangle | None = None
    """Every server event passes through; called afresh for each connection by `make_mangle`."""
    make_mangle: Callable[[], Mangle] | None = None
    speak: Callable[[int, float], bytes] | None = None
    """PCM16 of the n-th response, so many seconds long; `tone_pcm` where there is none."""
    say_words: bool = True
    say_done: bool = True
    held_back: int = 0
    """The last deltas of a response, so many, come after its end."""
    status: str = "completed"
    status_details: dict | None = None
    late_deltas: int = 0
    """Deltas of a cancelled response that are sent after its end."""
    transcript_after_done: bool = False
    as_binary: bool = False
    fragmented: bool = False
    respond: bool = True
    http: tuple[int, dict[str, str], str] | None = None
    say_created: bool = True
    say_updated: bool = True
    granted: dict = field(default_factory=dict)
    """Merged into what `session.updated` reports."""
    at_connect: Callable[[Conversation], object] | None = None
    at_delta: tuple[int, Callable[[Conversation], object]] | None = None
    """Before the n-th delta of the session (from 1)."""
    after_done: Callable[[Conversation], object] | None = None
    stop_reading_after_s: float | None = None


def tone_pcm(response: int, seconds: float) -> bytes:
    """What a response sounds like: noise, different and fixed for each."""
    n = round(seconds * RATE_HZ)
    samples = np.random.default_rng(100 + response).uniform(-0.3, 0.3, n)
    return (samples * 32767).astype("<i2").tobytes()


def words_of(response: int) -> list[str]:
    return [f"reply{response}", " is", " this", " one"]


SESSION_FIELDS = (
    "type", "model", "output_modalities", "instructions", "tools", "tool_choice",
    "parallel_tool_calls", "max_output_tokens", "reasoning", "truncation", "tracing", "include",
    "prompt", "audio")

DEFAULT_SESSION = {
    "type": "realtime", "object": "realtime.session", "output_modalities": ["audio"],
    "instructions": "The server's own default instructions.", "tools": [], "tool_choice": "auto",
    "max_output_tokens": "inf",
    "audio": {
        "input": {"format": {"type": "audio/pcm", "rate": 24000}, "transcription": None,
                  "noise_reduction": None,
                  "turn_detection": {"type": "server_vad", "threshold": 0.5,
                                     "prefix_padding_ms": 300, "silence_duration_ms": 500,
                                     "idle_timeout_ms": None, "create_response": True,
                                     "interrupt_response": True}},
        "output": {"format": {"type": "audio/pcm", "rate": 24000}, "voice": "marin",
                   "speed": 1.0}}}


def merge(base: dict, change: dict) -> dict:
    """Objects are merged, everything else is replaced; so is an object of another `type`."""
    out = copy.deepcopy(base)
    for key, value in change.items():
        have = out.get(key)
        if (isinstance(value, dict) and isinstance(have, dict)
                and value.get("type") in (None, have.get("type"))):
            out[key] = merge(have, value)
        else:
            out[key] = copy.deepcopy(value)
    return out


class Conversation:
    """One session on the server's side; kept after its end for the test to look at."""

    default_session = DEFAULT_SESSION

    def __init__(self, socket: ServerConnection, scenario: Scenario) -> None:
        self.socket = socket
        self.scenario = scenario
        self.headers = dict(socket.request.headers.raw_items())
        self.session = merge(self.default_session, {"id": "sess_1", "model": "scripted"})
        self.received: list[dict] = []
        self.sent: list[dict] = []
        self.audio = bytearray()
        self.audio_before_ready = 0
        self.truncates: list[dict] = []
        self.errors: list[dict] = []
        self.items: dict[str, int] = {}
        """Assistant items: samples generated so far."""
        self.close_code: int | None = None
        self.log = PeerLog()
        self._clock = SessionClock()
        self._mangle = scenario.make_mangle() if scenario.make_mangle else scenario.mangle
        self._ids = itertools.count(1)
        self._speaking_since: int | None = None
        self._loud_run_n = 0
        self._quiet_n = 0
        self._segment_start_n = 0
        self._last_item: str | None = None
        self._response: asyncio.Task[None] | None = None
        self._responses = 0
        self._deltas = 0
        self._ready = False
        self._tasks: set[asyncio.Task[None]] = set()

    # sending

    async def emit(self, event: dict) -> None:
        event = {"type": event["type"], "event_id": f"event_{next(self._ids)}", **event}
        self.sent.append(event)
        for out in self._mangle(event) if self._mangle else (event,):
            self.note(out)
            await self.raw(json.dumps(out) if isinstance(out, dict) else out)

    def note(self, event: dict | Raw) -> None:
        """Keep when a piece of audio, or word of an interruption, is handed to the socket."""
        if not isinstance(event, dict):
            return
        now_ns = self._clock.origin_ns + self._clock.now_ns()
        if event["type"].endswith("audio.delta") and event.get("delta"):
            characters = len(event["delta"].replace("\r\n", "").rstrip("="))
            self.log.audio.append((now_ns, characters * 3 // 8))
        elif event["type"] == "input_audio_buffer.speech_started":
            self.log.interruptions.append(now_ns)

    async def raw(self, data: Raw) -> None:
        if self.scenario.as_binary and isinstance(data, str):
            data = data.encode()
        if self.scenario.fragmented and len(data) > 8:
            third = len(data) // 3
            await self.socket.send([data[:third], data[third:2 * third], data[2 * third:]])
        else:
            await self.socket.send(data)

    async def error(self, message: str, about: dict | None, code: str = "invalid_value") -> None:
        event = {"type": "error", "error": {
            "type": "invalid_request_error", "code": code, "message": message, "param": None,
            "event_id": (about or {}).get("event_id")}}
        self.errors.append(event)
        await self.emit(event)

    async def _do(self, action: Callable[[Conversation], object]) -> None:
        result = action(self)
        if asyncio.iscoroutine(result):
            await result

    # the session

    async def run(self) -> None:
        s = self.scenario
        try:
            if s.at_connect is not None:
                await self._do(s.at_connect)
            await self._greet()
            async for message in self.socket:
                await self._receive(json.loads(message))
                if (s.stop_reading_after_s is not None
                        and len(self.audio) >= s.stop_reading_after_s * RATE_HZ * 2):
                    self.socket.transport.pause_reading()
                    await self.socket.wait_closed()
        except (ConnectionClosed, _Over):
            pass
        finally:
            for task in [*self._tasks, *([self._response] if self._response else [])]:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionClosed, _Over):
                await asyncio.gather(*self._tasks, return_exceptions=True)
            self.close_code = self.socket.close_code

    async def _greet(self) -> None:
        if self.scenario.say_created:
            await self.emit({"type": "session.created", "session": self.session})

    async def _receive(self, event: dict) -> None:
        self.received.append(event)
        match event.get("type"):
            case "session.update":
                await self._update(event)
            case "input_audio_buffer.append":
                await self._append(event)
            case "conversation.item.truncate":
                await self._truncate(event)
            case "response.cancel":
                await self.error("Cancellation failed: no active response found", event,
                                 "response_cancel_not_active")
            case other:
                await self.error(f"Invalid value: '{other}'", event)

    async def _update(self, event: dict) -> None:
        change = event["session"]
        if change.get("type") != "realtime":
            await self.error("Missing required parameter: 'session.type'.", event,
                             "missing_required_parameter")
            return
        unknown = set(change) - set(SESSION_FIELDS)
        if unknown:
            await self.error(f"Unknown parameter: 'session.{unknown.pop()}'.", event,
                             "unknown_parameter")
            return
        self.session = merge(self.session, change)
        if self.scenario.say_updated:
            self._ready = True
            await self.emit({"type": "session.updated",
                             "session": merge(self.session, self.scenario.granted)})

    async def _append(self, event: dict) -> None:
        if not self._ready:
            self.audio_before_ready += 1
        pcm = base64.b64decode(event["audio"], validate=True)
        assert len(pcm) % 2 == 0
        self.audio += pcm
        samples = np.frombuffer(pcm, dtype="<i2")
        detection = self._detection
        if detection is not None and len(samples):
            loud_from = detection.get("energy_awakeness_threshold", 300)
            await self._detect(bool(np.abs(samples.astype(float)).mean() > loud_from), len(samples),
                               detection)

    # turn detection, on audio written to the buffer

    @property
    def _detection(self) -> dict | None:
        return self.session["audio"]["input"]["turn_detection"]

    @property
    def _written_n(self) -> int:
        return len(self.audio) // 2

    async def _detect(self, loud: bool, n: int, detection: dict) -> None:
        if loud:
            self._loud_run_n += n
            self._quiet_n = 0
        else:
            self._loud_run_n = 0
            self._quiet_n += n
        if self._speaking_since is None and self._loud_run_n >= 0.06 * RATE_HZ:
            self._speaking_since = self._written_n - self._loud_run_n
            self._user_item = f"item_user_{next(self._ids)}"
            start_n = self._speaking_since - detection.get("prefix_padding_ms", 300) * 24
            await self.emit({"type": "input_audio_buffer.speech_started",
                             "audio_start_ms": max(0, start_n) // 24, "item_id": self._user_item})
            if (detection.get("interrupt_response", True) and self._response
                    and not self._response.done()):
                self._response.cancel()
                await asyncio.gather(self._response, return_exceptions=True)
        elif (self._speaking_since is not None
              and self._quiet_n >= detection.get("silence_duration_ms", 500) * 24):
            self._speaking_since = None
            await self._turn_over(detection)

    async def _turn_over(self, detection: dict) -> None:
        item = self._user_item
        await self.emit({"type": "input_audio_buffer.speech_stopped",
                         "audio_end_ms": self._written_n // 24, "item_id": item})
        await self.emit({"type": "input_audio_buffer.committed", "item_id": item,
                         "previous_item_id": self._last_item})
        body = {"id": item, "object": "realtime.item", "type": "message", "status": "completed",
                "role": "user", "content": [{"type": "input_audio", "transcript": None}]}
        for kind in ("added", "done"):
            await self.emit({"type": f"conversation.item.{kind}", "item": body,
                             "previous_item_id": self._last_item})
        self._last_item = item
        if detection.get("create_response", True) and self.scenario.respond:
            self._responses += 1
            self._response = asyncio.create_task(self._respond(self._responses))
            self._tasks.add(self._response)

    # one response

    async def _respond(self, number: int) -> None:
        s = self.scenario
        response_id, item_id = f"resp_{number}", f"item_{number}"
        seconds = s.replies_s[min(number, len(s.replies_s)) - 1]
        pcm = (s.speak or tone_pcm)(number, seconds)
        where = {"response_id": response_id, "item_id": item_id, "output_index": 0}
        part = {**where, "content_index": 0}
        item = {"id": item_id, "object": "realtime.item", "type": "message",
                "status": "in_progress", "role": "assistant", "content": []}
        said: list[str] = []
        held: list[dict] = []
        status, details = s.status, s.status_details
        try:
            await asyncio.sleep(s.think_s)
            await self.emit({"type": "response.created", "response": self._resource(
                response_id, "in_progress", None)})
            await self.emit({"type": "rate_limits.updated", "rate_limits": [
                {"name": "tokens", "limit": 40000, "remaining": 39000, "reset_seconds": 0.5}]})
            await self.emit({"type": "response.output_item.added", "output_index": 0,
                             "response_id": response_id, "item": item})
            await self.emit({"type": "conversation.item.added", "item": item,
                             "previous_item_id": self._last_item})
            await self.emit({"type": "response.content_part.added", **part,
                             "part": {"type": "audio", "transcript": ""}})
            self.items[item_id] = 0
            await self._stream(part, pcm, number, said, held)
        except asyncio.CancelledError:
            status, details = "cancelled", {"type": "cancelled", "reason": "turn_detected"}
        except ConnectionClosed:
            return
        transcript = "".join(said)
        final = {**item, "status": "completed" if status == "completed" else "incomplete",
                 "content": [{"type": "output_audio", "transcript": transcript}]}
        with contextlib.suppress(ConnectionClosed):
            await self.emit({"type": "response.output_audio.done", **part})
            if s.say_words:
                await self.emit({"type": "response.output_audio_transcript.done", **part,
                                 "transcript": transcript})
            await self.emit({"type": "response.content_part.done", **part,
                             "part": {"type": "audio", "transcript": transcript}})
            await self.emit({"type": "response.output_item.done", "output_index": 0,
                             "response_id": response_id, "item": final})
            await self.emit({"type": "conversation.item.done", "item": final,
                             "previous_item_id": self._last_item})
            self._last_item = item_id
            if s.say_done:
                await self.emit({"type": "response.done",
                                 "response": self._resource(response_id, status, details)})
            for delta in held:
                await self.emit(delta)
            for k in range(s.late_deltas if status == "cancelled" else 0):
                await self.emit({"type": "response.output_audio.delta", **part,
                                 "delta": base64.b64encode(pcm[k * 960:k * 960 + 960]).decode()})
            if s.transcript_after_done and s.say_words:
                for word in words_of(number):
                    await self.emit({"type": "response.output_audio_transcript.delta", **part,
                                     "delta": word})
            if s.after_done is not None:
                await self._do(s.after_done)

    async def _stream(self, part: dict, pcm: bytes, number: int, said: list[str],
                      held: list[dict]) -> None:
        s = self.scenario
        chunk = round(s.chunk_s * RATE_HZ) * 2
        words = [] if s.transcript_after_done or not s.say_words else words_of(number)
        hold_from = len(pcm) - s.held_back * chunk if s.held_back else len(pcm)
        for at in range(0, len(pcm), chunk):
            if words:
                said.append(words.pop(0))
                await self.emit({"type": "response.output_audio_transcript.delta", **part,
                                 "delta": said[-1]})
            self._deltas += 1
            if s.at_delta is not None and s.at_delta[0] == self._deltas:
                await self._do(s.at_delta[1])
            piece = pcm[at:at + chunk]
            self.items[part["item_id"]] += len(piece) // 2
            delta = {"type": "response.output_audio.delta", **part,
                     "delta": base64.b64encode(piece).decode()}
            if at >= hold_from:
                held.append(delta)
                continue
            await self.emit(delta)
            if s.pace_s:
                await asyncio.sleep(s.pace_s)
        for word in words:
            said.append(word)
            await self.emit({"type": "response.output_audio_transcript.delta", **part,
                             "delta": word})

    def _resource(self, response_id: str, status: str, details: dict | None) -> dict:
        done = status != "in_progress"
        return {"id": response_id, "object": "realtime.response", "status": status,
                "status_details": details, "output": [], "conversation_id": "conv_1",
                "output_modalities": ["audio"], "max_output_tokens": "inf", "metadata": None,
                "usage": {"total_tokens": 100, "input_tokens": 60, "output_tokens": 40}
                if done else None}

    # the client's own doing

    async def _truncate(self, event: dict) -> None:
        self.truncates.append(event)
        generated_n = self.items.get(event["item_id"])
        if generated_n is None:
            await self.error(f"Item '{event['item_id']}' not found", event, "item_not_found")
        elif event["audio_end_ms"] <= 0 or event["audio_end_ms"] * 24 > generated_n:
            await self.error(f"Audio content of {generated_n // 24}ms is already shorter than "
                             f"{event['audio_end_ms']}ms", event)
        else:
            await self.emit({"type": "conversation.item.truncated", "item_id": event["item_id"],
                             "content_index": event["content_index"],
                             "audio_end_ms": event["audio_end_ms"]})


class RealtimeServer:
    """Serves scenarios by name; remembers the conversations of each."""

    def __init__(self, scenarios: dict[str, Scenario],
                 conversation: type[Conversation] = Conversation) -> None:
        self.scenarios = scenarios
        self._conversation = conversation
        self.conversations: dict[str, list[Conversation]] = {}
        self.paths: list[str] = []
        self._server: Server | None = None

    @property
    def base_url(self) -> str:
        assert self._server is not None
        return f"ws://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    def url_of(self, name: str) -> str:
        """The base URL at which a scenario is found; here its name is the model."""
        return self.base_url

    def peer_log(self, name: str) -> PeerLog | None:
        """When what was sent, in the last session of a scenario."""
        met = self.conversations.get(name)
        return met[-1].log if met else None

    async def met(self, name: str) -> Conversation | None:
        met = self.conversations.get(name)
        return met[-1] if met else None

    def _scenario(self, request: Request) -> tuple[str, Scenario]:
        self.paths.append(request.path)
        name = self._name(request.path)
        return name, self.scenarios[name]

    def _name(self, path: str) -> str:
        return parse_qs(urlsplit(path).query)["model"][0]

    async def _process_request(
        self, socket: ServerConnection, request: Request
    ) -> Response | None:
        _, scenario = self._scenario(request)
        if scenario.http is None:
            return None
        status, headers, body = scenario.http
        data = body.replace("$KEY", request.headers["Authorization"]).encode()
        return Response(status, "Scripted", Headers(
            {**headers, "Content-Length": str(len(data)), "Connection": "close"}), data)

    async def _serve(self, socket: ServerConnection) -> None:
        name, scenario = self._scenario(socket.request)
        conversation = self._conversation(socket, scenario)
        self.conversations.setdefault(name, []).append(conversation)
        await conversation.run()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[RealtimeServer]:
        # asyncio turns Nagle off only where the protocol is stated.
        listener = sockets.socket(proto=sockets.IPPROTO_TCP)
        # Small, so that a server that stops reading is felt soon.
        listener.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 8192)
        listener.bind(("127.0.0.1", 0))
        async with serve(self._serve, sock=listener, process_request=self._process_request,
                         max_size=None, compression=None, ping_interval=None,
                         close_timeout=0.2) as server:
            self._server = server
            yield self


def close_with(code: int, reason: str = "") -> Callable[[Conversation], object]:
    """End the connection with a close frame, and the script with it."""

    async def act(conversation: Conversation) -> None:
        await conversation.socket.close(code, reason)
        raise _Over

    return act


def drop() -> Callable[[Conversation], object]:
    """End the connection without a close frame."""

    def act(conversation: Conversation) -> None:
        conversation.socket.transport.abort()
        raise _Over

    return act


def say(*events: dict | Raw) -> Callable[[Conversation], object]:
    """Send these as they are."""

    async def act(conversation: Conversation) -> None:
        for event in events:
            await conversation.raw(json.dumps(event) if isinstance(event, dict) else event)

    return act


def stall() -> Callable[[Conversation], object]:
    """Read nothing and say nothing any more: no pong either."""

    async def act(conversation: Conversation) -> None:
        conversation.socket.transport.pause_reading()
        await conversation.socket.wait_closed()

    return act
