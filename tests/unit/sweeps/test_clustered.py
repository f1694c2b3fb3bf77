"""Intervals over calls, against what is known of them beforehand."""

from __future__ import annotations

import numpy as np
import pytest

from sweeps.clustered import (
    clustered_percentile,
    clustered_percentile_difference,
    clustered_rate,
)
from sweeps.intervals import wilson


def test_one_call_has_the_interval_of_its_own_trials():
    assert clustered_rate([(3, 10)]) == wilson(3, 10)
    assert clustered_rate([(0, 0), (3, 10), (0, 0)]) == wilson(3, 10)


def test_nothing_counted_has_none():
    assert clustered_rate([]) is None
    assert clustered_rate([(0, 0), (0, 0)]) is None


@pytest.mark.parametrize("part", [(-1, 2), (3, 2)])
def test_impossible_counts_are_refused(part):
    with pytest.raises(ValueError, match="0 <= count <= n"):
        clustered_rate([(1, 2), part])


@pytest.mark.parametrize(("parts", "expected"), [
    ([(0, 2), (0, 9)], wilson(0, 2)), ([(2, 2), (9, 9), (1, 1)], wilson(3, 3))])
def test_all_at_one_end_is_no_certainty(parts, expected):
    assert clustered_rate(parts) == expected


def test_one_call_off_the_end_is_drawn():
    assert clustered_rate([(0, 2), (0, 2), (1, 2)]) == (0.0, pytest.approx(0.5))
    assert clustered_rate([(2, 2), (2, 2), (1, 2)]) == (pytest.approx(0.5), 1.0)


def test_calls_alike_leave_no_doubt_and_calls_apart_leave_all():
    assert clustered_rate([(5, 10)] * 20) == (0.5, 0.5)
    low, high = clustered_rate([(10, 10), (0, 10)])
    assert (low, high) == (0.0, 1.0)


def test_the_width_is_that_of_the_calls_and_not_of_their_turns():
    # 30 calls of 20 turns, all or nothing: as if 30 turns had been seen
    parts = [(20, 20)] * 15 + [(0, 20)] * 15
    low, high = clustered_rate(parts)
    expected = 1.96 * np.sqrt(0.25 / 30)
    assert high - low == pytest.approx(2 * expected, rel=0.12)
    assert clustered_rate(parts) == (low, high), "seeded"


def test_percentiles_pool_the_calls():
    assert clustered_percentile([], 50) is None
    assert clustered_percentile([[1.0, 2.0], []], 50) is None
    assert clustered_percentile([[1.0], [1.0]], 50) == (1.0, 1.0)
    low, high = clustered_percentile([[100.0] * 9, [200.0] * 9], 50)
    assert (low, high) == (100.0, 200.0)


@pytest.mark.parametrize("percent", [10, 50, 90])
def test_a_draw_is_numpys_percentile_of_the_drawn_calls(percent, monkeypatch):
    calls = [[5.0, 1.0, 9.0], [2.0], [7.0, 3.0]]
    weights = np.array([[2, 0, 1], [0, 3, 0], [1, 1, 1]])
    monkeypatch.setattr("sweeps.clustered._weights", lambda clusters: [weights])
    expected = [np.percentile([v for call, k in zip(calls, row, strict=True)
                               for v in call * int(k)], percent) for row in weights]
    found = clustered_percentile(calls, percent)
    np.testing.assert_allclose(found, np.percentile(expected, [2.5, 97.5]))


def test_the_difference_of_two_percentiles_draws_the_same_calls_for_both(monkeypatch):
    first = [[5.0, 1.0, 9.0], [2.0], [], [7.0, 3.0]]
    second = [[6.0, 1.5], [2.0, 8.0], [], [70.0]]
    weights = np.array([[2, 0, 1], [0, 3, 0], [1, 1, 1]])
    monkeypatch.setattr("sweeps.clustered._weights", lambda clusters: [weights])

    def medians(calls):
        held = [c for c in calls if c]
        return np.array([np.percentile([v for c, k in zip(held, row, strict=True)
                                        for v in c * int(k)], 50) for row in weights])

    found = clustered_percentile_difference(first, second, 50)
    expected = np.percentile(medians(second) - medians(first), [2.5, 97.5])
    np.testing.assert_allclose(found, expected)


def test_a_constant_difference_leaves_no_doubt():
    first = [[100.0, 900.0, 40.0], [300.0], [20.0, 80.0]]
    second = [[v + 10 for v in call] for call in first]
    assert clustered_percentile_difference(first, second, 50) == (10.0, 10.0)
    assert clustered_percentile_difference(first[:1], second[:1], 50) is None
    assert clustered_percentile_difference([[1.0], []], [[2.0], []], 50) is None
    assert clustered_percentile_difference([[1.0], [1.0]], [[2.0], [2.0]], 50) == (1.0, 1.0)
    with pytest.raises(ValueError, match="of both kinds"):
        clustered_percentile_difference([[1.0], []], [[1.0], [2.0]], 50)
