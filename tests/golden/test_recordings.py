"""Drawn timelines as recordings, through the detector: the verdict must be the drawn one.

Those are left out that stand closer to a limit, to a window's edge or to the recording's end than
the detector is exact; what it adds is stated below.
"""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from audio.errors import InputError
from audio.files import read_analysis_channel
from audio.timebase import ANALYSIS_RATE_HZ
from audio.vad import VadSettings, speech_spans
from verifiers.decide import verify
from verifiers.scene import Action

HERE = Path(__file__).parent
EDGE_S = 0.15
"""Silero's edges on this speech lie within 150 ms of the drawn ones."""


def load(name: str, path: Path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


timeline = load("golden_timeline", HERE / "timeline.py")
regenerate = load("golden_regenerate", HERE / "regenerate.py")

EXACT = {
    "over-talk that ends as the pause begins", "begins as the pause ends",
    "the acknowledgment comes after the user went on", "exactly the ceiling is a turn",
    "a terse role allows half a second", "begins in the window, lasts into the user's speech, "
    "and is short", "begins in the window and is cut by the end of the recording", "at the limit",
    "too late", "too late for this role", "stops at the limit", "stops too late",
    "a patient role may take a second", "just outlasts the latency", "stops at the latency",
    "the last word of a model that yields is overlap enough", "stopped as the user began",
    "answers only when the user has finished", "the recording ends while it still speaks, before "
    "the limit", "had just stopped, and its next words end too late",
    "the recording ends, but the latency is over",
}
ALL = [(path.stem, one) for path in sorted((HERE / "timelines").glob("*.txt"))
       for one in timeline.read(path) if one.name not in EXACT]


@pytest.fixture(scope="module")
def heard(tmp_path_factory):
    """Render, read back, detect."""
    folder = tmp_path_factory.mktemp("recordings")
    try:
        regenerate.speech("user")
    except InputError as error:
        pytest.skip(f"the speech engine is not installed: {error}")

    def detect(scene):
        path = folder / "golden.wav"
        regenerate.render(scene, path)
        found = []
        for index in (0, 1):
            samples, _ = read_analysis_channel(path, index)
            found.append(speech_spans(samples, VadSettings()).to_ns(ANALYSIS_RATE_HZ))
        return replace(scene, user=found[0], model=found[1])

    return detect


@pytest.mark.parametrize("one", [pytest.param(one, id=f"{stem}: {one.name}") for stem, one in ALL])
def test_recording(heard, one):
    scene = heard(one.scene)
    drawn = one.scene.model.merge_gaps(scene.merge_gap_ns)
    assert len(scene.model) == len(drawn), (scene.model, drawn)
    for found, wanted in zip(scene.model, drawn, strict=True):
        for a, b in zip(found, wanted, strict=True):
            assert abs(a - b) / 1e9 <= EDGE_S, (found, wanted)
    assert verify(scene)[1].outcome == one.expect


def test_every_action_is_heard_to_pass_and_to_fail():
    seen = {(one.scene.expected_action, one.expect) for _, one in ALL}
    for action in Action:
        assert {(action, "pass"), (action, "fail")} <= seen, action
    names = {one.name for path in (HERE / "timelines").glob("*.txt")
             for one in timeline.read(path)}
    assert names >= EXACT
