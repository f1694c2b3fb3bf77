"""The ceiling and the floors through the whole chain: play, record, detect, decide.

What each agent must score is stated in docs/agents.md, from its nature; here it stands as explicit
sets. "Chance" cells are left out: there any verdict is right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import rig_testkit as kit

from probes.render import load_built

ACTIONS = ("LISTEN", "NO_BACKCHANNEL", "TAKE_TURN", "BACKCHANNEL", "INTERRUPT", "READBACK", "YIELD",
           "CONTINUE", "ACCEPT_OVERLAP")
P, F, U, CHANCE = "pass", "fail", "unscored", None

BY_ACTION: Mapping[str, Mapping[str, str | None]] = {
    "oracle": dict.fromkeys(ACTIONS, P),
    "inverse": dict.fromkeys(ACTIONS, F),
    "silent": dict.fromkeys(ACTIONS, F) | {"LISTEN": P, "NO_BACKCHANNEL": P},
    "monologue": dict.fromkeys(ACTIONS, F) | {"CONTINUE": P, "ACCEPT_OVERLAP": P},
    # No transcript: nobody knows whether it read back.
    "echo": dict.fromkeys(ACTIONS, F) | {"READBACK": U, "INTERRUPT": CHANCE, "ACCEPT_OVERLAP": P},
    "metronome": dict.fromkeys(ACTIONS, CHANCE) | {
        "LISTEN": F, "NO_BACKCHANNEL": F, "READBACK": F, "CONTINUE": F, "ACCEPT_OVERLAP": P},
    "long_endpoint": dict.fromkeys(ACTIONS, F) | {
        "LISTEN": CHANCE, "NO_BACKCHANNEL": P, "CONTINUE": P, "ACCEPT_OVERLAP": P},
    "eager": dict.fromkeys(ACTIONS, F) | {
        "LISTEN": CHANCE, "NO_BACKCHANNEL": CHANCE, "INTERRUPT": P, "YIELD": CHANCE,
        "ACCEPT_OVERLAP": P},
    "random": dict.fromkeys(ACTIONS, CHANCE) | {"READBACK": F},
}
"""The table of docs/agents.md."""


def listen_of_long_endpoint(probe: str, first_chunk_s: float) -> str | None:
    """3.2 s of silence end a turn: shorter pauses pass. Its late reply to turn 1 runs 1.8 s into
    turn 2, so a C2 window that opens earlier than that finds it speaking."""
    if probe == "C2":
        return P if first_chunk_s > 2.0 else F if first_chunk_s < 1.7 else CHANCE
    return {"C1": P, "A": None, "B": F}.get(probe)


def expected(agent: str, case: Any, first_chunk_s: float) -> str | None:
    wanted = BY_ACTION[agent][case.expected_action]
    cell = f"{case.role}-{case.probe}"
    if agent == "long_endpoint" and case.expected_action == "LISTEN":
        # R7_A pauses for 3.0 s; R2_A and R4_A for 7 s, R5_B and R7_B leave the turn to it.
        return {"R7-A": P, "R2-A": F, "R4-A": F}.get(
            cell, listen_of_long_endpoint(case.probe, first_chunk_s))
    if agent == "eager" and case.expected_action == "LISTEN":
        return F if case.probe == "C2" or cell == "R7-A" else CHANCE
    if agent == "eager" and case.expected_action == "YIELD":
        # It ends about 0.8 s after the barge-in, which R4's 1000 ms allow.
        return P if case.role == "R4" else F
    return wanted


BARGE_INS = {"YIELD", "CONTINUE", "ACCEPT_OVERLAP"}
FLAGS: Mapping[str, Mapping[str, set[str]]] = {
    # Every session without model speech is marked; it held no floor at any barge-in.
    "silent": {"no_model_speech": set(ACTIONS), "forced": BARGE_INS, "no_opportunity": BARGE_INS},
    # It speaks when turn 1 ends and never stops: an opportunity, and never a forced barge-in.
    "monologue": {"no_model_speech": set(), "forced": set(), "no_opportunity": set(),
                  "spoke_over_turn1": BARGE_INS},
    # Its echo of turn 1 has ended by then: speech in the session, and still no opportunity.
    "echo": {"no_model_speech": set(), "forced": BARGE_INS, "no_opportunity": BARGE_INS},
    "long_endpoint": {"no_model_speech": set(), "forced": set(), "no_opportunity": set()},
}
"""Flag to the actions whose cases carry it. Floors read no prompt and declare it: all are
`architecture_constrained`."""


@pytest.fixture(scope="module")
def cells(built_once: Callable[..., Path]) -> Path:
    """All 48 cells on L2 and the six of L4b, one instance each."""
    return built_once("cells", lambda folder: kit.build_talking_suite(
        folder, lambda c: c.instance == 1 and c.level in ("L2", "L4b")))


def play(agent: str, suite: Path, run: Path, call_rig: Callable[..., Any]) -> dict[str, Any]:
    assert call_rig("run", suite, "--adapter", agent, "--jobs", 1, "--out", run).code == 0
    assert call_rig("score", run, "--jobs", 1).code == 0
    return kit.scores(run)


def check(agent: str, suite: Path, found: dict[str, Any]) -> int:
    """Compare every verdict with what must be; how many were not left to chance."""
    built = load_built(suite)
    reasons = {c["case_id"]: (c["outcome"], c["reason"]) for c in found["cases"]}
    wrong, checked = [], 0
    for case in built.cases:
        first_s = built.streams[case.stream_id].turn2.segments[0].end_n / 24_000
        wanted = expected(agent, case, first_s)
        if wanted is None:
            continue
        checked += 1
        if reasons[case.case_id][0] != wanted:
            wrong.append((case.case_id, case.expected_action, wanted, reasons[case.case_id]))
    assert not wrong
    return checked


@pytest.fixture(scope="module")
def kinds(built_once: Callable[..., Path]) -> Path:
    """Of those cells one for each action of each probe structure."""
    seen: set[tuple[str, str, str]] = set()

    def wanted(case: Any) -> bool:
        key = (case.probe_id, case.expected_action, case.level)
        if case.instance != 1 or case.level not in ("L2", "L4b") or key in seen:
            return False
        seen.add(key)
        return True

    return built_once("kinds", lambda folder: kit.build_talking_suite(folder, wanted))


@pytest.mark.parametrize("agent", ["oracle", "inverse"])
def test_the_oracle_passes_every_kind_of_cell_and_its_inverse_none(
    agent: str, kinds: Path, tmp_path: Path, call_rig: Any
) -> None:
    found = play(agent, kinds, tmp_path / "run", call_rig)
    assert check(agent, kinds, found) == len(load_built(kinds).cases)
    assert set(found["ias"]["by_action"]) == set(ACTIONS)
    # They read a persona and are full duplex, so nothing constrains them; both always speak. The
    # inverse of ACCEPT_OVERLAP says something brief and is silent at the barge-in.
    assert not {"architecture_constrained", "no_model_speech", "forced"} & set(found["flags"])
    assert flagged(found, "no_opportunity") == (
        {"ACCEPT_OVERLAP"} if agent == "inverse" else set())


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["oracle", "inverse"])
def test_the_oracle_passes_every_cell_and_its_inverse_none(
    agent: str, cells: Path, tmp_path: Path, call_rig: Any
) -> None:
    found = play(agent, cells, tmp_path / "run", call_rig)
    assert check(agent, cells, found) == 54
    rate = 1.0 if agent == "oracle" else 0.0
    assert set(found["ias"]["by_action"]) == set(ACTIONS)
    for stat in found["ias"]["by_action"].values():
        assert (stat["rate"], stat["unscored"]) == (rate, 0)
    for pool in ("core", "all"):
        assert {level: s["rate"] for level, s in found["ias"][pool].items()} == {
            "L2": rate, "L4b": rate}
    assert found["ias"]["all"]["L2"]["n"] == 48
    assert found["ias"]["core"]["L2"]["n"] == 31


FLOORS = [agent for agent in BY_ACTION if agent not in ("oracle", "inverse")]


@pytest.mark.parametrize("agent", FLOORS)
def test_each_floor_in_one_short_case_an_action(
    agent: str, small_suite: Path, tmp_path: Path, call_rig: Any
) -> None:
    found = play(agent, small_suite, tmp_path / "run", call_rig)
    checked = {"silent": 9, "monologue": 9, "echo": 8, "metronome": 5, "long_endpoint": 9,
               "eager": 7, "random": 1}
    assert check(agent, small_suite, found) == checked[agent]
    assert flagged(found, "architecture_constrained") == set(ACTIONS)
    for flag, actions in FLAGS.get(agent, {}).items():
        assert flagged(found, flag) == actions, flag
        assert found["flags"].get(flag, 0) == len(actions)


def flagged(found: dict[str, Any], flag: str) -> set[str]:
    return {c["expected_action"] for c in found["cases"] if flag in c["flags"]}


@pytest.mark.slow
@pytest.mark.parametrize("agent", FLOORS)
def test_each_floor_in_every_cell(agent: str, cells: Path, tmp_path: Path, call_rig: Any) -> None:
    found = play(agent, cells, tmp_path / "run", call_rig)
    at_least = {"silent": 54, "monologue": 54, "echo": 46, "metronome": 24, "long_endpoint": 50,
                "eager": 43, "random": 6}
    assert check(agent, cells, found) >= at_least[agent]
