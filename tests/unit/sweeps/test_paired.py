"""Exact paired tests: values known by hand, and agreement with brute force."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.paired import (
    ALPHA,
    holm,
    mcnemar,
    pass_hat_k,
    resolution,
    sign_flip,
    trial_variance,
    upper_bound_of_zero,
)


@pytest.mark.parametrize(("b", "c", "p"), [
    (0, 0, 1.0), (1, 0, 1.0), (5, 0, 0.0625), (6, 0, 0.03125), (0, 6, 0.03125),
    (10, 2, 2 * (1 + 12 + 66) / 4096), (7, 7, 1.0), (20, 10, 0.09873714670538902)])
def test_mcnemar_known_values(b: int, c: int, p: float) -> None:
    assert mcnemar(b, c) == pytest.approx(p, abs=1e-15)
    assert mcnemar(c, b) == mcnemar(b, c)


def test_a_net_of_five_in_155_is_not_significant() -> None:
    # The published table stars several such effects; an exact test cannot (design page).
    assert mcnemar(5, 0) > ALPHA
    assert resolution(155, 0.1).certain == 6 / 155


def brute_force(sums: list[int]) -> float:
    sizes = [abs(s) for s in sums]
    seen = abs(sum(sums))
    all_sums = [abs(sum(s * x for s, x in zip(signs, sizes, strict=True)))
                for signs in itertools.product((-1, 1), repeat=len(sizes))]
    return sum(s >= seen for s in all_sums) / len(all_sums)


@given(st.lists(st.integers(-3, 3), max_size=10))
def test_sign_flip_counts_every_assignment(sums: list[int]) -> None:
    assert sign_flip(sums) == pytest.approx(brute_force(sums), abs=1e-12)


@given(st.integers(0, 30), st.integers(0, 30))
def test_clusters_of_one_pair_are_mcnemar(b: int, c: int) -> None:
    assert sign_flip([1] * b + [-1] * c) == pytest.approx(mcnemar(b, c), abs=1e-12)


def test_sums_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeps.paired.MAX_CLUSTER_SUM", 4)
    assert sign_flip([2, -2]) == 1.0
    with pytest.raises(ValueError, match="at most 4 together, got 5"):
        sign_flip([3, 2])


def test_clusters_count_less_than_their_pairs() -> None:
    # Six pairs in two streams of three: two streams cannot be significant, six pairs were.
    assert sign_flip([3, 3]) == 0.5
    assert mcnemar(6, 0) < ALPHA
    assert sign_flip([]) == 1.0


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx((0.03, 0.06, 0.06))
    assert holm([0.5, 0.9]) == (1.0, 1.0)
    assert holm([]) == ()
    with pytest.raises(ValueError, match="probabilities"):
        holm([1.1])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_no_smaller_than_raw_and_keeps_order(p: list[float]) -> None:
    adjusted = holm(p)
    assert all(a >= r for a, r in zip(adjusted, p, strict=True))
    order = sorted(range(len(p)), key=p.__getitem__)
    assert all(adjusted[a] <= adjusted[b] for a, b in itertools.pairwise(order))


def test_rule_of_three() -> None:
    assert upper_bound_of_zero(0) is None
    assert upper_bound_of_zero(1) == pytest.approx(0.95)
    for n in (30, 100, 1000):
        assert upper_bound_of_zero(n) == pytest.approx(3 / n, rel=0.06)


def test_resolution() -> None:
    none = resolution(5, 0.5)
    assert (none.certain, none.powered) == (None, None)  # six pairs are needed at the least
    found = resolution(240, 0.2)
    assert found.certain == 6 / 240
    assert found.powered is not None
    left = math.sqrt(240) * found.powered
    right = 1.959964 * math.sqrt(0.2) + 0.841621 * math.sqrt(0.2 - found.powered**2)
    assert left == pytest.approx(right, rel=1e-5)
    # Four times the pairs resolve about half of it.
    quarter = resolution(960, 0.2).powered
    assert quarter == pytest.approx(found.powered / 2, rel=0.02)
    assert resolution(240, 0.0).powered is None


def test_resolution_of_pairs_in_clusters() -> None:
    # Six pairs of 36, each in a cluster of its own, are significant; five are not.
    assert sign_flip([1] * 6 + [0] * 6) <= 0.05 < sign_flip([1] * 5 + [0] * 7)
    assert resolution(36, 0.2, 12).certain == 6 / 36
    assert resolution(36, 0.2, 5).certain is None
    assert resolution(36, 0.2, 12).powered == resolution(12, 0.2).powered
    with pytest.raises(ValueError, match="clusters"):
        resolution(3, 0.2, 4)


def test_as_many_pairs_as_the_largest_run_has() -> None:
    assert sign_flip([1_000] * 200) == 2 / 2**200
    assert sign_flip([3, -2, 1, 1]) == pytest.approx(10 / 16)
    with pytest.raises(ValueError, match="at most 2000000"):
        sign_flip([2_000_001])
    n = 100_000  # normal approximation with continuity correction
    z = (n / 2 - 49_700 - 0.5) / math.sqrt(n / 4)
    assert mcnemar(49_700, 50_300) == pytest.approx(math.erfc(z / math.sqrt(2)), rel=1e-3)


def test_pass_hat_k() -> None:
    cases = [(3, 3), (2, 3), (0, 3)]
    assert pass_hat_k(cases, 1) == pytest.approx((1 + 2 / 3 + 0) / 3)
    assert pass_hat_k(cases, 2) == pytest.approx((1 + 1 / 3 + 0) / 3)
    assert pass_hat_k(cases, 3) == pytest.approx(1 / 3)
    assert pass_hat_k(cases, 4) is None
    assert pass_hat_k([(1, 1), (3, 3)], 2) == 1.0
    with pytest.raises(ValueError, match="k >= 1"):
        pass_hat_k(cases, 0)


def test_trial_variance() -> None:
    assert trial_variance([(1, 1)]) is None
    # Two cases of two trials: one always passes, one is split. Inside: (0 + 0.5) / 2.
    found = trial_variance([(2, 2), (1, 2)])
    assert found is not None
    assert (found.cases, found.unstable) == (2, 1)
    assert found.within == pytest.approx(0.25)
    # Between: mean square 2·(1/4)² · 2 / 1 = 0.25; (0.25 - 0.25) / 2.
    assert found.between == pytest.approx(0.0)
    alone = trial_variance([(1, 2), (1, 1)])
    assert alone is not None
    assert (alone.cases, alone.between) == (1, None)
    assert trial_variance([(3, 3), (1, 3)]) is not None
    stable = trial_variance([(2, 2), (0, 2)])
    assert stable is not None
    assert (stable.within, stable.unstable) == (0.0, 0)
    assert stable.between == pytest.approx(0.5)
