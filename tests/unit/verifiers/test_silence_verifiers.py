"""LISTEN and NO_BACKCHANNEL."""

from __future__ import annotations

import pytest

UP_TO = "; what is absent shows only up to 0.500 s before its end"

MS = 1_000_000
S = 1000 * MS


@pytest.mark.parametrize("action", ["LISTEN", "NO_BACKCHANNEL"])
@pytest.mark.parametrize(("model", "outcome"), [
    ((), "pass"),
    (((-S, 0),), "pass"),                   # ends as the window starts
    (((-S, 1),), "fail"),
    (((3 * S - 1, 4 * S),), "fail"),
    (((3 * S, 4 * S),), "pass"),            # begins as the window ends
    (((-S, 5 * S),), "fail"),               # over-talk through the window
    (((S, S + 90 * MS),), "fail"),          # the shortest the detector gives
])
def test_any_model_speech_in_the_window_fails(make, action, model, outcome):
    assert make(action).outcome(*model) == outcome


@pytest.mark.parametrize("action", ["LISTEN", "NO_BACKCHANNEL"])
@pytest.mark.parametrize(("model", "recorded", "outcome"), [
    ((), 3500 * MS, "pass"),
    ((), 3500 * MS - 1, "unscored"),
    ((), 1, "unscored"),
    (((S, 1100 * MS),), 1200 * MS, "fail"),  # decided however short the recording is
    ((), 0, "unscored"),
    (((-S, -1),), -1, "unscored"),
])
def test_short_recordings(make, action, model, recorded, outcome):
    assert make(action).outcome(*model, recorded=recorded) == outcome


def test_listen_says_what_it_saw(make):
    listen = make("LISTEN")
    assert listen.reason() == "no model speech in the window of 3.000 s"
    assert listen.reason((S, 2 * S), (2500 * MS, 4 * S)) == \
        "2 model span(s) in the window, the first began 1.000 s after its start"
    assert listen.reason((0, S)).endswith("began 0.000 s after its start")
    assert listen.reason((-1, S)) == \
        "1 model span(s) in the window, the first was already under way"
    assert listen.reason(recorded=2 * S) == \
        "the recording ends 2.000 s into a window of 3.000 s that was silent so far" + UP_TO
    verdict = listen.judge((S, 2 * S), (2500 * MS, 4 * S))[1]
    assert (verdict.value, verdict.unit, verdict.limit) == (2.0, "spans", 0.0)
    assert listen.judge(recorded=2 * S)[1].value is None


def test_no_backchannel_says_what_it_saw(make):
    verifier = make("NO_BACKCHANNEL")
    assert verifier.reason() == "no model speech in the window of 3.000 s"
    assert verifier.reason((-S, 500 * MS), (S, 1200 * MS)) == \
        "2 model span(s) in the window, the longest 1.500 s"
    assert verifier.reason(recorded=2 * S) == \
        "the recording ends 2.000 s into a window of 3.000 s that was silent so far" + UP_TO
    verdict = verifier.judge((S, 1200 * MS))[1]
    assert (verdict.value, verdict.unit, verdict.limit) == (1.0, "spans", 0.0)
