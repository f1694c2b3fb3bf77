"""How much is taken off a WebSocket in one turn of the event loop.

The library decodes everything that one read brings in one go: 64 KiB of messages of one byte are
20,000 frames, and a tenth of a second in which no frame of any session goes out. So a read is as
long as brings a bounded number of frames, judged by those before; what is left waits in the system,
and the peer with it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import Event, State

from adapters.wire.base import FramedWire, Message, Output, Wire

MAX_READ_BYTES = 16 * 1024
"""Ours: a tenth of a second of user or model audio as JSON in two reads. Frames of one byte, when
nothing foretold them, are 5,000 and some 20 ms."""
MIN_READ_BYTES = 1024
"""Ours: some 500 of the shortest frames, 2 ms."""
FRAMES_A_READ = 512
"""So many are wanted of one read at most. Ours."""
MAX_CONTROL_FRAMES = 10_000
"""Pings and pongs of one connection. Ours: a ping a second would last for hours; each one costs
three messages."""
MAX_FRAGMENTS = 100_000
"""Frames of one message. Ours: the longest message in pieces of 160 bytes. Frames of nothing count
for no bound of bytes, and the library keeps each."""

_CONTROL = frozenset({Opcode.PING, Opcode.PONG})


def read_bytes(before: int, frames: int) -> int:
    """How long the next read may be, when the one of `before` bytes brought so many frames."""
    if frames == 0:
        return MAX_READ_BYTES
    return max(MIN_READ_BYTES, min(MAX_READ_BYTES, FRAMES_A_READ * before // frames))


class BoundedReads(ClientConnection, asyncio.BufferedProtocol):
    """A connection that says itself how much it takes at a time."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._buffer = bytearray(MAX_READ_BYTES)
        self._read_bytes = MIN_READ_BYTES
        self._frames = 0
        self._control_frames = 0
        self._fragments = 0
        """Of the message that goes on."""

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the interface
        """As of `asyncio.BufferedProtocol`."""
        return memoryview(self._buffer)[: self._read_bytes]

    def buffer_updated(self, nbytes: int) -> None:
        """As of `asyncio.BufferedProtocol`."""
        self._frames = 0
        self.data_received(bytes(self._buffer[:nbytes]))
        self._read_bytes = read_bytes(nbytes, self._frames)
        if self._control_frames > MAX_CONTROL_FRAMES and self.protocol.state is State.OPEN:
            self._give_up(f"more than {MAX_CONTROL_FRAMES} pings and pongs")
        if self._fragments > MAX_FRAGMENTS and self.protocol.state is State.OPEN:
            self._give_up(f"a message of more than {MAX_FRAGMENTS} frames")

    def _give_up(self, reason: str) -> None:
        self.protocol.fail(CloseCode.POLICY_VIOLATION, reason)
        self.send_data()

    def process_event(self, event: Event) -> None:
        """As of the library: called for every frame that came, in order."""
        self._frames += 1
        if isinstance(event, Frame):
            if event.opcode in _CONTROL:
                self._control_frames += 1
            else:
                self._fragments = 0 if event.fin else self._fragments + 1
        super().process_event(event)


class Ear:
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
