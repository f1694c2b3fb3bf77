"""A1: pairwise win rate against a reference, each pair judged in both orders.

Definition (CallScreenBench, appendix A): the win rate is over the pairs on which the judge agrees
with itself when the two replies change places, with the share of pairs on which it does not beside
it (there 13 of 43, and 8 wins of 30: 26.7 % [14, 44], Wilson's interval). Judging in both orders:
Zheng et al. (2023), section 3.4, and Wang et al. (2023).

Ties, of which the paper says nothing: a judge may call a tie. A tie in both orders is agreement:
the pair is in the denominator and no win. A tie in one order and a choice in the other is none.
A pair without a usable answer in both orders is in neither rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sweeps.clustered import clustered_rate
from sweeps.intervals import wilson

Choice = Literal["first", "second", "tie"]
"""What a judge says: of the reply that it was shown first, or second."""
Outcome = Literal["win", "loss", "tie", "inconsistent"]


@dataclass(frozen=True, slots=True)
class BothOrders:
    """One pair as it was judged. candidate_first: the choice where the candidate was shown first;
    candidate_second: where it was shown second."""

    call: str
    candidate_first: Choice
    candidate_second: Choice

    @property
    def outcome(self) -> Outcome:
        """Of the candidate; `inconsistent` where the two orders do not say the same."""
        found = self.candidate_first, self.candidate_second
        known: dict[tuple[Choice, Choice], Outcome] = {
            ("first", "second"): "win", ("second", "first"): "loss", ("tie", "tie"): "tie"}
        return known.get(found, "inconsistent")


def pairwise(pairs: Sequence[BothOrders]) -> dict[str, Any]:
    """Win rate and inconsistency of pairs that were judged in both orders.

    `win`, `inconsistent`: `{n, count, rate, ci, ci_over}`. The interval is Wilson's over `pairs`
    where each is of another call, or all of one; else it is drawn over `calls`
    (`sweeps.clustered`). `None` with a `reason` where there is nothing to count. `same_place`: how
    often an inconsistent judge chose what it was shown first, and second, in both orders; the
    others have a tie in one.
    """
    outcomes = [(p.call, p.outcome) for p in pairs]
    agreed = [(call, o) for call, o in outcomes if o != "inconsistent"]
    out: dict[str, Any] = {
        "win": _share([(call, o == "win") for call, o in agreed]),
        "inconsistent": _share([(call, o == "inconsistent") for call, o in outcomes]),
        "losses_n": sum(o == "loss" for _, o in agreed),
        "ties_n": sum(o == "tie" for _, o in agreed),
        "same_place": {place: sum(p.candidate_first == p.candidate_second == place for p in pairs)
                       for place in ("first", "second")}}
    if not pairs:
        out["win"]["reason"] = out["inconsistent"]["reason"] = "no pair was judged in both orders"
    elif not agreed:
        out["win"]["reason"] = "the judge agreed with itself on no pair"
    return out


def _share(found: Sequence[tuple[str, bool]]) -> dict[str, Any]:
    parts: dict[str, tuple[int, int]] = {}
    for call, hit in found:
        count, n = parts.get(call, (0, 0))
        parts[call] = count + hit, n + 1
    count, n = sum(hit for _, hit in found), len(found)
    apart = len(parts) == n
    ci = wilson(count, n) if apart else clustered_rate(list(parts.values()))
    return {"n": n, "count": count, "rate": count / n if n else None,
            "ci": None if ci is None else list(ci),
            "ci_over": None if ci is None else "pairs" if apart or len(parts) < 2 else "calls"}
