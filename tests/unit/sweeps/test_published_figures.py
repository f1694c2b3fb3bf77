"""What the paper's own tables say about its headline number and its gaps."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path

import pytest

from verifiers.scene import CORE_ACTIONS, Action

FOLDER = Path(__file__).parents[4] / "shared" / "data" / "published"
CASES = {"LISTEN": 273, "TAKE_TURN": 168, "BACKCHANNEL": 152, "YIELD": 126, "INTERRUPT": 120,
         "READBACK": 94, "NO_BACKCHANNEL": 42, "ACCEPT_OVERLAP": 42, "CONTINUE": 21}
CORE_CASES = {"L0": 31, "L1": 155, "L2": 155, "L3": 155, "L4a": 155, "L4b": 10}

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the published tables are not here")


def table(name: str) -> dict[str, dict[str, float]]:
    with (FOLDER / f"dsb_{name}.csv").open(encoding="utf-8") as file:
        return {row.pop("system"): {k: float(v) for k, v in row.items()}
                for row in csv.DictReader(file)}


def pooled(rates: dict[str, float], cases: dict[str, int]) -> float:
    return sum(rates[name] * n for name, n in cases.items()) / sum(cases.values())


def test_the_headline_pools_the_four_core_actions_and_no_other_subset():
    by_action, by_level = table("ias_by_action"), table("ias_by_level")
    assert set(by_action) == set(by_level)
    assert len(by_action) == 11

    def distances(actions):
        cases = {action: CASES[action] for action in actions}
        return [abs(pooled(by_action[name], cases) - pooled(by_level[name], CORE_CASES))
                for name in by_action]

    core = distances([str(action) for action in CORE_ACTIONS])
    assert sum(core) / 11 == pytest.approx(0.05, abs=0.01)
    assert max(core) == pytest.approx(0.20, abs=0.01)
    names = [str(action) for action in Action]
    others = [subset for n in range(1, 10) for subset in itertools.combinations(names, n)
              if set(subset) != {str(action) for action in CORE_ACTIONS}]
    means = [sum(distances(subset)) / 11 for subset in others]
    assert min(means) == pytest.approx(1.4, abs=0.05)
    assert sum(CASES.values()) == 1038
    assert sum(CASES[str(action)] for action in CORE_ACTIONS) == sum(CORE_CASES.values()) == 661


def test_the_entailment_gap_is_l1_minus_l2():
    by_level, effects = table("ias_by_level"), table("effects")
    for name, effect in effects.items():
        level = by_level[name]
        # both tables are rounded to a tenth
        assert effect["entailment_gap"] == pytest.approx(level["L1"] - level["L2"], abs=0.11)
        assert effect["redundancy_gain"] == pytest.approx(level["L3"] - level["L2"], abs=0.11)
        assert effect["role_tax"] == pytest.approx(level["L3"] - level["L1"], abs=0.11)
