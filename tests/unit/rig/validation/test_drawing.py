"""Stratified draws: known pools, known samples."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from rig.validation.drawing import Candidate, Stratum, draw


def _pool(times: int = 1, traits: str = "") -> list[Candidate[int]]:
    cells = itertools.product(("s1", "s2"), ("L1", "L2", "L3", "L4"), ("R1", "R2"), range(times))
    return [Candidate(k, f"{system}{level}{role}{n}{traits}",
                      {"system": system, "level": level, "role": role},
                      frozenset(traits.split()))
            for k, (system, level, role, n) in enumerate(cells)]


def _rng(seed: int = 1) -> random.Random:
    return random.Random(seed)


@pytest.mark.parametrize("seed", range(5))
def test_a_balanced_pool_gives_a_balanced_sample(seed: int) -> None:
    found = draw(_pool(10), (), 40, _rng(seed))
    for factor, times in (("system", 20), ("level", 10), ("role", 20)):
        assert set(Counter(c.factors[factor] for c in found.chosen).values()) == {times}


def test_the_seed_decides_and_the_order_of_the_pool_does_not() -> None:
    pool = _pool(10)
    first = [c.key for c in draw(pool, (), 12, _rng()).chosen]
    assert first == [c.key for c in draw(pool[::-1], (), 12, _rng()).chosen]
    assert first != [c.key for c in draw(pool, (), 12, _rng(2)).chosen]
    assert len(set(first)) == 12


def test_strata_overlap_and_count_what_is_there_already() -> None:
    pool = _pool(2, "near pass") + _pool(2, "near fail") + _pool(2, "pass") + _pool(2, "fail")
    found = draw(pool, (Stratum("near", frozenset({"near"}), 10),
                        Stratum("pass", frozenset({"pass"}), 20),
                        Stratum("fail", frozenset({"fail"}), 20)), 40, _rng())
    drawn = {f.name: f for f in found.strata}
    assert len(found.chosen) == 40
    assert (drawn["pass"].drawn, drawn["fail"].drawn) == (20, 20)
    assert drawn["near"].drawn >= 10
    assert drawn["near"].available == 64
    assert [f.short for f in found.strata] == [0, 0, 0]
    assert found.filled_up == 0


def test_what_is_short_is_said_and_the_rest_is_filled_up() -> None:
    pool = _pool(3, "pass") + _pool(1, "fail")[:5]
    found = draw(pool, (Stratum("fail", frozenset({"fail"}), 20),
                        Stratum("pass", frozenset({"pass"}), 20)), 40, _rng())
    fail, passed = found.strata
    assert (fail.wanted, fail.available, fail.drawn, fail.short) == (20, 5, 5, 15)
    assert (passed.drawn, passed.short) == (35, 0)
    assert found.filled_up == 15


def test_a_pool_that_is_too_small_is_drawn_whole() -> None:
    found = draw(_pool(), (), 99, _rng())
    assert sorted(c.key for c in found.chosen) == sorted(c.key for c in _pool())


def test_trials_of_a_case_are_drawn_last() -> None:
    pool = [Candidate(k, f"{case}.{trial}", {"system": "s"}, frozenset())
            for k, (case, trial) in enumerate(itertools.product("abcd", range(5)))]
    found = draw(pool, (), 5, _rng(), lambda c: c.key[0])
    assert {c.key[0] for c in found.chosen[:4]} == set("abcd")
    assert Counter(c.key[0] for c in found.chosen).most_common(1)[0][1] == 2


def test_a_key_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="different keys"):
        draw([*_pool(), _pool()[0]], (), 3, _rng())
