from __future__ import annotations

import pytest

from verifiers.verdict import Outcome, seconds, spans_s, text_s, verdict

REASONS = {Outcome.PASS: "good", Outcome.FAIL: "bad", Outcome.UNSCORED: "unknown"}


def test_a_verdict_takes_the_sentence_of_its_outcome():
    for outcome, reason in REASONS.items():
        got = verdict(outcome, REASONS, value=0.0, unit="s", limit=1.0)
        assert (got.outcome, got.reason) == (outcome, reason)
        assert got.value == (None if outcome is Outcome.UNSCORED else 0.0)


@pytest.mark.parametrize(("ns", "beside", "expected"), [
    (600_000_000, None, "0.600 s"), (600_000_000, 600_000_000, "0.600 s"),
    (600_000_001, 600_000_000, "0.600000001 s"), (600_000_000, 601_000_000, "0.600 s"),
    (-1_500_000_000, None, "-1.500 s")])
def test_text_shows_a_difference_that_decides(ns, beside, expected):
    assert text_s(ns, beside) == expected


def test_seconds_keep_none():
    assert (seconds(None), seconds(0), seconds(1_500_000_000)) == (None, 0.0, 1.5)
    assert spans_s(((-1, 0),)) == ((-1e-9, 0.0),)
