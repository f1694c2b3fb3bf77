"""The cascade's server over real sockets: with a brain of known behaviour, and with its own."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import cascade_testkit as kit
import numpy as np
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from adapters.cascade import brain
from adapters.cascade.server import MAX_SESSIONS, serving
from audio.errors import InputError
from verifiers.readback_text import matched, tokens

FAKE = Path(__file__).parents[1] / "tools" / "fake_brain.py"
HELLO = kit.utterance("Good morning, everybody.")
LIMIT_S = 60.0
"""Nothing here takes longer than a second; on a loaded machine it may."""


@pytest.fixture
def behave(monkeypatch: pytest.MonkeyPatch):
    def choose(mode: str = "") -> None:
        monkeypatch.setattr(brain, "COMMAND", (sys.executable, str(FAKE), mode))

    choose()
    return choose


@asynccontextmanager
async def client(url: str, **how: Any) -> AsyncIterator[ClientConnection]:
    async with asyncio.timeout(LIMIT_S), connect(url + "?model=m", max_size=None, **how) as socket:
        yield socket


async def send(socket: ClientConnection, kind: str, **fields: Any) -> None:
    await socket.send(json.dumps({"type": kind, **fields}))


async def write(socket: ClientConnection, pcm: np.ndarray, n: int = kit.FRAME_N) -> None:
    """As fast as it is taken: far faster than real time."""
    for frame in kit.frames(pcm, n):
        await socket.send(json.dumps(kit.append(frame)))


async def until(socket: ClientConnection, kind: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    while not events or events[-1]["type"] != kind:
        events.append(json.loads(await socket.recv()))
    return events


def transcript(events: list[dict[str, Any]]) -> str:
    return "".join(e["delta"] for e in events
                   if e["type"] == "response.output_audio_transcript.delta")


def audio_n(events: list[dict[str, Any]]) -> int:
    return sum(len(base64.b64decode(e["delta"])) // 2 for e in events
               if e["type"] == "response.output_audio.delta")


# --- with a brain of known behaviour


def test_a_turn_faster_than_real_time(behave) -> None:
    async def main() -> None:
        async with serving(pace=0) as address, client(address.url) as socket:
            first, = await until(socket, "session.created")
            assert first["session"]["model"] == "m"
            await write(socket, HELLO)
            events = await until(socket, "response.done")
            assert transcript(events) == "I have four one five. Is that right?"
            assert audio_n(events) == 2 * 12_000 + 6_000
            assert events[0]["audio_start_ms"] < 500 < events[1]["audio_end_ms"]

    asyncio.run(main())


def test_the_reply_is_paced_on_the_loop_of_the_server(behave) -> None:
    """1.25 s of audio at 5 times real time: the last piece goes out 0.24 s after the first, never
    sooner."""

    async def main() -> None:
        async with serving(pace=5.0) as address, client(address.url) as socket:
            await write(socket, HELLO)
            await until(socket, "response.output_audio.delta")
            began = asyncio.get_running_loop().time()
            await until(socket, "response.done")
            assert asyncio.get_running_loop().time() - began > 0.2

    asyncio.run(main())


def test_speech_during_the_reply_cancels_it(behave) -> None:
    async def main() -> None:
        # At a hundredth of real time the reply takes two minutes: it is interrupted for certain.
        async with serving(pace=0.01) as address, client(address.url) as socket:
            await write(socket, HELLO)
            await until(socket, "response.output_audio.delta")
            await write(socket, HELLO)
            events = await until(socket, "response.done")
            response = events[-1]["response"]
            assert response["status"] == "cancelled"
            assert response["status_details"]["reason"] == "turn_detected"
            await until(socket, "response.created")

    asyncio.run(main())


def test_a_client_cancels_and_truncates(behave) -> None:
    async def main() -> None:
        async with serving(pace=0.01) as address, client(address.url) as socket:
            await send(socket, "response.create")
            *_, first = await until(socket, "response.output_audio.delta")
            await send(socket, "response.cancel")
            done = (await until(socket, "response.done"))[-1]["response"]
            assert done["status_details"]["reason"] == "client_cancelled"
            for ms, kind in ((101, "error"), (100, "conversation.item.truncated")):
                await send(socket, "conversation.item.truncate", item_id=first["item_id"],
                           content_index=0, audio_end_ms=ms)
                assert (await until(socket, kind))[-1]["type"] == kind

    asyncio.run(main())


def test_sessions_beside_each_other_share_nothing_but_the_brain(behave) -> None:
    async def turn(url: str) -> str:
        async with client(url) as socket:
            await write(socket, HELLO, 2_400)
            return transcript(await until(socket, "response.done"))

    async def main() -> None:
        async with serving(pace=0) as address:
            said = await asyncio.gather(*(turn(address.url) for _ in range(4)))
            assert set(said) == {"I have four one five. Is that right?"}

    asyncio.run(main())


def test_a_client_that_vanishes_leaves_the_server_to_others(behave) -> None:
    async def main() -> None:
        async with serving(pace=0.01) as address:
            async with client(address.url) as socket:
                await write(socket, HELLO)
                await until(socket, "response.output_audio.delta")
                socket.transport.abort()
            async with client(address.url) as socket:
                await send(socket, "response.create")
                await until(socket, "response.output_audio.delta")

    asyncio.run(main())


@pytest.mark.parametrize("mode", ["dies", "fails"])
def test_a_brain_that_fails_fails_one_response(behave, mode: str) -> None:
    behave(mode)

    async def main() -> None:
        async with serving(pace=0) as address, client(address.url) as socket:
            await send(socket, "session.update", session={
                "type": "realtime", "audio": {"input": {"turn_detection": None}}})
            for n, status in ((1_001, "failed"), (1_000, "completed")):
                await write(socket, np.ones(n, np.int16), n)
                await send(socket, "input_audio_buffer.commit")
                await send(socket, "response.create")
                done = (await until(socket, "response.done"))[-1]["response"]
                assert done["status"] == status

    asyncio.run(main())


def test_rubbish_is_answered_and_the_session_goes_on(behave) -> None:
    async def main() -> None:
        async with serving(pace=0) as address, client(address.url) as socket:
            await until(socket, "session.created")
            for rubbish in ("", "{", b"\xff\x00", "[1]", '{"type": "x"}', "\u0000"):
                await socket.send(rubbish)
                assert (await until(socket, "error"))[0]["type"] == "error"
            await socket.send(b'{"type": "response.create"}')  # binary is read as well
            await until(socket, "response.done")

    asyncio.run(main())


def test_a_message_beyond_the_bound_ends_that_session_alone(behave) -> None:
    async def shout(socket: ClientConnection) -> None:
        await socket.send(["x" * 1024 * 1024] * 22)
        await until(socket, "never")

    async def main() -> None:
        async with serving(pace=0) as address:
            async with client(address.url) as socket:
                with pytest.raises(ConnectionClosed) as closed:
                    await shout(socket)
                assert closed.value.rcvd is None or closed.value.rcvd.code == 1009
            async with client(address.url) as socket:
                await until(socket, "session.created")

    asyncio.run(main())


def test_the_door(behave) -> None:
    """Another path, a web page, one too many: refused before there is a session."""

    async def refused(url: str, **how: Any) -> int:
        with pytest.raises(InvalidStatus) as answer:
            async with asyncio.timeout(LIMIT_S), connect(url, **how):
                pass
        return answer.value.response.status_code

    async def main() -> None:
        async with serving(pace=0) as address:
            assert await refused(address.base_url + "/other") == 404
            assert await refused(address.url, origin="http://evil.example") == 403
            opened = [await connect(address.url) for _ in range(MAX_SESSIONS)]
            assert await refused(address.url) == 503
            for socket in opened:
                await socket.close()

    asyncio.run(main())


def test_a_port_that_is_taken_is_an_input_error(behave) -> None:
    async def main() -> None:
        async with serving(pace=0) as address:
            with pytest.raises(InputError, match=f"expected a free port, got {address.port}"):
                async with serving(address.port):
                    pass

    asyncio.run(main())


# --- the whole agent, in its child process


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    child = subprocess.Popen([sys.executable, "-P", "-m", "adapters.cascade", "--pace", "0"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        yield json.loads(child.stdout.readline())["base_url"]
    finally:
        child.stdin.close()
        assert child.wait(LIMIT_S) == 0
        child.stdout.close()


def test_it_reads_back_what_was_dictated_and_not_something_else(base_url: str) -> None:
    digits = [8, 0, 2, 6, 6, 1, 9]

    async def main() -> list[dict[str, Any]]:
        async with client(base_url + "/realtime") as socket:
            await write(socket, kit.utterance("My number is " + kit.spoken_digits(digits, (3, 4))))
            return await until(socket, "response.done")

    events = asyncio.run(main())
    said = tokens(transcript(events))
    assert matched([str(d) for d in digits], said) == len(digits)
    assert not {"3", "4", "5", "7"} & set(said)
    assert audio_n(events) > 3 * 24_000


def test_what_it_says_is_what_its_transcript_says(base_url: str) -> None:
    """Another ear: the alignment of the words with the sound succeeds."""
    from audio.align import align
    from audio.buffers import pcm16_to_float
    from audio.spoken_text import normalise

    async def main() -> list[dict[str, Any]]:
        async with client(base_url + "/realtime") as socket:
            await send(socket, "conversation.item.create", item={
                "type": "message", "role": "user",
                "content": [{"type": "input_text", "text": "are you there"}]})
            await send(socket, "response.create")
            return await until(socket, "response.done")

    events = asyncio.run(main())
    pcm = b"".join(base64.b64decode(e["delta"]) for e in events
                   if e["type"] == "response.output_audio.delta")
    sound = pcm16_to_float(np.frombuffer(pcm, "<i2").astype(np.int16))
    words = align(sound, 24_000, normalise(transcript(events)))
    assert " ".join(w.word for w in words) == "Yes I am here and I can hear you"
    assert 1.0 < len(sound) / 24_000 < 4.0
