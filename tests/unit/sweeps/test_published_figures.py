"""What the paper's own tables say about its headline number and its gaps."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path

import pytest

from sweeps.paired import ALPHA, mcnemar
from sweeps.ranking import kendall_tau_b
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


def near_a_count(value: float, n: int, slack: float) -> bool:
    """Whether `value` percent, within `slack` points, is a whole number of cases out of `n`."""
    return any(abs(100 * k / n - value) <= slack + 1e-9 for k in range(-n, n + 1))


def test_the_denominators_are_those_of_31_cells():
    """155 a level, 31 on L0 and 10 on L4b; the two exceptions are those of the design page."""
    apart = {(name, level) for name, levels in table("ias_by_level").items()
             for level, value in levels.items() if not near_a_count(value, CORE_CASES[level], 0.05)}
    assert apart == {("F-Actor", "L0"), *(("Gemini-3.8-Live", f"L{k}") for k in (1, 2, 3))}
    gemini = table("ias_by_level")["Gemini-3.8-Live"]
    assert all(near_a_count(gemini[level], 154, 0.05) for level in ("L1", "L2", "L3"))
    # Not 240: fewer than half of the figures would fit all nine actions.
    fits = [near_a_count(levels[level], 240, 0.05) for levels in table("ias_by_level").values()
            for level in ("L1", "L2", "L3", "L4a")]
    assert sum(fits) < len(fits) / 2


def test_the_effects_follow_the_same_cells():
    # A difference of two figures that are each rounded to a tenth.
    apart = {name for name, effects in table("effects").items() for value in effects.values()
             if not near_a_count(value, 155, 0.1)}
    assert apart == set()


def test_what_an_exact_test_cannot_call_significant():
    """Several published effects are net 5 of 155: even if nothing went the other way, p is above
    0.05, so the paper's stars are not to be reproduced."""
    assert mcnemar(5, 0) == pytest.approx(0.0625)
    assert mcnemar(6, 0) < ALPHA < mcnemar(5, 0)
    net = [round(abs(value) * 1.55) for effects in table("effects").values()
           for value in effects.values()]
    assert net.count(5) == 2
    assert sum(0 < n <= 5 for n in net) == 15


def test_the_ranking_by_the_gap_is_the_published_one():
    gaps = {name: effects["entailment_gap"] for name, effects in table("effects").items()}
    levels = table("ias_by_level")
    again = [levels[name]["L1"] - levels[name]["L2"] for name in gaps]
    assert sorted(gaps, key=gaps.__getitem__, reverse=True)[:2] == ["F-Actor", "GPT-Live-1"]
    # Rounding to a tenth leaves the order as it is.
    assert kendall_tau_b(list(gaps.values()), [round(v, 1) for v in again]) == pytest.approx(1.0)
