from __future__ import annotations

import math
import random
from dataclasses import asdict, replace

import pytest

from audio.errors import InputError
from audio.spans import Spans
from sweeps import decision_tree
from sweeps.decision_tree import (
    RANGES,
    SETTINGS_OF_ACTION,
    Branch,
    Leaf,
    read,
    tree_of,
    turning_points,
)
from verifiers.decide import decide
from verifiers.measurement import Readback, measure
from verifiers.scene import Action, CaseParams, Scene, Window
from verifiers.thresholds import DEFAULTS, Thresholds, effective_limits
from verifiers.verdict import Outcome

MS = 1_000_000
W0 = 10_000 * MS


def scene(action: Action, *model_ms: tuple[int, int], params: CaseParams | None = None,
          recorded_ms: int = 10_000) -> Scene:
    """A window of 3 s; times of the model from its start."""
    return Scene(action, Window(W0, W0 + 3000 * MS),
                 Spans.of((W0 + a * MS, W0 + b * MS) for a, b in model_ms), Spans(),
                 W0 + recorded_ms * MS, params=params or CaseParams())


def tree(action: Action, *model_ms: tuple[int, int], params: CaseParams | None = None,
         recorded_ms: int = 10_000):
    made = scene(action, *model_ms, params=params, recorded_ms=recorded_ms)
    return tree_of(action, measure(made), made.params)


def before(value: float) -> float:
    return math.nextafter(value, 0)


def leaf_by_verifier(action, measurement, params, settings) -> Leaf:
    found = decide(action, measurement, effective_limits(settings, params, action))
    return Leaf(found.outcome, found.flags)


def test_an_onset_passes_from_the_wait_that_rounds_to_it():
    """1.734 s: every number from half a nanosecond below it is the limit 1,734,000,000 ns."""
    found = tree(Action.TAKE_TURN, (1734, 2500))
    assert isinstance(found, Branch)
    assert found.setting == "take_turn_max_wait_s"
    assert found.then == (Leaf(Outcome.FAIL), Leaf(Outcome.PASS))
    assert found.at == (pytest.approx(1.7339999995, abs=1e-15),)
    assert read(found, Thresholds(take_turn_max_wait_s=1.734)).outcome is Outcome.PASS
    assert read(found, Thresholds(take_turn_max_wait_s=1.733999999)).outcome is Outcome.FAIL
    assert read(found, Thresholds(take_turn_max_wait_s=found.at[0])).outcome is Outcome.PASS
    assert read(found, Thresholds(take_turn_max_wait_s=before(found.at[0]))).outcome \
        is Outcome.FAIL


def test_an_override_is_scaled_as_the_setting_is():
    """A role with 800 ms instead of 2 s passes an onset at 1.2 s from a setting of 3 s on."""
    found = tree(Action.TAKE_TURN, (1200, 2500), params=CaseParams(max_wait_s=0.8))
    assert isinstance(found, Branch)
    assert found.at == (pytest.approx(3.0, abs=2e-9),)


def test_continue_turns_the_other_way_and_interrupt_reads_its_own_setting():
    held = tree(Action.CONTINUE, (-500, 700))
    assert held == Branch("yield_max_latency_ms", held.at,
                          (Leaf(Outcome.PASS), Leaf(Outcome.FAIL)))
    assert held.at == (pytest.approx(700, abs=1e-6),)
    cut_in = tree(Action.INTERRUPT, (900, 1500))
    assert cut_in == Branch("interrupt_max_latency_ms", cut_in.at,
                            (Leaf(Outcome.FAIL), Leaf(Outcome.PASS)))
    assert cut_in.at == (pytest.approx(900, abs=1e-6),)


def test_a_recording_cut_short_leaves_a_verdict_open():
    """Nothing until 2 s are recorded: no onset within 1.5 s is known, none within 1.6 s is not."""
    found = tree(Action.TAKE_TURN, recorded_ms=2000)
    short = ("incomplete_recording", "no_model_speech")
    assert found == Branch("take_turn_max_wait_s", found.at,
                           (Leaf(Outcome.FAIL, short), Leaf(Outcome.UNSCORED, short)))
    assert found.at == (pytest.approx(1.5, abs=2e-9),)


def test_a_count_comes_before_the_ceiling_and_flags_turn_too():
    """Two spans of 0.4 and 0.9 s: two must be allowed, the first must be below the ceiling, and
    a ceiling of at most 0.9 s says that the second took the floor."""
    found = tree(Action.BACKCHANNEL, (200, 600), (1500, 2400))
    inner = found.then[1]
    assert found == Branch("backchannel_max_spans", (2,), (Leaf(Outcome.FAIL), inner))
    assert inner == Branch("backchannel_ceiling_s", inner.at, (
        Leaf(Outcome.FAIL), Leaf(Outcome.PASS, ("floor_taken_besides",)), Leaf(Outcome.PASS)))
    assert inner.at == (pytest.approx(0.4, abs=2e-9), pytest.approx(0.9, abs=2e-9))
    assert read(found, Thresholds(backchannel_max_spans=2)).outcome is Outcome.PASS
    assert read(found, DEFAULTS).outcome is Outcome.FAIL


def test_a_coverage_passes_up_to_itself():
    measurement = replace(measure(scene(Action.READBACK, (200, 2600))), target_given=True,
                          transcript_given=True, readback=Readback(7, 6, 7, 6, heard=True))
    found = tree_of(Action.READBACK, measurement, CaseParams())
    assert found == Branch("readback_min_coverage", (math.nextafter(6 / 7, 1),),
                           (Leaf(Outcome.PASS), Leaf(Outcome.FAIL)))
    fixed = tree_of(Action.READBACK, measurement, CaseParams(min_coverage=0.8))
    assert fixed == Leaf(Outcome.PASS)


@pytest.mark.parametrize("action", [Action.LISTEN, Action.NO_BACKCHANNEL, Action.ACCEPT_OVERLAP])
def test_three_actions_know_no_setting(action):
    assert SETTINGS_OF_ACTION[action] == ()
    assert isinstance(tree(action, (100, 900)), Leaf)


def test_a_window_outside_the_recording_is_unscored_everywhere():
    assert tree(Action.YIELD, recorded_ms=-100) == Leaf(
        Outcome.UNSCORED, ("incomplete_recording", "no_model_speech"))


@pytest.mark.parametrize("action", list(Action))
def test_the_tree_is_the_verifier_at_every_setting(random_scenes_of, action):
    """At the turning points, beside them, at their neighbours of a nanosecond, at random."""
    rng = random.Random(8)
    turned = set()
    for made in random_scenes_of(51, 50, (action,)):
        measurement = measure(made)
        found = tree_of(action, measurement, made.params)
        points = turning_points(found)
        turned |= {name for name, _ in points}
        tried = [Thresholds()]
        for name, point in points:
            step = 1 if RANGES[name].whole else 1e-9
            for value in (point, point - step, point + step, *_ulps(name, point)):
                if RANGES[name].least <= value <= RANGES[name].largest:
                    tried.append(replace(rng.choice(tried), **{name: value}))
        tried += [_random_settings(rng) for _ in range(12)]
        for settings in tried:
            assert read(found, settings) == leaf_by_verifier(
                action, measurement, made.params, settings), (made, settings)
    assert turned == set(SETTINGS_OF_ACTION[action])


def _ulps(name: str, point: float) -> list[float]:
    return [] if RANGES[name].whole else [before(point), math.nextafter(point, math.inf)]


def _random_settings(rng: random.Random) -> Thresholds:
    """All six, the ends of their ranges included."""
    out = {}
    for name, within in RANGES.items():
        if within.whole:
            out[name] = rng.choice((1, 1, 2, 3, 4, 1000))
        else:
            usual = asdict(DEFAULTS)[name]
            out[name] = rng.choice((within.least, within.largest, usual,
                                    min(within.largest, usual * rng.uniform(0.05, 2))))
    return Thresholds(**out)


def test_hints_save_steps_and_change_nothing(random_scenes_of, monkeypatch):
    scenes = random_scenes_of(77, 30)
    asked = 0

    def counted(*arguments):
        nonlocal asked
        asked += 1
        return decide(*arguments)

    monkeypatch.setattr(decision_tree, "decide", counted)

    def trees():
        return [tree_of(s.expected_action, measure(s), s.params) for s in scenes]

    hinted, with_hints = trees(), asked
    monkeypatch.setattr(decision_tree, "_hints", lambda *_: [])
    asked = 0
    assert trees() == hinted
    assert with_hints * 5 < asked
    assert with_hints < 5 * len(scenes)


@pytest.mark.parametrize("name", list(RANGES))
def test_ranges_are_those_of_the_settings(name):
    within = RANGES[name]
    beyond = ([within.least - 1, within.largest + 1] if within.whole
              else [0.0, math.nextafter(within.largest, math.inf)])
    for value in (within.least, within.largest):
        Thresholds(**{name: value})
    for value in beyond:
        with pytest.raises(InputError):
            Thresholds(**{name: value})


def test_every_setting_turns_some_action():
    assert {name for names in SETTINGS_OF_ACTION.values() for name in names} == set(RANGES)
    assert list(RANGES) == list(asdict(DEFAULTS))


def test_a_tiny_override_has_no_turning_point_but_the_right_verdict():
    """0.1 ns is no time at all: no setting up to a minute makes it reach the onset."""
    found = tree(Action.TAKE_TURN, (500, 900), params=CaseParams(max_wait_s=1e-10))
    assert found == Leaf(Outcome.FAIL)
