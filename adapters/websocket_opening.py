"""How WebSocket sessions begin: connection, refusals, the gate until the peer is ready."""

from __future__ import annotations

import asyncio
import logging
import socket as sockets
from contextlib import suppress
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from adapters.base import AgentEvent, Fault
from adapters.peer import Peer, Redactor, is_loopback
from adapters.websocket_closing import CLOSE_S, closed_by, error_of
from adapters.websocket_reads import BoundedReads, Ear
from adapters.wire.base import Wire
from adapters.wire.event_stream import PERMANENT_CODES
from adapters.wire.http_exchange import retry_after_s as asked_to_wait_s
from adapters.wire.payload import excerpt
from audio.errors import InfrastructureError

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""Longest message taken. The largest that OpenAI documents is 15 MiB (an append)."""
LIBRARY_BUFFER_BYTES = 4_096
"""Unsent bytes that are kept without making a sender wait: by the library three frames of audio, by
this system about a second (`Peer.unsent_bytes`). The defaults hide half a minute. What the
peer's system takes for a peer that does not read cannot be seen from here: on one machine such a
peer is noticed after about 5 s."""
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


async def connected(peer: Peer, redact: Redactor) -> ClientConnection:
    where = peer.uri.partition("?")[0]
    host = urlsplit(peer.uri).hostname or ""
    interval = peer.keepalive_s or None
    try:
        socket = await _Connect(
            peer.uri, additional_headers=dict(peer.headers), logger=_silent_logger(),
            proxy=None if is_loopback(host) else True, compression=None,
            open_timeout=peer.open_timeout_s, close_timeout=CLOSE_S, max_size=MAX_MESSAGE_BYTES,
            ping_interval=interval, ping_timeout=interval, write_limit=LIBRARY_BUFFER_BYTES,
            create_connection=BoundedReads)
        socket.transport.get_extra_info("socket").setsockopt(
            sockets.SOL_SOCKET, sockets.SO_SNDBUF, peer.unsent_bytes)
        return socket
    except TimeoutError:
        message = f"{where}: no WebSocket within {peer.open_timeout_s:g} s"
    except InvalidStatus as error:
        raise _refusal(error, where, redact) from None
    except (OSError, WebSocketException, ImportError) as error:
        message = redact(f"{where}: cannot connect: {type(error).__name__}: "
                         f"{excerpt(str(error), 300)}")
    # The causes hold the request, and with it the key: they are not chained.
    raise InfrastructureError(message) from None


def _refusal(error: InvalidStatus, where: str, redact: Redactor) -> ConnectionRefusedByPeerError:
    response = error.response
    hint = _STATUS_HINTS.get(response.status_code, "")
    retry_after_s = asked_to_wait_s(response.headers.get("Retry-After"))
    parts = [f"{where}: the server answered HTTP {response.status_code}"]
    if hint:
        parts.append(hint)
    if retry_after_s is not None:
        parts.append(f"retry after {retry_after_s:g} s")
    body = (response.body or b"")[:4096].decode("utf-8", "replace")
    if body:
        parts.append(excerpt(body, 300))
    no_use = any(code in body for code in PERMANENT_CODES)
    return ConnectionRefusedByPeerError(redact("; ".join(parts)), response.status_code,
                                        retry_after_s, no_use=no_use)


async def until_ready(
    socket: ClientConnection, peer: Peer, wire: Wire, redact: Redactor
) -> list[AgentEvent]:
    where = peer.uri.partition("?")[0]
    ear = Ear(socket, wire)
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
                        raise error_of(redact(f"{where}: not ready: {event.reason}"), event)
                for message in output.messages:
                    await socket.send(message)
                events += output.events
    except TimeoutError:
        raise InfrastructureError(f"{where}: connected, but not ready within "
                                  f"{peer.ready_timeout_s:g} s") from None
    except ConnectionClosed as error:
        cause = closed_by(error, wire)
        raise error_of(redact(f"{where}: not ready: {cause.text}"), cause) from None
    return events
