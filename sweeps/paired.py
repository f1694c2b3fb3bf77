"""Paired tests on verdicts, exact: no random draw, no normal approximation.

Two conditions are compared on the cases that both have scored. `only_first` and `only_second` are
the discordant pairs: passed under one and failed under the other. Concordant pairs say nothing of a
difference and enter no test (McNemar 1947).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

ALPHA = 0.05
"""Two-sided level at which a difference counts as resolved (convention; design page)."""
POWER = 0.8
"""Chance with which a design should find what it is said to resolve (Cohen 1988)."""
Z_ALPHA = 1.959963984540054
Z_POWER = 0.8416212335729143
"""Points of the normal distribution at `ALPHA` (two-sided) and `POWER`."""
MAX_CLUSTER_SUM = 2_000_000
"""Bound on the exact distribution of `sign_flip`. Ours: the built-in suite's 1,038 cases at 1,000
trials, and as many again; takes some seconds."""


def mcnemar(only_first: int, only_second: int) -> float:
    """Exact two-sided p of the discordant pairs: binomial with one half (McNemar 1947).

    1.0 where no pair is discordant. Pairs are taken as independent: cases that share their audio
    are not, see `sign_flip`. Raises `ValueError` for negative counts.
    """
    if only_first < 0 or only_second < 0:
        raise ValueError(f"expected counts of at least 0, got {only_first} and {only_second}")
    n, least = only_first + only_second, min(only_first, only_second)
    tail = term = 1
    for k in range(least):
        term = term * (n - k) // (k + 1)
        tail += term
    return min(1.0, 2 * tail / (1 << n))


def sign_flip(cluster_sums: Sequence[int]) -> float:
    """Exact two-sided p of the sum, when each cluster could as well have had the other sign.

    `cluster_sums` are the differences (first minus second) summed within each cluster, here an
    audio stream. The whole distribution of the 2^n sums is counted, so nothing is drawn (Fisher's
    randomization test). With clusters of one pair it equals `mcnemar`. Raises `ValueError` when the
    sums are beyond `MAX_CLUSTER_SUM` together.
    """
    sizes = [abs(s) for s in cluster_sums if s]
    reach = sum(sizes)
    if reach > MAX_CLUSTER_SUM:
        raise ValueError(f"expected sums of at most {MAX_CLUSTER_SUM} together, got {reach}")
    seen = abs(sum(cluster_sums))
    if seen == 0:
        return 1.0
    # The product of (1 + x^size) counts the choices by the size that is flipped. It is kept as one
    # number with `bits` for each coefficient, so that a factor is a shift and a sum.
    bits = len(sizes) + 1
    counts = 1
    for size in sizes:
        counts += counts << (bits * size)
    # The sum is reach - 2 * flipped; both tails are alike. A sum of digits in base b is the
    # number modulo b - 1, here below it as all choices are less.
    tail_n = (reach - seen) // 2 + 1
    tail = counts & ((1 << (bits * tail_n)) - 1)
    return 2 * (tail % ((1 << bits) - 1)) / (1 << len(sizes))


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p of one family, in the order given (Holm 1979); at most 1.

    Raises `ValueError` for what is no probability.
    """
    if any(not 0.0 <= p <= 1.0 for p in p_values):
        raise ValueError(f"expected probabilities, got {list(p_values)}")
    adjusted = [0.0] * len(p_values)
    least = 0.0
    for rank, at in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[at]))
        adjusted[at] = least
    return tuple(adjusted)


def upper_bound_of_zero(n: int) -> float | None:
    """The one-sided 95 % upper bound of a rate that was 0 of `n`: about 3/n, the rule of three
    (Hanley and Lippman-Hand 1983), exact here. `None` when `n` is 0."""
    if n < 0:
        raise ValueError(f"expected at least 0, got {n}")
    return None if n == 0 else 1.0 - ALPHA ** (1.0 / n)


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a paired design of `n` pairs in `clusters` can show at all. Rates in 0..1, `None` where
    it never can.

    `certain`: the smallest difference that `sign_flip` can call significant before any adjustment:
    the fewest discordant pairs that do, all in one direction and each in a cluster of its own.
    `powered`: the smallest true difference that is found with `POWER`, given the share of
    discordant pairs `discordant` (Connor 1987), with clusters for pairs, as if what is discordant
    came in whole clusters.
    """

    n: int
    clusters: int
    discordant: float
    certain: float | None
    powered: float | None


def resolution(n: int, discordant: float, clusters: int | None = None) -> Resolution:
    """What `n` pairs in `clusters` (as many as pairs unless told) resolve when a share `discordant`
    of them is discordant.

    Raises `ValueError` for `n` below 0, more clusters than pairs or a share outside 0..1.
    """
    clusters = n if clusters is None else clusters
    if not 0 <= clusters <= n or not 0.0 <= discordant <= 1.0:
        raise ValueError(f"expected n >= clusters >= 0 and a share, got {n}, {clusters} and "
                         f"{discordant}")
    least = 1
    while mcnemar(least, 0) > ALPHA:
        least += 1
    certain = least / n if least <= clusters else None
    return Resolution(n, clusters, discordant, certain, _powered(clusters, discordant))


def _powered(n: int, discordant: float) -> float | None:
    """Solves n·d² = (z_α·√ψ + z_β·√(ψ - d²))² for d, the difference of the two rates, with ψ the
    discordant share; d cannot exceed ψ."""
    low, high = 0.0, discordant

    def enough(d: float) -> bool:
        wanted = Z_ALPHA * math.sqrt(discordant) + Z_POWER * math.sqrt(discordant - d * d)
        return math.sqrt(n) * d >= wanted

    if n == 0 or discordant == 0 or not enough(high):
        return None
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def pass_hat_k(passes: Sequence[tuple[int, int]], k: int) -> float | None:
    """Chance that all of `k` trials of a case pass, averaged over cases (pass^k, τ-bench).

    `passes` holds, a case, how many trials passed and how many were scored; C(c, k) / C(n, k) is
    its unbiased estimate. Cases with fewer than `k` scored trials are left out; `None` when none is
    left. Raises `ValueError` for `k` below 1 or more passes than trials.
    """
    if k < 1 or any(not 0 <= c <= n for c, n in passes):
        raise ValueError(f"expected k >= 1 and passes among trials, got k={k} and {passes}")
    shares = [math.comb(c, k) / math.comb(n, k) for c, n in passes if n >= k]
    return sum(shares) / len(shares) if shares else None


@dataclass(frozen=True, slots=True)
class TrialVariance:
    """How much verdicts vary within a case over its trials, and between cases.

    `within` is the mean variance of one trial's verdict inside a case, `between` what is left
    between the cases' true rates (one-way analysis of variance, floored at nothing: a negative
    estimate is given as it is). `unstable` cases have both verdicts.
    """

    cases: int
    within: float
    between: float | None
    unstable: int


def trial_variance(passes: Sequence[tuple[int, int]]) -> TrialVariance | None:
    """`passes` as in `pass_hat_k`; cases with fewer than two scored trials are left out, and
    `None` is given when none is left."""
    repeated = [(c, n) for c, n in passes if n >= 2]
    if not repeated:
        return None
    total = sum(n for _, n in repeated)
    inside = sum(c * (n - c) / n for c, n in repeated)
    within = inside / (total - len(repeated))
    between = None
    if len(repeated) != 1:
        rate = sum(c for c, _ in repeated) / total
        apart = sum(n * (c / n - rate) ** 2 for c, n in repeated) / (len(repeated) - 1)
        size = (total - sum(n * n for _, n in repeated) / total) / (len(repeated) - 1)
        between = (apart - within) / size
    return TrialVariance(len(repeated), within, between,
                         sum(c not in (0, n) for c, n in repeated))
