from __future__ import annotations

import pytest
from scipy.stats import binomtest

from sweeps.intervals import Z_95, wilson


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
