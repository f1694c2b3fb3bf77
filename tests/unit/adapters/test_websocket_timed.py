"""The driver with wires that have moments of their own, or care for the kind of frame."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import rig_testkit as testkit
import websocket_kit as kit
from websockets.asyncio.server import ServerConnection

from adapters.base import AgentEvent, StateChanged
from adapters.websocket import open_session
from adapters.wire.base import Message, Output
from audio.buffers import Float32

MS = 1_000_000


class Alarm:
    """`in N` asks for a call in N ms, `stop` calls it off; what is said of it goes to the peer."""

    ready = True

    def __init__(self) -> None:
        self.due_ns: int | None = None
        self.log: list[str] = []

    def opening(self) -> tuple[Message, ...]:
        return ()

    def audio(self, frame: Float32) -> tuple[Message, ...]:
        return ()

    def closing(self) -> tuple[Message, ...]:
        return ()

    def tick(self, t_ns: int) -> tuple[Message, ...]:
        if self.due_ns is None or t_ns < self.due_ns:
            return ()
        late_ns, self.due_ns = t_ns - self.due_ns, None
        self.log.append(f"rang {late_ns // MS}")
        return (f"rang {late_ns}",)

    def receive(self, data: bytes, t_ns: int) -> Output:
        due = self.tick(t_ns)
        text = data.decode()
        self.log.append(text)
        if text == "stop":
            self.due_ns = None
        else:
            self.due_ns = t_ns + int(text.removeprefix("in ")) * MS
        return Output((StateChanged(t_ns, text),), due)


class Framed(Alarm):
    def receive(self, data: bytes, t_ns: int) -> Output:
        return Output((StateChanged(t_ns, "text", data.decode()),))

    def receive_binary(self, data: bytes, t_ns: int) -> Output:
        return Output((StateChanged(t_ns, "binary", data.hex()),), (data,))


def play(wire: Any, said: list[Message | float], replies: int) -> tuple[list[str], list[Any]]:
    """What the peer got back for what it said; a number is a pause in seconds."""
    got: list[Any] = []
    names: list[str] = []

    async def server(socket: ServerConnection) -> None:
        for part in said:
            if isinstance(part, float):
                await asyncio.sleep(part)
            else:
                await socket.send(part)
        async with asyncio.timeout(kit.HANGS_S):
            for _ in range(replies):
                got.append(await socket.recv())
        await socket.close()

    async def main() -> None:
        async with kit.peer(server) as p, open_session(p, wire, kit.RealClock()) as session:
            names.extend(e.name for e in await kit.all_events(session)
                         if isinstance(e, StateChanged))

    kit.run(main())
    return names, got


def late_ns(message: str) -> int:
    return int(message.removeprefix("rang "))


def test_what_is_due_is_said_when_it_is() -> None:
    def once() -> int:
        names, got = play(Alarm(), ["in 60"], 1)
        assert names == ["in 60"]
        assert late_ns(got[0]) >= 0
        return late_ns(got[0])

    assert testkit.least(once, 15 * MS) < 15 * MS


def test_a_deadline_that_moves_is_met_where_it_moved_to() -> None:
    def once() -> int:
        _, got = play(Alarm(), ["in 900", 0.02, "in 40", 0.1, "in 30"], 2)
        assert len(got) == 2
        assert min(map(late_ns, got)) >= 0
        return max(map(late_ns, got))

    assert testkit.least(once, 15 * MS) < 15 * MS


def test_what_is_called_off_is_not_said() -> None:
    wire = Alarm()
    _, got = play(wire, ["in 60", 0.01, "stop", 0.12, "in 0"], 1)
    assert len(got) == 1
    assert [line.partition(" ")[0] for line in wire.log] == ["in", "stop", "in", "rang"]


def test_what_came_before_is_decoded_before_the_clock_is_asked() -> None:
    """`stop` comes in time and is read late: the driver must not ring in between."""
    wire = Alarm()
    seen: list[AgentEvent] = []

    async def server(socket: ServerConnection) -> None:
        await socket.send("in 100")
        await asyncio.sleep(0.03)
        await socket.send("stop")
        await socket.wait_closed()

    async def main() -> None:
        async with kit.peer(server) as p, open_session(p, wire, kit.RealClock()) as session:
            events = session.events()
            seen.append(await anext(events))
            await asyncio.sleep(0.2)  # nobody reads while the deadline passes
            seen.append(await anext(events))
            await asyncio.sleep(0.05)

    kit.run(main())
    assert [e.name for e in seen if isinstance(e, StateChanged)] == ["in 100", "stop"]
    assert wire.log == ["in 100", "stop"]


def test_a_wire_may_tell_text_from_binary() -> None:
    sent: list[Message] = ["hello", b"\x00\x01", "señal", b"{}"]
    names, got = play(Framed(), sent, 2)
    assert names == ["text", "binary", "text", "binary"]
    assert got == [b"\x00\x01", b"{}"]


def test_a_text_frame_that_is_no_text_ends_the_session() -> None:
    async def server(socket: ServerConnection) -> None:
        await socket.send(b"\xff\xfe", text=True)
        await socket.wait_closed()

    async def main() -> list[AgentEvent]:
        async with kit.peer(server) as p, open_session(p, Framed(), kit.RealClock()) as session:
            await session.send(np.zeros(480, np.float32))
            return await kit.all_events(session)

    (fault,) = kit.run(main())
    assert fault.severity == "infrastructure"
    assert "1007" in fault.reason


def test_a_frame_that_makes_no_message_yet_waits_for_no_network() -> None:
    """A wire may hold frames back and send several in one message."""
    async def server(socket: ServerConnection) -> None:
        await socket.wait_closed()

    async def main() -> None:
        async with kit.peer(server) as p, open_session(p, Alarm(), kit.RealClock()) as session:
            for free in (True, False):
                session._free = lambda _messages, free=free: free  # type: ignore[method-assign]
                await session.send(np.zeros(480, dtype=np.float32))

    kit.run(main())
