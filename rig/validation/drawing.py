"""Stratified draws by a seed: as many of each stratum as wanted, evenly over the factors within it.

Items are taken one by one. Each time the next is one whose factors (system, level, role, ...) have
been taken least so far, each factor counting alike; among equals a seeded order decides. So a
balanced pool gives a balanced sample, and a lopsided one the best that it allows. What a stratum
lacks is in the answer, and so is what was taken in its place.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Candidate(Generic[T]):
    """Something that could be drawn; `factors` are what is balanced, `traits` what strata ask for.
    """

    item: T
    key: str
    factors: Mapping[str, str]
    traits: frozenset[str]


@dataclass(frozen=True, slots=True)
class Stratum:
    """At least `wanted` items of the sample have all these traits; strata may overlap."""

    name: str
    traits: frozenset[str]
    wanted: int


@dataclass(frozen=True, slots=True)
class Filled:
    """What a stratum wanted, how many in the pool belong to it, and how many in the sample."""

    name: str
    wanted: int
    available: int
    drawn: int

    @property
    def short(self) -> int:
        return max(0, self.wanted - self.drawn)


@dataclass(frozen=True, slots=True)
class Drawn(Generic[T]):
    """Chosen items in the order in which they were drawn; `filled_up` of them for no stratum."""

    chosen: tuple[Candidate[T], ...]
    strata: tuple[Filled, ...]
    filled_up: int


def draw(pool: Sequence[Candidate[T]], strata: Sequence[Stratum], total: int,
         rng: random.Random, group: Callable[[Candidate[T]], str] | None = None) -> Drawn[T]:
    """Draw at most `total` items: the strata in order, then whatever balances best.

    `group`: of items with one group (a case and its trials, for instance) only one is drawn while
    there are others. Raises `ValueError` where a key occurs twice.
    """
    if len({c.key for c in pool}) < len(pool):
        raise ValueError("expected different keys")
    order = sorted(pool, key=lambda c: c.key)
    rng.shuffle(order)
    taker = _Taker(order, group or (lambda c: c.key))
    for stratum in strata:
        missing = stratum.wanted - taker.count(stratum.traits)
        taker.take(stratum.traits, min(missing, total - len(taker.chosen)))
    before = len(taker.chosen)
    taker.take(frozenset(), total - before)
    return Drawn(tuple(taker.chosen), tuple(
        Filled(s.name, s.wanted, sum(s.traits <= c.traits for c in pool), taker.count(s.traits))
        for s in strata), len(taker.chosen) - before)


class _Taker(Generic[T]):
    def __init__(self, order: Sequence[Candidate[T]],
                 group: Callable[[Candidate[T]], str]) -> None:
        self.chosen: list[Candidate[T]] = []
        self._group = group
        self._groups: Counter[str] = Counter()
        self._counts: Counter[tuple[str, str]] = Counter()
        values: dict[str, set[str]] = {}
        for candidate in order:
            for factor, value in candidate.factors.items():
                values.setdefault(factor, set()).add(value)
        self._weights = {factor: len(found) for factor, found in values.items()}
        # Candidates that agree in factors and traits cost alike.
        self._buckets: dict[tuple[frozenset[tuple[str, str]], frozenset[str]],
                            dict[int, Candidate[T]]] = {}
        for rank, candidate in enumerate(order):
            at = (frozenset(candidate.factors.items()), candidate.traits)
            self._buckets.setdefault(at, {})[rank] = candidate

    def count(self, traits: frozenset[str]) -> int:
        """Chosen items that have all `traits`."""
        return sum(traits <= c.traits for c in self.chosen)

    def take(self, traits: frozenset[str], wanted: int) -> None:
        """Up to `wanted` items that have all `traits`."""
        for _ in range(wanted):
            found = [(*self._best_of(bucket), bucket) for (_, has), bucket in self._buckets.items()
                     if bucket and traits <= has]
            if not found:
                return
            _, _, rank, bucket = min(found, key=lambda f: f[:3])
            candidate = bucket.pop(rank)
            self.chosen.append(candidate)
            self._groups[self._group(candidate)] += 1
            self._counts.update(candidate.factors.items())

    def _best_of(self, bucket: Mapping[int, Candidate[T]]) -> tuple[int, int, int]:
        """Of the best of a bucket: times its group was taken, its cost, its place in the seeded
        order."""
        times, rank = min((self._groups[self._group(c)], rank) for rank, c in bucket.items())
        cost = sum(self._counts[item] * self._weights[item[0]]
                   for item in next(iter(bucket.values())).factors.items())
        return times, cost, rank
