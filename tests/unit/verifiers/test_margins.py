"""Signed distances to the deciding bound: known values, both sides of each bound, and why none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audio.spans import Spans
from audio.timebase import s_to_ns
from verifiers.decide import decide
from verifiers.margins import Margin, Surroundings, margin
from verifiers.measurement import measure
from verifiers.scene import Action, CaseParams, Scene, TimedText, Window
from verifiers.thresholds import DEFAULTS, Thresholds, effective_limits

MS = 1_000_000
S = 1000 * MS
WAIT, LATENCY, YIELD, CEILING = 2 * S, 1500 * MS, 600 * MS, S


def of(maker, *model, around=True, thresholds=DEFAULTS, **fields) -> Margin:
    scene = maker.scene(*model, **fields)
    return of_scene(scene, thresholds, around=around)


def of_scene(scene, thresholds=DEFAULTS, *, around=True) -> Margin:
    limits = effective_limits(thresholds, scene.params, scene.expected_action)
    found = margin(scene.expected_action, measure(scene), limits,
                   Surroundings(scene.model, scene.user, scene.window) if around else None)
    assert (found.margin is None) is (found.reason is not None)
    return found


def ns(found: Margin) -> tuple[int, str]:
    assert found.unit == "s"
    assert found.margin is not None
    assert found.bound_name is not None
    return s_to_ns(found.margin), found.bound_name


@pytest.mark.parametrize(("action", "limit", "name"), [
    ("TAKE_TURN", WAIT, "maximum wait"), ("INTERRUPT", LATENCY, "maximum latency")])
def test_onset(make, action, limit, name):
    def at(onset, **fields):
        return ns(of(make(action), (onset, onset + S), **fields))

    assert at(limit - 1) == (1, name)
    assert at(limit) == (0, name)
    assert at(limit + 1) == (-1, name)
    assert at(limit + 7 * MS) == (-7 * MS, name)
    # the nearer end of the region: before the window's start the onset is no genuine one
    assert at(0) == (0, "window start")
    assert at(7 * MS) == (7 * MS, "window start")
    assert at(limit // 2) == (limit // 2, "window start")
    assert at(limit // 2 + 1) == (limit // 2 - 1, name)
    assert at(-3 * MS) == (-3 * MS, "window start")
    # a window that ends before the limit does
    assert at(S - 9, length=S) == (9, "window end")
    assert at(limit - 1, length=limit) == (1, name)
    assert at(limit - 1, length=limit - 1 + 1) == (1, name)
    assert at(limit - 3, length=limit - 1) == (2, "window end")


def test_onset_of_an_override(make):
    found = of(make("TAKE_TURN"), (S, 2 * S), max_wait_s=1.2)
    assert found == Margin("model onset", "s", 1.0, 1.2, "maximum wait", 0.2)


def test_no_onset_has_no_distance(make):
    for action in ("TAKE_TURN", "INTERRUPT"):
        assert of(make(action)).reason == "no onset in the window"
        assert of(make(action), (-S, -1)).reason == "no onset in the window"
        assert of(make(action), (3 * S, 4 * S)).reason == "no onset in the window"


def test_yield(make):
    def at(offset, **fields):
        return ns(of(make("YIELD"), (-S, offset), **fields))

    assert at(YIELD - 1) == (1, "maximum latency")
    assert at(YIELD) == (0, "maximum latency")
    assert at(YIELD + 1) == (-1, "maximum latency")
    assert at(0) == (0, "barge-in")
    assert at(228 * MS) == (228 * MS, "barge-in")  # and not the 372 ms to the limit
    assert at(YIELD // 2) == (YIELD // 2, "barge-in")
    assert at(YIELD // 2 + 1) == (YIELD // 2 - 1, "maximum latency")
    assert at(900 * MS, max_latency_ms=1000) == (100 * MS, "maximum latency")
    assert of(make("YIELD")).reason == "no model speech ended after the barge-in"
    assert of(make("YIELD"), (-S, -1)).reason == "no model speech ended after the barge-in"


def test_continue(make):
    assert ns(of(make("CONTINUE"), (-S, YIELD + 1))) == (1, "latency to outlast")
    assert ns(of(make("CONTINUE"), (-S, YIELD))) == (0, "latency to outlast")
    assert ns(of(make("CONTINUE"), (-S, YIELD - 4))) == (-4, "latency to outlast")
    why = "the model did not hold the floor at the barge-in"
    assert of(make("CONTINUE")).reason == why
    assert of(make("CONTINUE"), (1, 2 * S)).reason == why


def test_cut_by_the_end_of_the_recording(make):
    for action, sign in (("YIELD", -1), ("CONTINUE", 1)):
        found = of(make(action), (-S, 5 * S), recorded=5 * S)
        assert (ns(found)[0], found.at_least) == (sign * (5 * S - YIELD), True)
        assert not of(make(action), (-S, 5 * S)).at_least
    found = of(make("BACKCHANNEL"), (2 * S, 5 * S), recorded=5 * S)
    assert (ns(found), found.at_least) == ((-2 * S, "ceiling"), True)
    assert not of(make("BACKCHANNEL"), (2 * S, 5 * S)).at_least


def test_backchannel(make):
    def of_length(length, **fields):
        return ns(of(make("BACKCHANNEL"), (S, S + length), **fields))

    assert of_length(CEILING - 1) == (1, "ceiling")
    assert of_length(CEILING) == (0, "ceiling")
    assert of_length(CEILING + 5) == (-5, "ceiling")
    assert of_length(400 * MS, ceiling_s=0.5) == (100 * MS, "ceiling")
    two = ((S, S + 300 * MS), (2 * S, 2 * S + 200 * MS))
    assert of(make("BACKCHANNEL"), *two).reason == \
        "2 model spans in the window, at most 1 pass: a count"
    assert ns(of(make("BACKCHANNEL"), *two, max_spans=2)) == (700 * MS, "ceiling")
    assert ns(of(make("BACKCHANNEL"), two[0], max_spans=2)) == (700 * MS, "ceiling")
    for model in ((), ((-S, S),)):
        assert of(make("BACKCHANNEL"), *model).reason == "no model span began in the window"


def test_readback(make):
    def saying(*words, speech=((S, 2 * S),), **fields):
        return of(make("READBACK"), *speech, target_text="four one five nine",
                  says=tuple((S + i, word) for i, word in enumerate(words)), **fields)

    assert saying("four", "one", "five", min_coverage=0.75) == Margin(
        "token coverage", "ratio", 0.75, 0.75, "minimum coverage", 0.0)
    assert saying("four", "one", min_coverage=0.75).margin == -0.25
    assert saying("four", "one", "five", "nine", min_coverage=0.75).margin == 0.25
    assert saying("four", "one", "five", "nine", speech=()).reason == "no model speech was heard"
    assert of(make("READBACK"), (S, 2 * S)).reason == "unscored: the case has no target text"


def test_accept_overlap(make):
    user = ((-8 * S, S), (2 * S, 9 * S))
    assert ns(of(make("ACCEPT_OVERLAP"), (S - 5, S + 9), user=user)) == (5, "any overlap")
    for model, gap in (((S, S + 9), 0), ((S + 7, S + 9), 7), ((2 * S - 9, 2 * S - 4), 4)):
        found = of(make("ACCEPT_OVERLAP"), model, user=user)
        assert ns(found) == (-gap, "any overlap")
        assert (found.quantity, s_to_ns(found.value)) == ("gap between model and user", gap)
    # what either side says outside the window is not looked at
    assert of(make("ACCEPT_OVERLAP"), (3 * S + 1, 5 * S), user=((0, 3 * S - 1),)).reason == \
        "one side did not speak in the window"
    assert of(make("ACCEPT_OVERLAP"), (-S, 2), user=((1, 9 * S),)).margin == pytest.approx(1e-9)
    assert of(make("ACCEPT_OVERLAP"), (S, 2 * S), user=user, around=False).reason == \
        "speech around the window is not given"
    assert of(make("ACCEPT_OVERLAP"), (S - 5, S), user=user, around=False).margin == 5e-9


@pytest.mark.parametrize("action", ["LISTEN", "NO_BACKCHANNEL"])
def test_silence(make, action):
    found = of(make(action), (-S, -70 * MS), (3 * S + 50 * MS, 4 * S))
    assert found == Margin("gap to the nearest model speech", "s", 0.05, 0.0, "window end", 0.05)
    assert ns(of(make(action), (-S, -40 * MS), (3 * S + 50 * MS, 4 * S))) == (
        40 * MS, "window start")
    assert ns(of(make(action), (-S, 0))) == (0, "window start")
    assert ns(of(make(action), (3 * S, 4 * S))) == (0, "window end")
    # speech in the window: what of it lies inside
    assert ns(of(make(action), (-S, 7))) == (-7, "no speech")
    assert ns(of(make(action), (3 * S - 7, 4 * S))) == (-7, "no speech")
    assert ns(of(make(action), (-S, 7), (S, S + 100), around=False)) == (-107, "no speech")
    assert ns(of(make(action), (-S, 9 * S))) == (-3 * S, "no speech")
    assert of(make(action)).reason == "the model never spoke"
    assert of(make(action), around=False).reason == "speech around the window is not given"


@pytest.mark.parametrize("action", Action)
def test_unscored_says_why(make, action):
    found = of(make(action), (-3 * S, -2 * S), recorded=-S, target_text="four", says=())
    assert found.reason is not None
    assert found.reason.startswith("unscored: window outside")
    assert (found.value, found.bound, found.margin) == (None, None, None)


spans = st.lists(st.integers(0, 80), max_size=8, unique=True).map(
    lambda edges: Spans(tuple(zip(sorted(edges)[::2], sorted(edges)[1::2], strict=False))))


@given(action=st.sampled_from(Action), model=spans, user=spans, at=st.integers(0, 60),
       length=st.integers(1, 30), recorded=st.integers(80, 120), limit=st.integers(1, 25),
       words=st.sampled_from(["", "four", "four one", "four one five nine"]))
def test_its_sign_is_the_verdict(action, model, user, at, length, recorded, limit, words):
    """Times in tenths of a second, so that bounds are hit."""
    def ticks(found):
        return found.map(lambda n: n * 100 * MS)

    scene = Scene(
        action, Window(at * 100 * MS, (at + length) * 100 * MS), ticks(model), ticks(user),
        recorded * 100 * MS, target_text="four one five nine",
        params=CaseParams(min_coverage=0.5),
        transcript=(TimedText(words, 80 * 100 * MS, 81 * 100 * MS),) if words else ())
    thresholds = Thresholds(limit / 10, limit * 100.0, limit * 100.0, limit / 10)
    found = of_scene(scene, thresholds)
    limits = effective_limits(thresholds, scene.params, action)
    outcome = str(decide(action, measure(scene), limits).outcome)
    if found.margin is not None:
        if outcome == "pass":
            assert found.margin >= 0
        else:
            assert outcome == "fail"
            assert found.margin <= 0
    if outcome == "unscored":
        assert found.margin is None
