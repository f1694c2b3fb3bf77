"""Moves the bytes of a wire protocol over a WebSocket, and knows nothing of what they mean.

connect -> ready gate (`websocket_opening`) -> stream both ways (here; how much is taken at a time:
`websocket_reads`) -> close (`websocket_closing`). Everything is bounded: the handshake, the gate,
each message, what waits unread, what waits unsent, the close. Trouble of the connection becomes
`InfrastructureError` before the session is ready and a `Fault` afterwards, with its cause.

A message is stamped when it is taken off the socket, before anything of it is decoded. The session
clock starts after the gate, so what arrives during it carries the time 0.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from adapters.base import AgentEvent, Clock, Fault, StateChanged
from adapters.peer import Peer, Redactor
from adapters.usage import Metered, Usage
from adapters.websocket_closing import CLOSE_S, close, closed_by, error_of
from adapters.websocket_opening import (
    LIBRARY_BUFFER_BYTES,
    connected,
    until_ready,
)
from adapters.websocket_reads import Ear
from adapters.wire.base import LingeringWire, Message, TimedWire, Wire
from audio.buffers import Float32
from audio.errors import InfrastructureError
from audio.timebase import NS_PER_MS, NS_PER_S

MAX_UNREAD_MESSAGES = 100_000
MAX_UNREAD_BYTES = 64 * 1024 * 1024
"""What may wait to be read by the rig. Ours: minutes of audio at once, even in pieces of 2 ms; more
means that nobody reads."""
SLICE_NS = NS_PER_MS
"""How long messages are taken, or decoded, before the sender gets a turn. Ours: a twentieth of the
time between two frames."""
MAX_UNSENT_FRAMES = 25
"""User audio that waits for the network. Ours: half a second; a system that hears the user that
late has not been tested fairly."""
SEND_LAG_MS = 40
"""From here on a wait for the network is written into the log: the lateness that the timing
certificate allows near a window (contract)."""
SEND_WAIT_S = 0.015
"""A send waits so long for its frame to be handed to the socket, so that the timing certificate
sees a slow network; the frame after it is due 20 ms later. Ours: the certificate's bound on p99."""


@dataclass(slots=True)
class _Outgoing:
    message: Message
    since_ns: int
    written: asyncio.Future[None] | None = None


class WebSocketSession:
    """A live connection as a session. Made by `open_session`."""

    def __init__(
        self, socket: ClientConnection, wire: Wire, clock: Clock, redact: Redactor
    ) -> None:
        self._socket = socket
        self._wire = wire
        self._ear = Ear(socket, wire)
        self._clock = clock
        self._redact = redact
        self._incoming: deque[tuple[int, Message] | AgentEvent] = deque()
        self._incoming_bytes = 0
        self._news = asyncio.Event()
        self._outgoing: deque[_Outgoing] = deque()
        self._unsent_frames = 0
        self._to_write = asyncio.Event()
        self._taken = asyncio.Event()
        """Something that came was taken: what a timed wire has to say next may have changed."""
        self._failure: Fault | None = None
        """What ended the session."""
        self._told: Fault | None = None
        """The first trouble that the peer's own messages told of: it says more than the close that
        follows, whoever learns of that first."""
        self._closed = False
        self._tasks: list[asyncio.Task[None]] = []

    # what the rig does

    async def send(self, frame: Float32) -> None:
        """Hand over one frame; waits at most 15 ms for the network, whatever its state.

        Raises `InfrastructureError` once the session is over or the network takes user audio too
        slowly, `ValueError` for a frame of another shape.
        """
        if self._closed:
            raise InfrastructureError("send: the session is closed")
        self._raise_failure()
        messages = self._wire.audio(frame)
        if not messages:
            return  # a wire that sends several frames in one message
        if self._unsent_frames >= MAX_UNSENT_FRAMES:
            self._end(f"the network takes user audio too slowly: {self._unsent_frames} frames of "
                      f"20 ms wait, expected fewer than {MAX_UNSENT_FRAMES}")
            self._raise_failure()
        if self._free(messages):
            # At once, without the turn of the event loop that the writer's task would wait for: on
            # a busy loop such turns are most of a frame's lateness (docs/realtime.md).
            try:
                for message in messages:
                    await self._socket.send(message)
            except ConnectionClosed as error:
                await self._lost(error)
                self._raise_failure()
            return
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for message in messages[:-1]:
            self._queue(message)
        self._queue(messages[-1], written)
        self._unsent_frames += 1
        await asyncio.wait([written], timeout=SEND_WAIT_S)

    async def events(self) -> AsyncIterator[AgentEvent]:
        """What the system does, in order of arrival; the last one is the fault that ended it."""
        while True:
            turn_ns = self._clock.now_ns() + SLICE_NS
            while self._incoming:
                for event in self._take(self._incoming.popleft()):
                    for clean in self._redact.events(event):
                        yield clean
                if self._clock.now_ns() >= turn_ns:
                    # A burst must not keep the sender from its deadlines.
                    await asyncio.sleep(0)
                    turn_ns = self._clock.now_ns() + SLICE_NS
            if self._closed or self._failure is not None:
                return
            self._news.clear()
            await self._news.wait()

    @property
    def usage(self) -> Usage | None:
        """What the wire was told of it, to the end of the close; `None` where it is told nothing.
        """
        return self._wire.usage if isinstance(self._wire, Metered) else None

    def cue(self, name: str) -> None:
        """Nothing: a real system is told nothing of the schedule."""

    async def close(self) -> None:
        """End the session within `CLOSE_S`, whatever the peer does; again and again if you like.

        A wire that lingers is given its `linger_s` before.
        """
        if self._closed:
            return
        self._closed = True
        self._news.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        last = self._wire.closing()
        if isinstance(self._wire, LingeringWire) and self._failure is None:
            await self._linger(self._wire, last)
            last = ()
        await close(self._socket, last, CLOSE_S)

    async def _linger(self, wire: LingeringWire, last: tuple[Message, ...]) -> None:
        """Say the last words and read on until the peer has ended the session. Nothing of it is
        recorded: the schedule is over."""
        try:
            async with asyncio.timeout(wire.linger_s):
                for message in last:
                    await self._socket.send(message)
                while self._incoming:
                    self._take(self._incoming.popleft())
                while not wire.over:
                    self._ear.decode(await self._ear.next(), self._clock.now_ns())
        except (TimeoutError, ConnectionClosed):
            pass

    # between the rig and the socket

    def _free(self, messages: tuple[Message, ...]) -> bool:
        """Whether nothing waits to be sent, here or in the library, and these would not either."""
        return (not self._outgoing and self._unsent_frames == 0
                and self._socket.transport.get_write_buffer_size() == 0
                and sum(map(len, messages)) < LIBRARY_BUFFER_BYTES)

    def start(self, early: list[AgentEvent]) -> None:
        """Begin to move messages; `early` is what the gate brought."""
        self._incoming.extend(early)
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._write())]
        if isinstance(self._wire, TimedWire):
            self._tasks.append(asyncio.create_task(self._tick(self._wire)))

    def _take(self, item: tuple[int, Message] | AgentEvent) -> tuple[AgentEvent, ...]:
        self._taken.set()
        if not isinstance(item, tuple):
            return (item,)
        t_ns, data = item
        self._incoming_bytes -= len(data)
        output = self._ear.decode(data, t_ns)
        for message in output.messages:
            self._queue(message)
        if self._told is None:
            self._told = next((e for e in output.events if isinstance(e, Fault)
                               and e.severity == "infrastructure"), None)
        return output.events

    def _queue(self, message: Message, written: asyncio.Future[None] | None = None) -> None:
        self._outgoing.append(_Outgoing(message, self._clock.now_ns(), written))
        self._to_write.set()

    def _end(self, reason: str, *, hopeless: bool = False, throttled: bool = False) -> None:
        """The session is over, for this reason; the first one counts."""
        if self._failure is None and not self._closed:
            self._failure = Fault(self._clock.now_ns(), "infrastructure", self._redact(reason),
                                  hopeless, throttled)
            self._incoming.append(self._failure)
            self._news.set()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise error_of(self._failure.reason, self._failure) from None

    async def _explain(self, error: ConnectionClosed) -> None:
        """The connection is closed, and all that came before has been taken off it."""
        await self._decode_all()
        if self._told is None:
            cause = closed_by(error, self._wire)
            self._end(cause.text, hopeless=cause.hopeless, throttled=cause.throttled)
        elif self._failure is None:
            # It is among the events already.
            self._failure = replace(self._told, reason=self._redact(self._told.reason))
            self._news.set()

    async def _decode_all(self) -> None:
        """Decode what waits, bit by bit: what the peer said of its reasons may be in it."""
        waiting, self._incoming = self._incoming, deque()
        turn_ns = self._clock.now_ns() + SLICE_NS
        try:
            while waiting:
                self._incoming.extend(self._take(waiting.popleft()))
                self._news.set()
                if self._clock.now_ns() >= turn_ns:
                    await asyncio.sleep(0)
                    turn_ns = self._clock.now_ns() + SLICE_NS
        finally:
            self._incoming.extend(waiting)

    async def _lost(self, error: ConnectionClosed) -> None:
        """A send met a closed connection: what came before is read first."""
        if self._tasks:
            await asyncio.wait(self._tasks[:1], timeout=CLOSE_S)
        await self._explain(error)

    async def _read(self) -> None:
        turn_ns = self._clock.now_ns() + SLICE_NS
        while True:
            try:
                data = await self._ear.next()
            except ConnectionClosed as error:
                await self._explain(error)
                return
            t_ns = self._clock.now_ns()
            self._incoming.append((t_ns, data))
            self._incoming_bytes += len(data)
            self._news.set()
            if (len(self._incoming) > MAX_UNREAD_MESSAGES
                    or self._incoming_bytes > MAX_UNREAD_BYTES):
                self._end(f"the peer sends faster than can be read: {len(self._incoming)} messages "
                          f"of {self._incoming_bytes} bytes wait unread, expected at most "
                          f"{MAX_UNREAD_MESSAGES} of {MAX_UNREAD_BYTES}")
                return
            # What the library holds already comes without a pause.
            if t_ns >= turn_ns:
                await asyncio.sleep(0)
                turn_ns = self._clock.now_ns() + SLICE_NS

    async def _write(self) -> None:
        behind = False
        while True:
            while self._outgoing:
                out = self._outgoing.popleft()
                try:
                    await self._socket.send(out.message)
                except ConnectionClosed as error:
                    await self._lost(error)
                    return
                if out.written is None:
                    continue
                self._unsent_frames -= 1
                if not out.written.done():
                    out.written.set_result(None)
                lag_ms = (self._clock.now_ns() - out.since_ns) // NS_PER_MS
                if lag_ms > SEND_LAG_MS and not behind:
                    self._incoming.append(StateChanged(
                        self._clock.now_ns(), "send_lag",
                        f"a frame waited {lag_ms} ms for the network"))
                    self._news.set()
                behind = lag_ms > SEND_LAG_MS
            self._to_write.clear()
            await self._to_write.wait()

    async def _tick(self, wire: TimedWire) -> None:
        """Have the wire say what is due, when it is. What came before that is decoded first, by
        whoever reads the events, and the wire then says by itself what was due until then."""
        while True:
            self._taken.clear()
            due_ns = wire.due_ns
            if due_ns is None or self._incoming:
                await self._taken.wait()
                continue
            left_ns = due_ns - self._clock.now_ns()
            if left_ns <= 0:
                for message in wire.tick(self._clock.now_ns()):
                    self._queue(message)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(left_ns / NS_PER_S):
                    await self._taken.wait()


@asynccontextmanager
async def open_session(peer: Peer, wire: Wire, clock: Clock) -> AsyncIterator[WebSocketSession]:
    """Connect, wait until the wire says that the peer is ready, and close at the end.

    Raises `InfrastructureError` (`ConnectionRefusedByPeerError` for an HTTP answer) for everything
    that goes wrong until then.
    """
    if clock.kind == "virtual":
        raise InfrastructureError(f"{peer.uri}: a real peer cannot be reached in virtual time; "
                                  "expected --clock real")
    redact = Redactor(peer.secrets)
    socket = await connected(peer, redact)
    try:
        session = WebSocketSession(socket, wire, clock, redact)
        session.start(await until_ready(socket, peer, wire, redact))
    except BaseException:
        await close(socket, (), CLOSE_S)
        raise
    try:
        yield session
    finally:
        await session.close()
