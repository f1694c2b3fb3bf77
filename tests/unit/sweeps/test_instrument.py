"""What settings of the detector do, on verdicts that are written down."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sweeps.instrument import OVERALL, conclusion, conclusions, flips_by_action, rankings
from sweeps.sweep import Cases, sweep_settings
from sweeps.threshold_grid import VerdictMatrix


def cases(actions: list[str], levels: list[str] | None = None) -> Cases:
    n = len(actions)
    return Cases(np.array([f"c{i}" for i in range(n)]), np.ones(n, np.int64),
                 np.array(levels or ["L1"] * n), np.array(actions))


def verdicts(*rows: str) -> VerdictMatrix:
    """A row a setting, a character a case: 1 passed, 0 failed, - unscored."""
    table = np.array([list(row) for row in rows])
    return VerdictMatrix(table == "1", table == "-")


def test_flips_are_counted_by_action_and_by_what_they_became() -> None:
    found = flips_by_action(cases(["LISTEN", "LISTEN", "YIELD", "YIELD", "YIELD"]),
                            verdicts("10101", "00101", "1111-", "-0-10"), 0)
    assert list(found) == [OVERALL, "LISTEN", "YIELD"]
    listen, held, overall = found["LISTEN"], found["YIELD"], found[OVERALL]
    assert (listen.n_cases, held.n_cases, overall.n_cases) == (2, 3, 5)
    assert listen.to_fail.tolist() == [0, 1, 0, 0]
    assert listen.to_pass.tolist() == [0, 0, 1, 0]
    assert listen.to_unscored.tolist() == [0, 0, 0, 1]
    assert held.to_fail.tolist() == [0, 0, 0, 1]
    assert held.to_pass.tolist() == [0, 0, 1, 1]
    assert held.to_unscored.tolist() == [0, 0, 1, 1]
    assert overall.total.tolist() == [0, 1, 3, 4]


def test_another_default_turns_flips_round() -> None:
    found = flips_by_action(cases(["LISTEN"]), verdicts("1", "0"), 1)["LISTEN"]
    assert (found.to_pass.tolist(), found.to_fail.tolist()) == ([1, 0], [0, 0])


def of(*values: str | None, default: int = 0):
    return conclusion([None if v is None else Fraction(v) for v in values], default, kind="order",
                      pool="core", level="L2", first="a", second="b")


@pytest.mark.parametrize("sign", ["", "-"])
def test_a_conclusion_survives_while_the_sign_is_the_same(sign: str) -> None:
    kept = of(f"{sign}1/4", f"{sign}1/2", f"{sign}1/100")
    assert kept is not None
    assert kept.survives
    assert (kept.lost, kept.reversed_n) == ((), 0)
    lost = of(f"{sign}1/4", f"{sign}1/3", "0", ("" if sign else "-") + "1/8", None)
    assert lost is not None
    assert not lost.survives
    assert (lost.lost, lost.reversed_n) == ((2, 3, 4), 1)


def test_figures_of_a_conclusion() -> None:
    found = of("1/8", "1/4", "-1/2", default=1)
    assert found is not None
    assert (found.default, found.lowest, found.highest, found.lost) == (0.25, -0.5, 0.25, (2,))
    assert found.as_dict()["survives"] is False
    assert found.as_dict()["lost"] == [2]


def test_no_difference_concludes_nothing() -> None:
    assert of("0", "1/4") is None
    assert of(None, "1/4") is None
    assert of("1/4", "0", default=1) is None


@pytest.fixture
def swept():
    # Two systems, three settings, L1 and L2 of LISTEN (core) and BACKCHANNEL (not).
    columns = cases(["LISTEN"] * 4 + ["BACKCHANNEL"] * 2, ["L1", "L1", "L2", "L2", "L1", "L2"])
    return sweep_settings({
        "a": (columns, verdicts("110010", "111110", "110010")),
        "b": (columns, verdicts("100000", "100000", "101100")),
    }, ["default", "loose", "strict"], 0)


def test_orders_and_effects_of_systems(swept) -> None:
    found = {(c.kind, c.pool, c.level, c.first, c.second): c
             for c in conclusions(swept.systems, 0, 3)}
    order = found["order", "core", "L1", "a", "b"]
    assert (order.default, order.survives) == (0.5, True)
    # a = b on L2 at the default: nothing is concluded
    assert ("order", "core", "L2", "a", "b") not in found
    gap = found["entailment_gap", "core", None, "a", None]
    assert (gap.default, gap.lost, gap.reversed_n) == (1.0, (1,), 0)
    other = found["entailment_gap", "core", None, "b", None]
    assert (other.default, other.lost, other.reversed_n) == (0.5, (2,), 1)
    assert found["order", "all", "L1", "a", "b"].default == pytest.approx(2 / 3)
    # No L3: the other effects have no value.
    assert {kind for kind, *_ in found} == {"order", "entailment_gap"}


def test_l4a_is_in_no_conclusion_and_no_ranking() -> None:
    result = sweep_settings({"a": (cases(["LISTEN"], ["L4a"]), verdicts("1")),
                             "b": (cases(["LISTEN"], ["L4a"]), verdicts("0"))}, ["default"], 0)
    assert conclusions(result.systems, 0, 1) == []
    assert rankings(result.systems, 0, 1) == {"core": {}, "all": {}}


def test_rankings_by_level(swept) -> None:
    found = rankings(swept.systems, 0, 3)
    assert list(found["core"]) == ["L1", "L2"]
    assert found["core"]["L1"].order_unchanged == 3
    # Tied at the default, then a before b, then b before a.
    assert found["core"]["L2"].order_unchanged == 1
