"""The brain process as the server sees it: ask, await the answer; started again when it dies."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from adapters.children import OWN_GROUP
from audio.buffers import Int16
from audio.errors import RigError

START_S = 60.0
"""Ours: loading takes about 1 s on an idle machine, and many times that on a loaded one."""
ANSWER_S = 120.0
"""Ours: 2 minutes of speech, the longest turn, are recognised in about 25 s."""
END_S = 1.0
"""How long the process may take to end; it is ended then, in the middle of its work if need be."""
COMMAND = (sys.executable, "-P", "-m", "adapters.cascade.brain_process")
"""`-P`: a folder of the user's named `adapters` is never imported instead."""


class BrainError(RigError):
    """The brain could not do what was asked: it failed, died or took too long."""


@dataclass(slots=True)
class _Request:
    head: dict[str, Any]
    payload: bytes
    answer: asyncio.Future[tuple[dict[str, Any], bytes]]


class Brain:
    """Answers one request after another, in order. Made by `running_brain`."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._requests: asyncio.Queue[_Request] = asyncio.Queue()

    async def recognise(self, pcm: Int16) -> tuple[str, ...]:
        """Words of PCM16 `(n,)` at 24 kHz. Raises `BrainError`."""
        payload = pcm.astype("<i2").tobytes()
        head, _ = await self._ask({"do": "recognise", "bytes": len(payload)}, payload)
        return tuple(head["words"])

    async def say(self, sentence: str) -> Int16:
        """Speech, PCM16 `(n,)` at 24 kHz. Raises `BrainError`."""
        _, sound = await self._ask({"do": "say", "text": sentence})
        return np.frombuffer(sound, "<i2").astype(np.int16)

    async def _ask(
        self, head: dict[str, Any], payload: bytes = b""
    ) -> tuple[dict[str, Any], bytes]:
        request = _Request(head, payload, asyncio.get_running_loop().create_future())
        self._requests.put_nowait(request)
        return await request.answer

    async def serve(self) -> None:
        """Work through the requests. Who asked may give up: the answer is then thrown away."""
        while True:
            request = await self._requests.get()
            if request.answer.done():
                continue
            try:
                answer = await self._exchange(request)
            except BrainError as error:
                if not request.answer.done():
                    request.answer.set_exception(error)
            else:
                if not request.answer.done():
                    request.answer.set_result(answer)

    async def start(self) -> None:
        """Start the process and wait until its models are loaded. Raises `BrainError`."""
        self._process = await asyncio.create_subprocess_exec(
            *COMMAND, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            **OWN_GROUP)
        try:
            async with asyncio.timeout(START_S):
                await self._answer(self._process)
        except TimeoutError:
            await self.end()
            raise BrainError(f"the speech process was not ready within {START_S:g} s") from None
        except BrainError:
            await self.end()
            raise

    async def end(self) -> None:
        """End the process: politely, then not."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(END_S):
                await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _exchange(self, request: _Request) -> tuple[dict[str, Any], bytes]:
        if self._process is None:
            await self.start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        try:
            async with asyncio.timeout(ANSWER_S):
                process.stdin.write(json.dumps(request.head).encode() + b"\n" + request.payload)
                await process.stdin.drain()
                head, payload = await self._answer(process)
        except (TimeoutError, ConnectionError, BrainError) as error:
            await self.end()  # whatever it still says belongs to no request
            why = str(error) or f"no answer in {ANSWER_S:g} s"
            raise BrainError(f"speech process: {why}") from None
        if "error" in head:
            raise BrainError(str(head["error"]))
        return head, payload

    async def _answer(self, process: asyncio.subprocess.Process) -> tuple[dict[str, Any], bytes]:
        assert process.stdout is not None
        try:
            line = await process.stdout.readline()
            if not line:
                raise BrainError(f"it ended with code {await process.wait()}")
            head: dict[str, Any] = json.loads(line)
            return head, await process.stdout.readexactly(head.get("bytes", 0))
        except asyncio.IncompleteReadError:
            raise BrainError("it ended in the middle of an answer") from None
        except ValueError:  # no JSON, or a line beyond the limit of 64 KiB
            raise BrainError("it gave something that is no answer") from None


@asynccontextmanager
async def running_brain() -> AsyncIterator[Brain]:
    """A brain with its models loaded. Raises `BrainError` where it does not start."""
    brain = Brain()
    await brain.start()
    worker = asyncio.create_task(brain.serve())
    try:
        yield brain
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        await brain.end()
