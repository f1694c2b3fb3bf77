"""What must hold for every scene: shifting, monotone thresholds, measuring apart from deciding."""

from __future__ import annotations

import importlib.util
import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audio.spans import Spans
from verifiers import readback_text
from verifiers.decide import decide, measured, verify
from verifiers.measurement import measure
from verifiers.record import from_json, to_json
from verifiers.scene import Action, Scene, TimedText, Window
from verifiers.thresholds import DEFAULTS, Thresholds, effective_limits
from verifiers.verdict import Outcome

PATH = Path(__file__).parents[1] / "tools" / "random_scenes.py"
_spec = importlib.util.spec_from_file_location("random_scenes", PATH)
random_scenes = importlib.util.module_from_spec(_spec)
sys.modules["random_scenes"] = random_scenes
_spec.loader.exec_module(random_scenes)

SCENES = st.builds(
    lambda seed, action: random_scenes.random_scene(random.Random(seed), action),
    st.integers(0, 2**32), st.sampled_from(list(Action)))
THRESHOLDS = st.builds(
    Thresholds,
    take_turn_max_wait_s=st.sampled_from((1.5, 2.0, 2.5)),
    interrupt_max_latency_ms=st.sampled_from((1000, 1500, 2000)),
    yield_max_latency_ms=st.sampled_from((200, 400, 600, 1000, 1500)),
    backchannel_ceiling_s=st.sampled_from((0.6, 0.8, 1.0, 1.2)),
    backchannel_max_spans=st.integers(1, 4),
    readback_min_coverage=st.sampled_from((0.5, 0.9, 1.0)))


def shifted(scene: Scene, by: int) -> Scene:
    window = Window(scene.window.start_ns + by, scene.window.end_ns + by)
    return replace(
        scene, window=window, model=scene.model.shift(by), user=scene.user.shift(by),
        recorded_ns=scene.recorded_ns + by,
        transcript=None if scene.transcript is None else tuple(
            TimedText(t.text, t.start_ns + by, t.end_ns + by) for t in scene.transcript))


@settings(max_examples=100, deadline=None)
@given(SCENES, st.integers(0, 10**12), THRESHOLDS)
def test_shifting_every_event_changes_nothing(scene, by, thresholds):
    before, after = verify(scene, thresholds), verify(shifted(scene, by), thresholds)
    assert after == before


@settings(max_examples=100, deadline=None)
@given(SCENES, THRESHOLDS, THRESHOLDS)
def test_the_measurement_does_not_know_the_thresholds(scene, one, other):
    measurement, first = verify(scene, one)
    assert verify(scene, other)[0] == measurement
    stored = from_json(to_json(measurement), "row")
    limits = effective_limits(one, scene.params, scene.expected_action)
    assert decide(scene.expected_action, stored, limits) == first


LOOSER = {
    Action.TAKE_TURN: "take_turn_max_wait_s", Action.INTERRUPT: "interrupt_max_latency_ms",
    Action.YIELD: "yield_max_latency_ms", Action.BACKCHANNEL: "backchannel_ceiling_s",
}
TIGHTER = {Action.CONTINUE: "yield_max_latency_ms", Action.READBACK: "readback_min_coverage"}


@settings(max_examples=200, deadline=None)
@given(SCENES, st.lists(st.floats(0.05, 1.0), min_size=2, max_size=2, unique=True))
def test_verdicts_are_monotone_in_their_threshold(scene, shares):
    action = scene.expected_action
    name = LOOSER.get(action) or TIGHTER.get(action)
    if name is None:
        return
    largest = 1.0 if name == "readback_min_coverage" else 6000.0 if name.endswith("ms") else 6.0
    small, large = (replace(DEFAULTS, **{name: largest * share}) for share in sorted(shares))
    strict, loose = (small, large) if action in LOOSER else (large, small)
    if verify(scene, strict)[1].outcome is Outcome.PASS:
        assert verify(scene, loose)[1].outcome is not Outcome.FAIL
    if verify(scene, loose)[1].outcome is Outcome.FAIL:
        assert verify(scene, strict)[1].outcome is not Outcome.PASS


@settings(max_examples=100, deadline=None)
@given(SCENES, st.integers(0, 3 * 10**9))
def test_more_recording_never_turns_a_verdict_round(scene, more_ns):
    """A decided verdict stands when the recording goes on in silence; unscored may be decided."""
    longer = replace(scene, recorded_ns=scene.recorded_ns + more_ns)
    before, after = verify(scene)[1].outcome, verify(longer)[1].outcome
    assert before is Outcome.UNSCORED or after is before


@settings(max_examples=200, deadline=None)
@given(SCENES, st.integers(0, 4 * 10**9), st.integers(90 * 10**6, 3 * 10**9))
def test_speech_behind_the_end_never_turns_a_verdict_round(scene, gap_ns, length_ns):
    """What the model says after the recording stops cannot contradict what was decided.

    Speech nearer than the merge gap is merged, as it would have been in a longer recording.
    """
    if scene.expected_action is Action.READBACK:
        return  # whether the same words were heard depends on the speech behind the end
    start = scene.recorded_ns + gap_ns
    said = Spans.of((*scene.model, (start, start + length_ns))).merge_gaps(
        max(scene.merge_gap_ns, 10**6))
    longer = replace(scene, model=said, recorded_ns=start + length_ns + 10**10)
    before, after = verify(scene)[1].outcome, verify(longer)[1].outcome
    assert before is Outcome.UNSCORED or after is before


@settings(max_examples=100, deadline=None)
@given(SCENES)
def test_every_verdict_explains_itself(scene):
    measurement, verdict = verify(scene)
    assert verdict.reason
    assert "\n" not in verdict.reason
    assert len(set(verdict.flags)) == len(verdict.flags)
    limits = effective_limits(DEFAULTS, scene.params, scene.expected_action)
    numbers = measured(scene.expected_action, measurement, limits)
    assert "nan" not in str(numbers).lower()
    if verdict.outcome is Outcome.UNSCORED:
        assert verdict.value is None


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60), st.text(max_size=60))
def test_coverage_is_a_share_and_whole_against_itself(target, heard):
    for tokens, matched in ((readback_text.tokens, readback_text.matched),
                            (readback_text.ordered_tokens, readback_text.ordered_matched)):
        a, b = tokens(target), tokens(heard)
        assert 0 <= matched(a, b) <= min(len(a), len(b))
        assert matched(a, a) == len(a)
        assert matched(a, b) == matched(b, a)
    plain = readback_text.tokens(target), readback_text.tokens(heard)
    assert readback_text.ordered_matched(*plain) <= readback_text.matched(*plain)


def test_the_random_scenes_reach_every_outcome():
    rng = random.Random(11)
    for action in Action:
        seen = {verify(random_scenes.random_scene(rng, action))[1].outcome for _ in range(300)}
        assert seen == {Outcome.PASS, Outcome.FAIL, Outcome.UNSCORED}, action


def test_a_scene_without_a_recording_is_unscored():
    scene = Scene(Action.LISTEN, Window(0, 1), Spans(), Spans(), 0)
    assert verify(scene)[1].outcome is Outcome.UNSCORED
    assert measure(scene).scored.outside
    with pytest.raises(ValueError, match="empty or reversed"):
        Spans(((1, 1),))
