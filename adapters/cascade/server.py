"""Serves the agent over WebSockets on this machine alone.

The loop moves messages and waits; everything that computes is elsewhere: parsing and endpointing in
a thread, recognition and synthesis in the brain process.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import socket as sockets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import ParamSpec
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from adapters.cascade.brain import Brain, BrainError, running_brain
from adapters.cascade.hearing import RATE_HZ
from adapters.cascade.protocol import Job, Output, Recognise, Say, ServerSession
from adapters.cascade.session import MAX_LABEL_CHARS
from adapters.cascade.speech import pieces
from audio.errors import InputError
from audio.silero import load_model

_P = ParamSpec("_P")

HOST = "127.0.0.1"
PATH = "/v1/realtime"
MAX_MESSAGE_BYTES = 21 * 1024 * 1024
"""The largest append (15 MiB of audio) as base64 in its envelope; longer ones close with 1009."""
MAX_QUEUED_MESSAGES = 4
MAX_SESSIONS = 16
"""At a time. Ours: two cores recognise for about this many people who talk in turn."""
DEFAULT_PACE = 4.0
"""Seconds of audio sent a second. Ours: hosted systems send a few times faster than real time."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server listens."""

    port: int

    @property
    def base_url(self) -> str:
        """For adapters and clients; they add `/realtime?model=...`."""
        return f"ws://{HOST}:{self.port}/v1"

    @property
    def url(self) -> str:
        return f"ws://{HOST}:{self.port}{PATH}"


class CascadeServer:
    """Sessions over one brain. `pace`: seconds of audio sent a second, 0 for at once."""

    def __init__(self, brain: Brain, pace: float) -> None:
        self._brain = brain
        self._pace = pace
        self._numbers = itertools.count(1)
        self._open = 0

    def check(self, socket: ServerConnection, request: Request) -> Response | None:
        """Refuse what is no session, before it becomes one."""
        if urlsplit(request.path).path != PATH:
            return socket.respond(HTTPStatus.NOT_FOUND, f"this server serves {PATH} alone\n")
        if self._open >= MAX_SESSIONS:
            return socket.respond(HTTPStatus.SERVICE_UNAVAILABLE,
                                  f"{MAX_SESSIONS} sessions are open\n")
        return None

    async def handle(self, socket: ServerConnection) -> None:
        """One session, from its first event to the end of the connection."""
        assert socket.request is not None
        model = parse_qs(urlsplit(socket.request.path).query).get("model", [""])[0]
        session = ServerSession(f"sess_{next(self._numbers)}", model[:MAX_LABEL_CHARS])
        self._open += 1
        try:
            async with asyncio.TaskGroup() as tasks:
                await _Connection(socket, session, self._brain, self._pace, tasks).run()
        except* ConnectionClosed:
            pass
        finally:
            self._open -= 1


class _Connection:
    """Moves one session's messages and work."""

    def __init__(self, socket: ServerConnection, session: ServerSession, brain: Brain, pace: float,
                 tasks: asyncio.TaskGroup) -> None:
        self._socket = socket
        self._session = session
        self._brain = brain
        self._pace = pace
        self._tasks = tasks
        self._working: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()

    async def run(self) -> None:
        await self._do(self._session.opening)
        try:
            async for message in self._socket:
                await self._do(self._session.receive, message)
        finally:
            for task in self._working:
                task.cancel()

    async def _do(self, step: Callable[_P, Output], *args: _P.args, **kwargs: _P.kwargs) -> None:
        """One step of the session; its events go out before those of the next step."""
        async with self._turn:
            output = await asyncio.to_thread(step, *args, **kwargs)
            for event in output.events:
                await self._socket.send(json.dumps(event, separators=(",", ":")))
            for job in output.jobs:
                task = self._tasks.create_task(self._work(job))
                self._working.add(task)
                task.add_done_callback(self._working.discard)

    async def _work(self, job: Job) -> None:
        if isinstance(job, Recognise):
            words: tuple[str, ...] | None
            try:
                words = await self._brain.recognise(job.pcm)
            except BrainError:
                words = None
            await self._do(self._session.recognised, job.item_id, words)
        else:
            await self._say(job)

    async def _say(self, job: Say) -> None:
        """Speak sentence by sentence, paced from the first piece on by absolute deadlines."""
        loop = asyncio.get_running_loop()
        due_s: float | None = None
        for k, sentence in enumerate(job.sentences):
            try:
                pcm = await self._brain.say(sentence)
            except BrainError as error:
                await self._do(self._session.finish, job.response_id, str(error))
                return
            for piece in pieces(sentence, pcm, first=not k):
                if due_s is None:
                    due_s = loop.time()
                await self._do(self._session.deliver, job.response_id, piece)
                if self._session.active_response != job.response_id:
                    return
                if self._pace:
                    due_s += len(piece.pcm) / RATE_HZ / self._pace
                    await asyncio.sleep(due_s - loop.time())
        await self._do(self._session.finish, job.response_id)


@asynccontextmanager
async def serving(port: int = 0, pace: float = DEFAULT_PACE) -> AsyncIterator[Address]:
    """The server, ready to answer, until the block ends. `port` 0 takes a free one.

    Raises `InputError` for a port that cannot be had, `BrainError` where the models do not load.
    """
    load_model()
    async with running_brain() as brain, _listening(CascadeServer(brain, pace), port) as address:
        yield address


@asynccontextmanager
async def _listening(cascade: CascadeServer, port: int) -> AsyncIterator[Address]:
    # asyncio turns Nagle off only where the protocol is stated.
    listener = sockets.socket(proto=sockets.IPPROTO_TCP)
    listener.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError as error:
        listener.close()
        raise InputError.expected("a free port", got=f"{port}: {error.strerror}",
                                  where="cascade") from None
    # No origin: a web page in a browser on this machine must not reach the server.
    async with serve(cascade.handle, sock=listener, process_request=cascade.check, origins=[None],
                     compression=None, max_size=MAX_MESSAGE_BYTES, max_queue=MAX_QUEUED_MESSAGES,
                     close_timeout=1.0):
        yield Address(listener.getsockname()[1])
