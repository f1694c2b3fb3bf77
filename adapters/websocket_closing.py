"""How WebSocket connections end: what a close of the peer means, and our own within bounds."""

from __future__ import annotations

import asyncio

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed
from websockets.frames import Close

from adapters.base import Fault
from adapters.wire.base import CloseCause, ExplainingWire, Message, Wire
from adapters.wire.payload import excerpt
from audio.errors import InfrastructureError

CLOSE_S = 2.0
"""How long the closing handshake may take before the connection is dropped. Ours."""

_HINTS = {  # of a server's close
    1000: "the server ended the session",
    1001: "the server went away, or the session is over its time limit",
    1008: "policy: often a refused key or model",
    1009: "a message was too big",
    1011: "an error inside the server",
    1012: "the server restarts",
    1013: "the server is overloaded, try again later",
}
_TRY_LATER = 1013
"""Close code: the server is overloaded (IANA's registry of close codes)."""


async def close(socket: ClientConnection, last: tuple[Message, ...], within_s: float) -> None:
    """Close politely within so many seconds, and otherwise drop the connection."""
    try:
        async with asyncio.timeout(within_s):
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
        # A reason of ours says all; the hints are about reasons that a server has.
        return CloseCause(f"the rig closed the connection: {_told(sent)}")
    code, reason = (1006, "") if received is None else (int(received.code), received.reason)
    known = wire.closed(code, reason) if isinstance(wire, ExplainingWire) else None
    if received is None:
        told = f" ({known.text})" if known else ""
        text = f"the connection broke off without a close (1006){told}"
    else:
        hint = known.text if known else _HINTS.get(code)
        text = (f"the server closed the connection: {_told(received)}"
                + (f" ({hint})" if hint else ""))
    hopeless = known is not None and known.hopeless
    throttled = code == _TRY_LATER or (known is not None and known.throttled)
    return CloseCause(text, hopeless, throttled and not hopeless)


def error_of(text: str, cause: Fault | CloseCause) -> InfrastructureError:
    """The error of a session that ended so, with what follows from it for the next one."""
    error = InfrastructureError(text)
    error.hopeless, error.throttled = cause.hopeless, cause.throttled
    if isinstance(cause, Fault):
        error.retry_after_s = cause.retry_after_s
    return error


def _told(close: Close) -> str:
    reason = f" {excerpt(close.reason, 120)!r}" if close.reason else ""
    return f"{int(close.code)}{reason}"
