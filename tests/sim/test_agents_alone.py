"""Every agent, alone, in nine hand-made conversations, heard by the detector of the scoring.

No rig and no verifier takes part: a small schedule plays the user, the limits stand here as
numbers (DSB-IFEval, tables 14 and 18), and the verdicts are reckoned from the detected spans. So a
floor that does not behave as its description says is found here, whatever the verifiers do.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from adapters import registry
from adapters.base import (
    AgentEvent,
    AudioReceived,
    CaseHint,
    ResponseDone,
    Session,
    SessionConfig,
    TextDelta,
)
from adapters.simulated import voice
from audio.buffers import Float32
from audio.resample import resample
from audio.spans import Spans
from audio.timebase import FRAME_NS, n_to_ns, ns_to_n, s_to_ns
from audio.vad import VadSettings, speech_spans

RATE_HZ = 24_000
FRAME_N = 480
TURN1_S = 6.0


@dataclass(frozen=True)
class Case:
    """Speech of turn 2 and window, in seconds from its onset; `limit` in s (READBACK: share)."""

    action: str
    speech: tuple[tuple[float, float], ...]
    window: tuple[float, float]
    limit: float = 0.0
    target: str | None = None
    barge_in_s: float | None = None

    @property
    def offset_s(self) -> float:
        return self.speech[-1][1]


TARGET = "locker four one nine key under the blue mat"
CASES = {
    "LISTEN pause 2.5 s": Case("LISTEN", ((0, 5), (7.5, 11)), (5, 7.5)),
    "LISTEN gaps": Case("LISTEN", ((0, 3), (4.2, 7), (8.2, 11)), (3, 8.2)),
    "LISTEN clause": Case("LISTEN", ((0, 5), (8, 12)), (5, 12)),
    "LISTEN pause 7 s": Case("LISTEN", ((0, 6), (13, 18)), (6, 13)),
    "LISTEN end": Case("LISTEN", ((0, 8),), (8, 18)),
    "TAKE_TURN pause": Case("TAKE_TURN", ((0, 5), (7.5, 11)), (5, 7.5), 1.5),
    "TAKE_TURN end": Case("TAKE_TURN", ((0, 7),), (7, 17), 0.8),
    "BACKCHANNEL": Case("BACKCHANNEL", ((0, 6.2), (7.7, 12)), (6.2, 7.7), 0.5),
    "NO_BACKCHANNEL": Case("NO_BACKCHANNEL", ((0, 6.2), (7.7, 12)), (6.2, 7.7)),
    "INTERRUPT": Case("INTERRUPT", ((0, 13),), (7, 13), 1.2),
    "READBACK": Case("READBACK", ((0, 3), (4.2, 7), (8.2, 11)), (0, 21), 0.9, TARGET),
    "YIELD": Case("YIELD", ((0, 4),), (0, 3), 0.6, barge_in_s=3.0),
    "CONTINUE": Case("CONTINUE", ((0, 4),), (0, 3), 0.6, barge_in_s=3.0),
    "ACCEPT_OVERLAP 3 s": Case("ACCEPT_OVERLAP", ((0, 4),), (0, 3), barge_in_s=3.0),
    "ACCEPT_OVERLAP 2 s": Case("ACCEPT_OVERLAP", ((0, 4),), (0, 3), barge_in_s=2.0),
}

P, F = "pass", "fail"
EXPECTED: dict[str, dict[str, str]] = {
    "oracle": dict.fromkeys(CASES, P),
    "inverse": dict.fromkeys(CASES, F),
    "silent": {name: P if name.startswith(("LISTEN", "NO_BACKCHANNEL")) else F for name in CASES},
    "monologue": {name: P if name.startswith(("CONTINUE", "ACCEPT")) else F for name in CASES},
    # The echo has no transcript, so its read-back cannot be judged; INTERRUPT is by chance.
    "echo": {name: P if name.startswith("ACCEPT") else F for name in CASES
             if name not in ("READBACK", "INTERRUPT")},
    # The rest of the metronome is by chance: it depends on where its beat falls.
    "metronome": {name: P if name.startswith("ACCEPT") else F for name in CASES
                  if name.startswith(("LISTEN", "NO_BACK", "CONTINUE", "READBACK", "ACCEPT"))},
    "long_endpoint": {name: P if name in (
        "LISTEN pause 2.5 s", "LISTEN gaps", "LISTEN clause", "NO_BACKCHANNEL", "CONTINUE",
        "ACCEPT_OVERLAP 3 s", "ACCEPT_OVERLAP 2 s") else F for name in CASES},
    # LISTEN and NO_BACKCHANNEL in a bare pause are by chance.
    "eager": {name: P if name.startswith(("INTERRUPT", "ACCEPT")) else F for name in CASES
              if name not in ("LISTEN pause 2.5 s", "LISTEN pause 7 s", "LISTEN end",
                              "NO_BACKCHANNEL")},
    "random": {"READBACK": F},
}


@dataclass(frozen=True)
class Heard:
    model: Spans
    user: Spans
    w0_ns: int
    w1_ns: int
    text: str
    end_ns: int
    pcm: bytes
    responses: Counter[str]


class _Clock:
    kind = "virtual"
    t_ns = 0

    def now_ns(self) -> int:
        return self.t_ns

    async def sleep_until(self, t_ns: int) -> None:
        self.t_ns = max(self.t_ns, t_ns)


def user_audio(stretches: tuple[tuple[float, float], ...]) -> Float32:
    out = np.zeros(round(stretches[-1][1] * RATE_HZ), dtype=np.float32)
    for k, (start_s, end_s) in enumerate(stretches):
        said = voice.talk(end_s - start_s, 3 + k).samples
        out[round(start_s * RATE_HZ) : round(start_s * RATE_HZ) + len(said)] = said
    return out


async def converse(session: Session, clock: _Clock, case: Case) -> tuple[list[AgentEvent], int]:
    """Turn 1, an answer or its onset, turn 2, and on until 3 s after all is said and scored."""
    turn1, turn2 = user_audio(((0, TURN1_S),)), user_audio(case.speech)
    user = np.zeros(120 * RATE_HZ, dtype=np.float32)
    user[: len(turn1)] = turn1
    events: list[AgentEvent] = []
    reader = session.events()
    turn1_end_ns = s_to_ns(TURN1_S)
    onset_n: int | None = None
    end_ns = 120 * 10**9
    cues = ["turn1_end", "turn2_start"]
    k = 0
    while k * FRAME_NS < end_ns:
        clock.t_ns = k * FRAME_NS
        if k:
            before = len(events)
            await session.send(user[(k - 1) * FRAME_N : k * FRAME_N])
            while session._queue._pending:  # type: ignore[attr-defined]
                events.append(await anext(reader))
            if onset_n is None:
                onset_n = _turn2_onset(events[before:], events, clock.t_ns, turn1_end_ns, case)
                if onset_n is not None:
                    user[onset_n : onset_n + len(turn2)] += turn2
                    onset_ns = n_to_ns(onset_n, RATE_HZ)
                    end_ns = onset_ns + s_to_ns(max(case.offset_s + 9, case.window[1] + 0.5))
        moments = {"turn1_end": turn1_end_ns,
                   "turn2_start": None if onset_n is None else n_to_ns(onset_n, RATE_HZ)}
        while cues and (at := moments[cues[0]]) is not None and at < clock.t_ns + FRAME_NS:
            session.cue(cues.pop(0))
        k += 1
    assert onset_n is not None
    return events, onset_n


def _turn2_onset(new: list[AgentEvent], events: list[AgentEvent], now_ns: int, turn1_end_ns: int,
                 case: Case) -> int | None:
    """Sample at which turn 2 begins, once that is settled."""
    if case.barge_in_s is None:
        done = [e for e in new if isinstance(e, ResponseDone) and e.t_ns > turn1_end_ns]
        if done or now_ns >= turn1_end_ns + s_to_ns(5.0):
            return ns_to_n(now_ns + s_to_ns(0.6), RATE_HZ) + 7
        return None
    after = [e.t_ns for e in events if isinstance(e, AudioReceived) and e.t_ns > turn1_end_ns]
    speaks_on = after and after[0] <= turn1_end_ns + FRAME_NS
    began_ns = (turn1_end_ns if speaks_on else after[0]) if after else None
    # An echo of turn 1 is no onset after turn 1; it stops by itself and the turn is forced.
    if speaks_on and now_ns < turn1_end_ns + s_to_ns(case.barge_in_s):
        return None
    if speaks_on and now_ns - after[-1] > FRAME_NS:
        began_ns = None
    if began_ns is not None:
        return ns_to_n(max(now_ns, began_ns + s_to_ns(case.barge_in_s)), RATE_HZ)
    return ns_to_n(now_ns, RATE_HZ) if now_ns >= turn1_end_ns + s_to_ns(10.0) else None


@cache
def play(agent: str, name: str, seed: int = 1) -> Heard:
    case = CASES[name]
    clock = _Clock()
    hint = CaseHint(case.action, *case.window, case.offset_s, case.target,
                    case.barge_in_s is not None)
    adapter = registry.create(agent)
    config = SessionConfig(name, 1, "", seed, adapter.settings,
                           hint if adapter.capabilities.wants_hint else None)

    async def main() -> tuple[list[AgentEvent], int]:
        async with adapter.session(config, clock) as session:  # type: ignore[arg-type]
            return await converse(session, clock, case)

    events, onset_n = asyncio.run(main())
    end_n = ns_to_n(clock.t_ns, RATE_HZ) + FRAME_N
    track = np.zeros(end_n, dtype=np.float32)
    for event in events:
        if isinstance(event, AudioReceived):
            at_n = ns_to_n(event.t_ns, RATE_HZ)
            track[at_n : at_n + FRAME_N] = event.samples[: end_n - at_n]
    model = speech_spans(resample(track, RATE_HZ, 16_000), VadSettings()).to_ns(16_000)
    onset_ns = n_to_ns(onset_n, RATE_HZ)
    user = Spans.of((onset_ns + s_to_ns(a), onset_ns + s_to_ns(b)) for a, b in case.speech)
    text = "".join(e.text for e in events if isinstance(e, TextDelta) and e.t_ns >= onset_ns)
    return Heard(model, user, onset_ns + s_to_ns(case.window[0]),
                 onset_ns + s_to_ns(case.window[1]), text, n_to_ns(end_n, RATE_HZ),
                 track.tobytes(), Counter(type(e).__name__ for e in events))


def verdict(case: Case, heard: Heard) -> str:
    w0, w1, limit_ns = heard.w0_ns, heard.w1_ns, s_to_ns(case.limit)
    begun = heard.model.starting_in(w0, w1).items
    touching = heard.model.touching(w0, w1).items
    ends = [end for _, end in heard.model if end >= w0]
    held = heard.model.at(w0)
    match case.action:
        case "LISTEN" | "NO_BACKCHANNEL":
            good = not touching
        case "TAKE_TURN" | "INTERRUPT":
            good = bool(begun) and begun[0][0] - w0 <= limit_ns
        case "BACKCHANNEL":
            good = (len(touching) == 1 == len(begun)
                    and begun[0][1] - begun[0][0] < limit_ns)
        case "YIELD":
            good = bool(ends) and ends[0] - w0 <= limit_ns
        case "CONTINUE":
            good = held is not None and held[1] - w0 > limit_ns
        case "ACCEPT_OVERLAP":
            good = heard.model.intersect(heard.user).clip(w0, w1).total > 0
        case "READBACK":
            wanted = Counter(re.findall("[a-z0-9]+", (case.target or "").lower()))
            said = Counter(re.findall("[a-z0-9]+", heard.text.lower()))
            good = (wanted & said).total() >= case.limit * wanted.total()
        case _:
            raise AssertionError(case.action)
    return P if good else F


@pytest.mark.parametrize(("agent", "name"), [
    (agent, name) for agent, table in EXPECTED.items() for name in table])
def test_each_agent_does_as_its_nature_says(agent: str, name: str) -> None:
    heard = play(agent, name)
    assert verdict(CASES[name], heard) == EXPECTED[agent][name], (heard.model, heard.w0_ns)


@pytest.mark.parametrize("name", ["BACKCHANNEL"])
def test_the_inverse_fails_in_its_other_manner_too(name: str) -> None:
    silent, long = play("inverse", name, 2), play("inverse", name, 3)
    for heard in (silent, long):
        assert verdict(CASES[name], heard) == F
    assert not silent.model.touching(silent.w0_ns, silent.w1_ns)
    ((start, end),) = long.model.touching(long.w0_ns, long.w1_ns).items
    assert end - start > s_to_ns(2.0)


CLEAR_NS = s_to_ns(0.1)
"""Three frames of the detector, several times its usual edge bias."""


@pytest.mark.parametrize("name", CASES)
def test_the_oracle_and_its_inverse_are_clear_of_every_edge(name: str) -> None:
    """No verdict of theirs hangs on the detector: no detected edge lies near a window's edge."""
    case = CASES[name]
    for agent in ("oracle", "inverse"):
        heard = play(agent, name)
        edges = [t for span in heard.model for t in span]
        distances = [abs(t - w) for t in edges for w in (heard.w0_ns, heard.w1_ns)]
        assert min(distances) >= CLEAR_NS, (agent, distances)
        if case.action in ("TAKE_TURN", "INTERRUPT") and agent == "oracle":
            onset_ns = heard.model.starting_in(heard.w0_ns, heard.w1_ns).items[0][0]
            assert 2 * CLEAR_NS <= onset_ns - heard.w0_ns <= s_to_ns(0.4)


@pytest.mark.parametrize("agent", ["monologue", "metronome", "long_endpoint", "eager", "random",
                                   "oracle", "inverse"])
def test_two_sessions_are_the_same_bytes(agent: str) -> None:
    first = play(agent, "TAKE_TURN pause")
    play.cache_clear()
    assert play(agent, "TAKE_TURN pause").pcm == first.pcm


def test_other_seeds_move_the_random_agent_and_no_other() -> None:
    name = "TAKE_TURN pause"
    assert play("random", name, 1).pcm != play("random", name, 2).pcm
    for agent in ("monologue", "metronome", "long_endpoint", "eager", "oracle"):
        assert play(agent, name, 1).pcm == play(agent, name, 2).pcm


@pytest.mark.parametrize("name", CASES)
def test_the_oracle_has_stopped_speaking_when_the_session_ends(name: str) -> None:
    heard = play("oracle", name)
    assert heard.model.items[-1][1] < heard.end_ns - s_to_ns(0.5)
    assert heard.responses["ResponseStarted"] == heard.responses["ResponseDone"]
    assert heard.responses["ResponseStarted"] >= 1
