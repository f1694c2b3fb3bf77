from __future__ import annotations

import math

import pytest

from audio.errors import InputError
from verifiers.scene import Action, CaseParams
from verifiers.thresholds import DEFAULTS, Limits, Thresholds, effective_limits

S = 1_000_000_000


def test_defaults_are_those_of_table_18():
    stated = Thresholds(
        take_turn_max_wait_s=2.0, interrupt_max_latency_ms=1500, yield_max_latency_ms=600,
        backchannel_ceiling_s=1.0, backchannel_max_spans=1, readback_min_coverage=0.9)
    assert stated == DEFAULTS


@pytest.mark.parametrize(("action", "latency_ns"), [
    ("INTERRUPT", 1_500_000_000), ("YIELD", 600_000_000), ("CONTINUE", 600_000_000)])
def test_limits_without_overrides(action, latency_ns):
    assert effective_limits(DEFAULTS, CaseParams(), Action(action)) == Limits(
        max_wait_ns=2 * S, max_latency_ns=latency_ns, ceiling_ns=S, max_spans=1, min_coverage=0.9)


def test_an_override_holds_at_the_default():
    params = CaseParams(max_wait_s=0.8, max_latency_ms=1000, ceiling_s=0.6, max_spans=2,
                        min_coverage=0.5)
    assert effective_limits(DEFAULTS, params, Action.YIELD) == Limits(
        800_000_000, 1_000_000_000, 600_000_000, 2, 0.5)
    assert effective_limits(DEFAULTS, params, Action.INTERRUPT).max_latency_ns == S


def test_a_set_value_scales_the_override_in_proportion():
    thresholds = Thresholds(take_turn_max_wait_s=1.5, interrupt_max_latency_ms=1000,
                            yield_max_latency_ms=1500, backchannel_ceiling_s=0.8,
                            backchannel_max_spans=3, readback_min_coverage=0.8)
    params = CaseParams(max_wait_s=1.2, max_latency_ms=1200, ceiling_s=0.5, max_spans=2,
                        min_coverage=0.5)
    assert effective_limits(thresholds, params, Action.INTERRUPT) == Limits(
        900_000_000, 800_000_000, 400_000_000, 2, 0.5)
    # a yield override follows the yield setting: 1000 ms x 1500 / 600
    r4 = CaseParams(max_latency_ms=1000)
    assert effective_limits(thresholds, r4, Action.YIELD).max_latency_ns == 2_500_000_000
    assert effective_limits(thresholds, r4, Action.CONTINUE).max_latency_ns == 2_500_000_000


def test_scaling_rounds_to_the_nearest_nanosecond():
    # 1 s x 1 ms / 600 ms = 1 666 666.67 ns; 1 s x 1 ms / 1500 ms = 666 666.67 ns
    thresholds = Thresholds(yield_max_latency_ms=1, interrupt_max_latency_ms=1)
    params = CaseParams(max_latency_ms=1000)
    assert effective_limits(thresholds, params, Action.YIELD).max_latency_ns == 1_666_667
    assert effective_limits(thresholds, params, Action.INTERRUPT).max_latency_ns == 666_667
    # 1.3 s x 1.000000001 / 1 is 1.3000000013 s, a third of a nanosecond over
    near = Thresholds(backchannel_ceiling_s=1.000000001)
    assert effective_limits(near, CaseParams(ceiling_s=1.3), Action.LISTEN).ceiling_ns == \
        1_300_000_001


BAD_TIMES = [0, -1, 60.001, math.nan, math.inf, "1", True, None]


@pytest.mark.parametrize("value", BAD_TIMES)
@pytest.mark.parametrize("name", ["take_turn_max_wait_s", "backchannel_ceiling_s"])
def test_bad_seconds_are_refused(name, value):
    with pytest.raises(InputError, match=f"{name}: expected a number of s above 0 and at most 60"):
        Thresholds(**{name: value})


@pytest.mark.parametrize("value", [*BAD_TIMES[:2], 60_001, math.nan, math.inf, "1", False])
@pytest.mark.parametrize("name", ["interrupt_max_latency_ms", "yield_max_latency_ms"])
def test_bad_milliseconds_are_refused(name, value):
    with pytest.raises(InputError, match=f"{name}: expected a number of ms .* at most 60000"):
        Thresholds(**{name: value})


@pytest.mark.parametrize("value", [0, -1, 1001, 1.0, "1", True])
def test_a_bad_count_is_refused(value):
    with pytest.raises(InputError, match="backchannel_max_spans: expected a whole number from 1"):
        Thresholds(backchannel_max_spans=value)
    with pytest.raises(InputError, match=r"params\.max_spans: expected"):
        effective_limits(DEFAULTS, CaseParams(max_spans=value), Action.LISTEN)


@pytest.mark.parametrize("value", [0, -0.1, 1.0001, 90, math.nan, "0.9", True])
def test_a_bad_coverage_is_refused(value):
    with pytest.raises(InputError, match="readback_min_coverage: expected a ratio"):
        Thresholds(readback_min_coverage=value)
    with pytest.raises(InputError, match=r"params\.min_coverage: expected a ratio"):
        effective_limits(DEFAULTS, CaseParams(min_coverage=value), Action.LISTEN)


@pytest.mark.parametrize("field", ["max_wait_s", "max_latency_ms", "ceiling_s"])
@pytest.mark.parametrize("value", [0, -5, 1e9, math.inf, math.nan, "1"])
def test_a_bad_override_is_refused(field, value):
    with pytest.raises(InputError, match=rf"params\.{field}: expected a number"):
        effective_limits(DEFAULTS, CaseParams(**{field: value}), Action.YIELD)


def test_the_ends_of_the_ranges_are_allowed():
    widest = Thresholds(60, 60_000, 60_000, 60, 1000, 1)
    assert effective_limits(widest, CaseParams(), Action.YIELD).max_latency_ns == 60 * S
    params = CaseParams(60, 60_000, 60, 1000, 1)
    assert effective_limits(DEFAULTS, params, Action.YIELD) == Limits(
        60 * S, 60 * S, 60 * S, 1000, 1)
