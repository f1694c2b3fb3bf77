"""T1: do the agents of many calls fall into groups by their sound? Unsupervised, claimed with care.

Definition (CallScreenBench, appendix A): calls are clustered on spectral tilt and centroid alone;
pitch range and pauses of the groups are read beside, never clustered on. The published corpus fell
into two (n=29 each). How is ours: both features standardised, Ward's hierarchical clustering (1963)
cut into each k of `KS`, k by the highest mean silhouette (Rousseeuw 1987).

Any clustering cuts one cloud into pieces, and tilt and centroid of one voice lie near a line, whose
halves have a silhouette of about 0.6. So groups are claimed only where the silhouette passes
`SILHOUETTE_OVER` and is one that a single normal cloud of the same covariance reaches in 5 % of
draws at most (the idea of the gap statistic: Tibshirani, Walther and Hastie 2001).

Needs SciPy (extra `prosody`). Nothing is random but the draws, which are seeded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

KS = (2, 3, 4, 5)
"""Ours: a deployment has few voices."""
GROUP_LEAST_N = 3
"""Ours: fewer calls are outliers, no group."""
CALLS_LEAST_N = 2 * GROUP_LEAST_N
SILHOUETTE_OVER = 0.5
"""Kaufman and Rousseeuw (1990), table 4: up to 0.50 a structure is weak and may be artificial."""
P_AT_MOST = 0.05
CHANCE_DRAWS = 99
"""Enough for one level of 5 % (Hope 1968)."""
CHANCE_CALLS_MOST = 200
"""Draws are of so many calls at most: chance does less with more, so this claims less."""
CALLS_MOST = 3_000
"""A silhouette takes every pair of calls: 72 MB."""
SEED = 20_260_729
MISSING = ("clusters need the extra prosody (pip install -c constraints.txt -e '.[prosody]' where "
           "duplexrig is)")


@dataclass(frozen=True, slots=True)
class Clusters:
    """What the calls fall into.

    by_k: mean silhouette, -1..1, of each k whose split has two groups. best_k, silhouette: of the
    highest; `None` without any. chance: the share of draws of one cloud that reach it (Monte Carlo
    p), chance_silhouette: their 95th percentile. labels: one a call, from 1 by rising centroid;
    `None` for an outlier, and for all where nothing is claimed. reason: why nothing is.
    """

    calls_n: int
    by_k: Mapping[int, float]
    best_k: int | None
    silhouette: float | None
    chance: float | None
    chance_silhouette: float | None
    labels: tuple[int | None, ...]
    reason: str | None

    @property
    def k(self) -> int | None:
        """How many groups are claimed."""
        return None if self.reason is not None else len({c for c in self.labels if c is not None})


def clusters(tilt_db_per_octave: Sequence[float], centroid_hz: Sequence[float]) -> Clusters:
    """Cluster calls given as two features each. Raises `ValueError` for features that are not
    finite or not as many."""
    points = np.stack([np.asarray(tilt_db_per_octave, dtype=np.float64),
                       np.asarray(centroid_hz, dtype=np.float64)], axis=1)
    if not np.isfinite(points).all():
        raise ValueError("expected finite features")
    count = len(points)
    if count < CALLS_LEAST_N:
        return _none(count, f"expected at least {CALLS_LEAST_N} calls with tilt and centroid, got "
                     f"{count}")
    if count > CALLS_MOST:
        return _none(count, f"expected at most {CALLS_MOST} calls, got {count}")
    if not points.std(axis=0).all():
        return _none(count, "all calls have the same tilt or the same centroid")
    try:
        import scipy.cluster.hierarchy  # noqa: F401
    except ImportError:
        return _none(count, MISSING)
    scaled = (points - points.mean(axis=0)) / points.std(axis=0)
    splits = _splits(scaled)
    if not splits:
        return _none(count, "every split leaves one group and fewer than "
                     f"{GROUP_LEAST_N} calls apart")
    by_k = {k: found for k, (found, _) in splits.items()}
    best = max(by_k, key=lambda k: (by_k[k], -k))
    drawn = _chance(scaled)
    chance = (1 + int((drawn >= by_k[best]).sum())) / (1 + len(drawn))
    least = float(np.percentile(drawn, 95))
    reason = _unclaimed(by_k[best], chance, least)
    labels = [None] * count if reason else _named(splits[best][1], points[:, 1])
    return Clusters(count, by_k, best, by_k[best], chance, least, tuple(labels), reason)


def _none(count: int, reason: str) -> Clusters:
    return Clusters(count, {}, None, None, None, None, (None,) * count, reason)


def _unclaimed(silhouette: float, chance: float, least: float) -> str | None:
    if silhouette <= SILHOUETTE_OVER:
        return (f"no groups: the best silhouette is {silhouette:.2f}, not over "
                f"{SILHOUETTE_OVER:g}")
    if chance > P_AT_MOST:
        return (f"no groups: one voice gives a silhouette of {silhouette:.2f} too (p = "
                f"{chance:.2f}; 95 % of draws are below {least:.2f})")
    return None


def _splits(scaled: NDArray[np.float64]) -> dict[int, tuple[float, NDArray[np.int64]]]:
    """Mean silhouette and labels (0 .. k - 1) by k, of splits with two groups or more."""
    from scipy.cluster.hierarchy import fcluster, ward

    tree = ward(scaled)
    apart = np.linalg.norm(scaled[:, None] - scaled[None], axis=2)
    out = {}
    for k in KS:
        labels = fcluster(tree, k, "maxclust") - 1
        if labels.max() + 1 == k and (np.bincount(labels) >= GROUP_LEAST_N).sum() >= 2:
            out[k] = (silhouette(apart, labels), labels)
    return out


def silhouette(apart: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    """Mean silhouette of labels 0 .. k - 1 (k of 2 and more), from every distance.

    Of one point: (b - a) / max(a, b), a its mean distance to the others of its cluster, b the
    lowest mean distance to another cluster; 0 where it is alone (Rousseeuw 1987).
    """
    members = np.eye(labels.max() + 1)[labels]
    sizes = members.sum(axis=0)
    sums = apart @ members
    own = np.arange(len(labels)), labels
    alone = sizes[labels] == 1
    inside = sums[own] / np.maximum(sizes[labels] - 1, 1)
    means = sums / sizes
    means[own] = np.inf
    outside = means.min(axis=1)
    widest = np.maximum(inside, outside)
    worth = np.divide(outside - inside, widest, out=np.zeros(len(labels)), where=widest > 0)
    return float(np.where(alone, 0.0, worth).mean())


def _chance(scaled: NDArray[np.float64]) -> NDArray[np.float64]:
    """The best silhouette of each draw of one normal cloud with the covariance of `scaled`; -1
    where no split has two groups."""
    random = np.random.Generator(np.random.PCG64(SEED))
    count = min(len(scaled), CHANCE_CALLS_MOST)
    covariance = np.cov(scaled.T)
    out = []
    for _ in range(CHANCE_DRAWS):
        cloud = random.multivariate_normal(np.zeros(2), covariance, size=count, method="eigh")
        out.append(max((found for found, _ in _splits(cloud).values()), default=-1.0))
    return np.array(out)


def _named(labels: NDArray[np.int64], centroid_hz: NDArray[np.float64]) -> list[int | None]:
    """Labels as names from 1 by rising centroid; too small a group has none."""
    groups = [label for label in np.unique(labels) if (labels == label).sum() >= GROUP_LEAST_N]
    groups.sort(key=lambda label: float(np.median(centroid_hz[labels == label])))
    names = {label: k + 1 for k, label in enumerate(groups)}
    return [names.get(label) for label in labels]


def clusters_facts(found: Clusters) -> dict[str, Any]:
    """For the document, without labels."""
    out: dict[str, Any] = {
        "calls_n": found.calls_n, "k": found.k, "best_k": found.best_k,
        "silhouette": found.silhouette,
        "silhouette_by_k": {str(k): v for k, v in found.by_k.items()},
        "chance_p": found.chance, "chance_silhouette_p95": found.chance_silhouette,
        "outliers_n": 0 if found.reason else sum(c is None for c in found.labels)}
    if found.reason is not None:
        out["reason"] = found.reason
    return out
