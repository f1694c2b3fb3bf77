"""Random tables for the sweeps."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path

import pytest

from sweeps.table import MeasurementTable, TableRow
from verifiers.measurement import measure
from verifiers.scene import Action

PATH = Path(__file__).parents[2] / "tools" / "random_scenes.py"
_spec = importlib.util.spec_from_file_location("random_scenes", PATH)
random_scenes = importlib.util.module_from_spec(_spec)
sys.modules["random_scenes"] = random_scenes
_spec.loader.exec_module(random_scenes)


def row(case_id: str, scene, level: str | None = "L1", role: str | None = "R1",
        trial: int = 1) -> TableRow:
    return TableRow(case_id, trial, role, level, str(scene.expected_action), scene.params,
                    measure(scene))


@pytest.fixture
def make_row():
    return row


@pytest.fixture
def random_scenes_of():
    """`random_scenes_of(seed, n)`: n scenes of every action, or of those given."""
    def build(seed: int, n: int, actions=tuple(Action)):
        rng = random.Random(seed)
        return [random_scenes.random_scene(rng, action) for _ in range(n) for action in actions]
    return build


@pytest.fixture
def random_table(random_scenes_of):
    """`random_table(seed, n)`: the same as a table, the levels in turn."""
    def build(seed: int, n: int) -> MeasurementTable:
        scenes = random_scenes_of(seed, n)
        return MeasurementTable.of([
            row(f"c{i}", scene, random_scenes.LEVELS[i // 9 % 6])
            for i, scene in enumerate(scenes)])
    return build
