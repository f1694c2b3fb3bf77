"""Known right values for every conversion, with ties, signs and sizes at the edge."""

from __future__ import annotations

import math

import numpy as np
import pytest

from audio.timebase import (
    ANALYSIS_RATE_HZ,
    FRAME_NS,
    SESSION_RATE_HZ,
    convert_n,
    ms_to_ns,
    n_to_ns,
    n_to_s,
    ns_to_n,
    ns_to_s,
    s_to_n,
    s_to_ns,
)


def test_constants_are_those_of_the_paper() -> None:
    assert (SESSION_RATE_HZ, ANALYSIS_RATE_HZ, FRAME_NS) == (24_000, 16_000, 20_000_000)


@pytest.mark.parametrize(
    ("seconds", "ns"),
    [
        (0.0, 0),
        (1.0, 1_000_000_000),
        (0.3, 300_000_000),
        (-0.3, -300_000_000),
        (1e-9, 1),
        (3600.000000001, 3_600_000_000_001),
        # The largest float below a half: adding 0.5 to it in floats gives 1.
        (0.49999999999999994e-9, 0),
        (6, 6_000_000_000),
    ],
)
def test_s_to_ns(seconds: float, ns: int) -> None:
    assert s_to_ns(seconds) == ns


def test_ties_go_upwards_on_both_sides_of_zero() -> None:
    # 2**-10 s is 976562.5 ns exactly.
    assert s_to_ns(2**-10) == 976_563
    assert s_to_ns(-(2**-10)) == -976_562
    assert ms_to_ns(2**-7) == 7_813  # 7812.5 ns
    assert ms_to_ns(-(2**-7)) == -7_812
    assert s_to_n(0.5, 1) == 1
    assert s_to_n(-0.5, 1) == 0
    assert ns_to_n(62_500, 8_000) == 1  # half a sample of 125 microseconds
    assert ns_to_n(-62_500, 8_000) == 0
    assert convert_n(1, 16_000, 8_000) == 1
    assert convert_n(-1, 16_000, 8_000) == 0
    assert n_to_ns(1, 2_000_000_000) == 1
    assert n_to_ns(-1, 2_000_000_000) == 0


@pytest.mark.parametrize(
    ("n", "rate_hz", "ns"),
    [
        (1, 24_000, 41_667),
        (2, 24_000, 83_333),
        (3, 24_000, 125_000),
        (-1, 24_000, -41_667),
        (1, 44_100, 22_676),
        (44_100, 44_100, 1_000_000_000),
        (512, 16_000, 32_000_000),
    ],
)
def test_n_to_ns(n: int, rate_hz: int, ns: int) -> None:
    assert n_to_ns(n, rate_hz) == ns
    assert ns_to_n(ns, rate_hz) == n


def test_convert_n() -> None:
    assert convert_n(3, 24_000, 16_000) == 2
    assert convert_n(1, 24_000, 16_000) == 1
    assert convert_n(441, 44_100, 16_000) == 160
    assert convert_n(80, 48_000, 44_100) == 74  # 73.5
    assert convert_n(-80, 48_000, 44_100) == -73
    assert convert_n(7, 8_000, 8_000) == 7


def test_seconds_of_samples() -> None:
    assert n_to_s(12_000, 24_000) == 0.5
    assert n_to_s(-12_000, 24_000) == -0.5
    assert s_to_n(0.5, 24_000) == 12_000
    assert ns_to_s(1_500_000_000) == 1.5
    assert ms_to_ns(90) == 90_000_000
    assert ms_to_ns(-0.5) == -500_000


def test_huge_values_stay_exact() -> None:
    ten_years_n = 10 * 365 * 86_400 * 768_000
    assert ns_to_n(n_to_ns(ten_years_n, 768_000), 768_000) == ten_years_n
    assert convert_n(2**80, 1, 2) == 2**81
    assert s_to_ns(2.0**70) == 2**70 * 1_000_000_000
    # An odd count of half nanoseconds just below 2**52 ns: floats cannot add 0.5 to it.
    assert s_to_ns(ns_to_s(2**52 - 1)) == 2**52 - 1


@pytest.mark.parametrize("kind", [np.int16, np.int32, np.int64])
def test_numpy_integers_do_not_overflow(kind: type[np.signedinteger]) -> None:
    n = kind(30_000)
    assert n_to_ns(n, 24_000) == 1_250_000_000
    assert convert_n(n, 16_000, 24_000) == 45_000
    assert type(n_to_ns(n, 24_000)) is int
    assert n_to_ns(30_000, kind(8_000)) == 3_750_000_000


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_time_that_is_not_finite_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="time must be finite"):
        s_to_ns(bad)
    with pytest.raises(ValueError, match="time must be finite"):
        ms_to_ns(bad)
    with pytest.raises(ValueError, match="time must be finite"):
        s_to_n(bad, 16_000)


@pytest.mark.parametrize("rate_hz", [0, -16_000])
def test_rate_that_is_not_positive_is_refused(rate_hz: int) -> None:
    for call in (
        lambda: n_to_ns(1, rate_hz),
        lambda: ns_to_n(1, rate_hz),
        lambda: s_to_n(1.0, rate_hz),
        lambda: n_to_s(1, rate_hz),
        lambda: convert_n(1, rate_hz, 8_000),
        lambda: convert_n(1, 8_000, rate_hz),
    ):
        with pytest.raises(ValueError, match="sample rate must be positive"):
            call()


def test_a_float_is_no_index() -> None:
    with pytest.raises(TypeError):
        n_to_ns(1.5, 16_000)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        ns_to_n(1e9, 16_000)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        n_to_ns(1, 16_000.0)  # type: ignore[arg-type]
