"""Win rates in both orders, against published figures and by hand."""

from __future__ import annotations

import pytest

from sweeps.pairwise import BothOrders, pairwise

WIN, LOSS, TIE = ("first", "second"), ("second", "first"), ("tie", "tie")


def of(*counted, calls=None) -> list[BothOrders]:
    """So many pairs of each kind, each of a call of its own unless `calls` share them."""
    choices = [choice for choice, count in counted for _ in range(count)]
    return [BothOrders(f"call {k if calls is None else k % calls}", *choice)
            for k, choice in enumerate(choices)]


def test_the_published_figure():
    """CallScreenBench: 43 pairs, 13 inconsistent (30.2 %), 8 wins of 30: 26.7 % [14, 44]."""
    found = pairwise(of((WIN, 8), (LOSS, 22), (("first", "first"), 13)))
    win, inconsistent = found["win"], found["inconsistent"]
    assert (win["count"], win["n"]) == (8, 30)
    assert round(100 * win["rate"], 1) == 26.7
    assert [round(100 * end) for end in win["ci"]] == [14, 44]
    assert win["ci_over"] == inconsistent["ci_over"] == "pairs"
    assert (inconsistent["count"], inconsistent["n"]) == (13, 43)
    assert round(100 * inconsistent["rate"], 1) == 30.2
    assert (found["losses_n"], found["ties_n"]) == (22, 0)
    assert found["same_place"] == {"first": 13, "second": 0}
    assert "reason" not in win


@pytest.mark.parametrize(("first", "second", "outcome"), [
    ("first", "second", "win"), ("second", "first", "loss"), ("tie", "tie", "tie"),
    ("first", "first", "inconsistent"), ("second", "second", "inconsistent"),
    ("first", "tie", "inconsistent"), ("tie", "first", "inconsistent"),
    ("second", "tie", "inconsistent"), ("tie", "second", "inconsistent")])
def test_outcomes(first, second, outcome):
    assert BothOrders("a", first, second).outcome == outcome


def test_ties_are_agreement_and_no_win():
    found = pairwise(of((WIN, 2), (TIE, 1), (LOSS, 1), (("tie", "first"), 1),
                        (("second", "second"), 3)))
    assert (found["win"]["count"], found["win"]["n"], found["ties_n"], found["losses_n"]) == (
        2, 4, 1, 1)
    assert found["win"]["rate"] == 0.5
    assert (found["inconsistent"]["count"], found["inconsistent"]["n"]) == (4, 8)
    assert found["same_place"] == {"first": 0, "second": 3}


@pytest.mark.parametrize("place", ["first", "second"])
def test_a_judge_that_goes_by_the_place_alone(place):
    found = pairwise(of(((place, place), 7)))
    assert found["inconsistent"]["rate"] == 1.0
    assert found["win"] == {"n": 0, "count": 0, "rate": None, "ci": None, "ci_over": None,
                            "reason": "the judge agreed with itself on no pair"}
    assert found["same_place"][place] == 7


def test_nothing_judged():
    found = pairwise([])
    assert found["win"]["rate"] is found["inconsistent"]["rate"] is None
    assert found["win"]["reason"] == found["inconsistent"]["reason"] == (
        "no pair was judged in both orders")


def test_pairs_of_one_call_are_not_independent():
    """Four calls of ten alike pairs: as wide as four calls, not as forty."""
    found = pairwise(of((WIN, 10), (LOSS, 10), (WIN, 10), (LOSS, 10)))["win"]
    assert found["ci_over"] == "pairs"
    clustered = pairwise([BothOrders(f"call {k // 10}", *(WIN if k // 10 % 2 else LOSS))
                          for k in range(40)])["win"]
    assert clustered["ci_over"] == "calls"
    assert clustered["rate"] == found["rate"] == 0.5
    assert clustered["ci"][1] - clustered["ci"][0] > 2 * (found["ci"][1] - found["ci"][0])
    alone = pairwise(of((WIN, 3), (LOSS, 1), calls=1))["win"]
    assert alone["ci_over"] == "pairs"
    assert alone["ci"] == pytest.approx([0.300, 0.954], abs=1e-3)
    two = pairwise(of((WIN, 3), (LOSS, 1), calls=2))["win"]
    assert two["ci_over"] == "calls"
