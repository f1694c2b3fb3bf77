"""What `rig run` says before, during and after: plans, costs and causes in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, takewhile
from typing import Any

from rig.budget import Budget, Limits, Totals
from rig.prices import Tariff
from rig.runner import RunResult
from rig.wording import counted


def void_texts(attempts: Counter[str], flooded: Counter[str]) -> Iterator[str]:
    """What there is to say of sessions that were late, and of whose doing that was."""
    for n, cause in (
        (attempts["void"] - flooded["void"],
         "because this machine was busy; that says nothing about the system. Fewer --jobs help"),
        (flooded["void"], "while systems sent thousands of events within a second: their doing, "
         "and not this machine's"),
    ):
        if n:
            yield (f"{n} of {counted(attempts.total(), 'session')} {'was' if n == 1 else 'were'} "
                   f"void: frames of the user were late, {cause}. Each is played again, at most "
                   "twice, and then by --resume")


def stated(value: object) -> tuple[str, ...]:
    """An option that was given, as text."""
    return () if value is None else (f"{value:.15g}" if isinstance(value, float) else str(value),)


def estimated(tariff: Tariff, minutes: float) -> dict[str, Any]:
    """The cost of so many minutes at most, for a dry run."""
    cost = tariff.estimate(minutes * 60)
    reason = tariff.why
    if tariff.price is not None and cost is None:
        reason = (f"cost unknown: it is paid in tokens, and the price says nothing of "
                  f"estimate_per_minute (docs/limits.md); {tariff.why}")
    elif cost is None:
        reason = f"cost unknown ({tariff.why})"
    in_usd = tariff.currency in (None, "USD") and cost is not None
    return {"cost": None if cost is None else round(cost, 4), "currency": tariff.currency,
            "cost_usd": round(cost, 4) if in_usd and cost is not None else None,
            "cost_reason": reason}


def within_limits(budget: Budget, planned_s: Sequence[float]) -> dict[str, int]:
    """How many sessions, in the order of the plan and each at its longest, the limits have room
    for, for a dry run; nothing where there is no limit."""
    if budget.limits == Limits():
        return {}
    fit = takewhile(lambda total_s: budget.refusal(total_s) is None, accumulate(planned_s))
    return {"fit_within_limits": sum(1 for _ in fit)}


def spent(totals: Totals) -> dict[str, Any]:
    known = totals.exact or totals.cost > 0
    return {"sessions": totals.sessions, "minutes": round(totals.minutes, 3),
            "cost": round(totals.cost, 6) if known else None, "currency": totals.currency,
            "cost_is_lower_bound": not totals.exact, "sessions_of_unknown_cost": totals.unknown_n,
            "not_in_cost": list(totals.unknown), "sessions_assumed": totals.assumed_n}


def told(plan: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The rows of a dry run's table: what is not known is called that. One cost is enough, and what
    costs nothing has no currency."""
    for name, value in plan.items():
        if name != "cost_usd" and not (name == "currency" and value is None):
            yield name, "unknown" if value is None else value


def so_far(budget: Budget) -> str:
    """Used by all attempts so far, those of earlier runs included, and of how much where that is
    limited, for the progress line. Of an unknown price there is nothing to say at each step."""
    totals, limits = budget.totals(), budget.limits
    text = f"{totals.minutes:.1f} min used"
    if limits.max_minutes is not None:
        text += f" of at most {limits.max_minutes:.1f}"
    if totals.free or not budget.tariff.known:
        return text
    cost = "" if limits.max_cost is None else f" of at most {limits.max_cost:.2f}"
    return f"{text}, {totals.cost_text()}{cost}"


def limit_reached(result: RunResult, again: str) -> str:
    option = (result.limit or "").partition(" ")[0]
    open_n = result.n_unplayed + len(result.failed)
    were = "was" if result.n_unplayed == 1 else "were"
    return (f"stopped at {result.limit}. {counted(result.n_unplayed, 'session')} {were} not played"
            + (f", {len(result.failed)} not well" if result.failed else "")
            + f" ({open_n} of {result.n_planned} are left); what was in flight was finished. "
              f"Go on with a higher limit: {again} {option} ...")
