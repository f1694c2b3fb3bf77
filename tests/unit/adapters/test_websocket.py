"""The driver alone: stamps and bounds. What a whole session does is in tests/conformance."""

from __future__ import annotations

import asyncio
import socket as sockets

import numpy as np
import pytest
import rig_testkit as testkit
from websocket_kit import (
    SILENCE,
    EchoWire,
    RealClock,
    StuckSocket,
    all_events,
    peer,
    run,
)
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosedError
from websockets.frames import Close

from adapters import websocket
from adapters.base import AgentEvent, Fault, StateChanged
from adapters.peer import Peer, Redactor
from adapters.websocket import WebSocketSession, open_session
from adapters.wire.base import Message
from audio.errors import InfrastructureError


def test_messages_go_both_ways_and_the_gate_stands_at_time_zero() -> None:
    got: list[Message] = []

    async def server(socket: ServerConnection) -> None:
        got.append(await socket.recv())
        await socket.send("early")
        await socket.send("go")
        got.append(await socket.recv())
        await socket.send("!")
        got.append(await socket.recv())
        await socket.send("last")
        async for message in socket:
            got.append(message)

    async def main() -> list[AgentEvent]:
        clock = RealClock()
        seen: list[AgentEvent] = []
        async with peer(server) as p, open_session(p, EchoWire(), clock) as session:
            await session.send(SILENCE + np.float32(0.5))
            async for event in session.events():
                seen.append(event)
                if isinstance(event, StateChanged) and event.name == "last":
                    break
            session.cue("turn1_start")
            assert session._socket.transport.get_extra_info("socket").getsockopt(
                sockets.IPPROTO_TCP, sockets.TCP_NODELAY)
        return seen

    seen = run(main())
    assert [e.name for e in seen] == ["early", "go", "!", "last"]
    assert [e.t_ns == 0 for e in seen] == [True, True, False, False]
    assert got == ["hello", (SILENCE + np.float32(0.5)).astype("<f4").tobytes(), "answer", "bye"]


def test_arrival_is_stamped_when_it_arrives_not_when_it_is_read() -> None:
    async def server(socket: ServerConnection) -> None:
        await socket.send("go")
        await asyncio.sleep(0.1)
        await socket.send("one")
        await asyncio.sleep(0.2)
        await socket.send("two")
        await socket.wait_closed()

    async def main() -> list[AgentEvent]:
        async with peer(server) as p, open_session(p, EchoWire(), RealClock()) as session:
            await asyncio.sleep(0.8)
            reader = asyncio.create_task(all_events(session))
            await asyncio.sleep(0.1)
            await session.close()
            await session.close()
            return await reader

    _, one, two = run(main())
    assert 0.15e9 < two.t_ns - one.t_ns < 0.45e9


def test_what_nobody_reads_is_a_fault_and_not_a_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "MAX_UNREAD_MESSAGES", 5)

    async def server(socket: ServerConnection) -> None:
        await socket.send("go")
        for k in range(50):
            await socket.send(str(k))
        await socket.wait_closed()

    async def main() -> list[AgentEvent]:
        async with peer(server) as p, open_session(p, EchoWire(), RealClock()) as session:
            await asyncio.sleep(0.3)
            with pytest.raises(InfrastructureError, match=r"6 messages of \d bytes wait unread, "
                                                          r"expected at most 5"):
                await session.send(SILENCE)
            return await all_events(session)

    events = run(main())
    assert isinstance(events[-1], Fault)
    assert events[-1].severity == "infrastructure"
    assert len(events) == 7


def test_a_burst_of_bytes_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "MAX_UNREAD_BYTES", 100_000)

    async def server(socket: ServerConnection) -> None:
        await socket.send("go")
        await socket.send("x" * 100_001)
        await socket.wait_closed()

    async def main() -> list[AgentEvent]:
        async with peer(server) as p, open_session(p, EchoWire(), RealClock()) as session:
            await asyncio.sleep(0.2)
            return await all_events(session)

    events = run(main())
    assert "bytes wait unread, expected at most 100000 of 100000" in events[-1].reason


def test_a_stuck_network_never_holds_the_frame_loop_and_ends_the_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(websocket, "CLOSE_S", 0.2)

    async def main() -> tuple[list[float], list[AgentEvent], int, float]:
        clock, socket = RealClock(), StuckSocket()
        session = WebSocketSession(socket, EchoWire(), clock, Redactor(()))  # type: ignore[arg-type]
        session.start([])
        took_s: list[float] = []
        for k in range(25):
            await clock.sleep_until((k + 1) * 20_000_000)
            before = clock.now_ns()
            await session.send(SILENCE)
            took_s.append((clock.now_ns() - before) / 1e9)
        with pytest.raises(InfrastructureError, match="the network takes user audio too slowly: 25 "
                                                      "frames of 20 ms wait, expected fewer"):
            await session.send(SILENCE)
        events = await all_events(session)
        before = clock.now_ns()
        await session.close()
        return took_s, events, len(socket.sent), (clock.now_ns() - before) / 1e9

    def once() -> float:
        took_s, events, sent, close_s = run(main())
        assert min(took_s) >= 0.0149
        assert [type(e) for e in events] == [Fault]
        assert sent == 0
        # Of what each may take: 30 ms for the median frame, 1 s for the close.
        return max(sorted(took_s)[12] / 0.03, close_s / 1.0)

    assert testkit.least(once, 1.0) < 1.0


def test_a_wait_for_the_network_is_written_down_once() -> None:
    async def main() -> list[AgentEvent]:
        clock, socket = RealClock(), StuckSocket()
        session = WebSocketSession(socket, EchoWire(), clock, Redactor(()))  # type: ignore[arg-type]
        session.start([])
        for _ in range(5):
            await session.send(SILENCE)
        socket.flowing.set()
        await asyncio.sleep(0.05)
        for _ in range(3):
            await session.send(SILENCE)
        assert len(socket.sent) == 8
        for task in session._tasks:
            task.cancel()
        session._closed = True
        return await all_events(session)

    (lag,) = run(main())
    assert lag.name == "send_lag"
    assert 40 < int(lag.detail.split()[3]) < 500


def test_on_a_free_network_a_frame_is_handed_over_without_a_turn_of_the_loop() -> None:
    async def main() -> tuple[int, list[bytes]]:
        clock, socket = RealClock(), StuckSocket()
        socket.flowing.set()
        session = WebSocketSession(socket, EchoWire(), clock, Redactor(()))  # type: ignore[arg-type]
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        await asyncio.sleep(0)
        before = turns
        for _ in range(10):
            await session.send(SILENCE)
        taken = turns - before
        counting.cancel()
        return taken, socket.sent

    turns, sent = run(main())
    assert turns == 0
    assert len(sent) == 10


@pytest.mark.parametrize("waiting", [1, 2])
def test_what_waits_goes_first(waiting: int) -> None:
    """A frame never overtakes one that waits in the session's queue or is being written."""
    async def main() -> list[Message]:
        clock, socket = RealClock(), StuckSocket()
        session = WebSocketSession(socket, EchoWire(), clock, Redactor(()))  # type: ignore[arg-type]
        session.start([])
        for frame in frames[:waiting]:
            await session.send(frame)
        socket.flowing.set()
        for frame in frames[waiting:]:
            await session.send(frame)
        await asyncio.sleep(0.05)
        for task in session._tasks:
            task.cancel()
        session._closed = True
        return socket.sent

    frames = [np.full(len(SILENCE), k / 8, np.float32) for k in range(4)]
    assert run(main()) == [m for f in frames for m in EchoWire().audio(f)]


def test_a_connection_that_broke_ends_the_session_at_the_next_frame() -> None:
    class Broken(StuckSocket):
        async def send(self, message: bytes) -> None:
            raise ConnectionClosedError(Close(1011, "gone"), None)

    async def main() -> list[AgentEvent]:
        clock, socket = RealClock(), Broken()
        socket.flowing.set()
        session = WebSocketSession(socket, EchoWire(), clock, Redactor(()))  # type: ignore[arg-type]
        with pytest.raises(InfrastructureError, match="server closed the connection: 1011 'gone'"):
            await session.send(SILENCE)
        with pytest.raises(InfrastructureError, match="1011"):
            await session.send(SILENCE)
        return await all_events(session)

    [fault] = run(main())
    assert isinstance(fault, Fault)


def test_virtual_time_is_refused() -> None:
    async def main() -> None:
        clock = RealClock()
        clock.kind = "virtual"
        async with open_session(Peer("ws://127.0.0.1:1/x"), EchoWire(), clock):
            pass

    with pytest.raises(InfrastructureError, match="cannot be reached in virtual time; expected "
                                                  "--clock real"):
        run(main())


def test_leaving_early_ends_the_connection() -> None:
    closed: list[int | None] = []

    async def server(socket: ServerConnection) -> None:
        await socket.send("go")
        await socket.wait_closed()
        closed.append(socket.close_code)

    async def main() -> None:
        async with peer(server) as p:
            with pytest.raises(RuntimeError, match="the test"):
                async with open_session(p, EchoWire(), RealClock()):
                    raise RuntimeError("the test")
            await asyncio.sleep(0.05)
            task = asyncio.create_task(hold(p))
            await asyncio.sleep(0.3)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert task.cancelled()

    async def hold(p: Peer) -> None:
        async with open_session(p, EchoWire(), RealClock()) as session:
            await all_events(session)

    run(main())
    assert closed == [1000, 1000]
