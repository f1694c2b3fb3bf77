"""The peer as a WebSocket server on this machine: keeps its own deadlines, logs its own truth."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from adapters.base import AgentEvent, AudioReceived, ResponseDone, ResponseStarted, TextDelta
from adapters.known_peer.agents import PeerAgent, prepare
from adapters.known_peer.protocol import (
    FRAMES_A_MESSAGE,
    VERSION,
    Behaviour,
    pack_audio,
    unpack_user,
)
from audio.errors import InputError
from audio.timebase import FRAME_NS, NS_PER_S, ms_to_ns

OPEN_S = 10.0
"""How long a client may take to say what it wants. Ours."""
MAX_MESSAGE_BYTES = 64 * 1024

Message = str | bytes


def read_clock_ns() -> int:
    """The peer's clock. It stands for another machine, and so has one of its own."""
    return time.perf_counter_ns()


@asynccontextmanager
async def running(host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[int]:
    """Serve until the block ends; gives the port."""
    server: Server
    async with serve(_session, host, port, compression=None, max_size=MAX_MESSAGE_BYTES,
                     ping_interval=None) as server:
        yield next(iter(server.sockets)).getsockname()[1]


async def _session(socket: ServerConnection) -> None:
    try:
        async with asyncio.timeout(OPEN_S):
            behaviour = _opened(await socket.recv())
    except TimeoutError:
        await socket.close(1008, "no open message")
        return
    except InputError as error:
        await socket.close(1008, str(error)[:120])
        return
    except ConnectionClosed:
        return
    prepare()
    line = Line(socket, ms_to_ns(behaviour.delay_ms))
    origin_ns = read_clock_ns()
    await socket.send(_json("ready", version=VERSION, behaviour=behaviour.as_dict(),
                            clock="perf_counter_ns", origin_ns=origin_ns))
    agent = PeerAgent(behaviour)
    tasks = [asyncio.create_task(_listen(socket, agent, line, origin_ns)),
             asyncio.create_task(_speak(agent, line, origin_ns)),
             asyncio.create_task(line.run())]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    except ValueError as error:
        await socket.close(1007, str(error)[:120])
    except ConnectionClosed:
        pass
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def _opened(data: Message) -> Behaviour:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or value.get("type") != "open":
        raise InputError.expected("an open message", got="something else", where="peer")
    if value.get("version") != VERSION:
        raise InputError.expected(f"version {VERSION}", got=repr(value.get("version"))[:40],
                                  where="peer")
    return Behaviour.of(value.get("behaviour"))


async def _listen(socket: ServerConnection, agent: PeerAgent, line: Line, origin_ns: int) -> None:
    """Hand the user's frames to the agent, and say when each was received."""
    stamps: list[int] = []
    first = 0
    async for data in socket:
        received_ns = read_clock_ns()
        if isinstance(data, str):
            raise ValueError("expected binary user audio, got text")
        agent.hear(unpack_user(data), received_ns - origin_ns)
        stamps.append(received_ns)
        if len(stamps) == FRAMES_A_MESSAGE:
            await line.send(_json("frames", first=first, received_ns=stamps))
            first += len(stamps)
            stamps = []


async def _speak(agent: PeerAgent, line: Line, origin_ns: int) -> None:
    """Let the agent speak, 20 ms at a time, by absolute deadlines."""
    tick = 0
    while True:
        tick += 1
        due_ns = origin_ns + tick * FRAME_NS
        while (left_ns := due_ns - read_clock_ns()) > 0:
            await asyncio.sleep(left_ns / NS_PER_S)
        for event in agent.tick(tick * FRAME_NS):
            handed_ns = await line.send(_message(event))
            truth = agent.log.handed(event, handed_ns - origin_ns)
            if truth is not None:
                await line.send(_json("truth", origin_ns=origin_ns, **truth))
        # A tick that is far behind must not keep the frames of the user waiting.
        await asyncio.sleep(0)


class Line:
    """The way out: at once, or `delay_ns` later without the peer's own log knowing."""

    def __init__(self, socket: ServerConnection, delay_ns: int) -> None:
        self._socket = socket
        self._delay_ns = delay_ns
        self._queue: deque[tuple[int, Message]] = deque()
        self._news = asyncio.Event()

    async def send(self, message: Message) -> int:
        """Hand a message over; gives the moment by the peer's clock."""
        now_ns = read_clock_ns()
        if self._delay_ns:
            self._queue.append((now_ns + self._delay_ns, message))
            self._news.set()
        else:
            await self._socket.send(message)
        return now_ns

    async def run(self) -> None:
        """Move what is delayed, for ever."""
        while True:
            while self._queue:
                due_ns, message = self._queue.popleft()
                while (left_ns := due_ns - read_clock_ns()) > 0:
                    await asyncio.sleep(left_ns / NS_PER_S)
                await self._socket.send(message)
            self._news.clear()
            await self._news.wait()


def _message(event: AgentEvent) -> Message:
    match event:
        case AudioReceived(_, samples, response_id):
            assert response_id is not None
            return pack_audio(int(response_id.removeprefix("r")), samples)
        case ResponseStarted(_, response_id):
            return _json("response_started", id=response_id)
        case ResponseDone(_, response_id, status):
            return _json("response_done", id=response_id, status=status)
        case TextDelta(_, text, response_id):
            return _json("text", id=response_id, text=text)
    raise TypeError(f"an agent does not emit {type(event).__name__}")


def _json(name: str, **values: Any) -> str:
    return json.dumps({"type": name, **values}, separators=(",", ":"))
