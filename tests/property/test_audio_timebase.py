"""Round trips and monotony of the time base."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from audio.timebase import convert_n, n_to_ns, n_to_s, ns_to_n, ns_to_s, s_to_n, s_to_ns

RATES_HZ = st.sampled_from([8_000, 11_025, 16_000, 22_050, 24_000, 44_100, 48_000, 192_000])
INDICES = st.integers(-(2**45), 2**45)


@given(INDICES, RATES_HZ)
@settings(max_examples=100, deadline=None)
def test_a_sample_index_survives_nanoseconds(n: int, rate_hz: int) -> None:
    assert ns_to_n(n_to_ns(n, rate_hz), rate_hz) == n


@given(st.integers(-(2**40), 2**40), RATES_HZ)
@settings(max_examples=100, deadline=None)
def test_a_sample_index_survives_seconds(n: int, rate_hz: int) -> None:
    assert s_to_n(n_to_s(n, rate_hz), rate_hz) == n


@given(st.integers(-(2**52) + 1, 2**52 - 1))
@settings(max_examples=100, deadline=None)
def test_nanoseconds_survive_seconds_up_to_52_days(ns: int) -> None:
    assert s_to_ns(ns_to_s(ns)) == ns


@given(INDICES, RATES_HZ, RATES_HZ)
@settings(max_examples=100, deadline=None)
def test_an_index_survives_a_higher_rate(n: int, rate_a: int, rate_b: int) -> None:
    low, high = sorted((rate_a, rate_b))
    assert convert_n(convert_n(n, low, high), high, low) == n


@given(st.floats(-1e6, 1e6))
@settings(max_examples=100, deadline=None)
def test_rounding_is_to_nearest_with_ties_upwards(seconds: float) -> None:
    error = Fraction(seconds) * 1_000_000_000 - s_to_ns(seconds)
    assert Fraction(-1, 2) <= error < Fraction(1, 2)


@given(INDICES, RATES_HZ, RATES_HZ)
@settings(max_examples=100, deadline=None)
def test_convert_n_rounds_the_exact_ratio(n: int, from_hz: int, to_hz: int) -> None:
    error = Fraction(n * to_hz, from_hz) - convert_n(n, from_hz, to_hz)
    assert Fraction(-1, 2) <= error < Fraction(1, 2)


@given(INDICES, st.integers(0, 10_000), RATES_HZ)
@settings(max_examples=100, deadline=None)
def test_order_is_kept(n: int, more: int, rate_hz: int) -> None:
    assert n_to_ns(n, rate_hz) <= n_to_ns(n + more, rate_hz)
    assert ns_to_n(n, rate_hz) <= ns_to_n(n + more, rate_hz)
