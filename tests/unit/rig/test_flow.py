"""Floods of events: counted, told in the reason of a late session, and never told line by line."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import rig_testkit as kit

from adapters.base import AudioReceived, Capabilities, Fault, SessionConfig, StateChanged
from audio.buffers import Float32
from audio.timebase import NS_PER_S
from audio.vad import VadSettings
from rig.clock import VirtualLoop, loop_factory
from rig.commands.run_text import void_texts
from rig.event_log import MAX_KINDS, MAX_TOLD, EventLog
from rig.flow import FLOOD_PER_S, FLOODED, KEPT_S, Flow, flood
from rig.heard import HeardTrack
from rig.live import Speech
from rig.orchestrator import Played, play
from rig.record import AudioEvent, FaultEvent, StateEvent
from rig.schedule import Bounds, Plan
from rig.spending import Meter
from rig.timing import certify

SHORT = Bounds(turn1_reply_s=0.3, settle_s=0.1, tail_s=0.1, turn2_reply_s=0.1, trailing_s=0.1,
               onset_s=0.1, after_window_s=0.1)


def test_the_busiest_second_counts_from_a_moment_on() -> None:
    flow = Flow()
    for second, n in ((0, 5), (3, 7), (4, 2)):
        for k in range(n):
            flow.count(second * NS_PER_S + k)
    assert flow.most_per_s() == 7
    assert flow.most_per_s(3 * NS_PER_S + 999) == 7
    assert flow.most_per_s(4 * NS_PER_S) == 2
    assert flow.most_per_s(5 * NS_PER_S) == 0
    for second in range(5, 5 + KEPT_S):
        flow.count(second * NS_PER_S)
    assert flow.most_per_s() == 1, "what lies further back than a session may is forgotten"


LATE = [20_000_000] * 100


@pytest.mark.parametrize(("own", "everyone", "who"), [
    (FLOOD_PER_S, FLOOD_PER_S, "the system"),
    (10, FLOOD_PER_S, "the systems of the run together"),
    (FLOOD_PER_S - 1, FLOOD_PER_S - 1, None), (0, 0, None), (None, None, None),
])
def test_a_late_session_says_whose_flood_it_was(
    own: int | None, everyone: int | None, who: str | None
) -> None:
    budget = "lateness p99 20.0 ms is over the budget of 15 ms"
    found = certify(LATE, None, events_per_s=own, all_events_per_s=everyone)
    assert found.void_reason == budget + ("" if who is None else (
        f": {who} sent {FLOOD_PER_S} {FLOODED} (2000 are a flood), which makes the rig late on any "
        "machine"))
    assert (found.events_per_s, found.all_events_per_s) == (own, everyone)
    assert flood(own, everyone) is None or FLOODED in str(found.void_reason)


def test_a_punctual_session_is_not_void_whatever_was_sent() -> None:
    assert certify([0] * 100, None, events_per_s=10**6).void_reason is None


def test_the_end_of_a_run_tells_floods_from_a_busy_machine() -> None:
    texts = list(void_texts(Counter(void=3, done=1), Counter(void=1)))
    assert texts[0].startswith("2 of 4 sessions were void: frames of the user were late, because "
                               "this machine was busy")
    assert texts[1].startswith("1 of 4 sessions was void: frames of the user were late, while "
                               "systems sent thousands of events within a second")
    assert list(void_texts(Counter(done=2), Counter())) == []


def played(flood_of: Any, kind: Any = "virtual") -> Played:
    """A session in which the system sends at its tenth frame what `flood_of(session)` gives."""

    def on_frame(session: kit.StubSession, _frame: Float32) -> None:
        if session.frames == 10:
            session.emit(*flood_of(session))

    adapter = kit.stub(on_frame, capabilities=Capabilities(full_duplex=True, persona_prompt=True))
    silence = np.zeros(4_800, dtype=np.float32)
    plan = Plan(turn1=silence, turn2=silence, window_end_s=0.1)
    with asyncio.Runner(loop_factory=loop_factory(kind)) as loop:
        return loop.run(play(plan, adapter, SessionConfig("c", 1, "", 1), vad=VadSettings(),
                             bounds=SHORT))


def test_trouble_in_the_same_words_is_counted_and_audio_is_all_kept() -> None:
    """20,000 frames of one byte: half of them split a sample, half complete one."""
    sample = np.ones(1, dtype=np.float32)

    def odd(session: kit.StubSession) -> list[Any]:
        t_ns = session.now_ns
        return [e for _ in range(10_000) for e in (Fault(t_ns, "transparent", "splits a sample"),
                                                   AudioReceived(t_ns, sample))]

    found = played(odd)
    faults = [e.reason for e in found.events if isinstance(e, FaultEvent)]
    assert faults == ["splits a sample"] * MAX_TOLD + ["splits a sample (and 9900 more)"]
    assert sum(e.n for e in found.events if isinstance(e, AudioEvent)) == 10_000
    assert [e.seq for e in found.events] == list(range(len(found.events)))
    assert found.events_per_s is None, "nothing is late in virtual time"


def test_other_words_and_states_are_bounded_as_well() -> None:
    def many(session: kit.StubSession) -> list[Any]:
        t_ns = session.now_ns
        return [*(StateChanged(t_ns, "mood", "fine") for _ in range(MAX_TOLD + 1)),
                *(Fault(t_ns, "transparent", f"kind {k}") for k in range(MAX_KINDS + 500))]

    found = played(many)
    states = [(e.name, e.detail) for e in found.events if isinstance(e, StateEvent)]
    assert states == [("mood", "fine")] * MAX_TOLD + [("mood", "fine (and 1 more)")]
    faults = [e.reason for e in found.events if isinstance(e, FaultEvent)]
    # The state takes one of the kinds; the others share one, of which a hundred are told.
    assert len(faults) == MAX_KINDS - 1 + MAX_TOLD + 1
    assert faults[-1] == f"something else that changes nothing (and {501 - MAX_TOLD} more)"


def test_events_are_counted_on_a_real_clock() -> None:
    """At most 4,000, and in two neighbouring seconds at worst."""
    def many(session: kit.StubSession) -> list[Any]:
        return [StateChanged(session.now_ns, "mood", str(k)) for k in range(4_000)]

    found = played(many, "real")
    assert FLOOD_PER_S <= (found.events_per_s or 0) <= 4_000
    assert (found.all_events_per_s or 0) >= FLOOD_PER_S


def test_a_system_that_sends_nothing_sent_none() -> None:
    assert played(lambda _: [], "real").events_per_s == 0


def test_one_systems_burst_is_not_laid_on_others() -> None:
    """A burst over two seconds of the session that is in one second of the run."""
    clock = SimpleNamespace(now_ns=lambda: at_ns, origin_ns=NS_PER_S // 2)
    log = EventLog(HeardTrack(24_000, reports_done=False, settings=VadSettings()),
                   cast("Any", clock), Meter())
    for at_ns in (9 * NS_PER_S // 10, 11 * NS_PER_S // 10):
        for k in range(FLOOD_PER_S // 2):
            log.agent(StateChanged(at_ns, "mood", str(k)))
    assert (log.most_per_s(), log.most_per_s_of_all()) == (FLOOD_PER_S, FLOOD_PER_S)


class Ear:
    """A channel that keeps what it is given."""

    most_behind_ns = None

    def __init__(self) -> None:
        self.pieces = 0

    def advance(self, pending: Any, now_ns: int) -> Speech:
        self.pieces = len(pending)
        return Speech(now_ns)


def test_tiny_chunks_wait_together() -> None:
    """A second of audio, sample by sample, waits in some 50 pieces, and is the same audio."""
    audio = np.random.default_rng(1).uniform(-1, 1, 24_000).astype(np.float32)
    heard = HeardTrack(24_000, reports_done=False, settings=VadSettings())
    heard._channel = ear = Ear()
    for sample in audio:
        heard.audio(5, np.array([sample]), None)
    heard.replying(10)
    assert ear.pieces == 50
    joined = np.concatenate([samples for _, samples in heard._pending])
    assert np.array_equal(joined, audio)
    at_n = 0
    for start_n, samples in heard._pending:
        assert start_n == at_n
        at_n += len(samples)


def test_the_jumping_clock_counts_no_events() -> None:
    with asyncio.Runner(loop_factory=VirtualLoop):
        assert played(lambda _: [], "virtual").all_events_per_s is None
