"""A loopback server that speaks Pipecat's WebSocket protocol: protobuf frames, RTVI messages.

Written from pipecat-ai 1.14.0 and from what its real transport was seen to send
(tests/tools/pipecat_server.py), with the official protobuf runtime and not with our codec. It keeps
the order of a turn: an interruption frame before `user-started-speaking`, the first audio before
`bot-started-speaking`, words as they are spoken. Scenarios are chosen by the end of the path.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from pipecat_proto import FRAME, encoded
from realtime_server import Conversation, Raw, RealtimeServer, Scenario, _Over, words_of
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from adapters.simulated import voice

INPUT_HZ, OUTPUT_HZ = 16_000, 24_000
SILENCE_S = 0.2


@dataclass
class PipecatScenario(Scenario):
    chunk_s: float = 0.04
    pace_s: float = 0.01
    """Four times faster than real time: a busy machine leaves no holes in what is compared."""
    rtvi: bool = True
    """Whether RTVI messages are sent at all."""
    whole_segments: bool = False
    """Words are reported when their sentence is over."""
    version: str = "2.2.0"
    ready: dict | None = None
    """Merged into what `bot-ready` says."""
    answers: dict | None = None
    """What answers a client's message that is not `client-ready`."""


class PipecatConversation(Conversation):
    scenario: PipecatScenario

    def __init__(self, socket: ServerConnection, scenario: PipecatScenario) -> None:
        super().__init__(socket, scenario)
        self._speaks = False

    # sending: a dict is a frame, or an RTVI message by its type

    async def emit(self, event: dict) -> None:
        event = {"type": event["type"], "event_id": str(next(self._ids)), **event}
        self.sent.append(event)
        for out in self._mangle(event) if self._mangle else (event,):
            self.note(out)
            await self.raw(frame(out) if isinstance(out, dict) else out)

    def note(self, event: dict | Raw) -> None:
        if isinstance(event, dict) and event["type"] == "interruption":
            event = {**event, "type": "input_audio_buffer.speech_started"}
        super().note(event)

    async def tell(self, kind: str, **data: object) -> None:
        if self.scenario.rtvi:
            await self.emit({"type": kind, **({"data": data} if data else {})})

    # the session

    async def run(self) -> None:
        s = self.scenario
        try:
            if s.at_connect is not None:
                await self._do(s.at_connect)
            async for message in self.socket:
                assert isinstance(message, bytes)
                await self._take(message)
                if (s.stop_reading_after_s is not None
                        and len(self.audio) >= s.stop_reading_after_s * INPUT_HZ * 2):
                    self.socket.transport.pause_reading()
                    await self.socket.wait_closed()
        except (ConnectionClosed, _Over):
            pass
        finally:
            for task in self._tasks:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionClosed, _Over):
                await asyncio.gather(*self._tasks, return_exceptions=True)
            self.close_code = self.socket.close_code

    async def _take(self, message: bytes) -> None:
        came = FRAME.FromString(message)
        if came.WhichOneof("frame") == "audio":
            audio = came.audio
            assert (audio.sample_rate, audio.num_channels, len(audio.audio)) == (INPUT_HZ, 1, 640)
            self.audio_before_ready += not self._ready and self.scenario.rtvi
            self.audio += audio.audio
            loud = np.abs(np.frombuffer(audio.audio, dtype="<i2").astype(float)).mean() > 300
            await self._detect(bool(loud), len(audio.audio) // 2, {})
            return
        assert came.WhichOneof("frame") == "message"
        event = json.loads(came.message.data)
        assert event["label"] == "rtvi-ai"
        self.received.append(event)
        if event["type"] == "client-ready":
            if self.scenario.say_updated:
                self._ready = True
                await self.emit({"type": "bot-ready", "id": event["id"], "data": {
                    "version": self.scenario.version, **(self.scenario.ready or {})}})
        elif self.scenario.answers is not None:
            await self.emit({"id": event["id"], **self.scenario.answers})

    async def _detect(self, loud: bool, n: int, detection: dict) -> None:
        self._loud_run_n = self._loud_run_n + n if loud else 0
        self._quiet_n = 0 if loud else self._quiet_n + n
        if self._speaking_since is None and self._loud_run_n >= 0.06 * INPUT_HZ:
            self._speaking_since = self._written_n
            if self._response and not self._response.done():
                self._response.cancel()
                await asyncio.gather(self._response, return_exceptions=True)
            # As Pipecat: on every turn of the user, whether or not it speaks.
            await self.emit({"type": "interruption"})
            await self.tell("user-started-speaking")
            await self.tell("bot-interrupted")
            await self._stopped()
        elif self._speaking_since is not None and self._quiet_n >= SILENCE_S * INPUT_HZ:
            self._speaking_since = None
            await self.tell("user-stopped-speaking")
            if self.scenario.respond:
                self._responses += 1
                self._response = asyncio.create_task(self._respond(self._responses))
                self._tasks.add(self._response)

    # one reply

    async def _stopped(self) -> None:
        if self._speaks and self.scenario.say_done:
            await self.tell("bot-stopped-speaking")
        self._speaks = False

    async def _respond(self, number: int) -> None:
        s = self.scenario
        seconds = s.replies_s[min(number, len(s.replies_s)) - 1]
        pcm = s.speak(number, seconds)
        words = words_of(number)
        try:
            await asyncio.sleep(s.think_s)
            # The same words as a language model and a voice see them; nothing of it was spoken.
            for kind in ("bot-llm-text", "bot-transcription", "bot-tts-text"):
                await self.tell(kind, text="".join(words))
            held = await self._stream(pcm, number, words)
            if s.say_words and s.whole_segments and not s.transcript_after_done:
                await self._spoken(number, words, len(words))
            await self._stopped()
            for event in held:
                await self.emit(event)
            if s.say_words and s.transcript_after_done:
                await self._spoken(number, words, len(words))
            if s.after_done is not None:
                await self._do(s.after_done)
        except (ConnectionClosed, asyncio.CancelledError):
            return

    async def _stream(self, pcm: bytes, number: int, words: list[str]) -> list[dict]:
        s = self.scenario
        chunk = round(s.chunk_s * OUTPUT_HZ) * 2
        hold_from = len(pcm) - s.held_back * chunk if s.held_back else len(pcm)
        told, held = 0, []
        for at in range(0, len(pcm), chunk):
            self._deltas += 1
            if s.at_delta is not None and s.at_delta[0] == self._deltas:
                await self._do(s.at_delta[1])
            piece = {"type": "audio.delta",
                     "delta": base64.b64encode(pcm[at:at + chunk]).decode()}
            if at >= hold_from:
                held.append(piece)
                continue
            await self.emit(piece)
            if not self._speaks:
                self._speaks = True
                await self.tell("bot-started-speaking")
            due = 1 + at * len(words) // len(pcm)
            if s.say_words and not s.whole_segments and not s.transcript_after_done:
                while told < due:
                    told += 1
                    await self._spoken(number, words, told)
            if s.pace_s:
                await asyncio.sleep(s.pace_s)
        if told:
            await self._spoken(number, words, len(words))
        return held

    async def _spoken(self, number: int, words: list[str], told: int) -> None:
        done = told == len(words)
        await self.tell("bot-output", text="".join(words), segment_id=number, will_be_spoken=True,
                        output_type="sentence",
                        spoken_status="completed" if done else "in-progress", spoken_progress={
                            "accumulated_text": "".join(words[:told]),
                            "remaining_text": "".join(words[told:])})


def frame(event: dict) -> bytes:
    """What goes out for an event: audio (`delta` in base64), an interruption, else a message."""
    number = event.get("event_id", "")
    identity = {"id": int(number), "name": f"Frame#{number}"} if number.isdecimal() else {}
    if event["type"] == "audio.delta":
        return encoded("audio", **{
            "audio": base64.b64decode(event["delta"] or ""), "sample_rate": OUTPUT_HZ,
            "num_channels": 1, **identity, **event.get("fields", {})})
    if event["type"] == "interruption":
        return encoded("interruption", **identity)
    if event["type"] == "raw":
        return event["data"]
    message = {k: v for k, v in event.items() if k != "event_id"}
    return encoded("message", data=json.dumps({"label": "rtvi-ai", **message}))


def tell(*events: dict) -> Callable[[Conversation], object]:
    """Send these as they are."""

    async def act(conversation: Conversation) -> None:
        for event in events:
            await conversation.raw(frame(event))

    return act


class PipecatServer(RealtimeServer):
    """Serves scenarios by path."""

    def __init__(self, scenarios: dict[str, PipecatScenario]) -> None:
        voice.prepare()
        super().__init__(scenarios, PipecatConversation)

    def url_of(self, name: str) -> str:
        return f"{self.base_url}/{name}"

    def _name(self, path: str) -> str:
        assert path.startswith("/v1/"), path
        return path.removeprefix("/v1/")
