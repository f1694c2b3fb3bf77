"""TAKE_TURN and INTERRUPT: a genuine onset within a bound."""

from __future__ import annotations

import pytest

from verifiers.thresholds import Thresholds

UP_TO = "; what is absent shows only up to 0.500 s before its end"

MS = 1_000_000
S = 1000 * MS
LIMITS = [("TAKE_TURN", 2 * S), ("INTERRUPT", 1500 * MS)]


@pytest.mark.parametrize(("action", "limit"), LIMITS)
@pytest.mark.parametrize(("from_limit", "outcome"), [(-1, "pass"), (0, "pass"), (1, "fail")])
def test_the_limit_itself_passes(make, action, limit, from_limit, outcome):
    onset = limit + from_limit
    assert make(action).outcome((onset, onset + S)) == outcome


@pytest.mark.parametrize(("action", "limit"), LIMITS)
def test_what_is_an_onset(make, action, limit):
    verifier = make(action)
    assert verifier.outcome() == "fail"
    assert verifier.outcome((0, S)) == "pass"
    assert verifier.outcome((-1, 5 * S)) == "fail"                       # held the floor already
    assert verifier.outcome((-S, 500 * MS), (S, 2 * S)) == "pass"        # began anew
    assert verifier.outcome((S, S + 90 * MS)) == "pass"                  # an "mm" has no minimum
    assert verifier.outcome((limit + 1, limit + S)) == "fail"
    assert verifier.outcome((S, 2 * S), length=S) == "fail"              # behind the window
    assert verifier.outcome((S - 1, 2 * S), length=S) == "pass"


@pytest.mark.parametrize(("action", "override", "limit"), [
    ("TAKE_TURN", {"max_wait_s": 0.8}, 800 * MS),
    ("TAKE_TURN", {"max_wait_s": 1.2, "thresholds": Thresholds(take_turn_max_wait_s=2.5)},
     1500 * MS),
    ("TAKE_TURN", {"max_latency_ms": 100}, 2 * S),
    ("INTERRUPT", {"max_latency_ms": 1200}, 1200 * MS),
    ("INTERRUPT", {"max_latency_ms": 1200, "thresholds": Thresholds(interrupt_max_latency_ms=1000)},
     800 * MS),
    ("INTERRUPT", {"thresholds": Thresholds(yield_max_latency_ms=100)}, 1500 * MS),
    ("INTERRUPT", {"max_wait_s": 0.1}, 1500 * MS),
])
def test_overrides(make, action, override, limit):
    verifier = make(action)
    assert verifier.outcome((limit, limit + S), **override) == "pass"
    assert verifier.outcome((limit + 1, limit + S), **override) == "fail"


@pytest.mark.parametrize(("action", "limit"), LIMITS)
def test_short_recordings(make, action, limit):
    verifier = make(action)
    margin = 500 * MS
    assert verifier.outcome(recorded=limit + margin) == "fail"
    assert verifier.outcome(recorded=limit + margin - 1) == "unscored"
    # a window shorter than the limit bounds the wait
    assert verifier.outcome(recorded=S + margin, length=S) == "fail"
    assert verifier.outcome(recorded=S + margin - 1, length=S) == "unscored"
    # an onset decides at once
    assert verifier.outcome((S, S + 1), recorded=S + 1) == "pass"
    assert verifier.outcome((limit + 1, limit + 2), recorded=limit + 2) == "fail"
    assert verifier.outcome((-S, S), recorded=S) == "unscored"
    assert verifier.outcome(recorded=0) == "unscored"


def test_take_turn_says_what_it_saw(make):
    verifier = make("TAKE_TURN")
    assert verifier.reason((412 * MS, S)) == \
        "the model began 0.412 s into the window (wait at most 2.000 s)"
    assert verifier.reason((2 * S + 1, 3 * S)) == \
        "the model began 2.000000001 s into the window (wait at most 2.000000000 s)"
    assert verifier.reason() == "no model onset in the window (wait at most 2.000 s)"
    assert verifier.reason((-S, S)) == ("no model onset in the window; speech that already held "
                                        "the floor is no onset (wait at most 2.000 s)")
    assert verifier.reason(recorded=S) == \
        "the recording ends 1.000 s into the window, before a wait of 2.000 s was over" + UP_TO
    verdict = verifier.judge((412 * MS, S), max_wait_s=1.5)[1]
    assert (verdict.value, verdict.unit, verdict.limit) == (0.412, "s", 1.5)
    assert dict(verdict.evidence)["first_span_s"] == 0.588
    assert verifier.judge()[1].value is None


def test_interrupt_says_what_it_saw(make):
    verifier = make("INTERRUPT")
    assert verifier.reason((412 * MS, S)) == \
        "the model cut in 0.412 s after the trigger (latency at most 1.500 s)"
    assert verifier.reason() == "no model onset after the trigger (latency at most 1.500 s)"
    assert verifier.reason((-S, S)) == ("no model onset after the trigger; speech that already "
                                        "held the floor is no cut-in (latency at most 1.500 s)")
    assert verifier.reason(recorded=S) == \
        "the recording ends 1.000 s after the trigger, before a latency of 1.500 s was over" + UP_TO
    verdict = verifier.judge((412 * MS, S), max_latency_ms=1200)[1]
    assert (verdict.value, verdict.unit, verdict.limit) == (0.412, "s", 1.2)
    assert dict(verdict.evidence)["first_span_s"] == 0.588
