"""Drives an agent alone, frame by frame: no rig, no clock, no loop. And loads workers' scripts."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import cascade_testkit
import numpy as np
import pytest

from adapters.base import AgentEvent, AudioReceived, ResponseDone, ResponseStarted, TextDelta
from adapters.simulated.agent import FRAME_N, Agent
from audio.buffers import Float32
from audio.timebase import FRAME_NS, ns_to_n, s_to_ns

RATE_HZ = 24_000
WORKERS = Path(__file__).parents[3] / "adapters" / "workers"


@dataclass(frozen=True, slots=True)
class Heard:
    """What came of it: the events, and the agent's audio as it is heard."""

    events: list[AgentEvent]
    track: Float32

    @property
    def sounds_s(self) -> list[tuple[float, float]]:
        """Stretches of audio, from non-zero samples less than 0.2 s apart, exact to the sample."""
        at = np.flatnonzero(self.track)
        if not at.size:
            return []
        breaks = np.flatnonzero(np.diff(at) > 0.2 * RATE_HZ)
        starts = np.concatenate([at[:1], at[breaks + 1]])
        ends = np.concatenate([at[breaks], at[-1:]]) + 1
        return [(int(a) / RATE_HZ, int(b) / RATE_HZ) for a, b in zip(starts, ends, strict=True)]

    @property
    def text(self) -> str:
        return "".join(e.text for e in self.events if isinstance(e, TextDelta)).strip()

    @property
    def responses(self) -> list[tuple[str, str]]:
        """(id, status), the last one open if it is not done."""
        done = {e.response_id: e.status for e in self.events if isinstance(e, ResponseDone)}
        return [(e.response_id, done.get(e.response_id, "open")) for e in self.events
                if isinstance(e, ResponseStarted)]


@pytest.fixture
def drive() -> Callable[..., Heard]:
    def play(agent: Agent, user: Float32, cues: dict[str, float] | None = None) -> Heard:
        """`cues`: name to second; each is given at the tick before its moment, as the rig does."""
        waiting = {name: s_to_ns(at_s) for name, at_s in (cues or {}).items()}
        frames = len(user) // FRAME_N
        track = np.zeros(frames * FRAME_N + FRAME_N, dtype=np.float32)
        events: list[AgentEvent] = []
        free_n = 0
        for k in range(frames + 1):
            t_ns = k * FRAME_NS
            if k:
                for event in agent.step(user[(k - 1) * FRAME_N : k * FRAME_N], t_ns):
                    events.append(event)
                    if isinstance(event, AudioReceived):
                        free_n = max(free_n, ns_to_n(event.t_ns, RATE_HZ))
                        kept = track[free_n : free_n + len(event.samples)]
                        kept[:] = event.samples[: len(kept)]
                        free_n += len(event.samples)
            for name in [n for n, at in waiting.items() if at < t_ns + FRAME_NS]:
                del waiting[name]
                agent.cue(name, t_ns)
        return Heard(events, track)

    return play


@pytest.fixture
def speech() -> Callable[..., Float32]:
    def make(total_s: float, *stretches_s: tuple[float, float]) -> Float32:
        """User audio: noise in the given stretches, exact zeros elsewhere."""
        rng = np.random.default_rng(5)
        user = np.zeros(round(total_s * RATE_HZ), dtype=np.float32)
        for start_s, end_s in stretches_s:
            a, b = round(start_s * RATE_HZ), round(end_s * RATE_HZ)
            noise = rng.uniform(0.05, 0.3, b - a) * rng.choice([-1.0, 1.0], b - a)
            user[a:b] = noise.astype(np.float32)
        return user

    return make


@pytest.fixture
def worker_script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """A worker's script as a module, found as it finds its own kit."""
    monkeypatch.syspath_prepend(str(WORKERS))

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(name, WORKERS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield load
    for name in [n for n in sys.modules if n.split(".")[0] == "worker_kit"]:
        del sys.modules[name]


@pytest.fixture
def client() -> cascade_testkit.Client:
    """A client of the cascade; its brain answers at once."""
    made = cascade_testkit.Client()
    made.forget()
    return made


@pytest.fixture
def patient() -> cascade_testkit.Client:
    """The brain answers only when it is told to."""
    made = cascade_testkit.Client(automatic=False)
    made.forget()
    return made
