from __future__ import annotations

import pytest
from scipy.stats import binom, binomtest

from sweeps.intervals import Z_95, quantile_interval, wilson


@pytest.mark.parametrize("n", [1, 2, 5, 31, 155, 1038])
def test_wilson_equals_scipy(n):
    for passed in sorted({0, 1, n // 3, n // 2, n - 1, n}):
        expected = binomtest(passed, n).proportion_ci(0.95, method="wilson")
        assert wilson(passed, n) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_known_values():
    # 5 of 10: the middle stays 1/2, half the width is z sqrt(1/40 + z²/400) / (1 + z²/10)
    assert wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=5e-5)
    assert wilson(0, 100) == (0.0, pytest.approx(Z_95**2 / (100 + Z_95**2)))
    assert wilson(100, 100)[1] == 1.0
    assert wilson(0, 0) is None


@pytest.mark.parametrize(("passed", "n"), [(-1, 5), (6, 5), (1, 0)])
def test_impossible_counts_are_refused(passed, n):
    with pytest.raises(ValueError, match="expected 0 <= passed <= n"):
        wilson(passed, n)


def test_the_interval_of_a_quantile_equals_the_binomial_one():
    for n, q in ((20, 0.5), (10, 0.5), (36, 0.9), (100, 0.9), (1000, 0.99), (7, 0.3)):
        under = binom(n, q)
        low = [k for k in range(1, n + 1) if under.cdf(k - 1) <= 0.025]
        high = [k for k in range(1, n + 1) if under.sf(k - 1) <= 0.025]
        expected = (max(low, default=None), min(high, default=None))
        assert quantile_interval(range(n, 0, -1), q) == expected
    # Tables of order statistics: the median of 20 lies between the 6th and the 15th.
    assert quantile_interval(range(1, 21), 0.5) == (6, 15)


def test_a_quantile_that_so_few_values_cannot_bound_has_no_end():
    # 0.9^35 is 0.0250316, 0.9^36 is 0.0225: only then is the largest value beyond the p90.
    assert quantile_interval(range(35), 0.9)[1] is None
    assert quantile_interval(range(36), 0.9)[1] == 35
    assert quantile_interval([4.0], 0.5) == (None, None)
    assert quantile_interval([], 0.9) == (None, None)
    # Of 10,000 all at one value both ends are that value.
    assert quantile_interval([3.0] * 10_000, 0.99) == (3.0, 3.0)


@pytest.mark.parametrize("q", [0.0, 1.0, -0.1, 1.1])
def test_what_is_no_quantile_is_refused(q):
    with pytest.raises(ValueError, match="expected a quantile between 0 and 1"):
        quantile_interval([1.0], q)
