"""Agreement of two raters: figures worked out by hand, and SciPy's beside them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sweeps.agreement import (
    Figure,
    accuracy,
    cohen_kappa,
    macro_f1,
    mean_absolute_error,
    mean_difference,
    mean_ranks,
    pearson,
    spearman,
)

A, B = [10, 20, 20, 40], [10, 30, 20, 20]


def test_pearson_by_hand() -> None:
    # Deviations from 22.5 and 20: (-12.5, -2.5, -2.5, 17.5), (-10, 10, 0, 0); product sum 100,
    # squares 475 and 200.
    assert pearson(A, B) == Figure(pytest.approx(100 / math.sqrt(475 * 200)), 4)


def test_spearman_shares_ranks_of_ties() -> None:
    assert mean_ranks(A) == (1, 2.5, 2.5, 4)
    assert mean_ranks(B) == (1, 4, 2.5, 2.5)
    # Deviations from 2.5: (-1.5, 0, 0, 1.5), (-1.5, 1.5, 0, 0): 2.25 / 4.5.
    assert spearman(A, B) == Figure(0.5, 4)


def test_two_pairs_are_enough_and_one_is_not() -> None:
    assert pearson([1, 2], [9, 3]) == Figure(-1.0, 2)
    for measure in (pearson, spearman):
        assert measure([1], [2]) == Figure(None, 1, "a correlation needs two pairs, got 1")
        assert measure([], []).value is None
        assert measure([5, 5], [1, 2]) == Figure(None, 2, "the first gave one value alone")
        assert measure([1, 2], [5, 5]) == Figure(None, 2, "the second gave one value alone")


def test_errors_of_a_scale_by_hand() -> None:
    assert mean_absolute_error(A, B) == Figure(30 / 4, 4)
    assert mean_difference(A, B) == Figure(-10 / 4, 4)
    for measure in (mean_absolute_error, mean_difference):
        assert measure([], []) == Figure(None, 0, "no pair")


# 10 pairs: a-a 4, a-b 1, b-a 2, b-b 1, c-b 1, c-c 1.
X = [*"aaaaabbbcc"]
Y = [*"aaaabaabbc"]


def test_labels_by_hand() -> None:
    assert accuracy(X, Y) == Figure(0.6, 10)
    # Given 5, 3, 2 and 6, 3, 1 times: F1 8/11, 2/6, 2/3.
    assert macro_f1(X, Y) == Figure(pytest.approx((8 / 11 + 1 / 3 + 2 / 3) / 3), 10)
    # By chance (5 * 6 + 3 * 3 + 2 * 1) / 100 = 0.41.
    assert cohen_kappa(X, Y) == Figure(pytest.approx((0.6 - 0.41) / (1 - 0.41)), 10)


def test_a_label_that_one_side_alone_gave_counts_nothing_in_macro_f1() -> None:
    assert macro_f1(["a", "a"], ["a", "b"]) == Figure(pytest.approx((2 / 3 + 0) / 2), 2)
    assert cohen_kappa(["a", "a"], ["a", "b"]) == Figure(0.0, 2)
    assert cohen_kappa(["a", "b"], ["b", "a"]) == Figure(-1.0, 2)


def test_labels_that_say_nothing() -> None:
    for measure in (accuracy, macro_f1, cohen_kappa):
        assert measure([], []) == Figure(None, 0, "no pair")
    assert cohen_kappa(["a", "a"], ["a", "a"]) == Figure(None, 2, "both gave one label throughout")
    assert (accuracy(["a"], ["a"]).value, macro_f1(["a"], ["a"]).value) == (1.0, 1.0)


@pytest.mark.parametrize("measure", [pearson, spearman, mean_absolute_error, mean_difference,
                                     accuracy, macro_f1, cohen_kappa])
def test_sequences_of_different_lengths_are_refused(measure) -> None:
    with pytest.raises(ValueError, match="expected equally long sequences, got 1 and 2"):
        measure(["a"], ["a", "b"])


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), min_size=2, max_size=40))
def test_correlations_are_those_of_scipy(pairs: list[tuple[int, int]]) -> None:
    x, y = zip(*pairs, strict=True)
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert pearson(x, y).value is spearman(x, y).value is None
        return
    assert pearson(x, y).value == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-9)
    assert spearman(x, y).value == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-9)
    assert -1.0 <= (pearson(x, y).value or 0.0) <= 1.0


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd")), min_size=1,
                max_size=40))
def test_labels_agree_alike_whoever_comes_first(pairs: list[tuple[str, str]]) -> None:
    x, y = zip(*pairs, strict=True)
    for measure in (accuracy, macro_f1, cohen_kappa):
        assert measure(x, y).value == pytest.approx(measure(y, x).value)
