"""Every drawn timeline must come out as it says."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from pathlib import Path

import pytest

from verifiers.decide import measured, verify
from verifiers.scene import Action
from verifiers.thresholds import DEFAULTS, effective_limits

HERE = Path(__file__).parent


def load(name: str, path: Path):
    """A helper module that belongs to no package."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


timeline = load("golden_timeline", HERE / "timeline.py")
ALL = [(path.stem, one) for path in sorted((HERE / "timelines").glob("*.txt"))
       for one in timeline.read(path)]


@pytest.mark.parametrize("one", [pytest.param(one, id=f"{stem}: {one.name}") for stem, one in ALL])
def test_timeline(one):
    scene = one.scene
    measurement, verdict = verify(scene)
    limits = effective_limits(DEFAULTS, scene.params, scene.expected_action)
    numbers = measured(scene.expected_action, measurement, limits)
    assert verdict.outcome == one.expect, verdict.reason
    assert {name: numbers[name] for name in one.measured} == one.measured
    assert sorted(verdict.flags) == sorted(one.flags)


def test_each_verifier_is_drawn_at_least_five_times_with_passes_and_fails():
    counts = Counter((one.scene.expected_action, one.expect) for _, one in ALL)
    for action in Action:
        assert counts[action, "pass"] >= 2, action
        assert counts[action, "fail"] >= 3, action
    assert {stem for stem, _ in ALL} == {str(action).lower() for action in Action}


@pytest.mark.parametrize(("block", "match"), [
    ("name: x\naction: LISTEN\nuser |##|\nmodel |.|\nwindow |[]|\nexpect: pass", "one length"),
    ("name: x\nuser |##|\nmodel |..|\nexpect: pass", "three rows"),
    ("name: x\nloud |##|", "not a row"),
    ("name: x\nnonsense", "neither row nor key"),
    ("name: x\naction: LISTEN\nuser |#?|\nmodel |..|\nwindow |[]|\nexpect: pass", "drawn with #"),
])
def test_a_malformed_drawing_is_refused(block, match):
    with pytest.raises(ValueError, match=match):
        timeline.parse(block)
