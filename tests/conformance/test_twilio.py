"""A call on the real clock: what the agent is told of it, and when its marks come back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import stalls
from agent_server import AgentScenario, AgentServer, TwilioAgent
from faults_twilio import BOUNDS, make
from session_harness import KEY

from adapters import registry
from adapters.base import SessionConfig
from adapters.wire.twilio import Sids
from audio.resample import resample
from audio.vad import VadSettings
from rig.clock import loop_factory, punctual
from rig.orchestrator import Played, play
from rig.record import FaultEvent, InterruptedEvent, StateEvent
from rig.schedule import Plan
from rig.selftest import user_turn

MS = 1_000_000
SCENARIOS: dict[str, tuple[AgentScenario, float | None]] = {
    # and how long after the onset of the reply the user interrupts it
    "calm": (make(replies_s=(1.2, 0.8), pace_s=0.0), None),
    "barge_in": (make(replies_s=(6.0, 0.8), pace_s=0.0), 1.0),
}


@dataclass
class Call:
    played: Played
    agent: TwilioAgent

    @property
    def late_ns(self) -> int:
        """How late this process was, at worst."""
        return max(self.played.wake_ns)

    def marks(self) -> list[tuple[str, int]]:
        """Name, and nanoseconds from its being sent to its coming back, by the agent's clock."""
        return [(name, back_ns - sent_ns) for (name, sent_ns), (_, back_ns)
                in zip(self.agent.marks_sent, self.agent.marks_back, strict=True)]


async def call(name: str, server: AgentServer) -> Call:
    _, barge_in_after_s = SCENARIOS[name]
    adapter = registry.create("twilio", {
        "url": server.url_of(name), "custom_parameters": '{"tenant": "señal"}',
        "prompt_parameter": "prompt"})
    plan = Plan(turn1=user_turn(0.9, 3), turn2=user_turn(0.9, 4), window_end_s=1.0,
                barge_in_after_s=barge_in_after_s)
    config = SessionConfig("R1-A-1-L2", 1, "Be brief.", 1, adapter.settings)
    for _ in range(stalls.TRIES):
        played = await play(plan, adapter, config, vad=VadSettings(), bounds=BOUNDS)
        if not stalls.void(played):
            break
    agent = server.conversations[name][-1]
    assert isinstance(agent, TwilioAgent)
    return Call(played, agent)


@pytest.fixture(scope="module")
def calls() -> Iterator[dict[str, Call]]:
    async def main() -> dict[str, Call]:
        async with AgentServer({n: s for n, (s, _) in SCENARIOS.items()}, TwilioAgent
                               ).running() as server:
            made = await asyncio.gather(*(call(name, server) for name in SCENARIOS))
            return dict(zip(SCENARIOS, made, strict=True))

    with pytest.MonkeyPatch.context() as patch, punctual(), asyncio.Runner(
            loop_factory=loop_factory("real")) as loop:
        patch.setenv("AGENT_API_KEY", KEY)
        yield loop.run(main())


def test_the_agent_is_called_as_twilio_calls(calls: dict[str, Call]) -> None:
    agent, sids = calls["calm"].agent, Sids.of("R1-A-1-L2", 1)
    events = [m["event"] for m in agent.messages]
    assert events[:2] == ["connected", "start"]
    assert events[-1] == "stop"
    assert set(events[2:-1]) == {"media", "mark"}
    assert agent.messages[1]["start"] == {
        "accountSid": sids.account, "streamSid": sids.stream, "callSid": sids.call,
        "tracks": ["inbound"],
        "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1},
        "customParameters": {"tenant": "señal", "prompt": "Be brief."}}
    numbered = agent.messages[1:]
    assert [m["sequenceNumber"] for m in numbered] == [str(k + 1) for k in range(len(numbered))]
    assert {m["streamSid"] for m in numbered} == {sids.stream}
    media = [m["media"] for m in numbered if m["event"] == "media"]
    assert [(m["chunk"], m["timestamp"]) for m in media] == [
        (str(k), str(20 * k)) for k in range(1, len(media) + 1)]
    assert len(agent.audio) == 2 * 160 * len(media)
    assert agent.stopped["stop"] == {"accountSid": sids.account, "callSid": sids.call}
    assert agent.close_code == 1000
    assert agent.headers["Authorization"] == f"Bearer {KEY}"


def test_a_mark_comes_back_when_the_reply_has_been_played(calls: dict[str, Call]) -> None:
    made = calls["calm"]
    assert made.played.flags == set()
    assert [e for e in made.played.events if isinstance(e, FaultEvent)] == []
    marks = made.marks()
    assert [name for name, _ in marks] == ["end of reply 1", "end of reply 2"]
    # The reply is sent at once, so its mark waits for as long as it lasts; two readings of the
    # clock by the agent, two trips over loopback, and what this process was late.
    for (_, waited_ns), seconds in zip(marks, (1.2, 0.8), strict=True):
        assert abs(waited_ns - round(seconds * 1e9)) < 20 * MS + made.late_ns
    noted = [e.detail for e in made.played.events if isinstance(e, StateEvent) and e.name == "mark"]
    assert noted == ["end of reply 1", "end of reply 2"]


def test_an_interruption_brings_the_mark_back_at_once(calls: dict[str, Call]) -> None:
    made = calls["barge_in"]
    assert made.agent.clears == 1
    (stop,) = [e for e in made.played.events if isinstance(e, InterruptedEvent)]
    assert made.played.origin_ns is not None
    told_ns = made.agent.log.interruptions[0]
    assert 0 <= stop.t_ns + made.played.origin_ns - told_ns < 20 * MS + made.late_ns
    (name, waited_ns), _ = made.marks()
    back_ns = made.agent.marks_back[0][1]
    assert name == "end of reply 1"
    assert 0 <= back_ns - told_ns < 20 * MS + made.late_ns
    assert waited_ns < 4_000 * MS  # of the six seconds that were queued


def test_the_agent_hears_what_the_user_said(calls: dict[str, Call]) -> None:
    """Decoded by libsndfile, where it was said and no worse than mu-law makes it."""
    made = calls["calm"]
    heard = np.frombuffer(bytes(made.agent.audio), dtype="<i2") / 32_768
    sent = resample(made.played.user, 24_000, 8_000).astype(float)
    assert 0 <= len(sent) - len(heard) <= 160
    sent = sent[:len(heard)]
    # G.712 asks 33 dB of a connection; mu-law alone has some 38.
    assert 10 * np.log10(np.sum(sent**2) / np.sum((heard - sent)**2)) > 33.0
