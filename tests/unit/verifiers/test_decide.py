from __future__ import annotations

import pytest

from audio.errors import InputError
from verifiers.decide import VERIFIERS, decide, decide_alternates, measured, verify
from verifiers.measurement import measure
from verifiers.scene import Action, CaseParams
from verifiers.thresholds import DEFAULTS, Thresholds, effective_limits
from verifiers.verdict import Outcome, Verdict, unsupported

MS = 1_000_000
S = 1000 * MS


def numbers(scene):
    limits = effective_limits(DEFAULTS, scene.params, scene.expected_action)
    return measured(scene.expected_action, measure(scene), limits)


def test_each_action_has_exactly_one_verifier():
    assert set(VERIFIERS) == set(Action)
    assert len({f.__module__ for f in VERIFIERS.values()}) == 9


def test_deciding_from_the_measurement_equals_verifying(make):
    scene = make("YIELD").scene((-S, 700 * MS), max_latency_ms=1000)
    measurement, verdict = verify(scene)
    limits = effective_limits(DEFAULTS, scene.params, Action.YIELD)
    assert decide(Action.YIELD, measurement, limits) == verdict
    assert verify(scene, Thresholds(yield_max_latency_ms=400))[1].outcome is Outcome.FAIL


def test_a_bad_override_stops_the_case(make):
    with pytest.raises(InputError, match=r"params\.max_latency_ms"):
        verify(make("YIELD").scene(max_latency_ms=-1))


@pytest.mark.parametrize("action", list(Action))
def test_a_window_outside_the_recording_is_unscored(make, action):
    verifier = make(action)
    assert verifier.outcome(recorded=0) == "unscored"
    assert verifier.reason(recorded=-1500 * MS) == \
        "window outside the recording: it begins 1.500 s after the recording ends"
    assert verifier.reason((S, 2 * S), shift=-11 * S) == \
        "window outside the recording: it begins before the recording does"


@pytest.mark.parametrize("action", list(Action))
def test_the_verifier_says_itself_up_to_where_absence_shows(make, action, monkeypatch):
    """What it says is handed on as it is, however it begins."""
    scene = make(action).scene(recorded=400 * MS, target_text="4 5", says=((-S, "4"),))
    measurement = measure(scene)
    limits = effective_limits(DEFAULTS, scene.params, action)
    own = VERIFIERS[action](measurement, limits)
    assert own.outcome is Outcome.UNSCORED
    assert own.reason.startswith("the recording ends 0.400 s ")
    assert own.reason.endswith("; what is absent shows only up to 0.500 s before its end")
    assert decide(action, measurement, limits).reason == own.reason
    other = Verdict(Outcome.UNSCORED, "the recording ends in noise")
    monkeypatch.setitem(VERIFIERS, action, lambda *_: other)
    assert decide(action, measurement, limits).reason == "the recording ends in noise"


@pytest.mark.parametrize("action", list(Action))
def test_common_flags_and_evidence(make, action):
    verifier = make(action)
    assert "no_model_speech" in verifier.flags()
    assert "no_model_speech" not in verifier.flags((-9 * S, -8 * S))
    assert "forced" in verifier.flags((-S, S), forced=True)
    assert "forced" not in verifier.flags((-S, S))
    assert "incomplete_recording" in verifier.flags(recorded=3500 * MS - 1)
    assert "incomplete_recording" not in verifier.flags(recorded=3500 * MS)
    _, verdict = verifier.judge((-S, 500 * MS), (4 * S, 5 * S))
    assert dict(verdict.evidence)["model_spans_s"] == ((-1.0, 0.5),)


def test_unsupported_is_decided_elsewhere():
    verdict = unsupported("the system needs a keyboard")
    assert (verdict.outcome, verdict.reason, verdict.flags) == (
        "unsupported", "the system needs a keyboard", ())


def test_measured_names_and_units(make):
    got = numbers(make("TAKE_TURN").scene(
        (-S, 250 * MS), (S, 1500 * MS), (2 * S, 4 * S), user_offset_ns=1800 * MS,
        user=((-2 * S, 1800 * MS),), target_text="4", says=((S, "4"),)))
    contract = {
        "label": "backchannel", "genuine_onset_s": 1.0, "spans_in_window": 3, "first_span_s": 0.5,
        "held_at_w0": True, "first_offset_s": 0.25, "resumed_in_window": True,
        "overlap_s": 0.75, "coverage": 1.0, "coverage_ordered": 1.0}
    assert {name: got[name] for name in contract} == contract
    beside = {
        "silent_begun": False, "spans_begun_in_window": 2, "short_spans_n": 1,
        "short_spans_per_min": 20.0, "spans_s": [[-1.0, 0.25], [1.0, 1.5], [2.0, 4.0]],
        "first_span_at_least_s": None, "first_offset_at_least_s": None, "user_speech_s": 1.8,
        "window_length_s": 3.0, "recorded_after_w0_s": 10.0, "readback_heard": True,
        "model_speaks": True, "onset_from_user_offset_s": -0.8, "onset_after_user_offset_s": 0.2,
        "alternates": {}}
    assert {name: got[name] for name in beside} == beside
    assert set(got) == set(contract) | set(beside)


def test_what_does_not_exist_is_none(make):
    got = numbers(make("LISTEN").scene())
    for name in ("genuine_onset_s", "first_span_s", "first_offset_s", "resumed_in_window",
                 "coverage", "coverage_ordered", "readback_heard", "onset_from_user_offset_s",
                 "onset_after_user_offset_s"):
        assert got[name] is None, name
    assert (got["label"], got["silent_begun"], got["held_at_w0"]) == ("silent", True, False)
    assert numbers(make("LISTEN").scene((S, 2 * S)))["onset_from_user_offset_s"] is None
    assert numbers(make("LISTEN").scene(user_offset_ns=S))["onset_from_user_offset_s"] is None


def test_cut_lengths_are_least_values(make):
    got = numbers(make("LISTEN").scene((S, 1500 * MS), recorded=1500 * MS))
    assert (got["first_span_s"], got["first_span_at_least_s"]) == (None, 0.5)
    assert (got["first_offset_s"], got["first_offset_at_least_s"]) == (None, 1.5)
    assert (got["label"], got["silent_begun"]) == (None, False)


@pytest.mark.parametrize(("recorded", "held"), [(500 * MS, False), (500 * MS - 1, None)])
def test_not_holding_the_floor_must_be_known(make, recorded, held):
    assert numbers(make("YIELD").scene(recorded=recorded))["held_at_w0"] is held
    speaking = make("YIELD").scene((-S, recorded), recorded=recorded)
    assert numbers(speaking)["held_at_w0"] is True


def test_nothing_is_known_of_a_window_that_was_not_recorded(make):
    got = numbers(make("LISTEN").scene(recorded=-S))
    assert (got["window_length_s"], got["recorded_after_w0_s"]) == (3.0, -1.0)
    for name in ("label", "spans_in_window", "held_at_w0", "overlap_s", "user_speech_s"):
        assert got[name] is None, name


@pytest.mark.parametrize(("spans", "count"), [
    (((0, S - 1),), 1), (((0, S),), 0), (((-1, S - 2),), 0),
    (((-2 * S, S), (2 * S, 2 * S + 1)), 1)])
def test_short_spans_begun_in_the_window(make, spans, count):
    got = numbers(make("LISTEN").scene(*spans))
    assert (got["short_spans_n"], got["short_spans_per_min"]) == (count, 20.0 * count)


def test_continue_stores_the_variant_of_table_18(make):
    assert numbers(make("CONTINUE").scene())["table18"] == "pass"
    assert numbers(make("CONTINUE").scene((-S, S), max_latency_ms=1000))["table18"] == "fail"
    assert "table18" not in numbers(make("YIELD").scene())


def test_alternates_never_decide_and_have_their_own_verdicts(make):
    windows = {"during_turn2": (-3 * S, 0), "interrupt_reading": (-S, 3 * S)}
    scene = make("LISTEN").scene((-2 * S, -S), (600 * MS, S), alternates=windows)
    measurement, verdict = verify(scene)
    assert verdict.outcome is Outcome.FAIL
    found = dict(decide_alternates(Action.LISTEN, measurement, DEFAULTS, CaseParams()))
    assert list(found) == ["during_turn2", "interrupt_reading"]
    assert found["during_turn2"].outcome is Outcome.FAIL
    # the interrupt reading is judged as INTERRUPT: an onset 1.6 s behind the trigger is too late
    assert found["interrupt_reading"].outcome is Outcome.FAIL
    assert found["interrupt_reading"].reason.startswith("the model cut in 1.600 s")
    late = dict(decide_alternates(Action.LISTEN, measurement,
                                  Thresholds(interrupt_max_latency_ms=1600), CaseParams()))
    assert late["interrupt_reading"].outcome is Outcome.PASS
    assert numbers(scene)["alternates"]["during_turn2"]["label"] == "floor_take"
    assert numbers(scene)["alternates"]["interrupt_reading"]["genuine_onset_s"] == 1.6
