"""How far two raters agree: on a scale (Pearson, Spearman, mean absolute error) and on labels
(accuracy, macro-F1, Cohen's kappa).

Every figure is over the pairs that both have rated, and carries their number; one that is not
defined on them is `None` with the reason, never 0.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Figure:
    """A number over `n` pairs; `reason` says why it is missing."""

    value: float | None
    n: int
    reason: str | None = None


def pearson(x: Sequence[float], y: Sequence[float]) -> Figure:
    """Pearson's product-moment correlation, -1..1. Not defined on fewer than two pairs or where one
    side gives one value alone."""
    n = _pairs(x, y)
    if n < 2:
        return Figure(None, n, f"a correlation needs two pairs, got {n}")
    for name, values in (("first", x), ("second", y)):
        if min(values) == max(values):
            return Figure(None, n, f"the {name} gave one value alone")
    # Exact up to the root: rounding must not turn a perfect correlation into 1.0000000000000002.
    a, b = _centred(x), _centred(y)
    product = sum((p * q for p, q in zip(a, b, strict=True)), Fraction(0))
    size = sum((p * p for p in a), Fraction(0)) * sum((q * q for q in b), Fraction(0))
    return Figure(math.copysign(math.sqrt(product * product / size), product), n)


def spearman(x: Sequence[float], y: Sequence[float]) -> Figure:
    """Spearman's rank correlation: Pearson's of the ranks, equal values sharing the mean of theirs
    (Spearman 1904; Kendall 1945 on ties). Not defined where Pearson's is not."""
    return pearson(mean_ranks(x), mean_ranks(y))


def mean_ranks(values: Sequence[float]) -> tuple[float, ...]:
    """Rank of each value, the smallest 1; equal values share the mean of their ranks."""
    below = {v: sum(other < v for other in values) for v in set(values)}
    times = Counter(values)
    return tuple(below[v] + (times[v] + 1) / 2 for v in values)


def mean_absolute_error(x: Sequence[float], y: Sequence[float]) -> Figure:
    """Mean of |x - y|, in the unit of both."""
    n = _pairs(x, y)
    if n == 0:
        return Figure(None, 0, "no pair")
    return Figure(math.fsum(abs(a - b) for a, b in zip(x, y, strict=True)) / n, n)


def mean_difference(x: Sequence[float], y: Sequence[float]) -> Figure:
    """Mean of second minus first: whether one rater is the milder."""
    n = _pairs(x, y)
    if n == 0:
        return Figure(None, 0, "no pair")
    return Figure(math.fsum(b - a for a, b in zip(x, y, strict=True)) / n, n)


def accuracy(x: Sequence[str], y: Sequence[str]) -> Figure:
    """Share of pairs with one label, 0..1."""
    n = _pairs(x, y)
    if n == 0:
        return Figure(None, 0, "no pair")
    return Figure(sum(a == b for a, b in zip(x, y, strict=True)) / n, n)


def macro_f1(x: Sequence[str], y: Sequence[str]) -> Figure:
    """Mean F1 over the labels that either rater has given, each label alike, 0..1.

    F1 of a label is 2·both / (first + second), so it is the same whoever is taken for the
    reference. Labels that nobody gave have no F1 and are in no mean.
    """
    n = _pairs(x, y)
    if n == 0:
        return Figure(None, 0, "no pair")
    both = Counter(a for a, b in zip(x, y, strict=True) if a == b)
    first, second = Counter(x), Counter(y)
    labels = sorted(first.keys() | second.keys())
    scores = [2 * both[label] / (first[label] + second[label]) for label in labels]
    return Figure(math.fsum(scores) / len(scores), n)


def cohen_kappa(x: Sequence[str], y: Sequence[str]) -> Figure:
    """Cohen's kappa (1960), (observed - expected) / (1 - expected) agreement, -1..1. Not defined
    where both give one and the same label throughout: chance alone would agree fully."""
    n = _pairs(x, y)
    if n == 0:
        return Figure(None, 0, "no pair")
    first, second = Counter(x), Counter(y)
    observed = n * sum(a == b for a, b in zip(x, y, strict=True))
    expected = sum(first[label] * second[label] for label in first)
    if expected == n * n:
        return Figure(None, n, "both gave one label throughout")
    return Figure((observed - expected) / (n * n - expected), n)


def _pairs(x: Sequence[object], y: Sequence[object]) -> int:
    if len(x) != len(y):
        raise ValueError(f"expected equally long sequences, got {len(x)} and {len(y)}")
    return len(x)


def _centred(values: Sequence[float]) -> list[Fraction]:
    exact = [Fraction(v) for v in values]
    mean = sum(exact, Fraction(0)) / len(exact)
    return [v - mean for v in exact]
