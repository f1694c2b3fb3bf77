from __future__ import annotations

import pytest

from verifiers.thresholds import Thresholds

MS = 1_000_000
S = 1000 * MS
TEN = "0 1 2 3 4 5 6 7 8 9"
SPEECH = (S, 2 * S)


@pytest.mark.parametrize(("said", "outcome"), [
    (TEN, "pass"),
    ("9 8 7 6 5 4 3 2 1", "pass"),               # nine of ten, in any order
    ("9 8 7 6 5 4 3 2", "fail"),
    ("zero, one, two, three, four, five, six, seven, eight", "pass"),
    ("", "fail"),
])
def test_nine_tokens_of_ten_pass(make, said, outcome):
    assert make("READBACK").outcome(SPEECH, target_text=TEN, says=((S, said),)) == outcome


def test_the_coverage_of_the_case_and_of_the_user(make):
    verifier = make("READBACK")
    half = {"target_text": TEN, "says": ((S, "0 1 2 3 4"),)}
    assert verifier.outcome(SPEECH, **half) == "fail"
    assert verifier.outcome(SPEECH, min_coverage=0.5, **half) == "pass"
    assert verifier.outcome(SPEECH, min_coverage=0.51, **half) == "fail"
    assert verifier.outcome(SPEECH, thresholds=Thresholds(readback_min_coverage=0.5),
                            **half) == "pass"


def test_what_cannot_be_scored(make):
    verifier = make("READBACK")
    assert verifier.reason(SPEECH, says=((S, "4"),)) == "the case has no target text"
    assert verifier.reason(SPEECH, target_text="4") == "the system gives no transcript"
    assert verifier.outcome(SPEECH, says=((S, "4"),)) == "unscored"
    # a system without transcripts is not scored on its silences alone
    assert verifier.outcome(target_text="4") == "unscored"
    verdict = verifier.judge(SPEECH, target_text="4", min_coverage=0.8)[1]
    assert (verdict.value, verdict.unit, verdict.limit) == (None, "ratio", 0.8)


@pytest.mark.parametrize(("model", "wordless", "says", "outcome"), [
    ((S, 2 * S), ((S, 2 * S),), (), "unscored"),             # what it said nobody knows
    ((S, 2 * S), (), (), "fail"),                            # all of it has words, none heard
    ((S, 2 * S), ((2 * S, 3 * S),), (), "fail"),             # only silence came without words
    ((S, 2 * S), ((2 * S - 1, 3 * S),), (), "unscored"),
    ((S, 2 * S), ((0, 500 * MS), (3 * S, 4 * S)), (), "fail"),
    ((S, 2 * S), ((S, 2 * S),), ((S, "4"),), "pass"),        # what came decides
    ((S, 2 * S), ((S, 2 * S),), ((S, "5"),), "fail"),
    ((S, 2 * S), ((S, 2 * S),), ((500 * MS - 1, "4"),), "unscored"),  # words of before
    ((S, 2 * S), ((S, 2 * S),), ((500 * MS, "5"),), "fail"),
    ((0, 500 * MS), ((0, 500 * MS),), (), "fail"),           # it spoke before, and not since
    ((0, 500 * MS + 1), ((0, 500 * MS + 1),), (), "unscored"),
])
def test_speech_whose_words_never_came_is_unscored(make, model, wordless, says, outcome):
    case = {"target_text": "4", "says": says, "wordless": wordless, "readback_from_ns": 500 * MS}
    assert make("READBACK").outcome(model, **case) == outcome
    if outcome == "unscored":
        assert make("READBACK").reason(model, **case) == \
            "the model spoke, and its words never came"


def test_words_that_were_not_heard_do_not_pass(make):
    verifier = make("READBACK")
    unheard = {"target_text": "4 1 5", "says": ((S, "four one five"),)}
    assert verifier.outcome(**unheard) == "fail"
    assert verifier.reason(**unheard) == ("3 of 3 dictated tokens were read back: coverage 1.000 "
                                          "(at least 0.9 asked), but no model speech was heard")
    assert "transcript_without_speech" in verifier.flags(**unheard)
    assert "transcript_without_speech" in verifier.flags(target_text="4", says=((S, "4"),))
    assert "transcript_without_speech" not in verifier.flags(SPEECH, **unheard)
    assert "transcript_without_speech" not in verifier.flags(target_text="4", says=((S, "5"),))
    assert "transcript_without_speech" not in make("LISTEN").flags(**unheard)


@pytest.mark.parametrize(("said", "recorded", "outcome"), [
    ("4 1 5", 2 * S, "pass"),                    # more words cannot take it away
    ("4 1", 3500 * MS, "fail"),
    ("4 1", 3500 * MS - 1, "unscored"),
    ("4 1 5", 0, "unscored"),
])
def test_short_recordings(make, said, recorded, outcome):
    model = (SPEECH,) if recorded else ()
    assert make("READBACK").outcome(*model, target_text="4 1 5", says=((S, said),),
                                    recorded=recorded) == outcome


def test_it_says_what_it_saw(make):
    verifier = make("READBACK")
    scene = {"target_text": "4 1 5", "says": ((S, "one four"),)}
    assert verifier.reason(SPEECH, **scene) == \
        "2 of 3 dictated tokens were read back: coverage 0.667 (at least 0.9 asked)"
    assert verifier.reason(SPEECH, recorded=3 * S, **scene).startswith(
        "the recording ends 3.000 s into a window of 3.000 s; so far 2 of 3 dictated tokens")
    _, verdict = verifier.judge(SPEECH, **scene)
    assert (verdict.value, verdict.unit, verdict.limit) == (pytest.approx(2 / 3), "ratio", 0.9)
    evidence = dict(verdict.evidence)
    assert (evidence["matched_tokens"], evidence["target_tokens"]) == (2, 3)
    assert (evidence["coverage_ordered"], evidence["heard"]) == (pytest.approx(1 / 3), True)
