"""How stable a ranking of systems is: Kendall's tau-b and three shares.

The ranked quantity is the Entailment Gap, `IAS(L1) - IAS(L2)` (DSB-IFEval, table 5). Gaps are exact
fractions, so that equal ones are ties and not a matter of rounding.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


def kendall_tau_b(x: Sequence[Fraction | float], y: Sequence[Fraction | float]) -> float | None:
    """Kendall's tau-b of two equally long sequences (Kendall 1945): `(C - D) / sqrt((P - Tx)
    (P - Ty))`, with `P` pairs, `Tx` and `Ty` those tied in x and in y.

    -1..1; `None` with fewer than two items or when one sequence is all ties.
    """
    if len(x) != len(y):
        raise ValueError(f"expected equally long sequences, got {len(x)} and {len(y)}")
    score = untied_x = untied_y = 0
    for i in range(len(x)):
        for j in range(i):
            a, b = _sign(x[i] - x[j]), _sign(y[i] - y[j])
            score += a * b
            untied_x += abs(a)
            untied_y += abs(b)
    if untied_x == 0 or untied_y == 0:
        return None
    return score / math.sqrt(untied_x * untied_y)


def ranks(values: Sequence[Fraction | float]) -> tuple[int, ...]:
    """Rank of each value, the largest 1; equal values share the best of their ranks."""
    return tuple(1 + sum(other > value for other in values) for value in values)


@dataclass(frozen=True, slots=True)
class RankStability:
    """Rankings under many settings against the one under the default setting.

    Shares are out of `n_settings`. Ties count as places shared: the largest is unchanged when the
    same systems hold rank 1, the two largest when the same systems hold ranks 1 and 2, each its
    own, and the full order when every rank is the same. `tau_sd` is that of the whole population
    of settings (divisor n). `reason` says why figures are missing.
    """

    systems: tuple[str, ...]
    n_settings: int
    tau: tuple[float | None, ...]
    tau_mean: float | None
    tau_median: float | None
    tau_min: float | None
    tau_max: float | None
    tau_sd: float | None
    largest_unchanged: int | None
    two_largest_unchanged: int | None
    order_unchanged: int | None
    reason: str | None


def rank_stability(systems: Sequence[str], values: Sequence[Sequence[Fraction | None]],
                   default_index: int) -> RankStability:
    """Compare every row of `values` (`n_settings` rows, one value a system) with the default row.

    A system whose value is missing under any setting cannot be ranked and is left out by name.
    With fewer than two systems left there is no ranking, and every figure is `None`.
    """
    kept = [i for i in range(len(systems)) if all(row[i] is not None for row in values)]
    left_out = [name for i, name in enumerate(systems) if i not in kept]
    reason = f"left out, no gap: {', '.join(left_out)}" if left_out else None
    names = tuple(systems[i] for i in kept)
    if len(kept) < 2:
        few = f"a ranking needs two systems, got {len(kept)}"
        return RankStability(names, len(values), (), None, None, None, None, None, None, None,
                             None, f"{few}; {reason}" if reason else few)
    rows = [[value for i in kept if (value := row[i]) is not None] for row in values]
    row_ranks = [ranks(_whole(row)) for row in rows]
    default_ranks = row_ranks[default_index]
    tau_of = {found: kendall_tau_b(default_ranks, found) for found in set(row_ranks)}
    tau = tuple(tau_of[found] for found in row_ranks)
    known = [value for value in tau if value is not None]
    if len(known) < len(tau):
        tied = f"tau undefined in {len(tau) - len(known)} settings where all gaps are equal"
        reason = f"{reason}; {tied}" if reason else tied

    def unchanged(down_to: int) -> int:
        """Settings in which the ranks up to `down_to` are held by the same systems."""
        wanted = [rank if rank <= down_to else None for rank in default_ranks]
        return sum([rank if rank <= down_to else None for rank in found] == wanted
                   for found in row_ranks)

    return RankStability(
        systems=names, n_settings=len(rows), tau=tau,
        tau_mean=statistics.fmean(known) if known else None,
        tau_median=statistics.median(known) if known else None,
        tau_min=min(known) if known else None,
        tau_max=max(known) if known else None,
        tau_sd=statistics.pstdev(known) if known else None,
        largest_unchanged=unchanged(1), two_largest_unchanged=unchanged(2),
        order_unchanged=unchanged(len(kept)), reason=reason)


def _whole(row: Sequence[Fraction]) -> list[int]:
    """The same order in whole numbers, which are compared many times faster."""
    common = math.lcm(*(value.denominator for value in row))
    return [value.numerator * (common // value.denominator) for value in row]


def _sign(value: Fraction | float) -> int:
    return (value > 0) - (value < 0)
