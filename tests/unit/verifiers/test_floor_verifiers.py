"""YIELD, CONTINUE and ACCEPT_OVERLAP: what a barge-in does to a speaking model."""

from __future__ import annotations

import pytest

from verifiers.thresholds import Thresholds

UP_TO = "; what is absent shows only up to 0.500 s before its end"

MS = 1_000_000
S = 1000 * MS
LIMIT = 600 * MS
END = 10 * S


@pytest.mark.parametrize(("model", "outcome"), [
    (((-S, LIMIT - 1),), "pass"),
    (((-S, LIMIT),), "pass"),
    (((-S, LIMIT + 1),), "fail"),
    (((-S, 0),), "pass"),                        # stopped at the very onset
    (((-S, -1),), "fail"),                       # had stopped before: no offset follows
    ((), "fail"),
    (((200 * MS, 400 * MS),), "pass"),           # a breath begun after it
    (((S, 2 * S),), "fail"),
    (((-S, 300 * MS), (S, 3 * S)), "pass"),      # stops and resumes
    (((4 * S, 5 * S),), "fail"),
    (((-S, END),), "fail"),                      # never stops
])
def test_yield(make, model, outcome):
    assert make("YIELD").outcome(*model) == outcome


@pytest.mark.parametrize(("model", "outcome", "table18"), [
    (((-S, LIMIT - 1),), "fail", "fail"),
    (((-S, LIMIT),), "fail", "fail"),            # must outlast the latency
    (((-S, LIMIT + 1),), "pass", "pass"),
    (((0, LIMIT + 1),), "pass", "pass"),         # begins with the user: holds the floor at w0
    (((1, LIMIT + 1),), "fail", "pass"),
    (((-S, 0),), "fail", "fail"),
    ((), "fail", "pass"),                        # silence has not yielded
    (((-S, END),), "pass", "pass"),
    (((-S, 300 * MS), (S, 3 * S)), "fail", "fail"),
])
def test_continue(make, model, outcome, table18):
    _, verdict = make("CONTINUE").judge(*model)
    assert (verdict.outcome, dict(verdict.evidence)["table18"]) == (outcome, table18)


@pytest.mark.parametrize("action", ["YIELD", "CONTINUE"])
@pytest.mark.parametrize(("override", "limit"), [
    ({"max_latency_ms": 1000}, S),
    ({"max_latency_ms": 1000, "thresholds": Thresholds(yield_max_latency_ms=1500)}, 2500 * MS),
    ({"thresholds": Thresholds(yield_max_latency_ms=200)}, 200 * MS),
    ({"thresholds": Thresholds(interrupt_max_latency_ms=100)}, LIMIT),
])
def test_overrides(make, action, override, limit):
    at, beyond = ("pass", "fail") if action == "YIELD" else ("fail", "pass")
    assert make(action).outcome((-S, limit), **override) == at
    assert make(action).outcome((-S, limit + 1), **override) == beyond


@pytest.mark.parametrize(("model", "recorded", "outcome"), [
    (((-S, 400 * MS),), 700 * MS, "pass"),            # a known stop decides
    (((-S, 400 * MS),), 700 * MS - 1, "unscored"),    # it may have gone on within the merge gap
    (((-S, LIMIT),), LIMIT, "unscored"),
    (((-S, LIMIT + 1),), LIMIT + 1, "fail"),          # still speaking beyond the limit
    ((), LIMIT + 500 * MS, "fail"),
    ((), LIMIT + 500 * MS - 1, "unscored"),
    ((), 0, "unscored"),
])
def test_yield_in_short_recordings(make, model, recorded, outcome):
    assert make("YIELD").outcome(*model, recorded=recorded) == outcome


@pytest.mark.parametrize(("model", "recorded", "outcome", "table18"), [
    (((-S, LIMIT + 1),), LIMIT + 1, "pass", "pass"),
    (((-S, LIMIT),), LIMIT, "unscored", "unscored"),
    (((-S, 400 * MS),), 700 * MS, "fail", "fail"),
    (((-S, 400 * MS),), 700 * MS - 1, "unscored", "unscored"),
    ((), 500 * MS, "fail", "unscored"),
    ((), 500 * MS - 1, "unscored", "unscored"),
    ((), LIMIT + 500 * MS, "fail", "pass"),
    (((1, LIMIT + 1),), END, "fail", "pass"),
])
def test_continue_in_short_recordings(make, model, recorded, outcome, table18):
    _, verdict = make("CONTINUE").judge(*model, recorded=recorded)
    assert (verdict.outcome, dict(verdict.evidence)["table18"]) == (outcome, table18)


USER = ((0, S), (2 * S, 5 * S))


@pytest.mark.parametrize(("model", "outcome", "overlap_s"), [
    ((), "fail", 0.0),
    (((-S, 0),), "fail", 0.0),
    (((-S, 1),), "pass", 1e-9),
    (((S, 2 * S),), "fail", 0.0),                # in the user's own pause
    (((S, 2 * S + 1),), "pass", 1e-9),
    (((3 * S, 4 * S),), "fail", 0.0),            # overlaps behind the window alone
    (((2500 * MS, 4 * S),), "pass", 0.5),
])
def test_accept_overlap(make, model, outcome, overlap_s):
    _, verdict = make("ACCEPT_OVERLAP").judge(*model, user=USER)
    assert (verdict.outcome, verdict.value) == (outcome, overlap_s)
    assert (verdict.unit, verdict.limit) == ("s", 0.0)


@pytest.mark.parametrize(("model", "recorded", "outcome"), [
    (((-S, 1),), 1, "pass"),
    ((), 3500 * MS, "fail"),
    ((), 3500 * MS - 1, "unscored"),
])
def test_accept_overlap_in_short_recordings(make, model, recorded, outcome):
    assert make("ACCEPT_OVERLAP").outcome(*model, recorded=recorded) == outcome


@pytest.mark.parametrize("action", ["YIELD", "CONTINUE", "ACCEPT_OVERLAP"])
@pytest.mark.parametrize(("model", "fields", "flagged"), [
    (((-S, 500 * MS),), {}, False),
    (((-S, 500 * MS),), {"forced": True}, True),
    (((-S, 0),), {}, True),
    (((0, S),), {}, False),
    (((1, S),), {}, True),
    ((), {}, True),
    ((), {"recorded": 500 * MS}, True),
    ((), {"recorded": 500 * MS - 1}, False),     # not known yet
])
def test_no_opportunity(make, action, model, fields, flagged):
    assert ("no_opportunity" in make(action).flags(*model, **fields)) is flagged


def test_other_actions_need_no_floor(make):
    assert make("LISTEN").flags(forced=True) == ("forced", "no_model_speech")
    assert "no_opportunity" not in make("TAKE_TURN").flags((S, 2 * S))


def test_resumption_is_flagged_for_yield_alone(make):
    model = ((-S, 300 * MS), (S, 3 * S))
    assert make("YIELD").flags(*model) == ("resumed_in_window",)
    assert make("YIELD").flags(model[0]) == ()
    assert make("CONTINUE").flags(*model) == ()


def test_a_window_without_the_user_is_flagged_for_overlap_alone(make):
    for action, expected in (("ACCEPT_OVERLAP", True), ("YIELD", False)):
        flags = make(action).flags((-S, 500 * MS), user=((-5 * S, 0), (3 * S, 4 * S)))
        assert ("no_user_speech" in flags) is expected
        assert "no_user_speech" not in make(action).flags((-S, S), user=((0, 1),))


def test_yield_says_what_it_saw(make):
    verifier = make("YIELD")
    assert verifier.reason((-S, 412 * MS)) == \
        "the model stopped 0.412 s after the barge-in (latency at most 0.600 s)"
    assert verifier.reason((-S, LIMIT + 1)) == \
        "the model stopped 0.600000001 s after the barge-in (latency at most 0.600000000 s)"
    assert verifier.reason((-S, END)) == \
        "the model still spoke 10.000 s after the barge-in (latency at most 0.600 s)"
    assert verifier.reason() == \
        ("the model held no floor at the barge-in, and neither spoke nor stopped after it "
         "(latency at most 0.600 s)")
    # what begins after the barge-in gives up no floor, however early or late it ends
    assert verifier.reason((100 * MS, 412 * MS)) == \
        ("the model held no floor at the barge-in; it stopped 0.412 s after it "
         "(latency at most 0.600 s)")
    assert verifier.reason((5 * S, 6308 * MS)) == \
        ("the model held no floor at the barge-in; it stopped 6.308 s after it "
         "(latency at most 0.600 s)")
    assert verifier.reason((5 * S, END)) == \
        ("the model held no floor at the barge-in; it still spoke 10.000 s after it "
         "(latency at most 0.600 s)")
    assert verifier.reason(recorded=S) == \
        "the recording ends 1.000 s after the barge-in, before a stop within 0.600 s was settled" \
        + UP_TO
    _, verdict = verifier.judge((-S, 412 * MS), max_latency_ms=1000)
    assert (verdict.value, verdict.unit, verdict.limit) == (0.412, "s", 1.0)
    assert dict(verdict.evidence)["held_at_w0"] is True
    assert dict(verdict.evidence)["resumed_in_window"] is False


def test_continue_says_what_it_saw(make):
    verifier = make("CONTINUE")
    assert verifier.reason((-S, 412 * MS)) == ("the model held the floor and stopped 0.412 s after "
                                               "the barge-in (more than 0.600 s asked)")
    assert verifier.reason((-S, END)) == ("the model held the floor and still spoke 10.000 s after "
                                          "the barge-in (more than 0.600 s asked)")
    assert verifier.reason() == "the model did not hold the floor at the barge-in"
    assert verifier.reason((-S, S // 2), recorded=S // 2) == (
        "the recording ends 0.500 s after the barge-in, before 0.600 s of holding were settled"
        + UP_TO)
    _, verdict = verifier.judge((-S, 412 * MS))
    assert (verdict.value, verdict.unit, verdict.limit) == (0.412, "s", 0.6)
    assert verifier.judge((S, 2 * S))[1].value is None
    assert dict(verdict.evidence)["held_at_w0"] is True


def test_accept_overlap_says_what_it_saw(make):
    verifier = make("ACCEPT_OVERLAP")
    assert verifier.reason((-S, 500 * MS), user=USER) == \
        "model and user overlapped for 0.500 s; the user spoke 2.000 s of the window"
    assert verifier.reason(user=USER) == \
        "model and user never overlapped; the user spoke 2.000 s of the window"
    assert verifier.reason(user=USER, recorded=S) == \
        "the recording ends 1.000 s into a window of 3.000 s without an overlap so far" + UP_TO
    _, verdict = verifier.judge((-S, 500 * MS), user=USER)
    assert dict(verdict.evidence)["user_speech_s"] == 2.0
