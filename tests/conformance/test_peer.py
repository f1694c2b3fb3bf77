"""The known peer over a real socket: both ends of its protocol, its refusals, and its process."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed

from adapters import registry
from adapters.base import (
    PEER_FRAMES,
    AudioReceived,
    Fault,
    ResponseDone,
    ResponseStarted,
    SessionConfig,
    StateChanged,
    TextDelta,
)
from adapters.known_peer import launch, server
from adapters.known_peer.protocol import FRAMES_A_MESSAGE, VERSION, Behaviour, pack_audio
from adapters.known_peer.wire import PEER_TRUTH, KnownPeerWire
from audio.errors import InfrastructureError, InputError
from audio.vad import VadSettings
from rig.clock import SessionClock, loop_factory
from rig.live import LiveDetection
from rig.orchestrator import play
from rig.recorder import certificate
from rig.schedule import Bounds, Plan

MS = 1_000_000
QUICK = {"agent": "backchannel", "latency_s": "0.2", "backchannel_s": "0.3"}


def real(main: Callable[[], object]) -> object:
    with asyncio.Runner(loop_factory=loop_factory("real")) as runner:
        return runner.run(main())


def tone(seconds: float) -> np.ndarray:
    return (0.1 * np.ones(round(seconds * 24_000))).astype(np.float32)


async def meet(settings: dict[str, str], *, turn1_s: float = 0.4, live: bool = True):
    """One short session through the orchestrator, against the peer on this very loop."""
    plan = Plan(tone(turn1_s), np.zeros(0, np.float32), window_end_s=0.0)
    bounds = Bounds(turn1_reply_s=3.0, settle_s=0.0, tail_s=0.0, turn2_reply_s=0.0,
                    trailing_s=0.3)
    async with server.running() as port:
        adapter = registry.create("peer", {"url": f"ws://127.0.0.1:{port}", **settings})
        with LiveDetection() as detection:
            return await play(plan, adapter, SessionConfig("c", 1, "", 1), vad=VadSettings(),
                              bounds=bounds, live=detection if live else None)


def states(played, name):
    return [json.loads(e.detail) for e in played.events if getattr(e, "name", "") == name]


def test_a_session_is_recorded_with_its_truth_beside_it() -> None:
    played = real(lambda: meet(QUICK))
    kinds = [e.kind for e in played.events]
    assert kinds.index("response_started") < kinds.index("audio_received")
    assert kinds.index("audio_received") < kinds.index("response_done")
    assert "text" in kinds
    assert "fault" not in kinds
    [truth] = states(played, PEER_TRUTH)
    assert truth["kind"] == "backchannel"
    assert truth["length_ms"] >= 299
    # The truth is on the peer's clock, which is ours: handed over before it was received.
    arrived = next(e.t_ns for e in played.events if e.kind == "audio_received")
    handed = truth["origin_ns"] + truth["handed_ns"] - played.origin_ns
    assert arrived - handed >= 0
    assert truth["latency_ms"] >= 199
    assert len(played.wake_ns) == len(played.late_ns)
    assert all(w <= late for w, late in zip(played.wake_ns, played.late_ns, strict=True))
    assert played.ready_ns > 0


def test_the_peer_says_when_frames_reached_it() -> None:
    played = real(lambda: meet(QUICK))
    reports = states(played, PEER_FRAMES)
    assert reports[0]["first"] == 0
    assert all(len(r["received_ns"]) == FRAMES_A_MESSAGE for r in reports)
    timing = certificate(played, 24_000, None)
    assert timing.peer is not None
    assert timing.peer.frames_n == FRAMES_A_MESSAGE * len(reports)
    # No frame arrives before it was due; it was sent by then.
    received = [t - played.origin_ns for r in reports for t in r["received_ns"]]
    assert all(t >= (k + 1) * 20 * MS for k, t in enumerate(received))


def test_a_delay_is_unknown_to_the_peers_own_log() -> None:
    played = real(lambda: meet({**QUICK, "delay_ms": "400"}))
    [truth] = states(played, PEER_TRUTH)
    arrived = next(e.t_ns for e in played.events if e.kind == "audio_received")
    handed = truth["origin_ns"] + truth["handed_ns"] - played.origin_ns
    assert arrived - handed >= 400 * MS


def test_a_system_without_done_is_listened_to() -> None:
    played = real(lambda: meet({**QUICK, "report_done": "false", "agent": "reply",
                                "reply_s": "0.6"}))
    assert "turn1_no_reply" not in played.flags
    assert "turn1_overrun" not in played.flags
    assert played.detection_behind_ns is not None


def test_the_silent_agent_is_silent() -> None:
    played = real(lambda: meet({"agent": "silent"}))
    assert "turn1_no_reply" in played.flags
    assert not played.received
    assert states(played, PEER_TRUTH) == []


def test_virtual_time_is_refused() -> None:
    adapter = registry.create("peer", {"url": "ws://127.0.0.1:1"})

    async def main() -> None:
        async with adapter.session(SessionConfig("c", 1, "", 1), SessionClock()):
            pass

    with (asyncio.Runner(loop_factory=loop_factory("virtual")) as runner,
          pytest.raises(InfrastructureError, match="virtual time")):
        runner.run(main())


@pytest.mark.parametrize(("settings", "message"), [
    ({}, "expected the address of a running peer"),
    ({"url": "ws://example.com:80"}, "ws:// to this machine"),
    ({"url": "http://127.0.0.1:80"}, "expected wss://"),
    ({"url": "ws://127.0.0.1:1", "agent": "talker"}, "one of reply, hold"),
    ({"url": "ws://127.0.0.1:1", "latency_s": "0.001"}, "from 0.02 to 10"),
    ({"url": "ws://127.0.0.1:1", "delay_ms": "nan"}, "from 0 to 2000")])
def test_settings_are_checked(settings: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        registry.create("peer", settings)


# The peer's own refusals.


def opening(**changes: object) -> str:
    return json.dumps({"type": "open", "version": VERSION, "behaviour": Behaviour().as_dict(),
                       **changes})


@pytest.mark.parametrize("first", [
    "no JSON", "[]", "{}", '{"type": "other"}', "[" * 50_000, b"\xff\xfe", opening(version=2),
    opening(behaviour=None), opening(behaviour={"latency_s": -1}), opening(behaviour={"x": 1})])
def test_an_opening_that_is_none_is_refused(first: str | bytes) -> None:
    async def main() -> int:
        async with server.running() as port, connect(f"ws://127.0.0.1:{port}") as socket:
            await socket.send(first)
            with pytest.raises(ConnectionClosed) as closed:
                await socket.recv()
            return closed.value.rcvd.code

    assert real(main) == 1008


def test_who_says_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "OPEN_S", 0.05)

    async def main() -> int:
        async with server.running() as port, connect(f"ws://127.0.0.1:{port}") as socket:
            with pytest.raises(ConnectionClosed) as closed:
                await socket.recv()
            return closed.value.rcvd.code

    assert real(main) == 1008


@pytest.mark.parametrize("audio", ["text", b"", bytes(959), bytes(961)])
def test_user_audio_that_is_none_ends_the_session(audio: str | bytes) -> None:
    async def main() -> int:
        async with server.running() as port, connect(f"ws://127.0.0.1:{port}") as socket:
            await socket.send(opening())
            assert json.loads(await socket.recv())["type"] == "ready"
            await socket.send(audio)
            with pytest.raises(ConnectionClosed) as closed:
                await asyncio.wait_for(_to_the_end(socket), 20)
            return closed.value.rcvd.code

    assert real(main) == 1007


async def _to_the_end(socket) -> None:
    while True:
        await socket.recv()


# What the adapter makes of a peer that errs.


def received(*messages: str | bytes) -> list[object]:
    wire = KnownPeerWire(Behaviour())
    return [e for m in messages
            for e in wire.receive(m.encode() if isinstance(m, str) else m, 5).events]


def test_what_the_wire_understands() -> None:
    samples = np.array([0.5, -0.25], np.float32)
    got = received('{"type":"response_started","id":"r1"}', pack_audio(1, samples),
                   '{"type":"text","id":"r1","text":"Hi "}',
                   '{"type":"response_done","id":"r1","status":"cancelled"}',
                   '{"type":"truth","kind":"reply"}', '{"type":"frames","first":0}')
    assert got[0] == ResponseStarted(5, "r1")
    assert isinstance(got[1], AudioReceived)
    assert np.array_equal(got[1].samples, samples)
    assert (got[1].t_ns, got[1].response_id) == (5, "r1")
    assert got[2:] == [TextDelta(5, "Hi ", "r1"), ResponseDone(5, "r1", "cancelled"),
                       StateChanged(5, PEER_TRUTH, '{"kind":"reply"}'),
                       StateChanged(5, PEER_FRAMES, '{"first":0}')]


@pytest.mark.parametrize("message", [b"", b"\xff", "no JSON", "[]", b"\x01\x01", "[" * 50_000,
                                     b"\x01\x00\x00\x00\x00\x00\x00"])
def test_what_it_does_not_is_trouble_and_no_end(message: str | bytes) -> None:
    [event] = received(message)
    assert isinstance(event, Fault)
    assert event.severity == "transparent"


@pytest.mark.parametrize("message", [
    "{}", '{"type":"other"}', '{"type":null}', '{"type":"response_started"}',
    '{"type":"response_done","id":5}', '{"type":"text","id":"r1","text":7}'])
def test_unknown_messages_are_kept_in_the_log(message: str) -> None:
    [event] = received(message)
    assert isinstance(event, StateChanged)
    assert event.name == "unknown_message"


def test_a_peer_of_another_version_is_no_peer() -> None:
    async def answer(socket) -> None:
        await socket.recv()
        await socket.send('{"type":"ready","version":99}')
        await socket.wait_closed()

    async def main() -> None:
        async with serve(answer, "127.0.0.1", 0) as other:
            port = next(iter(other.sockets)).getsockname()[1]
            adapter = registry.create("peer", {"url": f"ws://127.0.0.1:{port}"})
            async with adapter.session(SessionConfig("c", 1, "", 1), SessionClock()):
                pass

    with pytest.raises(InfrastructureError, match="expected version 1 of the peer, got 99"):
        real(main)


# Its process.


def test_the_process_says_its_address_and_ends_with_its_starter() -> None:
    process = subprocess.Popen([sys.executable, "-m", "adapters.known_peer", "--until-eof"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        said = json.loads(process.stdout.readline())
        assert said["url"] == f"ws://127.0.0.1:{said['port']}"
        assert process.poll() is None
        process.stdin.close()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_peer_that_does_not_start_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "sys", type("S", (), {"executable": "/bin/echo",
                                                       "platform": sys.platform}))
    with pytest.raises(InfrastructureError, match="known peer: expected its address"), \
            launch.started():
        pass
