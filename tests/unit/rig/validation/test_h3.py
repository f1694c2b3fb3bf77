"""Thirds and strata of H3."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from rig.validation.drawing import Candidate, draw
from rig.validation.h3 import THIRDS, strata, terciles, third


@pytest.mark.parametrize(("scores", "cuts"), [
    (list(range(1, 10)), (3, 6)), ([5], (5, 5)), ([10, 20], (10, 10)), ([10, 20, 30], (10, 20)),
    ([0, 0, 0, 0, 50, 100], (0, 0)), (list(range(1, 11)), (4, 7))])
def test_terciles_are_the_last_scores_of_two_thirds(scores: list[int],
                                                    cuts: tuple[int, int]) -> None:
    assert terciles(scores) == terciles(scores[::-1]) == cuts


def test_a_score_on_a_cut_is_in_the_lower_of_the_two() -> None:
    assert [third(p, (3, 6)) for p in (3, 4, 6, 7)] == [
        "lower third", "middle third", "middle third", "upper third"]


def test_l4_is_two_fifths_of_the_sample_half_of_it_l4b() -> None:
    wanted = {s.name: s.wanted for s in strata(220)}
    assert (wanted["L4a"], wanted["L4b"], wanted["L0 to L3"]) == (44, 44, 132)
    assert wanted["lower third"] == wanted["upper third"] == 73
    assert wanted["L4b, middle third"] == 14


def test_eleven_systems_on_the_whole_grid_give_the_sample_of_the_paper() -> None:
    """11 x 1,038 responses with thirds at random: 220, 20 a system, every stratum filled."""
    rng = random.Random(1)
    safety = {("R1", "C2"), ("R1", "A"), ("R1", "B"), ("R2", "B"), ("R3", "C2"), ("R3", "A")}
    pool = []
    for system, role, probe, instance in itertools.product(
            range(11), [f"R{k}" for k in range(1, 9)], ("C1", "C2", "C3", "C4", "A", "B"),
            range(1, 6)):
        levels = [*(["L0"] if instance == 1 else []), "L1", "L2", "L3", "L4a",
                  *(["L4b"] if (role, probe) in safety else [])]
        for level in levels:
            name = f"{system}/{role}-{probe}-{instance}-{level}"
            pool.append(Candidate(
                name, name, {"system": str(system), "role": role, "level": level},
                frozenset({rng.choice(THIRDS), level if "L4" in level else "L0 to L3"})))
    assert len(pool) == 11 * 1038
    found = draw(pool, strata(220), 220, random.Random(2))
    assert all(s.short == 0 for s in found.strata)
    counts = {f: Counter(c.factors[f] for c in found.chosen) for f in ("system", "role", "level")}
    assert set(counts["system"].values()) == {20}
    assert set(counts["role"].values()) <= {27, 28}
    assert counts["level"] == {"L0": 33, "L1": 33, "L2": 33, "L3": 33, "L4a": 44, "L4b": 44}
