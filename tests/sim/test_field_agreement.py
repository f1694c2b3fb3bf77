"""`rig field` on recordings of `rig run`: does it find what the session's own record knows?

The record knows when the user spoke (construction) and when every response was heard (arrivals
under `hold`), without a detector. What must differ is named where it is allowed: the detector's
edges, and sounds that the end of the session cuts to a stump.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rig_testkit as kit
from session_truth import SessionTruth, as_bridged, session_truths

from adapters.base import AgentEvent
from adapters.simulated import voice
from adapters.simulated.agent import Mouth
from adapters.simulated.session import SimulatedAdapter
from audio.spans import Spans
from audio.synthesis import DEFAULT_ENGINE
from audio.timebase import NS_PER_MS, NS_PER_S, s_to_ns
from probes.expand import expand
from probes.loader import load_suite
from probes.render import build_suite
from rig.commands.demo import CELLS
from rig.rendering import EngineRenderer
from verifiers.calls.turn_take import turn_take
from verifiers.calls.turns import classify

EDGE_MS = 110
"""docs/vad.md: the detector's edges lie up to 91 ms off after correction; 20 ms for the agents'
words, which are cut in mid-sound."""
LATENCY_MS = 125
MEDIAN_MS = 45
STUMP_NS = 200 * NS_PER_MS


# A session as somebody would write it down: what is said when, and what it is


@dataclass(frozen=True)
class Said:
    """`length_s` of talk, `after_s` from a moment of the schedule: `turn1_end`, `turn2_start`."""

    cue: str
    after_s: float
    length_s: float


class Player:
    """Says what is written for its case."""

    def __init__(self, script: Sequence[Said]) -> None:
        self._script = script
        self._mouth = Mouth()

    def step(self, frame: Any, t_ns: int) -> list[AgentEvent]:
        return self._mouth.step(t_ns)

    def cue(self, name: str, t_ns: int) -> None:
        for index, said in enumerate(self._script):
            if said.cue == name:
                speech = (voice.backchannel() if said.length_s == voice.BACKCHANNEL_S
                          else voice.talk(said.length_s, index))
                self._mouth.say(speech, t_ns + s_to_ns(said.after_s))


@dataclass(frozen=True)
class Written:
    """What is said, and what `rig field` must call it: kind and latency in ms, in order; yield
    points (n, taken, overlapped, fast); turns of the caller without a reply."""

    script: tuple[Said, ...]
    turns: tuple[tuple[str, int | None], ...]
    yields: tuple[int, int, int, int]
    missing_n: int = 0


MM = voice.BACKCHANNEL_S
FIRST, SECOND = "turn1_end", "turn2_start"
# Turn 1 is 1.6 s. Turn 2: speech of 2.1 s, a pause of 2.5 s, speech of 1.5 s (C1, C2); the same
# with a pause of 1.5 s (C4); 3.2 s into the model's reply, 2 s after its onset (C3, B); 4.55 s (A).
WRITTEN: dict[str, Written] = {
    # waits through the pause
    "R1-C1-1-L2": Written((Said(FIRST, 0.4, 1.5), Said(SECOND, 6.1 + 0.9, 1.5)),
                          (("reply", 400), ("reply", 900)), (3, 2, 0, 0)),
    # takes the pause for a turn's end
    "R2-C1-1-L2": Written((Said(FIRST, 0.2, 1.5), Said(SECOND, 2.1 + 0.5, 1.2),
                           Said(SECOND, 6.1 + 1.3, 1.5)),
                          (("reply", 200), ("reply", 500), ("reply", 1300)), (3, 3, 0, 0)),
    # begins 1.3 s before the user's end and talks on into the pause
    "R1-C2-1-L2": Written((Said(FIRST, 0.6, 1.5), Said(SECOND, 0.8, 2.2),
                           Said(SECOND, 6.1 + 0.7, 1.5)),
                          (("reply", 600), ("overlap", -1300), ("reply", 700)), (2, 2, 1, 0),
                          missing_n=1),
    # a backchannel in the middle of the user's words
    "R1-C4-1-L2": Written((Said(FIRST, 0.5, 1.5), Said(SECOND, 0.9, MM),
                           Said(SECOND, 5.1 + 0.5, 1.5)),
                          (("reply", 500), ("backchannel", None), ("reply", 500)), (3, 2, 0, 0)),
    # answers in two parts: a sentence, a pause of 0.5 s, another
    "R4-C4-1-L2": Written((Said(FIRST, 0.3, 1.0), Said(FIRST, 0.3 + 1.0 + 0.5, 1.2),
                           Said(SECOND, 5.1 + 0.8, 1.5)),
                          (("reply", 300), ("continuation", None), ("reply", 800)), (3, 2, 0, 0)),
    # stops 0.3 s into a barge-in, then answers it
    "R1-C3-1-L2": Written((Said(FIRST, 0.5, 2.3), Said(SECOND, 3.2 + 1.1, 1.5)),
                          (("reply", 500), ("reply", 1100)), (2, 2, 0, 0)),
    # talks on through a barge-in and beyond it
    "R7-C3-1-L2": Written((Said(FIRST, 0.5, 6.5),), (("reply", 500),), (1, 1, 1, 0), missing_n=1),
    # stops for a barge-in and never says anything again
    "R8-B-1-L2": Written((Said(FIRST, 0.7, 2.4),), (("reply", 700),), (2, 1, 0, 0), missing_n=1),
    # cuts in, gives way, and answers in the end
    "R1-A-1-L2": Written((Said(FIRST, 0.4, 1.5), Said(SECOND, 2.0, 1.4),
                          Said(SECOND, 4.55 + 0.6, 1.5)),
                         (("reply", 400), ("overlap", -2550), ("reply", 600)), (2, 2, 0, 0),
                         missing_n=1),
}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kit.write_small_suite(tmp_path_factory.mktemp("suite") / "small")


@pytest.fixture
def field_of(call_rig: Callable[..., Any]) -> Callable[[Path], dict[str, Any]]:
    """The document of `rig field` on the recordings of a run, calls by case."""

    def field(run: Path) -> dict[str, Any]:
        done = call_rig("field", *sorted((run / "rec").glob("*.stereo.wav")), "--caller-channel",
                        "left", "--no-cache", "--no-sensitivity", "--jobs", "1", "--json")
        assert done.code == 0, done.err
        return json.loads(done.out)

    return field


def case_of(call: dict[str, Any]) -> str:
    return Path(call["file"]).name.split(".")[0]


def test_what_was_written_down_is_what_is_found(suite, tmp_path, call_rig, add_adapter, field_of):
    """Kinds, latencies, yield points: known before the session was played."""
    agents = SimulatedAdapter("written", kit.StubAdapter(None).capabilities, {},
                              lambda config: Player(WRITTEN[config.case_id].script))
    add_adapter("written", kit.StubAdapter(agents.session))
    run = tmp_path / "run"
    assert call_rig("run", suite, "--adapter", "written", "--jobs", "1", "--out", run).code == 0
    document = field_of(run)
    errors = []
    for call in document["calls"]:
        written = WRITTEN[case_of(call)]
        assert [t["kind"] for t in call["turns"]] == [kind for kind, _ in written.turns], call
        for turn, (_, latency_ms) in zip(call["turns"], written.turns, strict=True):
            assert (turn["latency_ms"] is None) == (latency_ms is None)
            if latency_ms is not None:
                errors.append(turn["latency_ms"] - latency_ms)
        take = call["turn_take"]
        assert (take["n"], take["taken"], take["overlapped"], take["fast"]) == written.yields, call
        assert call["l1"]["missing_n"] == written.missing_n
        assert call["warnings"] == []
    assert len(document["calls"]) == len(WRITTEN)
    assert np.abs(errors).max() <= LATENCY_MS
    assert np.median(np.abs(errors)) <= MEDIAN_MS


# Agents of one habit, against the record


@pytest.mark.parametrize("name", ["oracle_run", "random_run"])
def test_the_record_and_the_recording_agree(field_of, name, request):
    """No turn missed, none invented, every kind the same, edges and latencies within bounds."""
    agreed = agreement(request.getfixturevalue(name), field_of)
    assert agreed.near_ties == []
    assert np.median(np.abs(agreed.errors_ms)) <= MEDIAN_MS


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["eager", "long_endpoint", "metronome", "monologue", "silent"])
def test_the_record_and_the_recording_agree_on_odd_agents(suite, tmp_path, call_rig, field_of,
                                                          agent):
    run = tmp_path / agent
    assert call_rig("run", suite, "--adapter", agent, "--jobs", "1", "--out", run).code == 0
    agreed = agreement(run, field_of)
    assert agreed.near_ties == []
    assert (agreed.errors_ms == []) == (agent == "silent")


@pytest.fixture(scope="module")
def spoken_suite(built_once: Callable[..., Path]) -> Path:
    """The nine cells of `rig demo` at L2, in real words with their pauses."""
    suite = load_suite("dsb-ifeval")
    return built_once("spoken", lambda folder: build_suite(
        suite, folder, EngineRenderer(DEFAULT_ENGINE), select=[
            case for case in expand(suite) if case.level == "L2" and case.instance == 1
            and f"{case.role}-{case.probe}" in CELLS]))


@pytest.mark.slow
@pytest.mark.parametrize(("agent", "near_ties_n"), [
    ("oracle", 0), ("random", 1), ("eager", 1), ("long_endpoint", 0), ("metronome", 2)])
def test_the_record_and_the_recording_agree_on_real_words(spoken_suite, tmp_path, call_rig,
                                                          field_of, agent, near_ties_n):
    run = tmp_path / agent
    assert call_rig("run", spoken_suite, "--adapter", agent, "--jobs", "1", "--out",
                    run).code == 0
    agreed = agreement(run, field_of)
    assert len(agreed.near_ties) <= near_ties_n, agreed.near_ties
    assert np.median(np.abs(agreed.errors_ms)) <= MEDIAN_MS


@dataclass
class Agreed:
    """errors_ms: found minus known latencies. near_ties: turns of another kind than the record's,
    which moving all edges by `EDGE_MS` explains."""

    errors_ms: list[float]
    near_ties: list[str]


def agreement(run: Path, field_of: Callable[[Path], dict[str, Any]]) -> Agreed:
    """Compares every session; fails at the first figure that does not agree."""
    document = field_of(run)
    assert document["skipped"] == []
    found = {case_of(call): call for call in document["calls"]}
    truths = session_truths(run)
    assert sorted(found) == sorted(t.record.case_id for t in truths)
    agreed = Agreed([], [])
    for truth in truths:
        _agree(truth, found[truth.record.case_id], agreed)
    return agreed


def _agree(truth: SessionTruth, call: dict[str, Any], agreed: Agreed) -> None:
    if not truth.model:
        # Nothing arrived: no figure, and the reason.
        assert call["turns"] == []
        assert call["l1"]["n"] == 0
        assert call["l1"]["reason"] == "the agent's channel is dead"
        return
    assert {w["code"] for w in call["warnings"]} <= {"misaligned"}
    model = without_stump(truth)
    user = as_bridged(truth.user, Spans.of((s_to_ns(a), s_to_ns(b))
                                           for a, b in call["speech"]["caller"]))
    known = classify(user, model)
    assert len(call["turns"]) == len(known.turns), (truth.record.case_id, call["turns"], known)
    possible = [classify(moved(user, a), moved(model, b)).turns
                for a in (-EDGE_MS, 0, EDGE_MS) for b in (-EDGE_MS, 0, EDGE_MS)]
    errors: list[float] = []
    same = True
    for index, (turn, true) in enumerate(zip(call["turns"], known.turns, strict=True)):
        edges = {"agent_start_s": true.agent_ns[0], "agent_end_s": true.agent_ns[1]}
        for name, true_ns in edges.items():
            assert abs(turn[name] - true_ns / NS_PER_S) * 1000 <= EDGE_MS, (name, turn, true)
        if turn["kind"] != true.kind.value:
            kinds = {turns[index].kind.value for turns in possible
                     if len(turns) == len(known.turns)}
            assert turn["kind"] in kinds, (truth.record.case_id, turn, true)
            agreed.near_ties.append(f"{truth.record.case_id}: {turn['kind']}, known {true.kind}")
            same = False
        elif true.latency_ns is not None:
            errors.append(turn["latency_ms"] - true.latency_ns / NS_PER_MS)
    assert max(map(abs, errors), default=0) <= LATENCY_MS
    agreed.errors_ms += errors
    both = user.total + model.total
    assert call["talk_ratio"] == pytest.approx(model.total / both, abs=0.04)
    if same:
        take = turn_take(user, known, truth.recorded_ns)
        got = call["turn_take"]
        assert (got["n"], got["taken"], got["overlapped"], got["fast"]) == (
            take.n, take.taken, take.overlapped, take.fast)


def moved(spans: Spans, ms: float) -> Spans:
    """Every span longer at both ends by `ms`, or shorter."""
    ns = round(ms * NS_PER_MS)
    return Spans.of((max(0, a - ns), b + ns) for a, b in spans if b - a > -2 * ns)


def without_stump(truth: SessionTruth) -> Spans:
    """The end of a session may leave the first instants of a sound, too short to be speech."""
    *before, last = truth.model
    cut = last[1] >= truth.recorded_ns - 20 * NS_PER_MS
    return Spans(tuple(before)) if cut and last[1] - last[0] < STUMP_NS else truth.model
