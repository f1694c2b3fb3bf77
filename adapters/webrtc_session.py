"""A session with an agent behind WebRTC: signalling, ready gate, frames both ways, close.

Every wait is bounded. Trouble of the signalling or the connection becomes `InfrastructureError`
before the session is ready and a `Fault` afterwards, with its cause in one line.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiortc import RTCIceServer

from adapters.base import AgentEvent, AudioReceived, Clock, Fault, StateChanged
from adapters.http_client import exchange
from adapters.peer import Peer, Redactor
from adapters.webrtc_connection import (
    MAX_MESSAGE_CHARS,
    Connection,
    OpusDecoder,
    OpusEncoder,
)
from adapters.wire import webrtc_signalling as signalling
from adapters.wire.payload import PayloadError, excerpt
from adapters.wire.rtp_audio import Packet, RtpAudio
from adapters.wire.rtvi import Rtvi, ServiceErrors, Words, client_ready
from audio.buffers import Float32
from audio.errors import InfrastructureError

MAX_UNSENT_FRAMES = 25
"""User audio that waits for the library. Ours: half a second, as of a WebSocket."""
SEND_WAIT_S = 0.015
"""A send waits so long for its packet to go out; the frame after it is due 20 ms later."""
MAX_UNREAD_EVENTS = 200_000
"""What may wait to be read by the rig. Ours: an hour of packets; more means that nobody reads."""
CLOSE_S = 2.0
"""How long the close may take before the connection is left alone. Ours."""
PING_FRAMES = 50
"""A `ping` each second: Pipecat takes a client for gone that was silent for three."""


@dataclass(frozen=True, slots=True)
class Options:
    """How the connection is made; docs/adapters/webrtc.md."""

    ice_servers: tuple[str, ...] = ()
    ice_user: str | None = field(repr=False, default=None)
    ice_password: str | None = field(repr=False, default=None)
    data_channel: bool = True
    words: Words = "bot-output"
    service_errors: ServiceErrors = "end"
    trickle: bool = False
    jitter_ms: int = 40
    bitrate_bps: int = 64_000
    lost_after_s: float = 4.0
    request_data: dict[str, Any] | None = None


class WebRtcSession:
    """A live connection as a session. Made by `open_session`."""

    def __init__(self, options: Options, clock: Clock, redact: Redactor) -> None:
        self._clock = clock
        self._redact = redact
        self._audio = RtpAudio(OpusDecoder(), jitter_ms=options.jitter_ms)
        self._rtvi = Rtvi(options.words, options.service_errors)
        self._encoder = OpusEncoder(options.bitrate_bps)
        self._incoming: deque[AgentEvent] = deque()
        self._news = asyncio.Event()
        self._packet_came = asyncio.Event()
        self._changed = asyncio.Event()
        self._ready = self._started = self._closed = False
        self._failure: str | None = None
        self._frames_n = self._early_n = self._audio_n = 0
        self._pump: asyncio.Task[None] | None = None
        self.connection = Connection(
            ice_servers=[RTCIceServer(url, options.ice_user, options.ice_password)
                         for url in options.ice_servers],
            data_channel=options.data_channel, lost_after_s=options.lost_after_s,
            on_packet=self._on_packet, on_message=self._on_message, on_open=self._on_open,
            on_state=self._on_state)

    # what the rig does

    async def send(self, frame: Float32) -> None:
        """Hand over one frame of 20 ms at 48 kHz; waits at most 15 ms for it to go out.

        Raises `InfrastructureError` once the session is over, `ValueError` for a frame of another
        shape.
        """
        if self._closed:
            raise InfrastructureError("send: the session is closed")
        if self._failure is None and self.connection.track.waiting_n >= MAX_UNSENT_FRAMES:
            self._end(f"user audio is not sent: {MAX_UNSENT_FRAMES} frames of 20 ms wait")
        if self._failure is not None:
            raise InfrastructureError(self._failure)
        written = self.connection.track.give(self._encoder.encode(frame))
        await asyncio.wait([written], timeout=SEND_WAIT_S)
        self._frames_n += 1
        if self._frames_n % PING_FRAMES == 0:
            self.connection.say(f"ping: {self._clock.now_ns() // 1_000_000}")

    async def events(self) -> AsyncIterator[AgentEvent]:
        """What the agent does, in order of arrival; the last one is the fault that ended it.

        The session begins with the first call: audio that came before lies before its time 0.
        """
        if not self._started:
            self._started = True
            if self._early_n:
                self._tell(StateChanged(0, "before_start", f"{self._early_n} packets"))
            self._pump = asyncio.create_task(self._release())
            self._pump.add_done_callback(self._pumped)
        while True:
            while self._incoming:
                for clean in self._redact.events(self._incoming.popleft()):
                    yield clean
            if self._closed or self._failure is not None:
                return
            self._news.clear()
            await self._news.wait()

    def cue(self, name: str) -> None:
        """Nothing: a real system is told nothing of the schedule."""

    async def close(self) -> None:
        """End the connection within `CLOSE_S`; again and again if you like."""
        if self._closed:
            return
        self._closed = True
        self._news.set()
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)
        try:
            async with asyncio.timeout(CLOSE_S):
                await self.connection.close()
        except TimeoutError:
            pass

    # what the connection says

    def _on_packet(self, packet: Packet) -> None:
        t_ns = self._clock.now_ns()
        if self._closed:
            return
        if not self._started:
            self._early_n += 1
            return
        self._tell(*self._audio.receive(packet, t_ns))
        self._packet_came.set()

    def _on_message(self, message: str | bytes) -> None:
        t_ns = self._clock.now_ns() if self._started else 0
        if len(message) > MAX_MESSAGE_CHARS:
            self._end(f"the agent sent a message of {len(message)} characters, expected at most "
                      f"{MAX_MESSAGE_CHARS}")
            return
        data = message.encode("utf-8", "replace") if isinstance(message, str) else message
        self._tell(*self._rtvi.message(data, t_ns, self._audio_n))

    def _on_open(self) -> None:
        self.connection.say(client_ready("duplexrig"))

    def _on_state(self) -> None:
        self._changed.set()
        if not self._ready:
            return
        if self.connection.state in ("failed", "closed"):
            self._end("the connection broke off: the agent does not answer any more"
                      if self.connection.lost else "the agent closed the connection")

    def _tell(self, *events: AgentEvent) -> None:
        if not events or self._failure is not None:
            return
        for event in events:
            if isinstance(event, Fault) and event.severity == "infrastructure":
                self._end(event.reason)
                return
            if isinstance(event, AudioReceived):
                self._audio_n += len(event.samples)
            self._incoming.append(event)
        if len(self._incoming) > MAX_UNREAD_EVENTS:
            self._end(f"{len(self._incoming)} events wait unread, expected at most "
                      f"{MAX_UNREAD_EVENTS}")
        self._news.set()

    def _end(self, reason: str) -> None:
        """The session is over, for this reason; the first one counts."""
        if self._failure is None and not self._closed:
            self._failure = self._redact(reason)
            t_ns = self._clock.now_ns() if self._started else 0
            self._incoming.append(Fault(t_ns, "infrastructure", self._failure))
            self._news.set()
            self._changed.set()

    async def _release(self) -> None:
        """Tell of audio that waits for its moment."""
        while True:
            due_ns = self._audio.due_ns()
            if due_ns is None:
                self._packet_came.clear()
                await self._packet_came.wait()
                continue
            await self._clock.sleep_until(due_ns)
            self._tell(*self._audio.release(self._clock.now_ns()))

    def _pumped(self, pump: asyncio.Task[None]) -> None:
        """A defect of ours in the task beside must not look like an agent that says nothing."""
        if not pump.cancelled() and (error := pump.exception()) is not None:
            self._end(f"receiving failed: {type(error).__name__}: {excerpt(str(error), 200)}")

    # the way to a session

    async def connect(self, peer: Peer, options: Options) -> None:
        """Offer, answer, connection. Raises `InfrastructureError`."""
        try:
            async with asyncio.timeout(peer.open_timeout_s):
                sdp = await self.connection.offer()
        except TimeoutError:
            raise InfrastructureError(f"{peer.uri}: no offer within {peer.open_timeout_s:g} s: the "
                                      "ICE servers do not answer") from None
        if not any(line.startswith("a=candidate:") for line in sdp.splitlines()):
            raise InfrastructureError(f"{peer.uri}: this machine has no address to be reached at: "
                                      "WebRTC needs one besides 127.0.0.1")
        candidates: list[dict[str, Any]] = []
        if options.trickle:
            sdp, candidates = signalling.without_candidates(sdp)
        answer = await self._signal(peer, "POST", signalling.offer(
            sdp, request_data=options.request_data))
        try:
            chosen = signalling.read_answer(answer)
        except PayloadError as error:
            raise InfrastructureError(self._redact(f"{peer.uri}: {error}")) from None
        for note in chosen.notes:
            self._tell(StateChanged(0, "answer", note))
        if candidates:
            if chosen.pc_id is None:
                raise InfrastructureError(f"{peer.uri}: the answer has no pc_id that candidates "
                                          "could be sent to")
            await self._signal(peer, "PATCH", signalling.patch(chosen.pc_id, candidates))
        try:
            await self.connection.accept(chosen.sdp)
        except Exception as error:
            raise InfrastructureError(self._redact(
                f"{peer.uri}: the answer cannot be used: {type(error).__name__}: "
                f"{excerpt(str(error), 200)}")) from error
        await self._gate(peer)

    async def _signal(self, peer: Peer, method: str, body: bytes) -> bytes:
        try:
            answer = await exchange(
                method, peer.uri, body, {**peer.headers, "Content-Type": "application/json"},
                timeout_s=peer.open_timeout_s, max_bytes=signalling.MAX_ANSWER_BYTES)
        except InfrastructureError as error:
            told = InfrastructureError(self._redact(str(error)))
            told.hopeless = error.hopeless
            raise told from None
        reason = signalling.refusal(answer)
        if reason is None:
            return answer.body
        refused = InfrastructureError(self._redact(f"{peer.uri}: {method}: {reason}"))
        refused.retry_after_s = answer.retry_after_s
        refused.hopeless = answer.status in signalling.HOPELESS
        raise refused

    async def _gate(self, peer: Peer) -> None:
        """Until packets can go both ways."""
        reason: str | None
        try:
            async with asyncio.timeout(peer.ready_timeout_s):
                while self.connection.state not in ("connected", "failed", "closed"):
                    self._changed.clear()
                    await self._changed.wait()
                if self.connection.state == "connected":
                    await self.connection.track.asked.wait()
        except TimeoutError:
            reason = self._stuck(f"within {peer.ready_timeout_s:g} s")
        else:
            reason = None if self.connection.state == "connected" else self._stuck("")
        if reason is None and self._failure is not None:
            reason = self._failure
        if reason is not None:
            raise InfrastructureError(self._redact(f"{peer.uri}: not ready: {reason}"))
        self.connection.opened()
        self._ready = True

    def _stuck(self, within: str) -> str:
        if self.connection.state == "closed":
            return "the agent closed the connection"
        if not self.connection.reached:
            return f"no way to the agent was found {within}".strip() + " (ICE: none of its " \
                "addresses answers)"
        return f"no encrypted connection {within}".strip() + " (DTLS)"


@asynccontextmanager
async def open_session(peer: Peer, options: Options,
                       clock: Clock) -> AsyncIterator[WebRtcSession]:
    """Signal, connect, wait until packets can go both ways; close at the end.

    Raises `InfrastructureError` for everything that goes wrong until then.
    """
    if clock.kind == "virtual":
        raise InfrastructureError(f"{peer.uri}: a real peer cannot be reached in virtual time; "
                                  "expected --clock real")
    session = WebRtcSession(options, clock, Redactor(peer.secrets))
    try:
        await session.connect(peer, options)
        yield session
    finally:
        await session.close()
