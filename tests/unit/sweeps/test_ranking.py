from __future__ import annotations

import random
from fractions import Fraction

import pytest
from scipy.stats import kendalltau

from sweeps.ranking import kendall_tau_b, rank_stability, ranks


def test_tau_b_equals_scipy_with_and_without_ties():
    rng = random.Random(4)
    for n in (2, 3, 5, 11):
        for _ in range(60):
            x = [rng.randint(0, n) for _ in range(n)]
            y = [rng.randint(0, n) for _ in range(n)]
            expected = kendalltau(x, y).statistic
            got = kendall_tau_b(x, y)
            if got is None:
                assert expected != expected  # scipy says NaN
            else:
                assert got == pytest.approx(expected, abs=1e-12)


def test_tau_b_by_hand():
    assert kendall_tau_b([1, 2, 3], [1, 2, 3]) == 1.0
    assert kendall_tau_b([1, 2, 3], [3, 2, 1]) == -1.0
    assert kendall_tau_b([1, 2, 3], [1, 3, 2]) == pytest.approx(1 / 3)
    assert kendall_tau_b([1, 1, 2], [1, 2, 2]) == pytest.approx(0.5)
    assert kendall_tau_b([1, 1], [1, 2]) is None
    assert kendall_tau_b([1], [1]) is None
    with pytest.raises(ValueError, match="equally long"):
        kendall_tau_b([1], [1, 2])


def test_ranks_share_the_best_place():
    assert ranks([0.5, 0.7, 0.5, 0.1]) == (2, 1, 2, 4)
    assert ranks([Fraction(1, 3), Fraction(2, 6)]) == (1, 1)


def fractions(*rows):
    return [[None if value is None else Fraction(value) for value in row] for row in rows]


def test_the_three_shares():
    rows = fractions(
        (9, 7, 3, 1),   # the default
        (5, 4, 3, 2),   # the same order
        (9, 7, 1, 3),   # the tail changes
        (7, 9, 3, 1),   # the two largest swap
        (9, 3, 7, 1),   # another second
        (9, 9, 3, 1))   # a tie at the top
    got = rank_stability(["a", "b", "c", "d"], rows, 0)
    assert (got.n_settings, got.largest_unchanged, got.two_largest_unchanged,
            got.order_unchanged) == (6, 4, 3, 2)
    assert got.tau[:2] == (1.0, 1.0)
    assert got.tau_max == 1.0
    assert got.tau_min == pytest.approx(4 / 6)
    assert got.reason is None


def test_gaps_of_different_denominators_are_ranked_exactly():
    # 1/3 > 2/7 > 1/4, and 2/6 is 1/3; negative ones below.
    row = (Fraction(1, 3), Fraction(2, 7), Fraction(1, 4), Fraction(2, 6), Fraction(-1, 5))
    same = (Fraction(9), Fraction(4), Fraction(3), Fraction(9), Fraction(0))
    apart = (Fraction(9), Fraction(3), Fraction(4), Fraction(9), Fraction(0))
    got = rank_stability(["a", "b", "c", "d", "e"], [row, same, apart], 0)
    assert (got.order_unchanged, got.largest_unchanged) == (2, 3)
    assert got.tau[1] == pytest.approx(1.0)


def test_the_tau_statistics():
    got = rank_stability(["a", "b", "c"], fractions((3, 2, 1), (3, 1, 2), (1, 2, 3)), 0)
    assert got.tau == (1.0, pytest.approx(1 / 3), -1.0)
    assert got.tau_mean == pytest.approx(1 / 9)
    assert got.tau_median == pytest.approx(1 / 3)
    # population: sqrt(mean of squares - square of mean)
    assert got.tau_sd == pytest.approx(((1 + 1 / 9 + 1) / 3 - 1 / 81) ** 0.5)


def test_a_tie_by_default_must_stay_a_tie():
    got = rank_stability(["a", "b", "c"], fractions((5, 5, 1), (5, 5, 1), (5, 4, 1)), 0)
    assert (got.largest_unchanged, got.two_largest_unchanged, got.order_unchanged) == (2, 2, 2)


def test_the_default_may_stand_anywhere():
    got = rank_stability(["a", "b"], fractions((1, 2), (2, 1)), 1)
    assert (got.tau, got.order_unchanged) == ((-1.0, 1.0), 1)


@pytest.mark.parametrize(("systems", "row", "reason"), [
    ((), (), "a ranking needs two systems, got 0"),
    (("a",), (1,), "a ranking needs two systems, got 1"),
    (("a", "b"), (1, None), "a ranking needs two systems, got 1; left out, no gap: b"),
])
def test_no_ranking_without_two_systems(systems, row, reason):
    got = rank_stability(systems, fractions(row, row), 0)
    assert got.reason == reason
    assert (got.tau, got.tau_mean, got.largest_unchanged) == ((), None, None)


def test_a_system_without_a_gap_is_left_out_by_name():
    got = rank_stability(["a", "b", "c"], fractions((1, 2, 3), (1, 2, None)), 0)
    assert got.systems == ("a", "b")
    assert got.reason == "left out, no gap: c"


def test_a_setting_in_which_all_gaps_are_equal_has_no_tau():
    got = rank_stability(["a", "b"], fractions((1, 2), (1, 1)), 0)
    assert got.tau == (1.0, None)
    assert got.tau_mean == 1.0
    assert got.reason == "tau undefined in 1 settings where all gaps are equal"
    flat = rank_stability(["a", "b"], fractions((1, 1)), 0)
    assert (flat.tau_mean, flat.tau_sd, flat.order_unchanged) == (None, None, 1)
