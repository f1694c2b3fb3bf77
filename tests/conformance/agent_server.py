"""A voice agent as its user would write it, behind a wire of its own: listens by energy, replies
with speech, stops when it is interrupted.

Each protocol says how user audio comes out of a message and how audio, words and an interruption
go in. Scenarios are found by the path. Written from the protocols, not from our client.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import soundfile
from live_server import reply_pcm
from realtime_server import Conversation, RealtimeServer, Scenario, _Over, words_of
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from adapters.simulated import voice


@dataclass
class AgentScenario(Scenario):
    yields: bool = True
    """It stops when the user speaks while it does, and drops what has not been played."""
    clears_always: bool = False
    """Every onset of the user is taken for an interruption."""
    silence_s: float = 0.2
    """So much of it ends a turn of the user."""


class AgentConversation(Conversation):
    """One session; the protocol is in what a subclass makes of messages and of sounds."""

    scenario: AgentScenario
    rate_hz: int
    """Of the replies."""
    user_rate_hz: int

    def __init__(self, socket: ServerConnection, scenario: AgentScenario) -> None:
        super().__init__(socket, scenario)
        self.messages: list[Any] = []
        """What came, in order."""
        self.clears = 0
        self.replies: list[bytes] = []
        """PCM16 of each reply, as far as it was sent."""

    async def run(self) -> None:
        s = self.scenario
        try:
            if s.at_connect is not None:
                await self._do(s.at_connect)
            async for message in self.socket:
                await self.take(message)
                if (s.stop_reading_after_s is not None
                        and len(self.audio) >= s.stop_reading_after_s * self.user_rate_hz * 2):
                    self.socket.transport.pause_reading()
                    await self.socket.wait_closed()
        except (ConnectionClosed, _Over):
            pass
        finally:
            if self._response is not None:
                self._response.cancel()
                with contextlib.suppress(asyncio.CancelledError, ConnectionClosed, _Over):
                    await self._response
            self.close_code = self.socket.close_code

    # what a protocol says

    async def take(self, message: str | bytes) -> None:
        """Read one message; user audio goes to `hear`."""
        raise NotImplementedError

    async def put_audio(self, pcm: bytes) -> None:
        raise NotImplementedError

    async def put_clear(self) -> None:
        raise NotImplementedError

    async def put_words(self, text: str) -> None:
        """Nothing, where a protocol has no words."""

    async def put_end(self) -> None:
        """All of a reply was sent."""

    def playing(self) -> bool:
        """Whether the agent has reason to think that the user still hears it."""
        return self._response is not None and not self._response.done()

    # what every agent does

    def now_ns(self) -> int:
        return self._clock.origin_ns + self._clock.now_ns()

    async def put(self, event: dict) -> None:
        """One JSON event, as the scenario would have it."""
        self.sent.append(event)
        for out in self._mangle(event) if self._mangle else (event,):
            await self.raw(json.dumps(out) if isinstance(out, dict) else out)

    async def hear(self, pcm: np.ndarray) -> None:
        """The user's audio, int16."""
        self.audio += pcm.astype("<i2").tobytes()
        if np.abs(pcm.astype(float)).mean() > 300:
            self._loud_run_n += len(pcm)
            self._quiet_n = 0
        else:
            self._loud_run_n = 0
            self._quiet_n += len(pcm)
        if self._speaking_since is None and self._loud_run_n >= 0.06 * self.user_rate_hz:
            self._speaking_since = len(self.audio) // 2
            if self.scenario.clears_always or (self.scenario.yields and self.playing()):
                await self._stop()
        elif (self._speaking_since is not None
              and self._quiet_n >= self.scenario.silence_s * self.user_rate_hz):
            self._speaking_since = None
            if self.scenario.respond:
                self._responses += 1
                self._response = asyncio.create_task(self._reply(self._responses))

    async def _stop(self) -> None:
        if self._response is not None:
            self._response.cancel()
            await asyncio.gather(self._response, return_exceptions=True)
        self.clears += 1
        self.log.interruptions.append(self.now_ns())
        await self.put_clear()

    async def _reply(self, number: int) -> None:
        s = self.scenario
        await asyncio.sleep(s.think_s)
        seconds = s.replies_s[min(number, len(s.replies_s)) - 1]
        pcm = (s.speak or reply_pcm)(number, seconds, self.rate_hz)
        chunk = round(s.chunk_s * self.rate_hz) * 2
        words = words_of(number) if s.say_words else []
        self.replies.append(b"")
        for at in range(0, len(pcm), chunk):
            self._deltas += 1
            if s.at_delta is not None and s.at_delta[0] == self._deltas:
                await self._do(s.at_delta[1])
            if words and not s.transcript_after_done:
                await self.put_words(words.pop(0))
            piece = pcm[at:at + chunk]
            self.log.audio.append((self.now_ns(), len(piece) // 2))
            self.replies[-1] += piece
            await self.put_audio(piece)
            if s.pace_s:
                await asyncio.sleep(s.pace_s)
        for word in words:
            await self.put_words(word)
        await self.put_end()
        if s.after_done is not None:
            await self._do(s.after_done)


ULAW = {"format": "RAW", "subtype": "ULAW", "samplerate": 8_000, "channels": 1}


def mu_law(pcm: bytes) -> bytes:
    """PCM16 in G.711 mu-law, by libsndfile and not by ours."""
    file = io.BytesIO()
    soundfile.write(file, np.frombuffer(pcm, dtype="<i2"), 8_000, format="RAW", subtype="ULAW")
    return file.getvalue()


def from_mu_law(codes: bytes) -> np.ndarray:
    """Int16 `(n,)`, by libsndfile."""
    read, _ = soundfile.read(io.BytesIO(codes), dtype="int16", **ULAW)
    return read


class TwilioAgent(AgentConversation):
    """Behind Twilio Media Streams. Knows by a mark at the end of each reply that it was heard."""

    rate_hz = user_rate_hz = 8_000

    def __init__(self, socket: ServerConnection, scenario: AgentScenario) -> None:
        super().__init__(socket, scenario)
        self.start: dict[str, Any] = {}
        self.marks_sent: list[tuple[str, int]] = []
        """Name, and `time.perf_counter_ns` when it was sent."""
        self.marks_back: list[tuple[str, int]] = []
        self.stopped: dict[str, Any] | None = None

    @property
    def sid(self) -> str:
        return self.start.get("streamSid", "MZ?")

    async def take(self, message: str | bytes) -> None:
        event = json.loads(message)
        self.messages.append(event)
        match event["event"]:
            case "start":
                self.start = event["start"]
            case "media":
                codes = base64.b64decode(event["media"]["payload"], validate=True)
                await self.hear(from_mu_law(codes))
            case "mark":
                self.marks_back.append((event["mark"]["name"], self.now_ns()))
            case "stop":
                self.stopped = event

    def playing(self) -> bool:
        return super().playing() or len(self.marks_back) < len(self.marks_sent)

    async def put_audio(self, pcm: bytes) -> None:
        await self.put({"event": "media", "streamSid": self.sid, "media": {
            "payload": base64.b64encode(mu_law(pcm)).decode()}})

    async def put_clear(self) -> None:
        await self.put({"event": "clear", "streamSid": self.sid})

    async def put_end(self) -> None:
        await self.mark(f"end of reply {self._responses}")

    async def mark(self, name: str) -> None:
        self.marks_sent.append((name, self.now_ns()))
        await self.put({"event": "mark", "streamSid": self.sid, "mark": {"name": name}})


class RawPcmAgent(AgentConversation):
    """Behind a WebSocket with PCM16. Knows from its own clock how long it is heard."""

    def __init__(self, socket: ServerConnection, scenario: AgentScenario) -> None:
        super().__init__(socket, scenario)
        self.hello: dict[str, Any] = {}
        self._sent_n = 0
        self._heard_until_ns = 0

    async def take(self, message: str | bytes) -> None:
        if isinstance(message, bytes):
            await self.hear(np.frombuffer(message, dtype="<i2"))
            return
        event = json.loads(message)
        self.messages.append(event)
        if event["type"] == "hello":
            self.hello = event
            self.user_rate_hz = event["user_audio"]["rate_hz"]
            self.rate_hz = event["agent_audio"]["rate_hz"]
            if self.scenario.say_created:
                await self.put({"type": "ready", **self.scenario.granted})

    def playing(self) -> bool:
        return super().playing() or self.now_ns() < self._heard_until_ns

    async def put_audio(self, pcm: bytes) -> None:
        n = len(pcm) // 2
        self._sent_n += n
        self._heard_until_ns = max(self.now_ns(), self._heard_until_ns) + n * 10**9 // self.rate_hz
        for out in self._mangle(pcm) if self._mangle else (pcm,):
            await self.raw(json.dumps(out) if isinstance(out, dict) else out)

    async def put_clear(self) -> None:
        self._heard_until_ns = 0
        await self.put({"type": "clear"})

    async def put_words(self, text: str) -> None:
        late = {}
        if self.scenario.transcript_after_done:
            late = {"audio_s": (self._sent_n - len(self.replies[-1]) // 2) / self.rate_hz}
        await self.put({"type": "transcript", "text": text, **late})


class AgentServer(RealtimeServer):
    """Serves scenarios by path, one kind of agent."""

    def __init__(self, scenarios: dict[str, Any], agent: Callable[..., Conversation]) -> None:
        voice.prepare()
        super().__init__(scenarios, agent)  # type: ignore[arg-type]

    def url_of(self, name: str) -> str:
        return f"{self.base_url}/{name}"

    def _name(self, path: str) -> str:
        return path.removeprefix("/v1/")


def agent_url(url: str, name: str) -> dict[str, str]:
    """The scenario is in the path: which settings lead there."""
    return {"url": url}
