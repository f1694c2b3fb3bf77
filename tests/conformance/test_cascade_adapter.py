"""The cascade as a system under test: a child process a session, which never outlives it."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import cascade_testkit as kit
import pytest
from rig_testkit import heed_interrupts
from websockets.sync.client import connect

from adapters import registry
from adapters.base import AgentEvent, Fault, ResponseDone, SessionConfig, StateChanged, TextDelta
from adapters.cascade import adapter as module
from adapters.cascade.adapter import running_server
from audio.buffers import pcm16_to_float
from audio.errors import InfrastructureError
from rig.clock import SessionClock, loop_factory
from verifiers.readback_text import matched, tokens

LIMIT_S = 60.0
CONFIG = SessionConfig(case_id="case", trial=0, system_prompt="Read numbers back.", seed=0)


def child(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    monkeypatch.setattr(module, "COMMAND", (sys.executable, "-c", script))


def start(timeout_s: float = LIMIT_S) -> str:
    """Start the server and end it; what it gave as its address."""

    async def main() -> str:
        async with running_server(4.0, timeout_s) as base_url:
            return base_url

    return asyncio.run(main())


# --- a session


def test_a_session_hears_the_prompt_and_the_user() -> None:
    async def main() -> list[AgentEvent]:
        adapter = registry.create("cascade", {"pace": "0", "start_timeout_s": "120"})
        clock = SessionClock()
        events: list[AgentEvent] = []
        async with adapter.session(CONFIG, clock) as session, asyncio.timeout(LIMIT_S):
            clock.start()

            async def speak() -> None:
                # Five times faster than real time: timed on audio, it is the same turn.
                for frame in kit.frames(kit.utterance("Two tablets, four one five."), 480):
                    await session.send(pcm16_to_float(_whole(frame)))
                    await asyncio.sleep(0.004)

            speaker = asyncio.create_task(speak())
            async for event in session.events():
                events.append(event)
                if isinstance(event, ResponseDone):
                    break
            await speaker
        return events

    events = asyncio.run(main())
    assert [e.reason for e in events if isinstance(e, Fault)] == []
    assert "input_audio_buffer.speech_stopped" in {
        e.name for e in events if isinstance(e, StateChanged)}
    said = "".join(e.text for e in events if isinstance(e, TextDelta))
    assert said.startswith("Let me read that back")
    assert matched(tokens("two tablets four one five"), tokens(said)) == 5
    assert [e.status for e in events if isinstance(e, ResponseDone)] == ["completed"]


def _whole(frame):
    out = kit.silence(0.02)
    out[:len(frame)] = frame
    return out


def test_what_it_declares() -> None:
    adapter = registry.create("cascade")
    assert adapter.capabilities.realtime_only
    assert not adapter.capabilities.full_duplex
    assert "pocketsphinx" in adapter.version
    assert adapter.settings["vad_silence_duration_ms"] == 500


def test_virtual_time_is_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    child(monkeypatch, "raise SystemExit('it was started')")

    async def main() -> None:
        async with registry.create("cascade").session(CONFIG, SessionClock()):
            pytest.fail("it was opened")

    with (asyncio.Runner(loop_factory=loop_factory("virtual")) as runner,
          pytest.raises(InfrastructureError, match="expected --clock real")):
        runner.run(main())


# --- starting


@pytest.mark.parametrize(("script", "message"), [
    ("import no_such_module", "ended with code 1 before .* No module named 'no_such_module'"),
    ("pass", "ended with code 0 before it was ready: it said nothing"),
    ("print('{\"error\": \"no models\"}')", "cascade: no models"),
    ("print('hello')", "expected an address, got b'hello"),
])
def test_a_child_that_does_not_start_is_an_infrastructure_error(
    monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    child(monkeypatch, script)
    with pytest.raises(InfrastructureError, match=message):
        start()


def test_a_child_that_is_never_ready_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    child(monkeypatch, "import sys; sys.stdin.read()")
    with pytest.raises(InfrastructureError, match=r"not ready within 0\.3 s"):
        start(0.3)


def test_a_child_that_talks_a_lot_does_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    child(monkeypatch, "import sys; sys.stderr.write('x' * 2_000_000); "
                       "print('{\"base_url\": \"ws://x\"}', flush=True); sys.stdin.read()")
    assert start() == "ws://x"


# --- ending


def test_a_child_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    child(monkeypatch, "import time; print('{\"base_url\": \"ws://x\"}', flush=True); "
                       "time.sleep(3600)")
    monkeypatch.setattr(module, "CLOSE_S", 0.2)
    assert start() == "ws://x"


_ORPHAN = """
import asyncio, json, os, sys
from adapters.cascade import adapter

async def main():
    async with adapter.running_server(4.0, 120.0) as base_url:
        print(base_url, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="processes are watched by Linux pidfds")
def test_server_and_brain_end_when_the_rig_is_killed() -> None:
    rig = subprocess.Popen([sys.executable, "-c", _ORPHAN], stdout=subprocess.PIPE)
    assert rig.stdout is not None
    try:
        assert rig.stdout.readline().startswith(b"ws://")
        family = _descendants(rig.pid)
        assert len(family) == 2
        watched = [os.pidfd_open(pid) for pid in family]
    finally:
        rig.kill()
        rig.wait()
        rig.stdout.close()
    for descriptor in watched:
        ended, _, _ = select.select([descriptor], [], [], LIMIT_S)
        os.close(descriptor)
        assert ended, "a child lives on"


def _descendants(pid: int) -> list[int]:
    children = [int(child) for task in Path(f"/proc/{pid}/task").iterdir()
                for child in (task / "children").read_text().split()]
    return children + [d for child in children for d in _descendants(child)]


# --- for people


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is sent as a signal")
def test_rig_cascade_serves_until_it_is_interrupted() -> None:
    served = subprocess.Popen([sys.executable, "-m", "rig.cli", "cascade", "--port", "0", "--json"],
                              stdout=subprocess.PIPE, preexec_fn=heed_interrupts)
    assert served.stdout is not None
    try:
        text = ""
        while "}" not in text:
            text += served.stdout.readline().decode()
        with connect(json.loads(text)["url"], proxy=None) as socket:
            assert json.loads(socket.recv(LIMIT_S))["type"] == "session.created"
        served.send_signal(signal.SIGINT)
        assert served.wait(LIMIT_S) == 0
    finally:
        served.kill()
        served.wait()
        served.stdout.close()
