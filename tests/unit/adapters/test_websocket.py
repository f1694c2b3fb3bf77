"""The driver alone: stamps, bounds, ends. What a whole session does is in tests/conformance."""

from __future__ import annotations

import asyncio
import re
import socket as sockets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import rig_testkit as testkit
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK
from websockets.frames import Close
from websockets.http11 import Response

from adapters import websocket
from adapters.base import AgentEvent, Fault, StateChanged
from adapters.peer import Peer, Redactor
from adapters.websocket import WebSocketSession, open_session
from adapters.websocket_closing import CLOSE_S
from adapters.websocket_opening import ConnectionRefusedByPeerError
from adapters.wire.base import CloseCause, Message, Output
from audio.buffers import Float32
from audio.errors import InfrastructureError

SILENCE: Float32 = np.zeros(480, dtype=np.float32)
KEY = "sk-test-0123456789abcdef"


class RealClock:
    kind: Literal["virtual", "real"] = "real"

    def __init__(self) -> None:
        self._origin_ns = time.perf_counter_ns()

    def now_ns(self) -> int:
        return time.perf_counter_ns() - self._origin_ns

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


def test_the_end_of_a_session_is_final() -> None:
    async def server(socket: ServerConnection) -> None:
        await socket.send("go")
        await socket.wait_closed()

    async def main() -> list[AgentEvent]:
        async with peer(server) as p:
            async with open_session(p, EchoWire(), RealClock()) as session:
                pass
            with pytest.raises(InfrastructureError, match="send: the session is closed"):
                await session.send(SILENCE)
            return await all_events(session)

    assert [e.name for e in run(main())] == ["go"]


def test_a_peer_that_never_answers_the_close_is_dropped_in_time() -> None:
    async def server(socket: ServerConnection) -> None:
        await socket.send("go")
        socket.transport.pause_reading()
        await socket.wait_closed()

    async def main() -> float:
        clock = RealClock()
        async with peer(server) as p:
            async with open_session(p, EchoWire(), clock):
                await asyncio.sleep(0.1)
                before = clock.now_ns()
            return (clock.now_ns() - before) / 1e9

    def once() -> float:
        took_s: float = run(main())
        assert took_s > CLOSE_S - 0.1
        return took_s

    assert testkit.least(once, CLOSE_S + 1.0) < CLOSE_S + 1.0


class LingeringEcho(EchoWire):
    """Reads on after its last words until the peer has said `over`."""

    linger_s = 2 * HANGS_S
    """Whoever waits to its end does not pass."""
    over = False

    def receive(self, data: bytes, t_ns: int) -> Output:
        self.over = self.over or data == b"over"
        return super().receive(data, t_ns)


@pytest.mark.parametrize("said", ["after the close", "before it", "never"])
def test_a_wire_that_lingers_reads_on_until_the_peer_is_done(said: str) -> None:
    heard: list[str | bytes] = []
    codes: list[int | None] = []

    async def server(socket: ServerConnection) -> None:
        await socket.send("go")
        if said == "before it":
            await socket.send("over")
        async for message in socket:
            heard.append(message)
            if message == "bye" and said == "after the close":
                await socket.send("one more")
                await asyncio.sleep(0.2)
                await socket.send("over")
        codes.append(socket.close_code)

    async def main() -> tuple[float, bool]:
        clock, wire = RealClock(), LingeringEcho()
        if said == "never":
            wire.linger_s = 1.0
        async with peer(server) as p:
            async with open_session(p, wire, clock):
                await asyncio.sleep(0.1)
                before = clock.now_ns()
            took_s = (clock.now_ns() - before) / 1e9
            await asyncio.sleep(0.05)
        return took_s, wire.over

    took_s, over = run(main())
    assert heard == ["hello", "bye"]
    assert codes == [1000]
    assert over == (said != "never")
    assert took_s > {"after the close": 0.15, "before it": 0.0, "never": 0.9}[said]


def test_nothing_is_waited_for_when_the_session_has_failed() -> None:
    async def server(socket: ServerConnection) -> None:
        await socket.recv()
        await socket.send("go")
        await socket.close(1011)

    async def main() -> None:
        async with peer(server) as p, open_session(p, LingeringEcho(), RealClock()) as session:
            await all_events(session)

    run(main())


class ExplainingEcho(EchoWire):
    """Knows a close by what was said last before it."""

    last = ""

    def receive(self, data: bytes, t_ns: int) -> Output:
        self.last = data.decode()
        return super().receive(data, t_ns)

    def closed(self, code: int, reason: str) -> CloseCause | None:
        return CloseCause(f"{code} after {self.last} {KEY}", True) if self.last != "go" else None


@pytest.mark.parametrize(("said", "told"), [
    ("goodbye", "the server closed the connection: 1011 'gone' (1011 after goodbye [redacted])"),
    (None, "the server closed the connection: 1011 'gone' (an error inside the server)"),
    ("abort", "the connection broke off without a close (1006) (1006 after abort [redacted])")])
@pytest.mark.parametrize("sending", [False, True])
def test_a_close_is_explained_by_the_wire_and_by_what_came_just_before(
    said: str | None, told: str, sending: bool,
) -> None:
    async def server(socket: ServerConnection) -> None:
        await socket.recv()
        await socket.send("go")
        if said:
            await socket.send(said)
        if said == "abort":
            await asyncio.sleep(0.05)
            socket.transport.abort()
        else:
            await socket.close(1011, "gone")

    async def main() -> list[AgentEvent]:
        async def talk(session: WebSocketSession) -> None:
            for _ in range(100):
                await session.send(SILENCE)
                await asyncio.sleep(0.02)

        async with peer(server) as p, open_session(p, ExplainingEcho(), RealClock()) as session:
            if sending:  # nobody reads, and a frame meets the closed connection
                with pytest.raises(InfrastructureError, match=re.escape(told)):
                    await talk(session)
            return await all_events(session)

    events = run(main())
    assert [e.name for e in events[:-1] if isinstance(e, StateChanged)] == [
        "go", *([said] if said else [])]
    assert [e.reason for e in events if isinstance(e, Fault)] == [told]


class Ended(StuckSocket):
    """A peer that has said `bad` between two other words, and has closed with 1000."""

    def __init__(self) -> None:
        super().__init__()
        self.flowing.set()
        self.said = [b"one", b"bad", b"two"]

    async def recv(self, decode: bool) -> bytes:
        if self.said:
            return self.said.pop(0)
        raise ConnectionClosedOK(Close(1000, ""), Close(1000, ""), True)

    async def send(self, message: Message) -> None:
        raise ConnectionClosedOK(Close(1000, ""), Close(1000, ""), True)


class Lasting(EchoWire):
    """Its trouble is there to stay, and asks for patience."""

    def receive(self, data: bytes, t_ns: int) -> Output:
        events, messages = (output := super().receive(data, t_ns)).events, output.messages
        return Output(tuple(replace(e, hopeless=True, throttled=True, retry_after_s=7.0)
                            if isinstance(e, Fault) else e for e in events), messages)


@pytest.mark.parametrize("first", ["the frame", "the socket", "the events"])
def test_trouble_that_was_told_wins_over_the_close_in_whatever_order_tasks_run(first: str) -> None:
    """No time passes: the order of turns is that of the test."""
    async def main() -> tuple[InfrastructureError, list[AgentEvent]]:
        session = WebSocketSession(Ended(), Lasting(), RealClock(),  # type: ignore[arg-type]
                                   Redactor((KEY,)))
        session.start([])
        seen: list[AgentEvent] = []
        if first == "the socket":  # all is taken off it, and nobody has read it
            await session._tasks[0]
        elif first == "the events":  # the fault is told before the close is met
            reading = session.events()
            while not any(isinstance(e, Fault) for e in seen):
                seen.append(await anext(reading))
        with pytest.raises(InfrastructureError) as caught:
            await session.send(SILENCE)
        seen += await all_events(session)
        for task in session._tasks:
            task.cancel()
        return caught.value, seen

    error, seen = run(main())
    assert str(error) == "bad [redacted]"
    assert (error.hopeless, error.throttled, error.retry_after_s) == (True, True, 7.0)
    assert [e.reason if isinstance(e, Fault) else e.name for e in seen] == [
        "one", "bad [redacted]", "two"]


def test_a_close_at_the_gate_may_be_hopeless() -> None:
    async def server(socket: ServerConnection) -> None:
        await socket.send("no")
        await socket.close(1008)

    async def main() -> InfrastructureError:
        async with peer(server) as p:
            with pytest.raises(InfrastructureError, match=r"1008 \(1008 after no \[redacted\]"
                               ) as refused:
                async with open_session(p, ExplainingEcho(), RealClock()):
                    raise AssertionError("not ready")
            return refused.value

    assert run(main()).hopeless


def test_the_gate_says_why_it_stayed_shut_and_shows_no_key() -> None:
    async def mute(socket: ServerConnection) -> None:
        await socket.wait_closed()

    async def bad(socket: ServerConnection) -> None:
        await socket.send("bad")
        await socket.wait_closed()

    async def main(handler: Handler) -> None:
        async with peer(handler) as p, open_session(p, EchoWire(), RealClock()):
            raise AssertionError("never ready")

    with pytest.raises(InfrastructureError, match=r"connected, but not ready within 1 s$"):
        run(main(mute))
    with pytest.raises(InfrastructureError, match=r"/x: not ready: bad \[redacted\]$"):
        run(main(bad))


def test_an_http_answer_is_an_error_of_its_own_with_the_time_to_wait() -> None:
    async def never(socket: ServerConnection) -> None:
        raise AssertionError("no handshake")

    answers = iter(("7", "Wed, 21 Oct 2026 07:28:00 GMT", "-1", "12345678"))

    def refuse(connection: ServerConnection, request: Any) -> Response:
        headers = {"Retry-After": next(answers), "Content-Length": "200", "Connection": "close"}
        body = (f"{request.headers['Authorization']} \x1b[2J" + "x" * 200)[:200].encode()
        return Response(429, "Too Many Requests", Headers(headers), body)

    async def main() -> None:
        async with (peer(never, process_request=refuse) as p,
                    open_session(p, EchoWire(), RealClock())):
            pass

    for seconds in (7.0, None, None, 12_345_678.0):
        with pytest.raises(ConnectionRefusedByPeerError) as caught:
            run(main())
        assert (caught.value.status, caught.value.retry_after_s) == (429, seconds)
        assert KEY not in str(caught.value)
        assert "\x1b" not in str(caught.value)
        assert caught.value.__cause__ is None


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
