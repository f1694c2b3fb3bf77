"""The session: events in order, an end, and one interface on any clock."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Literal

import numpy as np
import pytest

from adapters import registry
from adapters.base import AgentEvent, AudioReceived, CaseHint, SessionConfig, StateChanged
from adapters.simulated import session as session_module
from adapters.simulated.session import SimulatedSession
from audio.buffers import Float32
from audio.errors import InfrastructureError, InputError

SILENCE: Float32 = np.zeros(480, dtype=np.float32)


class HandClock:
    """Moved by the test."""

    def __init__(self, kind: Literal["virtual", "real"] = "virtual") -> None:
        self.kind = kind
        self.t_ns = 0

    def now_ns(self) -> int:
        return self.t_ns

    async def sleep_until(self, t_ns: int) -> None:
        self.t_ns = max(self.t_ns, t_ns)
        await asyncio.sleep(0)


class Recorder:
    """An agent that says when it was called."""

    def __init__(self) -> None:
        self.cues: list[tuple[str, int]] = []

    def step(self, frame: Float32, t_ns: int) -> list[AgentEvent]:
        return [StateChanged(t_ns, "stepped", str(float(frame.sum())))]

    def cue(self, name: str, t_ns: int) -> None:
        self.cues.append((name, t_ns))


def config(**changes: Any) -> SessionConfig:
    return SessionConfig(**{"case_id": "R1-A-1-L2", "trial": 1, "system_prompt": "", "seed": 7,
                            **changes})


def run(main: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(main)


def test_send_steps_the_agent_now_and_events_come_in_order() -> None:
    async def main() -> list[AgentEvent]:
        clock = HandClock()
        session = SimulatedSession(Recorder(), clock)
        for k in range(3):
            clock.t_ns = 20_000_000 * k + 137
            await session.send(SILENCE + np.float32(k))
        session.close()
        return [e async for e in session.events()]

    assert run(main()) == [StateChanged(137, "stepped", "0.0"),
                           StateChanged(20_000_137, "stepped", "480.0"),
                           StateChanged(40_000_137, "stepped", "960.0")]


def test_a_waiting_reader_is_woken_and_ends_with_the_session() -> None:
    async def main() -> int:
        session = SimulatedSession(Recorder(), HandClock())

        async def read() -> int:
            return len([e async for e in session.events()])

        reader = asyncio.create_task(read())
        for _ in range(5):
            await session.send(SILENCE)
            await asyncio.sleep(0)
        session.close()
        session.close()
        return await asyncio.wait_for(reader, 1.0)

    assert run(main()) == 5


def test_cues_carry_the_time_of_the_clock() -> None:
    agent, clock = Recorder(), HandClock()
    session = SimulatedSession(agent, clock)
    clock.t_ns = 1234
    session.cue("turn2_start")
    session.close()
    session.cue("turn2_end")
    assert agent.cues == [("turn2_start", 1234)]


def test_a_frame_of_another_shape_is_refused() -> None:
    session = SimulatedSession(Recorder(), HandClock())
    with pytest.raises(ValueError, match=r"expected a frame of shape \(480,\), got \(320,\)"):
        run(session.send(np.zeros(320, dtype=np.float32)))


def test_sending_after_the_end_is_refused() -> None:
    session = SimulatedSession(Recorder(), HandClock())
    session.close()
    with pytest.raises(InfrastructureError, match="the session is closed"):
        run(session.send(SILENCE))


def test_events_that_nobody_reads_are_a_fault_and_not_a_leak(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_module, "MAX_PENDING", 3)

    async def main() -> None:
        session = SimulatedSession(Recorder(), HandClock())
        for _ in range(4):
            await session.send(SILENCE)

    with pytest.raises(InfrastructureError, match="4 events wait unread, expected at most 3"):
        run(main())


@pytest.mark.parametrize("name", registry.names()[:9])
def test_every_agent_runs_behind_the_session_and_closes(name: str) -> None:
    hint = CaseHint("TAKE_TURN", 2.0, 4.5, 8.0, None, barge_in=False)

    async def main() -> list[AgentEvent]:
        adapter = registry.create(name)
        clock = HandClock("real")
        async with adapter.session(config(hint=hint), clock) as session:
            for k in range(1, 200):
                clock.t_ns = 20_000_000 * k
                await session.send(SILENCE + np.float32(0.1) if k < 100 else SILENCE)
                if k == 100:
                    session.cue("turn1_end")
        with pytest.raises(InfrastructureError, match="closed"):
            await session.send(SILENCE)
        return [e async for e in session.events()]

    events = run(main())
    assert [e.t_ns for e in events] == sorted(e.t_ns for e in events)
    chunks = [e for e in events if isinstance(e, AudioReceived)]
    assert all(c.samples.shape == (480,) and c.samples.dtype == np.float32 for c in chunks)
    assert bool(chunks) is (name not in ("silent", "long_endpoint"))


@pytest.mark.parametrize("name", ["oracle", "inverse"])
def test_an_oracle_without_a_case_says_what_it_needs(name: str) -> None:
    async def main() -> None:
        async with registry.create(name).session(config(), HandClock()):
            pass

    with pytest.raises(InputError, match=f"adapter {name}: expected a case with an expected "
                                         "action and a window, got none"):
        run(main())
