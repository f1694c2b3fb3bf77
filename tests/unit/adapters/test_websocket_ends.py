"""The driver alone: how a session ends, and what is said of it."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import Any

import pytest
import rig_testkit as testkit
from websocket_kit import (
    HANGS_S,
    KEY,
    SILENCE,
    EchoWire,
    Handler,
    RealClock,
    StuckSocket,
    all_events,
    peer,
    run,
)
from websockets.asyncio.server import ServerConnection
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosedOK
from websockets.frames import Close
from websockets.http11 import Response

from adapters.base import AgentEvent, Fault, StateChanged
from adapters.peer import Redactor
from adapters.websocket import WebSocketSession, open_session
from adapters.websocket_closing import CLOSE_S
from adapters.websocket_opening import ConnectionRefusedByPeerError
from adapters.wire.base import CloseCause, Message, Output
from audio.errors import InfrastructureError


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
