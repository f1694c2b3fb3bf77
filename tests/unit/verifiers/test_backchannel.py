from __future__ import annotations

import pytest

from verifiers.thresholds import Thresholds

MS = 1_000_000
S = 1000 * MS


@pytest.mark.parametrize(("model", "outcome"), [
    ((), "fail"),
    (((S, 1300 * MS),), "pass"),
    (((0, 300 * MS),), "pass"),
    (((3 * S - 1, 3300 * MS),), "pass"),
    (((3 * S, 3300 * MS),), "fail"),                       # begins as the window ends
    (((-1, 300 * MS),), "fail"),                           # was there before
    (((S, 2 * S - 1),), "pass"),
    (((S, 2 * S),), "fail"),                               # exactly the ceiling
    (((S, 2 * S + 1),), "fail"),
    (((2900 * MS, 3900 * MS - 1),), "pass"),               # the length is unclipped
    (((2900 * MS, 3900 * MS),), "fail"),
    (((S, 1300 * MS), (2 * S, 2300 * MS)), "fail"),        # two spans
    (((-S, 1), (S, 1300 * MS)), "fail"),                   # over-talk counts as a span
    (((-S, 0), (S, 1300 * MS)), "pass"),                   # over-talk that ended in time
])
def test_one_short_span(make, model, outcome):
    assert make("BACKCHANNEL").outcome(*model) == outcome


def test_the_ceiling_of_the_case_and_of_the_user(make):
    verifier = make("BACKCHANNEL")
    assert verifier.outcome((0, 600 * MS - 1), ceiling_s=0.6) == "pass"
    assert verifier.outcome((0, 600 * MS), ceiling_s=0.6) == "fail"
    strict = Thresholds(backchannel_ceiling_s=0.8)
    assert verifier.outcome((0, 800 * MS), thresholds=strict) == "fail"
    assert verifier.outcome((0, 800 * MS - 1), thresholds=strict) == "pass"
    assert verifier.outcome((0, 480 * MS), ceiling_s=0.6, thresholds=strict) == "fail"
    assert verifier.outcome((0, 480 * MS - 1), ceiling_s=0.6, thresholds=strict) == "pass"


def test_more_spans_may_be_allowed(make):
    verifier = make("BACKCHANNEL")
    two = ((0, 300 * MS), (S, 1300 * MS))
    three = (*two, (2 * S, 2300 * MS))
    loose = Thresholds(backchannel_max_spans=2)
    assert verifier.outcome(two[0], thresholds=loose) == "pass"
    assert verifier.outcome(*two, thresholds=loose) == "pass"
    assert verifier.outcome(*three, thresholds=loose) == "fail"
    assert verifier.outcome(*three, max_spans=3, thresholds=loose) == "pass"
    assert verifier.outcome((-S, S), (2 * S, 2300 * MS), thresholds=loose) == "pass"
    assert verifier.outcome((-S, 3 * S), thresholds=loose) == "fail"


@pytest.mark.parametrize(("second_ns", "flagged"), [(S - 1, False), (S, True), (S + 1, True)])
def test_a_long_span_beside_the_short_one_is_flagged(make, second_ns, flagged):
    flags = make("BACKCHANNEL").flags((0, 300 * MS), (S, S + second_ns), max_spans=2)
    assert ("floor_taken_besides" in flags) is flagged
    failed = make("BACKCHANNEL").flags((0, 300 * MS), (S, S + second_ns))
    assert "floor_taken_besides" not in failed


@pytest.mark.parametrize(("model", "recorded", "max_spans", "outcome"), [
    (((S, 1300 * MS),), 3500 * MS, 1, "pass"),
    (((S, 1300 * MS),), 3500 * MS - 1, 1, "unscored"),      # a second span might have come
    ((), 3500 * MS, 1, "fail"),
    ((), 3500 * MS - 1, 1, "unscored"),
    (((S, 2 * S),), 2 * S, 1, "fail"),                      # has reached the ceiling already
    (((S, 2 * S + 1),), 2 * S + 1, 1, "fail"),
    (((S, 2 * S - 1),), 2 * S, 1, "unscored"),
    (((2900 * MS, 3300 * MS),), 3500 * MS, 1, "unscored"),  # complete, but the span is cut
    (((2900 * MS, 3200 * MS),), 3500 * MS, 1, "pass"),
    (((S, 1200 * MS), (2 * S, 2200 * MS)), 2300 * MS, 1, "fail"),
    (((S, 1200 * MS), (2 * S, 2200 * MS)), 2300 * MS, 2, "unscored"),
    (((-S, S),), 1400 * MS, 1, "fail"),                     # a short one would be the second
    (((-S, S),), 1400 * MS, 2, "unscored"),
])
def test_short_recordings(make, model, recorded, max_spans, outcome):
    verifier = make("BACKCHANNEL")
    assert verifier.outcome(*model, recorded=recorded, max_spans=max_spans) == outcome


def test_it_says_what_it_saw(make):
    verifier = make("BACKCHANNEL")
    assert verifier.reason((S, 1300 * MS)) == (
        "1 model span(s) in the window (at most 1), the first begun one lasts 0.300 s "
        "(shorter than 1.000 s asked)")
    assert verifier.reason((S, 2 * S + 1)).endswith(
        "lasts 1.000000001 s (shorter than 1.000000000 s asked)")
    assert "lasts at least 9.000 s" in verifier.reason((S, 10 * S))
    assert verifier.reason() == "no model span began in the window of 3.000 s"
    assert verifier.reason((-S, S)) == \
        "no model span began in the window of 3.000 s; 1 span(s) ran into it"
    assert verifier.reason(recorded=S).startswith("the recording ends 1.000 s into a window of 3.0")
    verdict = verifier.judge((S, 1300 * MS), ceiling_s=0.6)[1]
    assert (verdict.value, verdict.unit, verdict.limit) == (0.3, "s", 0.6)
    assert dict(verdict.evidence)["spans_in_window"] == 1
    assert dict(verdict.evidence)["max_spans"] == 1
