"""The page of the floors says what its numbers say."""

from __future__ import annotations

import pytest

from rig.floor_page import floor_page
from sweeps.comparison import System, compare
from sweeps.effects import Case
from verifiers.scene import Action
from verifiers.verdict import Outcome


def page(passed: dict[str, dict[Action, int]], n: int = 20) -> str:
    """Agents that pass the first so many of `n` cases of each action, on L1 and on L2."""
    systems = [System(agent, tuple(
        Case(f"R1-{action}-{k}", f"S{k}", "R1", "A", level, action, 1,
             Outcome.PASS if k < count else Outcome.FAIL)
        for action, count in counts.items() for level in ("L1", "L2") for k in range(n)),
        floor=True) for agent, counts in passed.items()]
    return floor_page(compare(systems, draws_n=1_000), suite="s", construction_sha256="0" * 64,
                      cases_n=4 * n, sessions=dict.fromkeys(passed, n), settings=["default"],
                      made_with="1")


@pytest.mark.parametrize(("count", "said"), [
    (20, "**LISTEN: no evidence by itself.** Passed by `silent` 100 %."),
    (18, "**LISTEN: no evidence by itself.** Passed by `silent` 90 %."),
    (17, "**LISTEN: weak.** Passed in part by `silent` 85 %."),
    (5, "**LISTEN: weak.** Passed in part by `silent` 25 %."),
    (4, "**LISTEN: evidence.** The best floor, `silent`, passes 20 %."),
    (0, "**LISTEN: evidence.** No floor passes a single case."),
])
def test_what_a_pass_is_worth(count: int, said: str) -> None:
    found = page({"silent": {Action.LISTEN: count}, "oracle": {Action.LISTEN: 20}})
    assert said in found


def test_opposites_ends_and_who_is_missing() -> None:
    both = {Action.LISTEN: 20, Action.TAKE_TURN: 6}
    found = page({"silent": {Action.LISTEN: 20, Action.TAKE_TURN: 0}, "random": both,
                  "oracle": {Action.LISTEN: 20, Action.TAKE_TURN: 19},
                  "inverse": {Action.LISTEN: 0, Action.TAKE_TURN: 0}})
    assert "LISTEN and TAKE_TURN: no floor passes more than 30 % of both (`random`)." in found
    assert "`oracle` has 100 % but not on TAKE_TURN." in found
    assert "`inverse` has 0 % on every action." in found
    assert "Best floor of `ias_core`: L1 65.0 (`random`), L2 65.0 (`random`)." in found
    assert "monologue, echo, metronome, long_endpoint, eager were not played" in found
    assert "| random | 0 | 0 | - | - | - | - |" in found
