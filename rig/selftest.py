"""Does the instrument recover the truth? Agents of known behaviour through the real path.

The agents live in a process of their own (`adapters.known_peer`) and log on their own clock when
the user's sound reached them and when they handed their own to the socket. Sessions are played by
the same orchestrator, over a real socket, in real time, and recorded to the same files as any
session; three measurements of each quantity are compared with the peer's truth:

- by arrival: the stamp of the chunk that holds the first (last) sound, and its place inside it,
  under `hold`;
- by energy: the first (last) millisecond of the recorded track above `ENERGY_DB`;
- by VAD: spans of the recorded track as scoring finds them.

Quantities: `reply` (user's last sound to model's first), `yield` (first sound of a barge-in to
model's last), `backchannel` (length of what was said). User times are those of construction.
A delay of known size, put into the peer's way out or into the rig's own path of arrival, must be
seen as what it is: otherwise a result without error would prove nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from adapters.base import Adapter, AgentEvent, Capabilities, Clock, Session, SessionConfig
from adapters.known_peer.adapter import PEER
from adapters.simulated import voice
from audio.buffers import Float32, float_to_pcm16, pcm16_to_float
from audio.errors import InfrastructureError
from audio.timebase import NS_PER_MS, SESSION_RATE_HZ
from audio.vad import VadSettings
from rig.clock import loop_factory, punctual
from rig.live import LiveDetection
from rig.orchestrator import Played, play
from rig.recorder import certificate
from rig.schedule import Bounds, Plan
from rig.selftest_readings import Meeting, Scenario, measure, session_window_ns

MAX_VOID_RERUNS = 2


def scenarios(delay_ms: float) -> tuple[Scenario, ...]:
    """Three latencies, a yield, a backchannel, and the middle latency with a delay put in."""
    def reply(latency: str) -> Scenario:
        return Scenario(f"reply {latency} s", "reply",
                        {"agent": "reply", "latency_s": latency, "reply_s": "0.9"})

    middle = reply("0.7")
    return (
        reply("0.2"), middle, reply("1.5"),
        Scenario("yield 0.2 s", "yield", {"agent": "hold", "latency_s": "0.4", "yield_s": "0.2",
                                          "reply_s": "0.6"}),
        Scenario("backchannel 0.32 s", "backchannel",
                 {"agent": "backchannel", "latency_s": "0.3", "backchannel_s": "0.32"}),
        replace(middle, name=f"reply 0.7 s, peer +{delay_ms:g} ms", injected="peer",
                delay_ms=delay_ms),
        replace(middle, name=f"reply 0.7 s, rig +{delay_ms:g} ms", injected="rig",
                delay_ms=delay_ms),
    )


class DelayedArrivals:
    """An adapter whose events the rig sees `delay_ns` late: a declared fault of its own path."""

    def __init__(self, adapter: Adapter, delay_ns: int) -> None:
        self._adapter = adapter
        self._delay_ns = delay_ns

    @property
    def name(self) -> str:
        return self._adapter.name

    @property
    def version(self) -> str:
        return self._adapter.version

    @property
    def capabilities(self) -> Capabilities:
        return self._adapter.capabilities

    @property
    def settings(self) -> dict[str, Any]:
        return self._adapter.settings

    def session(self, config: SessionConfig, clock: Clock) -> AbstractAsyncContextManager[Session]:
        return self._open(config, clock)

    @asynccontextmanager
    async def _open(self, config: SessionConfig, clock: Clock) -> AsyncIterator[Session]:
        async with self._adapter.session(config, clock) as session:
            yield _DelayedSession(session, clock, self._delay_ns)


class _DelayedSession:
    def __init__(self, session: Session, clock: Clock, delay_ns: int) -> None:
        self._session = session
        self._clock = clock
        self._delay_ns = delay_ns

    async def send(self, frame: Float32) -> None:
        await self._session.send(frame)

    async def events(self) -> AsyncIterator[AgentEvent]:
        async for event in self._session.events():
            seen_ns = event.t_ns + self._delay_ns
            await self._clock.sleep_until(seen_ns)
            yield replace(event, t_ns=seen_ns)

    def cue(self, name: str) -> None:
        self._session.cue(name)


def user_turn(length_s: float, first_sentence: int) -> Float32:
    """Speech of the user whose first and last samples are not zero, in PCM16 steps."""
    samples = pcm16_to_float(float_to_pcm16(voice.talk(length_s, first_sentence).samples))
    sound = np.flatnonzero(samples)
    return samples[int(sound[0]) : int(sound[-1]) + 1]


def plan(scenario: Scenario) -> Plan:
    """Two turns, the second one into the model's speech where it must yield."""
    turn2 = user_turn(1.3, 4)
    return Plan(turn1=user_turn(1.1, 3), turn2=turn2,
                window_end_s=len(turn2) / SESSION_RATE_HZ,
                barge_in_after_s=1.0 if scenario.quantity == "yield" else None)


def system(scenario: Scenario, url: str) -> Adapter:
    """The peer as this scenario wants it."""
    settings = {**scenario.settings, "url": url}
    if scenario.injected == "peer":
        settings["delay_ms"] = f"{scenario.delay_ms:g}"
    adapter = PEER.build(PEER.effective(settings))
    if scenario.injected == "rig":
        return DelayedArrivals(adapter, round(scenario.delay_ms * NS_PER_MS))
    return adapter


_Outcome = tuple[Scenario, Played | None, str | None]


def run(
    url: str, chosen: Sequence[Scenario], rounds: int, folder: Path, *, keep_void: bool = False,
    on_played: Callable[[Scenario], None] | None = None,
) -> list[Meeting]:
    """Play every scenario `rounds` times, all scenarios of a round side by side, and measure.

    The result is in the order of `chosen`, round by round, whichever session ended first.

    A session over its timing budget is played again, at most twice, and then counts for nothing
    (unless `keep_void`).
    """
    async def one(scenario: Scenario, number: int, live: LiveDetection) -> _Outcome:
        outcome = await meet(scenario, number, live)
        if on_played is not None:
            on_played(scenario)
        return outcome

    async def meet(scenario: Scenario, number: int, live: LiveDetection) -> _Outcome:
        config = SessionConfig(scenario.name, number, "", seed=number)
        adapter = system(scenario, url)
        for attempt in range(1 + MAX_VOID_RERUNS):
            try:
                found = await play(plan(scenario), adapter, config, vad=VadSettings(), live=live,
                                   bounds=Bounds(trailing_s=1.2))
            except InfrastructureError as error:
                return scenario, None, str(error)
            timing = certificate(found, SESSION_RATE_HZ, session_window_ns(found))
            if not timing.void or keep_void or attempt == MAX_VOID_RERUNS:
                break
        return scenario, found, None

    outcomes: list[_Outcome] = []

    async def all_rounds() -> None:
        # Nothing is returned: asyncio.Runner writes a result out as text, which takes seconds.
        with LiveDetection() as live:
            for number in range(1, rounds + 1):
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(one(scenario, number, live)) for scenario in chosen]
                outcomes.extend(task.result() for task in tasks)

    plan(chosen[0])  # synthesised before anything runs on the clock
    with punctual(), asyncio.Runner(loop_factory=loop_factory("real")) as runner:
        runner.run(all_rounds())
    tested: list[Meeting] = []
    for number, (scenario, found, problem) in enumerate(outcomes):
        result = (Meeting(scenario, (), None, problem) if found is None
                  else measure(scenario, found, folder / f"{number}.wav", keep_void=keep_void))
        tested.append(result)
    return tested
