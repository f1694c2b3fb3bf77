"""Effects and differences on systems whose verdicts are written down."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sweeps.effects import (
    BATCH,
    INTERVAL_PERCENT,
    SEED,
    Case,
    Draws,
    case_and_trial,
    difference,
    effect,
    pool,
    rate,
    trials_of,
)
from verifiers.scene import Action
from verifiers.verdict import Outcome

WORDS = {"1": Outcome.PASS, "0": Outcome.FAIL, "-": Outcome.UNSCORED}


def cases(level: str, verdicts: str, *, action: Action = Action.LISTEN, share: int = 1,
          trial: int = 1) -> list[Case]:
    """A conversation a character; `share` of them have one stream."""
    return [Case(f"R1-A-{k}", f"S{k // share}", "R1", "A", level, action, trial, WORDS[v])
            for k, v in enumerate(verdicts)]


def draws(n: int = 40, count: int = 2_000) -> Draws:
    return Draws([f"S{k}" for k in range(n)], count)


def test_effects_have_the_published_signs() -> None:
    system = cases("L1", "1111100000") + cases("L2", "1100000000") + cases("L3", "1110000000")
    found = {name: effect(system, name, draws()).difference
             for name in ("entailment_gap", "redundancy_gain", "role_tax")}
    assert found == pytest.approx(
        {"entailment_gap": 0.3, "redundancy_gain": 0.1, "role_tax": -0.2})


def test_pairs_are_counted_exactly() -> None:
    found = difference(cases("L1", "1101-0"), cases("L2", "10-0-1"),
                       lambda c: (c.conversation, c.trial), draws())
    # 1/1, 1/0, 0/-, 1/0, -/-, 0/1
    assert (found.n, found.only_first, found.only_second, found.one_sided) == (4, 2, 1, 1)
    assert found.difference == pytest.approx(1 / 4)
    assert found.p_mcnemar == 1.0
    assert found.verdict(0.01) == "too few"
    longer = difference(cases("L1", "11"), cases("L2", "0"), lambda c: c.conversation, draws())
    assert (longer.n, longer.one_sided) == (1, 1)


def test_no_pair_is_no_number() -> None:
    found = difference(cases("L1", "11"), [], lambda c: c.conversation, draws())
    assert (found.n, found.one_sided) == (0, 2)
    assert (found.difference, found.interval, found.p_mcnemar, found.p_clustered) == (
        None, None, None, None)
    assert found.verdict(None) == "no common cases"


def test_shared_audio_is_one_cluster() -> None:
    apart = difference(cases("L1", "1" * 6), cases("L2", "0" * 6), lambda c: c.conversation,
                       draws())
    assert apart.p_clustered == apart.p_mcnemar == pytest.approx(0.03125)
    assert apart.verdict(apart.p_clustered) == "resolved"
    shared = difference(cases("L1", "1" * 6, share=3), cases("L2", "0" * 6, share=3),
                        lambda c: c.conversation, draws())
    assert (shared.p_mcnemar, shared.p_clustered, shared.clusters) == (0.03125, 0.5, 2)
    # Two streams cannot differ significantly, whatever they hold.
    assert shared.verdict(shared.p_clustered) == "too few"
    assert apart.resolution.certain == 1.0


def test_intervals_are_seeded_and_hold_the_value() -> None:
    many = cases("L1", "1100" * 10)
    found = rate(many, draws())
    assert (found.passed, found.n, found.unscored) == (20, 40, 0)
    assert found.interval == rate(many, draws()).interval
    low, high = found.interval or (1.0, 0.0)
    # The binomial's standard error is 0.079.
    assert low == pytest.approx(0.5 - 1.96 * 0.079, abs=0.03)
    assert high == pytest.approx(0.5 + 1.96 * 0.079, abs=0.03)
    # Four conversations a stream that go together: twice the error.
    low, high = rate(cases("L1", "11110000" * 5, share=4), draws(10)).interval or (1.0, 0.0)
    assert high - low > 1.6 * (4 * 0.079 - 0.08)


def test_the_interval_of_a_difference_lies_on_its_side() -> None:
    found = difference(cases("L1", "1111111100"), cases("L2", "0" * 10), lambda c: c.conversation,
                       draws())
    low, high = found.interval or (0.0, 0.0)
    assert 0.4 <= low < 0.8 < high <= 1.0


def test_one_cluster_has_no_interval() -> None:
    assert rate(cases("L1", "10", share=2), draws()).interval is None


def test_two_clusters_have_one() -> None:
    assert rate(cases("L1", "10"), draws()).interval == (0.0, 1.0)


def test_sums_that_are_no_whole_numbers_keep_their_digits() -> None:
    """Latencies in seconds, of the figures of other benchmarks: a quarter of the draws is of one
    stream alone."""
    assert Draws("ab").interval({"a": (0.1, 1), "b": (0.3, 1)}) == (0.1, 0.3)


def test_where_nothing_varies_draws_say_nothing() -> None:
    """A bootstrap of equal values has no width, and no sample is as sure as that."""
    # Wilson 1927 at 10 of 10 and at 0 of 10; two cases of a stream are one trial.
    assert rate(cases("L1", "1" * 10), draws()).interval == pytest.approx((0.7225, 1), abs=1e-4)
    assert rate(cases("L1", "0" * 10), draws()).interval == pytest.approx((0, 0.2775), abs=1e-4)
    assert rate(cases("L1", "1" * 20, share=2), draws()).interval == pytest.approx(
        (0.7225, 1), abs=1e-4)
    assert rate(cases("L1", "1010", share=2), draws()).interval is None
    assert rate(cases("L1", "11"), draws()).interval == pytest.approx((0.3424, 1), abs=1e-4)
    assert rate(cases("L1", "11", share=2), draws()).interval is None
    same = difference(cases("L1", "1100"), cases("L2", "1100"), lambda c: c.conversation, draws())
    assert (same.difference, same.interval) == (0, None)


def test_what_is_resolved_lies_below_the_level() -> None:
    found = difference(cases("L1", "1" * 8), cases("L2", "0" * 8), lambda c: c.conversation,
                       draws())
    assert [found.verdict(p) for p in (0.049, 0.05, 0.051, None)] == [
        "resolved", "not resolved", "not resolved", "not adjusted"]


def test_systems_pair_by_case_and_trial() -> None:
    first = cases("L1", "11") + cases("L1", "10", trial=2)
    second = cases("L1", "01") + cases("L1", "00", trial=2)
    found = difference(first, second, case_and_trial, draws())
    assert (found.n, found.only_first, found.only_second) == (4, 2, 0)
    with pytest.raises(ValueError, match="twice"):
        difference(first + first, second, case_and_trial, draws())
    assert trials_of(first) == [(2, 2), (1, 2)]


def test_pools() -> None:
    mixed = cases("L1", "1") + cases("L1", "1", action=Action.BACKCHANNEL)
    assert (len(pool(mixed, "core")), len(pool(mixed, "all"))) == (1, 2)


def test_unsupported_is_in_no_rate() -> None:
    gone = dataclasses.replace(cases("L1", "1")[0], outcome=Outcome.UNSUPPORTED)
    found = rate([gone], draws())
    assert (found.n, found.unscored, found.unsupported) == (0, 0, 1)


def test_intervals_in_one_pass_are_those_one_by_one() -> None:
    """To the last digit, over batches, with ones that have none between and one beyond float32."""
    streams = [f"S{k}" for k in range(9)]
    rng = np.random.default_rng(3)
    draws = Draws(streams, 500)
    times = rng_times(len(streams), 500)
    many = []
    for size in [*rng.integers(0, 10, size=2 * BATCH + 1).tolist(), 9]:
        picked = rng.permutation(streams)[:size].tolist()
        n = rng.integers(1, 8, size=size)
        sums = {s: (float(rng.integers(0, k + 1)), float(k))
                for s, k in zip(picked, n.tolist(), strict=True)}
        # The first and the last differ in any case: all or none passed.
        sums |= {s: (float(last), 1.0) for last, s in enumerate(dict.fromkeys(
            picked[:1] + picked[-1:]))}
        many.append(sums)
    many[-1] = {s: (2.0**24 + 1, 2.0**25 + k) for k, s in enumerate(streams)}
    for sums, found in zip(many, draws.intervals(many), strict=True):
        assert found == draws.interval(sums)
        if len(sums) < 2:
            assert found is None
            continue
        top, bottom = (times @ np.array([sums.get(s, (0.0, 0.0))[side] for s in streams])
                       for side in (0, 1))
        assert found == tuple(np.percentile(top[bottom != 0] / bottom[bottom != 0],
                                            INTERVAL_PERCENT))


def rng_times(n: int, draws_n: int) -> np.ndarray:
    """The draws of `Draws`, made anew in float64."""
    return np.random.default_rng(SEED).multinomial(n, np.full(n, 1 / n), size=draws_n).astype(float)
