"""What a run may use and has used: money and minutes of session, over all attempts and resumes.

A session is started only when what was used, what the sessions in flight may still use, and what it
may use itself stay within the limits together. What a session may use is its schedule at its
longest; what it did use replaces that when it has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass

from audio.errors import InputError
from rig.ledger import Attempt
from rig.prices import Tariff, money
from rig.spending import Cost, Spent
from rig.wording import counted

SLACK = 1e-9
"""Relative: sums of decimal prices are not exact."""


@dataclass(frozen=True, slots=True)
class Limits:
    """`None`: no limit. `max_cost` in the currency of the price."""

    max_cost: float | None = None
    max_minutes: float | None = None


@dataclass(frozen=True, slots=True)
class Totals:
    """What was used so far. `cost` is the part that is known: with `unknown_n` sessions whose cost
    is not known, or not all of it, the sum is a lower bound."""

    sessions: int
    minutes: float
    cost: float
    unknown_n: int
    unknown: tuple[str, ...]
    currency: str | None
    free: bool
    assumed_n: int
    """Attempts that were not recorded, taken at their longest."""

    @property
    def exact(self) -> bool:
        return self.unknown_n == 0

    def cost_text(self) -> str:
        """The cost in words."""
        # Of an unknown price nothing is owed as long as no session became ready.
        if self.free or (self.exact and self.currency is None):
            return "no cost"
        if self.exact:
            return money(self.cost, self.currency)
        lower = f"at least {money(self.cost, self.currency)}, " if self.cost else "cost unknown: "
        return f"{lower}{counted(self.unknown_n, 'session')} of unknown price"


def longest_known(longest_s: Mapping[str, float]) -> Callable[[str], float]:
    """How long a session of a case may be, by the cases at hand; one that is none of them, of an
    earlier call, as long as the longest."""
    most_s = max(longest_s.values())
    return lambda case_id: longest_s.get(case_id, most_s)


class Budget:
    """Counts and decides. May be used from any thread."""

    def __init__(self, tariff: Tariff, limits: Limits, *, allow_unknown: bool = False) -> None:
        """Raises `InputError` for a limit of cost that cannot be kept: an unknown price, or one
        that says nothing of a session beforehand."""
        if limits.max_cost is not None and not allow_unknown:
            if not tariff.known:
                raise InputError(f"--max-cost: {tariff.why}, or allow what cannot be counted with "
                                 "--allow-unknown-cost")
            if tariff.estimate(60.0) is None:
                raise InputError("--max-cost: the price is in tokens, which nobody knows "
                                 "beforehand; add estimate_per_minute to it (docs/limits.md), or "
                                 "allow what cannot be counted with --allow-unknown-cost")
        self.tariff = tariff
        self.limits = limits
        self._lock = threading.Lock()
        self._reserved: dict[Hashable, float] = {}
        self._sessions = 0
        self._minutes = 0.0
        self._cost = 0.0
        self._charged = 0.0
        self._unknown: list[tuple[str, ...]] = []
        self._assumed_n = 0
        self._highest = 0.0
        """Highest cost of a planned minute seen."""

    def count_before(self, attempts: Iterable[Attempt], lost: Iterable[tuple[str, int]],
                     planned_s: Callable[[str], float]) -> None:
        """Count what an earlier run has used: attempts in its ledger, and those that it began and
        never booked. What was not recorded is taken at its longest, `planned_s(case_id)`."""
        for attempt in attempts:
            self._count_recorded(attempt.spent, planned_s(attempt.case_id))
        for case_id, _ in lost:
            self._count_recorded(None, planned_s(case_id))

    def _count_recorded(self, spent: Spent | None, planned_s: float) -> None:
        self._assumed_n += spent is None
        # At its longest in everything that may be paid for: audio both ways all the time.
        self._count(Spent(planned_s, planned_s, planned_s) if spent is None else spent, planned_s)

    def count_abandoned(self) -> None:
        """What is in flight was broken off and will never be booked: it counts at its longest, as
        it does for the run that goes on with it."""
        with self._lock:
            for planned_s in self._reserved.values():
                self._count_recorded(None, planned_s)
            self._reserved.clear()

    def refusal(self, planned_s: float) -> str | None:
        """Why a session that may last `planned_s` is not started now, `None` when it may be."""
        with self._lock:
            in_flight_s = sum(self._reserved.values())
            limit = self.limits.max_minutes
            used = self._minutes
            more = (in_flight_s + planned_s) / 60
            if limit is not None and used + more > limit * (1 + SLACK):
                return (f"--max-minutes {limit:g}: {used:.2f} minutes are used, and the next "
                        f"session may take {planned_s / 60:.2f}")
            limit = self.limits.max_cost
            if limit is None:
                return None
            estimate = self._estimate(planned_s)
            more = self._estimate(in_flight_s) + estimate
            if self._charged + more > limit * (1 + SLACK):
                currency = self.tariff.currency
                return (f"--max-cost {limit:g}: {money(self._charged, currency)} are used, and the "
                        f"next session may cost {money(estimate, currency)}")
            return None

    def reserve(self, key: Hashable, planned_s: float) -> None:
        """A session begins."""
        with self._lock:
            self._reserved[key] = planned_s

    def settle(self, key: Hashable, spent: Spent) -> Cost:
        """A session has ended; what it cost."""
        with self._lock:
            planned_s = self._reserved.pop(key, 0.0)
            return self._count(spent, planned_s)

    @property
    def in_flight(self) -> int:
        with self._lock:
            return len(self._reserved)

    def totals(self) -> Totals:
        """What is used so far, sessions in flight left out."""
        with self._lock:
            what = dict.fromkeys(w for missing in self._unknown for w in missing)
            return Totals(self._sessions, self._minutes, self._cost, len(self._unknown),
                          tuple(what), self.tariff.currency, self.tariff.free, self._assumed_n)

    def _estimate(self, session_s: float) -> float:
        """At most, by the price or by the dearest session so far, whichever is more."""
        return max(self.tariff.estimate(session_s) or 0.0, self._highest * session_s / 60)

    def _count(self, spent: Spent, planned_s: float) -> Cost:
        cost = self.tariff.cost(spent)
        self._sessions += spent.session_s > 0
        self._minutes += spent.session_s / 60
        self._cost += cost.amount
        if cost.missing:
            self._unknown.append(cost.missing)
            # For the limit, what cannot be known is taken at its estimate.
            self._charged += max(cost.amount, self._estimate(spent.session_s))
        else:
            self._charged += cost.amount
        if spent.session_s:
            # Of the planned length: one that broke off early tells nothing of a minute.
            whole_s = max(planned_s, spent.session_s)
            self._highest = max(self._highest, cost.amount * 60 / whole_s)
        return cost
