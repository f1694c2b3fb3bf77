"""The figures of agreement: values by scikit-learn and SciPy, intervals by a bootstrap over items.

Fleiss' kappa is ours: a formula of a few lines, which the bootstrap needs on arrays. What is not
defined on what was given is `None` with the reason, never 0.

Intervals are 95 % percentiles over draws of items with replacement, items taken as independent. A
figure that more than one draw in twenty leaves undefined has none, nor has one of a single item,
nor one that is the same in every draw: nothing is seen of how items vary.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audio.errors import RigError
from sweeps.intervals import wilson

DRAWS = 2_000
SEED = 20_261_130
"""Any number would do; one that is written down gives the same interval again."""
INTERVAL_PERCENT = (2.5, 97.5)
MOST_UNDEFINED = 0.05
Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure over `n` items; `reason` says why value or interval is missing."""

    value: float | None
    n: int
    interval: tuple[float, float] | None = None
    reason: str | None = None


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise RigError(f"rig agree needs {name}, which is not installed here; it comes with the "
                       "extra validation (pip install -c constraints.txt -e '.[validation]' "
                       "where duplexrig is)") from error


def require_libraries() -> None:
    """Raise `RigError` where the extra is missing, before any work is done."""
    _library("sklearn.metrics")
    _library("scipy.stats")


class Bootstrap:
    """Draws of items, the same for every figure over as many items."""

    def __init__(self, draws: int = DRAWS, seed: int = SEED) -> None:
        self._draws, self._seed = draws, seed
        self._picks = functools.cache(self._picked)

    def _picked(self, n: int) -> Array:
        """Item numbers: (draws, n)."""
        return np.random.default_rng([self._seed, n]).integers(0, n, size=(self._draws, n))

    def interval(self, n: int, figure: Callable[[Array], Array],
                 ) -> tuple[tuple[float, float] | None, str | None]:
        """`figure` takes item numbers (draws, n) and gives a value a draw, NaN where undefined."""
        if n < 2:
            return None, "an interval needs two items"
        with np.errstate(divide="ignore", invalid="ignore"):
            values = figure(self._picks(n))
        defined = values[np.isfinite(values)]
        if len(defined) < (1 - MOST_UNDEFINED) * len(values):
            return None, "not defined on many draws of these items"
        if np.ptp(defined) == 0:
            return None, "all draws of these items give one value"
        low, high = np.percentile(defined, INTERVAL_PERCENT)
        return (float(low), float(high)), None


# --- shares -----------------------------------------------------------------------------------


def share(count: int, n: int) -> Estimate:
    """`count` of `n` independent items, with Wilson's interval."""
    if n == 0:
        return Estimate(None, 0, None, "no item")
    return Estimate(count / n, n, wilson(count, n))


def pooled_share(parts: Sequence[tuple[int, int]], boot: Bootstrap) -> Estimate:
    """`Σ count / Σ n` over items given as `(count, n)`: the annotations of an item are not
    independent, so whole items are drawn. `n` of the answer counts the items that have any."""
    held = np.array([(c, n) for c, n in parts if n], dtype=float).reshape(-1, 2)
    if not len(held):
        return Estimate(None, 0, None, "no item")
    value = float(held[:, 0].sum() / held[:, 1].sum())
    if value in (0.0, 1.0):  # draws of nothing else have no width
        return Estimate(value, len(held), wilson(int(value) * len(held), len(held)))
    interval, why = boot.interval(len(held), lambda at: held[at, 0].sum(1) / held[at, 1].sum(1))
    return Estimate(value, len(held), interval, why)


# --- labels -----------------------------------------------------------------------------------


def cohen_kappa(first: Sequence[str], second: Sequence[str], boot: Bootstrap) -> Estimate:
    """Cohen's kappa (1960), unweighted. Not defined where both give one and the same label."""
    n = len(first)
    if n == 0:
        return Estimate(None, 0, None, "no item")
    if len({*first, *second}) == 1:
        return Estimate(None, n, None, f"both gave {first[0]!r} throughout: no variance")
    value = float(_library("sklearn.metrics").cohen_kappa_score(first, second))
    interval, why = boot.interval(n, lambda at: _kappa(_confusion(first, second, at)))
    return Estimate(value, n, interval, why)


def accuracy(truth: Sequence[str], found: Sequence[str]) -> Estimate:
    """Share of items with one label."""
    n = len(truth)
    agree = _library("sklearn.metrics").accuracy_score(truth, found, normalize=False) if n else 0
    return share(int(agree), n)


def binary(truth: Sequence[str], found: Sequence[str], positive: str,
           boot: Bootstrap) -> Mapping[str, Estimate]:
    """Precision, recall and F1 of `found` against `truth` for the label `positive`."""
    n = len(truth)
    said, real = found.count(positive), truth.count(positive)
    both = sum(a == b == positive for a, b in zip(truth, found, strict=True))
    nothing = "no item" if n == 0 else None
    precision = Estimate(None, 0, None, nothing or f"nothing was called {positive!r}")
    recall = Estimate(None, 0, None, nothing or f"nothing is {positive!r}")
    f1 = Estimate(None, n, None, nothing or f"neither side says {positive!r}")
    if n and (said or real):
        p, r, f, _ = _library("sklearn.metrics").precision_recall_fscore_support(
            truth, found, labels=[positive], average=None, zero_division=np.nan)
        if said:
            precision = Estimate(float(p[0]), said, wilson(both, said))
        if real:
            recall = Estimate(float(r[0]), real, wilson(both, real))
        interval, why = boot.interval(n, lambda at: _f1(_confusion(truth, found, at), positive,
                                                        sorted({*truth, *found})))
        f1 = Estimate(float(f[0]), n, interval, why)
    return {"precision": precision, "recall": recall, "f1": f1}


def macro_f1(truth: Sequence[str], found: Sequence[str], boot: Bootstrap) -> Estimate:
    """Mean F1 over the labels that either side gives, each alike."""
    n = len(truth)
    if n == 0:
        return Estimate(None, 0, None, "no item")
    labels = sorted({*truth, *found})
    value = float(_library("sklearn.metrics").f1_score(truth, found, labels=labels,
                                                       average="macro"))
    interval, why = boot.interval(n, lambda at: np.nanmean(
        [_f1(_confusion(truth, found, at), label, labels) for label in labels], axis=0))
    return Estimate(value, n, interval, why)


def _confusion(first: Sequence[str], second: Sequence[str], at: Array) -> Array:
    """Counts of label pairs a draw: (draws, labels, labels)."""
    labels = {label: k for k, label in enumerate(sorted({*first, *second}))}
    pairs = np.array([labels[a] * len(labels) + labels[b]
                      for a, b in zip(first, second, strict=True)])
    one = np.eye(len(labels) ** 2)[pairs]
    return np.asarray(one[at].sum(axis=1).reshape(len(at), len(labels), len(labels)))


def _kappa(table: Array) -> Array:
    n = table.sum(axis=(1, 2))
    observed = np.trace(table, axis1=1, axis2=2) / n
    expected = (table.sum(axis=2) * table.sum(axis=1)).sum(axis=1) / n**2
    return np.asarray((observed - expected) / (1 - expected))


def _f1(table: Array, label: str, labels: Sequence[str]) -> Array:
    k = labels.index(label)
    given = table[:, k, :].sum(axis=1) + table[:, :, k].sum(axis=1)
    return np.asarray(2 * table[:, k, k] / given)


# --- many raters ------------------------------------------------------------------------------


def fleiss_kappa(counts: Sequence[Sequence[int]], boot: Bootstrap) -> Estimate:
    """Fleiss' kappa (1971) over items given as counts by category, each of the same number of
    raters. Not defined where all ratings are of one category, nor with fewer than two raters.

    Raises `ValueError` where items have different numbers of raters.
    """
    if not len(counts):
        return Estimate(None, 0, None, "no item")
    table = np.array(counts, dtype=float)
    raters = set(table.sum(axis=1))
    if len(raters) > 1:
        raise ValueError("expected as many raters of every item")
    if raters.pop() < 2:
        return Estimate(None, len(table), None, "agreement needs two annotators")
    value = float(_fleiss(table, np.arange(len(table))[None, :])[0])
    if (table.sum(axis=0) > 0).sum() == 1:
        return Estimate(None, len(table), None, "all gave one answer throughout: no variance")
    interval, why = boot.interval(len(table), lambda at: _fleiss(table, at))
    return Estimate(value, len(table), interval, why)


def _fleiss(table: Array, at: Array) -> Array:
    m = table[0].sum()
    agreed = ((table * (table - 1)).sum(axis=1) / (m * (m - 1)))[at].mean(axis=1)
    shares = table[at].mean(axis=1) / m
    expected = (shares**2).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((agreed - expected) / (1 - expected))


def fleiss_category(counts: Sequence[Sequence[int]], category: int) -> Estimate:
    """Fleiss' kappa of one category (1971, equation 16): agreement on this category beyond
    chance."""
    if not len(counts):
        return Estimate(None, 0, None, "no item")
    table = np.array(counts, dtype=float)
    n, m = len(table), table[0].sum()
    if m < 2:
        return Estimate(None, n, None, "agreement needs two annotators")
    given = table[:, category]
    p = given.sum() / (n * m)
    if p in (0.0, 1.0):
        return Estimate(None, n, None, "nobody gave it" if p == 0 else "all gave it throughout")
    value = 1 - (given * (m - given)).sum() / (n * m * (m - 1) * p * (1 - p))
    return Estimate(float(value), n)


# --- scales -----------------------------------------------------------------------------------


def on_scale(truth: Sequence[float], found: Sequence[float], boot: Bootstrap,
             ) -> Mapping[str, Estimate]:
    """Pearson's r, Spearman's rho (ties share ranks), mean absolute error and mean difference
    (`found` less `truth`), the last two in the unit of both."""
    n = len(truth)
    x, y = np.array(truth, dtype=float), np.array(found, dtype=float)
    if n == 0:
        return dict.fromkeys(("pearson", "spearman", "mae", "mean_difference"),
                             Estimate(None, 0, None, "no item"))
    stats = _library("scipy.stats")
    why = ("a correlation needs two items" if n < 2 else
           "one side gave one value throughout: no variance"
           if min(np.ptp(x), np.ptp(y)) == 0 else None)

    def estimate(value: Callable[[], float], figure: Callable[[Array], Array],
                 why_not: str | None = None) -> Estimate:
        if why_not is not None:
            return Estimate(None, n, None, why_not)
        interval, reason = boot.interval(n, figure)
        return Estimate(value(), n, interval, reason)

    def ranked(values: Array) -> Array:
        return np.asarray(stats.rankdata(values, axis=1))

    return {
        "pearson": estimate(lambda: float(stats.pearsonr(x, y).statistic),
                            lambda at: _correlation(x[at], y[at]), why),
        "spearman": estimate(lambda: float(stats.spearmanr(x, y).statistic),
                             lambda at: _correlation(ranked(x[at]), ranked(y[at])), why),
        "mae": estimate(lambda: float(_library("sklearn.metrics").mean_absolute_error(x, y)),
                        lambda at: np.abs(x - y)[at].mean(axis=1)),
        "mean_difference": estimate(lambda: float((y - x).mean()),
                                    lambda at: (y - x)[at].mean(axis=1))}


def _correlation(x: Array, y: Array) -> Array:
    """A draw that holds one value alone has none."""
    a, b = (v - v.mean(axis=1, keepdims=True) for v in (x, y))
    flat = (np.ptp(x, axis=1) == 0) | (np.ptp(y, axis=1) == 0)
    found = (a * b).sum(axis=1) / np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    return np.where(flat, np.nan, found)
