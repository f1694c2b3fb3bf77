"""A peer, wires and a clock for the driver of WebSockets alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal

import numpy as np
from websockets.asyncio.server import ServerConnection, serve

from adapters.base import AgentEvent, Fault, StateChanged
from adapters.peer import Peer
from adapters.websocket import WebSocketSession
from adapters.wire.base import Message, Output
from audio.buffers import Float32

SILENCE: Float32 = np.zeros(480, dtype=np.float32)
KEY = "sk-test-0123456789abcdef"


class RealClock:
    kind: Literal["virtual", "real"] = "real"

    def __init__(self) -> None:
        self._origin_ns = time.perf_counter_ns()  # noqa: TID251  a clock of its own

    def now_ns(self) -> int:
        return time.perf_counter_ns() - self._origin_ns  # noqa: TID251

    async def sleep_until(self, t_ns: int) -> None:
        await asyncio.sleep(max(0, t_ns - self.now_ns()) / 1e9)


class EchoWire:
    """Ready once the peer has said `go`; every message becomes an event, `!` one to answer."""

    def __init__(self) -> None:
        self.ready = False

    def opening(self) -> tuple[Message, ...]:
        return ("hello",)

    def audio(self, frame: Float32) -> tuple[Message, ...]:
        return (frame.astype("<f4").tobytes(),)

    def receive(self, data: bytes, t_ns: int) -> Output:
        text = data.decode()
        self.ready = self.ready or text == "go"
        if text == "bad":
            return Output((Fault(t_ns, "infrastructure", f"bad {KEY}"),))
        return Output((StateChanged(t_ns, text),), ("answer",) if text == "!" else ())

    def closing(self) -> tuple[Message, ...]:
        return ("bye",)


Handler = Callable[[ServerConnection], Awaitable[Any]]
HANGS_S = 900.0
"""Nothing is judged by this: it ends what would never end, on however busy a machine."""


@asynccontextmanager
async def peer(handler: Handler, **more: Any) -> AsyncIterator[Peer]:
    async def handle(socket: ServerConnection) -> None:
        try:
            await handler(socket)
        except Exception as error:  # noqa: BLE001
            raised.append(error)

    raised: list[Exception] = []
    async with serve(handle, "127.0.0.1", 0, ping_interval=None, close_timeout=0.2,
                     **more) as server:
        port = server.sockets[0].getsockname()[1]
        yield Peer(f"ws://127.0.0.1:{port}/x?model=m", {"Authorization": f"Bearer {KEY}"}, (KEY,),
                   open_timeout_s=2, ready_timeout_s=1, keepalive_s=0)


def run(main: Awaitable[Any]) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(HANGS_S):
            return await main

    return asyncio.run(bounded())


async def all_events(session: WebSocketSession) -> list[AgentEvent]:
    return [e async for e in session.events()]


class StuckSocket:
    """A connection whose network takes nothing until it is told to."""

    def __init__(self) -> None:
        self.flowing = asyncio.Event()
        self.sent: list[Message] = []
        self.transport = self

    async def send(self, message: Message) -> None:
        await self.flowing.wait()
        self.sent.append(message)

    async def recv(self, decode: bool) -> bytes:
        await asyncio.sleep(60)
        return b""

    def get_write_buffer_size(self) -> int:
        return 0 if self.flowing.is_set() else 1

    async def close(self) -> None:
        await asyncio.sleep(60)

    def abort(self) -> None:
        self.flowing.set()

    async def wait_closed(self) -> None:
        pass
