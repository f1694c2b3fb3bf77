"""The value of a figure in a run, with what stands behind it.

A figure is counted from the sessions; that `scores.json` says the same of them was checked when it
was read (`rig.recount`). What there is no evidence for has no value, and says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rig.gate.figures import STATUSES, Figure, Session
from rig.recount import latency_ms
from sweeps.aggregate import Tally, percentiles
from sweeps.effects import Draws, rate
from sweeps.intervals import quantile_interval, wilson
from verifiers.verdict import Outcome

Interval = tuple[float | None, float | None]


@dataclass(frozen=True, slots=True)
class Reading:
    """The value of a figure in one run, and what stands behind it.

    `n` counts scored sessions of a rate, known latencies, measured sessions of a flag, all
    sessions (of `cases_passed`: cases) of a share. `interval` is at 95 %; an end that `n` cannot
    give is `None`. `why_none` says why there is no value, `about_interval` where it comes from, or
    why there is none.
    """

    value: float | None
    n: int
    passed: int | None = None
    unscored: int = 0
    unsupported: int = 0
    missing: int = 0
    interval: Interval | None = None
    wilson: tuple[float, float] | None = None
    bootstrap: tuple[float, float] | None = None
    why_none: str | None = None
    about_interval: str | None = None
    named: tuple[str, ...] = ()
    """Cases that a share counts against the run."""


def read(figure: Figure, sessions: Sequence[Session], draws: Draws | None) -> Reading:
    """The figure in a run. `draws` are over the streams of its sessions, `None` for recordings of
    others."""
    if figure.wanted is not None:
        return _rate(figure, [s for s in sessions if figure.wanted(s)], draws)
    if figure.unit == "ms":
        return _latency(figure, sessions)
    if figure.unit == "count":
        return _flag(figure, sessions)
    return _share(figure.path, sessions)


# --- rates -----------------------------------------------------------------------------------


def _rate(figure: Figure, found: Sequence[Session], draws: Draws | None) -> Reading:
    tally = Tally.of(s.outcome for s in found)
    if tally.rate is None:
        beside = [f"{n} {what}" for what, n in (("unscored", tally.unscored),
                                                ("unsupported", tally.unsupported)) if n]
        why = (f"no session scored ({', '.join(beside)})" if found
               else f"no session of {figure.path} in this run")
        return Reading(None, 0, 0, tally.unscored, tally.unsupported, why_none=why)
    plain = wilson(tally.passed, tally.n)
    assert plain is not None
    drawn = None if draws is None else rate(
        [s.paired for s in found if s.paired is not None], draws).interval
    both = [plain] if drawn is None else [plain, drawn]
    return Reading(
        tally.rate, tally.n, tally.passed, tally.unscored, tally.unsupported,
        interval=(min(low for low, _ in both), max(high for _, high in both)),
        wilson=plain, bootstrap=drawn,
        about_interval="Wilson" if drawn is None else "the wider ends of Wilson and of the "
        "bootstrap over audio streams")


# --- latencies -------------------------------------------------------------------------------


def _latency(figure: Figure, sessions: Sequence[Session]) -> Reading:
    _, kind, name = figure.keys
    found = latencies_ms(kind, sessions)
    values = [value for value in found if value is not None]
    n, missing = len(values), len(found) - len(values)
    percent = int(name.removeprefix("p").removesuffix("_ms"))
    value = percentiles(found)[name]
    if value is None:
        return Reading(None, 0, missing=missing, why_none=f"none of {missing} measured has "
                       "one" if missing else "no session that could have one")
    interval = quantile_interval(values, percent / 100)
    lost = [end for end, at in (("lower", interval[0]), ("upper", interval[1])) if at is None]
    about = "order statistics" + (f"; {n} values give a p{percent} no {' and no '.join(lost)} end"
                                  if lost else "")
    return Reading(value, n, missing=missing, interval=interval, about_interval=about)


def latencies_ms(kind: str, sessions: Iterable[Session]) -> list[float | None]:
    """The latencies of the sessions that could have one of this kind, in their order; `None` where
    it is missing."""
    found = (latency_ms(s.action, s.measured, s.limited) for s in sessions)
    return [one[1] for one in found if one is not None and one[0] == kind]


# --- counts and shares -----------------------------------------------------------------------


def _flag(figure: Figure, sessions: Sequence[Session]) -> Reading:
    counted = sum(figure.keys[1] in s.flags for s in sessions)
    n = sum(bool(s.measured) for s in sessions)
    if n == 0:
        return Reading(None, 0, unscored=len(sessions), why_none="no session was measured")
    return Reading(float(counted), n, about_interval="a count, no estimate")


def _share(path: str, sessions: Sequence[Session]) -> Reading:
    if path == "cases_passed":
        return _cases_passed(sessions)
    if not sessions:
        return Reading(None, 0, why_none="no session in this run")
    if path in STATUSES:
        if any(s.paired is None for s in sessions):
            return Reading(None, 0, why_none="recordings of others: no ledger of sessions")
        against = [s for s in sessions if s.status == path]
    else:
        against = [s for s in sessions if s.outcome is Outcome(path)]
    return Reading(len(against) / len(sessions), len(sessions), named=_names(against),
                   about_interval="counted, no estimate")


def _cases_passed(sessions: Sequence[Session]) -> Reading:
    """The share of cases that passed in more than half of their trials. A trial without a verdict
    has not shown that the case passes; a case that the system cannot be asked is left out."""
    trials: dict[str, list[Session]] = {}
    for session in sessions:
        if session.outcome is not Outcome.UNSUPPORTED:
            trials.setdefault(session.case_id, []).append(session)
    if not any(s.outcome in (Outcome.PASS, Outcome.FAIL) for s in sessions):
        return Reading(None, 0, unscored=len(trials), why_none="no session scored")
    against = tuple(case_id for case_id, found in trials.items()
                    if 2 * sum(s.outcome is Outcome.PASS for s in found) <= len(found))
    passed = len(trials) - len(against)
    return Reading(passed / len(trials), len(trials), passed, named=against,
                   unsupported=sum(s.outcome is Outcome.UNSUPPORTED for s in sessions),
                   about_interval="counted, no estimate")


def _names(sessions: Iterable[Session]) -> tuple[str, ...]:
    return tuple(s.case_id if s.trial == 1 else f"{s.case_id} t{s.trial}" for s in sessions)
