"""Moves the bytes of a wire protocol over a WebSocket, and knows nothing of what they mean.

connect -> ready gate -> stream both ways -> close. Everything is bounded: the handshake, the gate,
each message, what waits unread, what waits unsent, the close. Trouble of the connection becomes
`InfrastructureError` before the session is ready and a `Fault` afterwards, with its cause.

A message is stamped when it is taken off the socket, before anything of it is decoded. The session
clock starts after the gate, so what arrives during it carries the time 0.
"""

from __future__ import annotations

import asyncio
import logging
import socket as sockets
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.frames import Close

from adapters.base import AgentEvent, Clock, Fault, StateChanged
from adapters.peer import Peer, Redactor, is_loopback
from adapters.usage import Metered, Usage
from adapters.wire.base import (
    CloseCause,
    ExplainingWire,
    FramedWire,
    LingeringWire,
    Message,
    Output,
    TimedWire,
    Wire,
)
from adapters.wire.event_stream import PERMANENT_CODES
from adapters.wire.http_exchange import retry_after_s as asked_to_wait_s
from adapters.wire.payload import excerpt
from audio.buffers import Float32
from audio.errors import InfrastructureError
from audio.timebase import NS_PER_MS, NS_PER_S

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""Longest message taken. The largest that OpenAI documents is 15 MiB (an append)."""
MAX_UNREAD_MESSAGES = 100_000
MAX_UNREAD_BYTES = 64 * 1024 * 1024
"""What may wait to be read by the rig. Ours: minutes of audio at once, even in pieces of 2 ms; more
means that nobody reads."""
SLICE_NS = 2 * NS_PER_MS
"""How long messages are taken, or decoded, before the sender gets a turn. Ours: a tenth of the time
between two frames."""
MAX_UNSENT_FRAMES = 25
"""User audio that waits for the network. Ours: half a second; a system that hears the user that
late has not been tested fairly."""
SEND_LAG_MS = 40
"""From here on a wait for the network is written into the log: the lateness that the timing
certificate allows near a window (contract)."""
SEND_WAIT_S = 0.015
"""A send waits so long for its frame to be handed to the socket, so that the timing certificate
sees a slow network; the frame after it is due 20 ms later. Ours: the certificate's bound on p99."""
LIBRARY_BUFFER_BYTES = 4_096
"""Unsent bytes that are kept without making a sender wait: by the library three frames of audio, by
this system about a second (`Peer.unsent_bytes`). The defaults hide half a minute. What the
peer's system takes for a peer that does not read cannot be seen from here: on one machine such a
peer is noticed after about 5 s."""
CLOSE_S = 2.0
"""How long the closing handshake may take before the connection is dropped. Ours."""

_HINTS = {
    1000: "the server ended the session",
    1001: "the server went away, or the session is over its time limit",
    1008: "policy: often a refused key or model",
    1009: "a message was too big",
    1011: "an error inside the server",
    1012: "the server restarts",
    1013: "the server is overloaded, try again later",
}
_STATUS_HINTS = {
    400: "bad request: often an unknown model",
    401: "the key was refused",
    403: "the key may not use this model or region",
    404: "wrong address or unknown model",
    429: "rate limit or quota",
}


_HOPELESS = frozenset({400, 401, 403, 404})
"""Answers about the key, the model or the address: the next try would get the same. Ours."""
_THROTTLED = frozenset({429, 503})
"""Too many requests; unavailable for now, often with `Retry-After` (RFC 6585, RFC 9110)."""
_TRY_LATER = 1013
"""Close code: the server is overloaded (IANA's registry of close codes)."""


class ConnectionRefusedByPeerError(InfrastructureError):
    """The handshake was answered with an HTTP status; `retry_after_s` where the peer gave one.
    `no_use`: for a reason that no waiting mends, such as an account without credit."""

    def __init__(self, message: str, status: int, retry_after_s: float | None, *,
                 no_use: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s
        self.hopeless = no_use or status in _HOPELESS
        self.throttled = status in _THROTTLED and not self.hopeless


class _Connect(connect):
    """Follows no redirect: the key goes to the address that was given and to no other."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


def _silent_logger() -> logging.Logger:
    """The library writes request headers, the key among them, at level DEBUG: not with this one."""
    logger = logging.Logger("adapters.websocket")
    logger.disabled = True
    return logger


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
        self._ear = _Ear(socket, wire)
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
        self._failure: str | None = None
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
        if self._failure is not None:
            raise InfrastructureError(self._failure)
        messages = self._wire.audio(frame)
        if self._unsent_frames >= MAX_UNSENT_FRAMES:
            self._end(f"the network takes user audio too slowly: {self._unsent_frames} frames of "
                      f"20 ms wait, expected fewer than {MAX_UNSENT_FRAMES}")
            raise InfrastructureError(self._failure or "")
        if self._free(messages):
            # At once, without the turn of the event loop that the writer's task would wait for: on
            # a busy loop such turns are most of a frame's lateness (docs/realtime.md).
            try:
                for message in messages:
                    await self._socket.send(message)
            except ConnectionClosed as error:
                await self._lost(error)
                raise InfrastructureError(self._failure or "") from None
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
        await _close(self._socket, last)

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
        return output.events

    def _queue(self, message: Message, written: asyncio.Future[None] | None = None) -> None:
        self._outgoing.append(_Outgoing(message, self._clock.now_ns(), written))
        self._to_write.set()

    def _end(self, reason: str, *, hopeless: bool = False, throttled: bool = False) -> None:
        """The session is over, for this reason; the first one counts."""
        if self._failure is None and not self._closed:
            self._failure = self._redact(reason)
            self._incoming.append(Fault(self._clock.now_ns(), "infrastructure", self._failure,
                                        hopeless, throttled))
            self._news.set()

    def _explain(self, error: ConnectionClosed) -> None:
        """The connection is closed, and all that came before has been taken off it."""
        if isinstance(self._wire, ExplainingWire):
            # What the peer said of its reasons may still wait to be decoded.
            self._incoming = deque([e for item in self._incoming for e in self._take(item)])
        cause = closed_by(error, self._wire)
        self._end(cause.text, hopeless=cause.hopeless, throttled=cause.throttled)

    async def _lost(self, error: ConnectionClosed) -> None:
        """A send met a closed connection: what came before is read first."""
        if self._tasks:
            await asyncio.wait(self._tasks[:1], timeout=CLOSE_S)
        self._explain(error)

    async def _read(self) -> None:
        turn_ns = self._clock.now_ns() + SLICE_NS
        while True:
            try:
                data = await self._ear.next()
            except ConnectionClosed as error:
                self._explain(error)
                return
            t_ns = self._clock.now_ns()
            self._incoming.append((t_ns, data))
            self._incoming_bytes += len(data)
            self._news.set()
            if (len(self._incoming) > MAX_UNREAD_MESSAGES
                    or self._incoming_bytes > MAX_UNREAD_BYTES):
                self._end(f"{len(self._incoming)} messages of {self._incoming_bytes} bytes wait "
                          f"unread, expected at most {MAX_UNREAD_MESSAGES} of {MAX_UNREAD_BYTES}")
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


class _Ear:
    """Takes messages off a socket for a wire: as bytes, unless it cares for the kind of frame."""

    def __init__(self, socket: ClientConnection, wire: Wire) -> None:
        self._socket = socket
        self._wire = wire
        self._framed = wire if isinstance(wire, FramedWire) else None

    async def next(self) -> Message:
        return await self._socket.recv(decode=False if self._framed is None else None)

    def decode(self, message: Message, t_ns: int) -> Output:
        if isinstance(message, str):
            return self._wire.receive(message.encode(), t_ns)
        if self._framed is not None:
            return self._framed.receive_binary(message, t_ns)
        return self._wire.receive(message, t_ns)


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
    socket = await _connect(peer, redact)
    try:
        session = WebSocketSession(socket, wire, clock, redact)
        session.start(await _gate(socket, peer, wire, redact))
    except BaseException:
        await _close(socket, ())
        raise
    try:
        yield session
    finally:
        await session.close()


async def _connect(peer: Peer, redact: Redactor) -> ClientConnection:
    where = peer.uri.partition("?")[0]
    host = urlsplit(peer.uri).hostname or ""
    interval = peer.keepalive_s or None
    try:
        socket = await _Connect(
            peer.uri, additional_headers=dict(peer.headers), logger=_silent_logger(),
            proxy=None if is_loopback(host) else True, compression=None,
            open_timeout=peer.open_timeout_s, close_timeout=CLOSE_S, max_size=MAX_MESSAGE_BYTES,
            ping_interval=interval, ping_timeout=interval, write_limit=LIBRARY_BUFFER_BYTES)
        socket.transport.get_extra_info("socket").setsockopt(
            sockets.SOL_SOCKET, sockets.SO_SNDBUF, peer.unsent_bytes)
        return socket
    except TimeoutError:
        message = f"{where}: no WebSocket within {peer.open_timeout_s:g} s"
    except InvalidStatus as error:
        raise _refused(error, where, redact) from None
    except (OSError, WebSocketException, ImportError) as error:
        message = redact(f"{where}: cannot connect: {type(error).__name__}: "
                         f"{excerpt(str(error), 300)}")
    # The causes hold the request, and with it the key: they are not chained.
    raise InfrastructureError(message) from None


def _refused(error: InvalidStatus, where: str, redact: Redactor) -> ConnectionRefusedByPeerError:
    response = error.response
    hint = _STATUS_HINTS.get(response.status_code, "")
    retry_after_s = asked_to_wait_s(response.headers.get("Retry-After"))
    parts = [f"{where}: the server answered HTTP {response.status_code}"]
    if hint:
        parts.append(hint)
    if retry_after_s is not None:
        parts.append(f"retry after {retry_after_s:g} s")
    if response.body:
        parts.append(excerpt(response.body[:4096].decode("utf-8", "replace"), 300))
    body = (response.body or b"")[:4096].decode("utf-8", "replace")
    no_use = any(code in body for code in PERMANENT_CODES)
    return ConnectionRefusedByPeerError(redact("; ".join(parts)), response.status_code,
                                        retry_after_s, no_use=no_use)


async def _gate(
    socket: ClientConnection, peer: Peer, wire: Wire, redact: Redactor
) -> list[AgentEvent]:
    where = peer.uri.partition("?")[0]
    ear = _Ear(socket, wire)
    events: list[AgentEvent] = []
    try:
        async with asyncio.timeout(peer.ready_timeout_s):
            with suppress(ConnectionClosed):  # what came before the close is read first
                for message in wire.opening():
                    await socket.send(message)
            while not wire.ready:
                output = ear.decode(await ear.next(), 0)
                for event in output.events:
                    if isinstance(event, Fault) and event.severity == "infrastructure":
                        refused = InfrastructureError(
                            redact(f"{where}: not ready: {event.reason}"))
                        refused.hopeless = event.hopeless
                        refused.throttled = event.throttled
                        refused.retry_after_s = event.retry_after_s
                        raise refused
                for message in output.messages:
                    await socket.send(message)
                events += output.events
    except TimeoutError:
        raise InfrastructureError(f"{where}: connected, but not ready within "
                                  f"{peer.ready_timeout_s:g} s") from None
    except ConnectionClosed as error:
        cause = closed_by(error, wire)
        refused = InfrastructureError(redact(f"{where}: not ready: {cause.text}"))
        refused.hopeless, refused.throttled = cause.hopeless, cause.throttled
        raise refused from None
    return events


async def _close(socket: ClientConnection, last: tuple[Message, ...]) -> None:
    """Close politely within `CLOSE_S`, and otherwise drop the connection."""
    try:
        async with asyncio.timeout(CLOSE_S):
            for message in last:
                await socket.send(message)
            await socket.close()
    except (TimeoutError, ConnectionClosed):
        pass
    finally:
        socket.transport.abort()
        await socket.wait_closed()


def closed_by(error: ConnectionClosed, wire: Wire) -> CloseCause:
    """Who closed the connection, with which code, reason and cause, in one line."""
    received, sent = error.rcvd, error.sent
    if sent is not None and not (received is not None and error.rcvd_then_sent):
        return CloseCause(f"the connection was given up: {_close_text(sent, None)}")
    code, reason = (1006, "") if received is None else (int(received.code), received.reason)
    known = wire.closed(code, reason) if isinstance(wire, ExplainingWire) else None
    if received is None:
        told = f" ({known.text})" if known else ""
        text = f"the connection broke off without a close (1006){told}"
    else:
        text = f"the server closed the connection: {_close_text(received, known)}"
    hopeless = known is not None and known.hopeless
    throttled = code == _TRY_LATER or (known is not None and known.throttled)
    return CloseCause(text, hopeless, throttled and not hopeless)


def _close_text(close: Close, known: CloseCause | None) -> str:
    hint = known.text if known else _HINTS.get(int(close.code))
    reason = f" {excerpt(close.reason, 120)!r}" if close.reason else ""
    return f"{int(close.code)}{reason}{f' ({hint})' if hint else ''}"
