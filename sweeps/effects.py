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

from sweeps.intervals import wilson
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
BATCH = 32
"""Intervals in one product with the draws: 2.6 MB of sums at 10,000 draws in float32."""
Sums = Mapping[str, tuple[float, float]]
"""Numerator and denominator of a ratio, by stream."""


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
        if self.outcome is Outcome.PASS:
            return True
        return False if self.outcome is Outcome.FAIL else None


class Draws:
    """Bootstrap draws over streams: how often each stream is in each draw."""

    def __init__(self, streams: Iterable[str], draws: int = DRAWS, seed: int = SEED) -> None:
        self._at = {stream: k for k, stream in enumerate(sorted(set(streams)))}
        n = len(self._at)
        rng = np.random.default_rng(seed)
        drawn = rng.multinomial(n, np.full(n, 1 / n), size=draws) if n else np.zeros((draws, 0))
        self._times = np.ascontiguousarray(drawn.T, dtype=np.float32)
        self._most = float(self._times.max(initial=0.0))

    def interval(self, sums: Sums) -> tuple[float, float] | None:
        """The 95 % percentile interval of `Σ numerator / Σ denominator`.

        `sums` gives both by stream. `None` where the streams that have a
        denominator all have one ratio, as a single one has: nothing is seen of how streams vary,
        and draws of them would give an interval without width.
        """
        return self.intervals([sums])[0]

    def intervals(self, many: Sequence[Sums]) -> list[tuple[float, float] | None]:
        """`interval` of each, `BATCH` of them in one pass over the draws."""
        found: list[tuple[float, float] | None] = [None] * len(many)
        known = [k for k, sums in enumerate(many)
                 if len({top / n for top, n in sums.values() if n}) >= 2]
        for start in range(0, len(known), BATCH):
            batch = known[start:start + BATCH]
            for k, (top, bottom) in zip(batch, self._drawn([many[k] for k in batch]), strict=True):
                drawn = bottom != 0
                low, high = np.percentile(
                    top[drawn].astype(float) / bottom[drawn].astype(float), INTERVAL_PERCENT)
                found[k] = float(low), float(high)
        return found

    def _drawn(self, many: Sequence[Sums]) -> np.ndarray:
        """Numerators and denominators of each draw: (those given, 2, draws)."""
        table = np.zeros((len(many), 2, len(self._at)))
        for place, sums in zip(table, many, strict=True):
            place[:, [self._at[stream] for stream in sums]] = np.array(list(sums.values())).T
        # Counts: float32, half the memory to walk through, is exact for whole numbers below 65,536,
        # and float64 is taken beyond and for sums of latencies.
        most = np.min_scalar_type(int(np.abs(table).sum(axis=(1, 2)).max() * self._most))
        whole = np.array_equal(table, np.rint(table))
        dtype = np.result_type(np.float32 if whole else np.float64, most)
        # One product of matrices: one by one, numpy's threads start and wait for each interval,
        # which on a machine in use takes many times as long as the sums.
        flat = table.reshape(-1, len(self._at)).astype(dtype)
        drawn: np.ndarray = flat @ self._times.astype(dtype, copy=False)
        return drawn.reshape(len(many), 2, -1)


@dataclass(frozen=True, slots=True)
class Rate:
    """Passed out of scored; the interval, 0..1, is the bootstrap's. Where all or none passed that
    has no width, and it is Wilson's with streams for trials. `None` for a single stream, and where
    all streams have one other rate."""

    passed: int
    n: int
    unscored: int
    unsupported: int
    interval: tuple[float, float] | None


def rate(cases: Iterable[Case], draws: Draws) -> Rate:
    """One pool of one system."""
    return rates([cases], draws)[0]


def rates(pools: Iterable[Iterable[Case]], draws: Draws) -> list[Rate]:
    """`rate` of each pool, in their order."""
    counted = [_counted(cases) for cases in pools]
    intervals = draws.intervals([sums for _, sums in counted])
    return [Rate(*counts, interval or _without_width(counts[0], counts[1], len(sums)))
            for (counts, sums), interval in zip(counted, intervals, strict=True)]


def _without_width(passed: int, n: int, streams: int) -> tuple[float, float] | None:
    """The interval of a rate whose bootstrap has no width."""
    if streams < 2 or passed not in (0, n):
        return None
    return wilson(streams if passed else 0, streams)


def _counted(cases: Iterable[Case]) -> tuple[tuple[int, int, int, int], Sums]:
    """The counts of a `Rate`, in its order, and passed out of scored by stream."""
    sums: dict[str, tuple[float, float]] = {}
    passed = n = unscored = unsupported = 0
    for case in cases:
        verdict = case.passed
        if verdict is None:
            unscored += case.outcome is Outcome.UNSCORED
            unsupported += case.outcome is Outcome.UNSUPPORTED
            continue
        p, k = sums.get(case.stream, (0.0, 0.0))
        sums[case.stream] = (p + verdict, k + 1)
        passed, n = passed + verdict, n + 1
    return (passed, n, unscored, unsupported), sums


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


@dataclass(frozen=True, slots=True)
class Pairs:
    """Two sets of cases side by side, in the order of the first. `one_sided` are scored on one side
    alone: in no pair."""

    both: tuple[tuple[Case, Case], ...]
    one_sided: int

    @property
    def flipped(self) -> tuple[tuple[Case, Case], ...]:
        """The discordant pairs: passed on one side, failed on the other."""
        return tuple((a, b) for a, b in self.both if a.passed is not b.passed)


def paired(first: Iterable[Case], second: Iterable[Case], key: Callable[[Case], object]) -> Pairs:
    """Pair two sets of cases by `key`. Raises `ValueError` when one side has a key twice."""
    ones, others = _by_key(first, key), _by_key(second, key)
    return Pairs(tuple((case, others[name]) for name, case in ones.items() if name in others),
                 len(ones.keys() ^ others.keys()))


def difference(first: Iterable[Case], second: Iterable[Case], key: Callable[[Case], object],
               draws: Draws) -> Difference:
    """First minus second over their pairs by `key`. Raises as `paired`."""
    return differences([(first, second)], key, draws)[0]


def differences(both: Iterable[tuple[Iterable[Case], Iterable[Case]]],
                key: Callable[[Case], object], draws: Draws) -> list[Difference]:
    """`difference` of each first and second, in their order."""
    found = [paired(first, second, key) for first, second in both]
    sums = [_net(pairs) for pairs in found]
    return [_difference(*each) for each in zip(found, sums, draws.intervals(sums), strict=True)]


def _net(pairs: Pairs) -> Sums:
    """Passed by the first less passed by the second, out of the pairs, by stream."""
    sums: dict[str, tuple[float, float]] = {}
    for a, b in pairs.both:
        net, k = sums.get(a.stream, (0.0, 0.0))
        sums[a.stream] = (net + bool(a.passed) - bool(b.passed), k + 1)
    return sums


def _difference(pairs: Pairs, sums: Sums, interval: tuple[float, float] | None) -> Difference:
    counts = {True: 0, False: 0}
    for a, _ in pairs.flipped:
        counts[bool(a.passed)] += 1
    n, only_first, only_second = len(pairs.both), counts[True], counts[False]
    discordant = only_first + only_second
    return Difference(
        n, only_first, only_second, pairs.one_sided, len(sums),
        (only_first - only_second) / n if n else None, interval,
        mcnemar(only_first, only_second) if n else None,
        sign_flip([round(net) for net, _ in sums.values()]) if n else None,
        resolution(n, discordant / n if n else 0.0, len(sums)))


def _by_key(cases: Iterable[Case], key: Callable[[Case], object]) -> dict[object, Case]:
    """The scored ones, in order."""
    out: dict[object, Case] = {}
    for case in cases:
        name = key(case)
        if name in out:
            raise ValueError(f"expected one case of each pair on a side, got {name} twice")
        out[name] = case
    return {name: case for name, case in out.items() if case.passed is not None}


def effect(cases: Sequence[Case], name: str, draws: Draws) -> Difference:
    """One of `EFFECTS` over the given cases of one system, paired by conversation and trial."""
    return effects(cases, draws)[name]


def effects(cases: Sequence[Case], draws: Draws) -> dict[str, Difference]:
    """All of `EFFECTS`, as `effect`."""
    found = differences([sides(cases, name) for name in EFFECTS], conversation_and_trial, draws)
    return dict(zip(EFFECTS, found, strict=True))


def sides(cases: Sequence[Case], name: str) -> tuple[list[Case], list[Case]]:
    """The cases of the two levels of one of `EFFECTS`."""
    plus, minus = EFFECTS[name]
    return [c for c in cases if c.level == plus], [c for c in cases if c.level == minus]


def conversation_and_trial(case: Case) -> tuple[str, int]:
    """What two levels of one system are paired by."""
    return case.conversation, case.trial


def case_and_trial(case: Case) -> tuple[str, str, int]:
    """What two systems are paired by."""
    return case.conversation, case.level, case.trial


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

