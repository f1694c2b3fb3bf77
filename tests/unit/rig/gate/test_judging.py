"""What is met and what is not, on made runs whose answer is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rig.comparison_text import _smallest
from rig.gate.asked import Bound, Gate
from rig.gate.figures import Session
from rig.gate.judging import exit_code, judge, session_counts
from rig.gate.loading import GatedRun
from rig.gate.results import At, Result, shown
from sweeps.comparison import System, compare
from sweeps.effects import Case
from sweeps.paired import resolution
from verifiers.scene import Action
from verifiers.verdict import Outcome

PASS, FAIL, UNSCORED = Outcome.PASS, Outcome.FAIL, Outcome.UNSCORED


def cases(outcomes: Sequence[Outcome], level: str = "L2",
          action: Action = Action.TAKE_TURN) -> list[Case]:
    """A conversation each, on a stream of its own."""
    return [Case(f"R1-C1-{k}", f"S-{k}", "R1", "C1", level, action, 1, outcome)
            for k, outcome in enumerate(outcomes)]


def run_of(now: Sequence[Case], before: Sequence[Case] | None = None) -> GatedRun:
    """What was read of a run; its `scores.json` agrees with its cases at L2."""
    sessions = tuple(Session(f"{c.conversation}-{c.level}", c.trial, c.action, c.level, c.role,
                             c.outcome, "because", measured={"label": "silent"}, paired=c)
                     for c in now)
    at_l2 = [c for c in now if c.level == "L2"]
    passed, n = (sum(c.outcome in wanted for c in at_l2) for wanted in ({PASS}, {PASS, FAIL}))
    core = {"passed": passed, "n": n, "rate": passed / n if n else None,
            "unscored": len(at_l2) - n, "unsupported": 0}
    scored = SimpleNamespace(scores={"ias": {"core": {"L2": core}}, "flags": {}},
                             folder=SimpleNamespace(scores_path=Path("RUN/scores.json")))

    def loaded(found: Sequence[Case]) -> Any:
        return SimpleNamespace(system=System("x", tuple(found)))

    return GatedRun(cast(Any, scored), sessions, {}, loaded(now),
                    None if before is None else loaded(before))


def judged(run: GatedRun, bound: Bound, path: str, limit: float, at: At = "value") -> Result:
    found, = judge(run, [Gate(bound, path, limit, f"--{bound} {path}")], at)
    return found


SEVEN_OF_TWENTY = run_of(cases([PASS] * 7 + [FAIL] * 13))


@pytest.mark.parametrize(("bound", "limit", "met", "why"), [
    ("min", 0.35, True, "0.35 is at least 0.35"),
    ("min", 0.3501, False, "0.35 is below 0.3501"),
    ("min", 0.35000001, False, "0.35 is below 0.35"),
    ("max", 0.35, True, "0.35 is at most 0.35"),
    ("max", 0.4, True, "0.35 is at most 0.4"),
    ("max", 0.34, False, "0.35 is above 0.34"),
])
def test_a_limit_that_is_just_kept_is_kept(bound: Bound, limit: float, met: bool,
                                           why: str) -> None:
    found = judged(SEVEN_OF_TWENTY, bound, "ias_core.L2", limit)
    assert found.met is met
    assert found.why.startswith(why)


def test_at_the_end_of_the_interval() -> None:
    found = judged(SEVEN_OF_TWENTY, "min", "ias_core.L2", 0.35, "interval")
    assert not found.met
    assert found.reading.interval is not None
    low, high = found.reading.interval
    assert found.why.startswith("the lower end 0.15 is below 0.35")
    assert judged(SEVEN_OF_TWENTY, "min", "ias_core.L2", cast(float, low), "interval").met
    assert judged(SEVEN_OF_TWENTY, "max", "ias_core.L2", cast(float, high), "interval").met
    assert not judged(SEVEN_OF_TWENTY, "max", "ias_core.L2", 0.35, "interval").met


def test_a_share_is_counted_and_has_no_interval() -> None:
    run = run_of(cases([PASS] * 19 + [UNSCORED]))
    for at in ("value", "interval"):
        assert judged(run, "max", "unscored", 0.05, cast(At, at)).met
        found = judged(run, "max", "unscored", 0.04, cast(At, at))
        assert found.why == "0.05 is above 0.04: R1-C1-19-L2"


@pytest.mark.parametrize(("lost", "named"), [
    (8, "R1-C1-7-L2"), (9, "R1-C1-7-L2 and 1 more"), (10, "R1-C1-7-L2 and 2 more")])
def test_eight_cases_are_named(lost: int, named: str) -> None:
    run = run_of(cases([UNSCORED] * lost + [PASS] * 10))
    assert judged(run, "max", "unscored", 0.0).why.endswith(f", {named}")


@pytest.mark.parametrize("bound", ["min", "max"])
@pytest.mark.parametrize("at", ["value", "interval"])
def test_what_has_no_evidence_is_never_met(bound: Bound, at: At) -> None:
    run = run_of(cases([UNSCORED] * 3))
    limit = 0.0 if bound == "min" else 1.0
    found = judged(run, bound, "ias_core.L2", limit, at)
    assert (found.met, found.reading.value) == (False, None)
    assert found.why == "no evidence: no session scored (3 unscored)"
    assert not judged(run, bound, "by_action.YIELD", limit, at).met


def test_a_drop_and_whether_it_is_resolved() -> None:
    """Six of twelve lost, each on a stream of its own: p is 2/64, the least that six can give."""
    run = run_of(cases([PASS] * 6 + [FAIL] * 6), cases([PASS] * 12))
    found = judged(run, "max_drop", "ias_core.L2", 0.5)
    assert found.met
    assert found.drop is not None
    assert (found.reading.value, found.reading.n, found.drop["p_holm"]) == (0.5, 12, 0.03125)
    assert found.why == ("drop 0.5 is at most 0.5; resolved (Holm p 0.031); before Holm, 12 pairs "
                         "on 12 audio streams resolve a drop of 0.5 at the least")
    # Connor (1987): 12 d² = (1.96 √0.5 + 0.8416 √(0.5 - d²))² has no root below 0.5, the share
    # that differs, so no power stands beside it.
    assert found.drop["resolves_powered"] is None
    assert not judged(run, "max_drop", "ias_core.L2", 0.499).met
    five = run_of(cases([PASS] * 7 + [FAIL] * 5), cases([PASS] * 12))
    found = judged(five, "max_drop", "ias_core.L2", 0.05)
    assert not found.met
    assert found.why == (
        "drop 0.4167 is above 0.05; not resolved (Holm p 0.062); before Holm, 12 pairs on 12 "
        "audio streams resolve a drop of 0.5 at the least, more than the limit")


def test_what_could_be_found_is_before_holm() -> None:
    """Six of eight lost, the least that can be resolved: enough for one level, not for two."""
    run = run_of(cases([PASS] * 2 + [FAIL] * 6), cases([PASS] * 8))
    alone = judged(run, "max_drop", "ias_core.L2", 0.1)
    assert "; resolved (Holm p 0.031); before Holm, 8 pairs on 8 audio streams resolve a drop of " \
        "0.75 at the least" in alone.why
    both = run_of([c for level in ("L1", "L2") for c in cases([PASS] * 2 + [FAIL] * 6, level)],
                  [c for level in ("L1", "L2") for c in cases([PASS] * 8, level)])
    levels = judge(both, [Gate("max_drop", "ias_core", 0.1, "--max-drop ias_core")])
    assert [found.gate.path for found in levels] == ["ias_core.L1", "ias_core.L2"]
    for found in levels:
        assert "not resolved (Holm p 0.062); before Holm, 8 pairs on 8 audio streams resolve a " \
            "drop of 0.75 at the least" in found.why


def test_compare_says_so_too() -> None:
    effects = {"x": {"resolves": 0.75, "resolves_powered": None, "n": 8, "clusters": 6},
               "y": {"resolves": None, "resolves_powered": None, "n": 5, "clusters": 5}}
    assert _smallest(effects) == ("before Holm, 8 pairs on 6 audio streams resolve 75.0 points at "
                                  "the least, when all that differ point one way")


def test_what_could_be_found_stands_beside() -> None:
    run = run_of(cases([PASS] * 12 + [FAIL] * 12), cases([PASS] * 24))
    found = judged(run, "max_drop", "ias_core.L2", 0.5)
    powered = resolution(24, 0.5).powered
    assert powered is not None
    assert found.why.endswith(f"resolve a drop of 0.25 at the least; {powered:.3g} with power 0.8")


def test_a_rise_is_no_drop() -> None:
    run = run_of(cases([PASS] * 12), cases([PASS] * 6 + [FAIL] * 6))
    found = judged(run, "max_drop", "ias_core.L2", 0.0)
    assert found.met
    assert found.reading.value == -0.5


def test_the_end_of_a_drop() -> None:
    same = run_of(cases([PASS] * 12), cases([PASS] * 12))
    # No pair differs: Wilson's upper end of 0 in 12, z² / (12 + z²).
    assert judged(same, "max_drop", "ias_core.L2", 0.2426, "interval").met
    found = judged(same, "max_drop", "ias_core.L2", 0.2424, "interval")
    assert not found.met
    assert found.why.startswith("the upper end of the drop 0.2425 is above 0.2424; ")
    two = run_of(cases([PASS] * 2), cases([PASS] * 2))
    # z² / (2 + z²)
    assert judged(two, "max_drop", "ias_core.L2", 0.6577, "interval").met
    one = run_of(cases([PASS]), cases([PASS]))
    found = judged(one, "max_drop", "ias_core.L2", 1.0, "interval")
    assert (found.met, found.why) == (False, "no interval: nothing varies between audio streams")
    every = run_of(cases([FAIL] * 12), cases([PASS] * 12))
    assert not judged(every, "max_drop", "ias_core.L2", 1.0, "interval").met


def test_few_streams_resolve_nothing_and_say_so() -> None:
    run = run_of(cases([FAIL]), cases([PASS]))
    found = judged(run, "max_drop", "ias_core.L2", 0.1)
    assert not found.met
    assert found.why == ("drop 1 is above 0.1; too few (Holm p 1): 1 audio stream, no drop could "
                         "be resolved")


def test_a_drop_without_a_pair_is_not_met() -> None:
    run = run_of(cases([UNSCORED, PASS]), cases([PASS, UNSCORED]))
    for path in ("ias_core.L2", "ias_core.L3", "by_action.YIELD"):
        found = judged(run, "max_drop", path, 1.0)
        assert (found.met, found.reading.value) == (False, None)
        assert found.why.startswith("no evidence: no common case that both scored")
    assert "(2 scored on one side alone)" in judged(run, "max_drop", "ias_core.L2", 1.0).why
    only_l4a = run_of(cases([PASS], "L4a"), cases([PASS], "L4a"))
    found = judged(only_l4a, "max_drop", "ias_core", 1.0)
    assert (found.met, found.why) == (
        False, "no evidence: no level but L4a, which is in no pool")


def test_a_drop_of_a_pool_is_a_gate_a_level_and_one_family_as_in_rig_compare() -> None:
    other = cases([FAIL] * 12, "L3", Action.CONTINUE)  # in the other pool alone
    now = [*cases([FAIL] * 7 + [PASS] * 5, "L1"), *cases([FAIL] * 3 + [PASS] * 9), *other]
    before = [*cases([PASS] * 12, "L1"), *cases([PASS] * 12), *other]
    found = judge(run_of(now, before), [Gate("max_drop", "ias_core", 0.3, "--max-drop ias_core")])
    assert [(r.gate.path, r.met) for r in found] == [("ias_core.L1", False), ("ias_core.L2", True)]
    document = compare([System("a", tuple(before)), System("b", tuple(now))], draws_n=1000)
    wanted = {p["level"]: p["p_holm"] for p in document["pairs"] if p["pool"] == "core"}
    assert {r.gate.path[-2:]: cast(dict[str, Any], r.drop)["p_holm"] for r in found} == wanted
    # Seven lost: 2/128 alone, twice that in a family of two.
    assert wanted["L1"] == 2 * 2 / 128


def test_drops_by_action_and_role_are_a_family_of_those_asked() -> None:
    now = [*cases([FAIL] * 6), *cases([FAIL] * 6, action=Action.YIELD, level="L1")]
    before = [*cases([PASS] * 6), *cases([PASS] * 6, action=Action.YIELD, level="L1")]
    gates = [Gate("max_drop", path, 0.1, path) for path in (
        "by_action.TAKE_TURN", "by_action.YIELD.L1", "by_role.R1")]
    found = judge(run_of(now, before), gates)
    assert [r.gate.path for r in found] == [g.path for g in gates]
    # 2/64 each: the role has the same six streams with two cases on each.
    assert [cast(dict[str, Any], r.drop)["p_holm"] for r in found] == [3 * 2 / 64] * 3


@pytest.mark.parametrize(("spoil", "code"), [
    (lambda counts, met: (counts, met), 0),
    (lambda counts, met: (counts | {"infra_error": 1}, met), 3),
    (lambda counts, met: (counts | {"void": 1}, met), 3),
    (lambda counts, met: (counts | {"not_played": 1}, met), 3),
    (lambda counts, met: (counts | {"unscored": 1, "fail": 3}, met), 0),
    (lambda counts, met: (counts | {"infra_error": 1}, False), 1),
    (lambda counts, met: (counts, False), 1),
])
def test_a_gate_that_is_not_met_wins_over_missing_sessions(
    spoil: Callable[[dict[str, int], bool], tuple[dict[str, int], bool]], code: int
) -> None:
    counts, met = spoil(session_counts(SEVEN_OF_TWENTY), True)
    kept = judged(SEVEN_OF_TWENTY, "min", "ias_core.L2", 0.35 if met else 0.4)
    first = judged(SEVEN_OF_TWENTY, "min", "ias_core.L2", 0.1)
    assert exit_code([first, kept], counts) == code


def test_sessions_are_counted() -> None:
    assert session_counts(SEVEN_OF_TWENTY) == {
        "n": 20, "pass": 7, "fail": 13, "unscored": 0, "unsupported": 0, "infra_error": 0,
        "void": 0, "not_played": 0}


@pytest.mark.parametrize(("value", "beside", "text"), [
    (0.35, None, "0.35"), (1 / 3, None, "0.3333"), (0.0, None, "0"), (1.0, None, "1"),
    (1480.26, None, "1480.3"), (0.34999, 0.35, "0.34999"), (1500.04, 1500.0, "1500.04"),
    (-0.00001, None, "0"), (0.35, 0.35, "0.35"),
])
def test_a_value_never_reads_like_a_limit_that_it_misses(
    value: float, beside: float | None, text: str
) -> None:
    assert shown(value, beside) == text
