"""How much is read at a time, from a server that sends many tiny frames."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from adapters.websocket_reads import (
    FRAMES_A_READ,
    MAX_CONTROL_FRAMES,
    MAX_FRAGMENTS,
    MAX_READ_BYTES,
    MIN_READ_BYTES,
    BoundedReads,
    read_bytes,
)

BYTE_FRAME = b"\x82\x01"
PING = b"\x89\x00"


@pytest.mark.parametrize(("before", "frames", "after"), [
    (4_096, 0, MAX_READ_BYTES),  # the middle of a long message
    (3 * FRAMES_A_READ, FRAMES_A_READ, 3 * FRAMES_A_READ),
    (MAX_READ_BYTES, 5_461, FRAMES_A_READ * 16_384 // 5_461),
    (2_048, 1_024, MIN_READ_BYTES),
    (1_024, 1, MAX_READ_BYTES),
])
def test_a_read_is_as_long_as_brings_a_bounded_number_of_frames(
    before: int, frames: int, after: int
) -> None:
    assert read_bytes(before, frames) == after


class Watched(BoundedReads):
    """Remembers how many frames each read brought."""

    def buffer_updated(self, nbytes: int) -> None:
        super().buffer_updated(nbytes)
        reads.append((nbytes, self._frames))


reads: list[tuple[int, int]] = []


def given_up_with(reason: str) -> Callable[[BoundedReads], Awaitable[None]]:
    """A client that reads, and closes for that reason itself."""
    async def client(socket: BoundedReads) -> None:
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
        assert closed.value.sent is not None
        assert (closed.value.sent.code, closed.value.sent.reason) == (1008, reason)

    return client


def against(flood: Callable[[ServerConnection], Awaitable[None]],
            client: Callable[[BoundedReads], Awaitable[None]]) -> None:
    async def agent(socket: ServerConnection) -> None:
        await socket.recv()
        await flood(socket)
        await socket.wait_closed()

    async def main() -> None:
        async with (serve(agent, "127.0.0.1", 0, ping_interval=None, compression=None) as server,
                    asyncio.timeout(30)):
            port = server.sockets[0].getsockname()[1]
            async with connect(f"ws://127.0.0.1:{port}", compression=None, ping_interval=None,
                               create_connection=Watched) as socket:
                await socket.send("go")
                await client(socket)  # type: ignore[arg-type]

    reads.clear()
    asyncio.run(main())


def test_a_flood_of_tiny_frames_is_taken_bit_by_bit_and_whole() -> None:
    n = 20_000

    async def flood(socket: ServerConnection) -> None:
        for first in range(0, n, 1_000):
            socket.transport.write(b"".join(BYTE_FRAME + bytes([k % 251])
                                            for k in range(first, first + 1_000)))
            await asyncio.sleep(0)
        await socket.send(b"x" * 300_000)

    async def client(socket: BoundedReads) -> None:
        got = [await socket.recv() for _ in range(n)]
        assert got == [bytes([k % 251]) for k in range(n)]
        assert await socket.recv() == b"x" * 300_000

    against(flood, client)
    # One read may not know what comes; from then on each brings few.
    assert sum(frames > FRAMES_A_READ + 1 for _, frames in reads) <= 1
    assert max(frames for _, frames in reads) <= MAX_READ_BYTES // 3 + 1
    assert sum(nbytes == MAX_READ_BYTES for nbytes, _ in reads) > 5, "long messages are read fast"


def test_a_flood_of_pings_ends_the_connection() -> None:
    async def flood(socket: ServerConnection) -> None:
        for _ in range(0, MAX_CONTROL_FRAMES + 1_000, 100):
            socket.transport.write(PING * 100)
            await asyncio.sleep(0)

    against(flood, given_up_with("more than 10000 pings and pongs"))


def test_a_message_that_goes_on_in_frames_of_nothing_ends_the_connection() -> None:
    async def flood(socket: ServerConnection) -> None:
        socket.transport.write(b"\x01\x00")
        for _ in range(0, MAX_FRAGMENTS + 1_000, 500):
            socket.transport.write(b"\x00\x00" * 500)
            await asyncio.sleep(0)

    against(flood, given_up_with("a message of more than 100000 frames"))


def test_fragments_of_a_message_that_ended_do_not_count_for_the_next() -> None:
    async def send(socket: ServerConnection) -> None:
        for _ in range(3):
            socket.transport.write(b"\x02\x00" + b"\x00\x00" * (MAX_FRAGMENTS // 2)
                                   + b"\x80\x01x")
            await asyncio.sleep(0)

    async def client(socket: BoundedReads) -> None:
        for _ in range(3):
            assert await socket.recv(decode=False) == b"x"

    against(send, client)
