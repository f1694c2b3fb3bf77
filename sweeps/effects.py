"""From verdicts to differences: conditioning effects within a system, and systems against systems.

Everything is paired by conversation and trial: a case that only one side has scored is in no pair
and is counted as one-sided. `core` pools the four actions of the published headline, `all` nine.

    entailment gap  = IAS(L1) - IAS(L2)   what a directive gives beyond the persona
    redundancy gain = IAS(L3) - IAS(L2)   what it adds to the persona
    role tax        = IAS(L3) - IAS(L1)   what the persona costs the directive

(DSB-IFEval, table 5; the signs reproduce the published figures.) The cluster is the audio stream:
conversations of roles R1 to R3 that share their audio byte for byte are one. Intervals come from a
bootstrap over clusters whose draws are shared by all systems, so that a difference is drawn as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sweeps.paired import ALPHA, Resolution, mcnemar, resolution, sign_flip
from verifiers.scene import CORE_ACTIONS, Action
from verifiers.verdict import Outcome

EFFECTS: Mapping[str, tuple[str, str]] = {
    "entailment_gap": ("L1", "L2"), "redundancy_gain": ("L3", "L2"), "role_tax": ("L3", "L1")}
"""Which level minus which."""
POOLS: Mapping[str, Callable[[Action], bool]] = {
    "core": lambda action: action in CORE_ACTIONS, "all": lambda _: True}
DRAWS = 10_000
SEED = 20_260_917
"""Of the bootstrap. Any number would do; one that is written down gives the same interval again."""
INTERVAL_PERCENT = (2.5, 97.5)


@dataclass(frozen=True, slots=True)
class Case:
    """The verdict of one case and trial, and what it is paired and pooled by."""

    conversation: str
    stream: str
    role: str
    probe: str
    level: str
    action: Action
    trial: int
    outcome: Outcome

    @property
    def passed(self) -> bool | None:
        """`None` where nothing was scored."""
        return {Outcome.PASS: True, Outcome.FAIL: False}.get(self.outcome)


class Draws:
    """Bootstrap draws over streams: how often each stream is in each draw."""

    def __init__(self, streams: Iterable[str], draws: int = DRAWS, seed: int = SEED) -> None:
        self._at = {stream: k for k, stream in enumerate(sorted(set(streams)))}
        n = len(self._at)
        rng = np.random.default_rng(seed)
        self._times = rng.multinomial(n, np.full(n, 1 / n), size=draws).astype(np.float64) \
            if n else np.zeros((draws, 0))

    def interval(self, sums: Mapping[str, tuple[float, float]]) -> tuple[float, float] | None:
        """The 95 % percentile interval of `Σ numerator / Σ denominator`.

        `sums` gives both by stream. `None` where fewer than two streams have a denominator: a
        single cluster says nothing of how clusters vary.
        """
        if sum(bool(n) for _, n in sums.values()) < 2:
            return None
        table = np.zeros((len(self._at), 2))
        for stream, values in sums.items():
            table[self._at[stream]] = values
        drawn = self._times @ table
        drawn = drawn[drawn[:, 1] != 0]
        low, high = np.percentile(drawn[:, 0] / drawn[:, 1], INTERVAL_PERCENT)
        return float(low), float(high)


@dataclass(frozen=True, slots=True)
class Rate:
    """Passed out of scored; the interval is the bootstrap's, 0..1."""

    passed: int
    n: int
    unscored: int
    unsupported: int
    interval: tuple[float, float] | None


def rate(cases: Iterable[Case], draws: Draws) -> Rate:
    """One pool of one system."""
    sums: dict[str, tuple[float, float]] = {}
    passed = n = unscored = unsupported = 0
    for case in cases:
        if case.passed is None:
            unscored += case.outcome is Outcome.UNSCORED
            unsupported += case.outcome is Outcome.UNSUPPORTED
            continue
        p, k = sums.get(case.stream, (0.0, 0.0))
        sums[case.stream] = (p + case.passed, k + 1)
        passed, n = passed + case.passed, n + 1
    return Rate(passed, n, unscored, unsupported, draws.interval(sums))


@dataclass(frozen=True, slots=True)
class Difference:
    """First minus second over their pairs. Rates in 0..1; `None` where there is no pair."""

    n: int
    only_first: int
    only_second: int
    one_sided: int
    """Scored on one side alone: in no pair."""
    clusters: int
    difference: float | None
    interval: tuple[float, float] | None
    p_mcnemar: float | None
    p_clustered: float | None
    resolution: Resolution

    def verdict(self, p_adjusted: float | None) -> str:
        """In plain words. `p_adjusted` is the clustered p, adjusted for its family, and `None`
        where the difference is in none."""
        if self.n == 0:
            return "no common cases"
        if self.resolution.certain is None:
            return "too few"
        if p_adjusted is None:
            return "not adjusted"
        return "resolved" if p_adjusted < ALPHA else "not resolved"


def difference(first: Iterable[Case], second: Iterable[Case], key: Callable[[Case], object],
               draws: Draws) -> Difference:
    """Pair two sets of cases by `key`. Raises `ValueError` when one side has a key twice."""
    ones, others = _by_key(first, key), _by_key(second, key)
    sums: dict[str, tuple[float, float]] = {}
    counts = {(True, False): 0, (False, True): 0}
    n = one_sided = 0
    for name in ones.keys() | others.keys():
        a, b = ones.get(name), others.get(name)
        x = None if a is None else a.passed
        y = None if b is None else b.passed
        if a is None or x is None or y is None:
            one_sided += (x is None) != (y is None)
            continue
        n += 1
        if x != y:
            counts[x, y] += 1
        net, k = sums.get(a.stream, (0.0, 0.0))
        sums[a.stream] = (net + x - y, k + 1)
    only_first, only_second = counts[True, False], counts[False, True]
    discordant = only_first + only_second
    return Difference(
        n, only_first, only_second, one_sided, len(sums),
        (only_first - only_second) / n if n else None, draws.interval(sums),
        mcnemar(only_first, only_second) if n else None,
        sign_flip([round(net) for net, _ in sums.values()]) if n else None,
        resolution(n, discordant / n if n else 0.0, len(sums)))


def _by_key(cases: Iterable[Case], key: Callable[[Case], object]) -> dict[object, Case]:
    out: dict[object, Case] = {}
    for case in cases:
        name = key(case)
        if name in out:
            raise ValueError(f"expected one case of each pair on a side, got {name} twice")
        out[name] = case
    return out


def effect(cases: Sequence[Case], name: str, draws: Draws) -> Difference:
    """One of `EFFECTS` over the given cases of one system, paired by conversation and trial."""
    plus, minus = EFFECTS[name]
    return difference((c for c in cases if c.level == plus),
                      (c for c in cases if c.level == minus),
                      lambda c: (c.conversation, c.trial), draws)


def between(first: Sequence[Case], second: Sequence[Case], draws: Draws) -> Difference:
    """Two systems on the same cases, paired by case and trial."""
    return difference(first, second, lambda c: (c.conversation, c.level, c.trial), draws)


def pool(cases: Iterable[Case], name: str) -> list[Case]:
    """The cases of one of `POOLS`."""
    wanted = POOLS[name]
    return [case for case in cases if wanted(case.action)]


def trials_of(cases: Iterable[Case]) -> list[tuple[int, int]]:
    """A case each: how many trials passed, how many were scored."""
    counts: dict[tuple[str, str], tuple[int, int]] = {}
    for case in cases:
        if case.passed is not None:
            passed, n = counts.get((case.conversation, case.level), (0, 0))
            counts[case.conversation, case.level] = (passed + case.passed, n + 1)
    return list(counts.values())

