"""Two runs side by side: which cases changed their verdict, nearest to the threshold first, and by
how much each action moved.

The runs are those that `rig compare` would compare; what it refuses is refused here, with its
words. Sessions are paired by case and trial. Differences are second minus first, with the intervals
and tests of `rig compare` (`sweeps.effects`); one family for Holm are the actions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from audio.errors import InputError
from rig.comparing import Loaded, load_runs
from rig.comparison_text import DIFFERENCE_COLUMNS, difference_cells
from rig.report.case_margin import case_margin
from rig.report.cut import cut
from rig.report.figures import Point, Series, Table, dots
from rig.report.loading import ScoredRun
from rig.report.page import Chart, Section, render
from rig.report.scored import ScoredCase
from rig.store import apart
from sweeps.aggregate import NEVER_POOLED
from sweeps.comparison import adjust, effect_entry
from sweeps.effects import Draws, case_and_trial, differences
from verifiers.margins import Margin
from verifiers.scene import Action
from verifiers.verdict import Outcome

SHOWN = 20
"""Cases of one run alone that are named; all are counted."""
NEAR_S = 0.1
"""Changes this near to a bound in either run are counted in the heading: about what detected
offsets are off at p95 (docs/instrument.md)."""
_UNITS = ("s", "ratio", "")


@dataclass(frozen=True, slots=True)
class Change:
    """One session of both runs whose verdict is not the same."""

    first: ScoredCase
    second: ScoredCase
    margins: tuple[Margin, Margin]

    @property
    def closeness(self) -> float | None:
        """The smaller of the two distances to a bound, in the unit of the action; `None` where
        neither has one."""
        known = [abs(m.margin) for m in self.margins if m.margin is not None]
        return min(known) if known else None

    @property
    def quantity(self) -> Margin:
        """Which of the two names what is measured: one that has a distance, the second if both
        have."""
        return self.margins[self.margins[1].margin is not None]


@dataclass(frozen=True, slots=True)
class Changes:
    """All changes by kind; each list is sorted by closeness: seconds before shares of a text, which
    nothing makes comparable, and last what has no distance."""

    to_fail: tuple[Change, ...]
    to_pass: tuple[Change, ...]
    retention: tuple[Change, ...]
    """On L4a, where to pass is to keep to the persona: neither better nor worse."""
    unscored: tuple[Change, ...]
    """Not scored in one of the runs, or in another way (unsupported)."""
    common_n: int
    same_n: int
    neither_n: int
    """Among the same: scored in neither."""


def changes(first: ScoredRun, second: ScoredRun) -> Changes:
    """Compare two runs session by session; those of one run alone are in nothing."""
    others = {(case.case_id, case.trial): case for case in second.cases}
    pairs = [(case, others[case.case_id, case.trial]) for case in first.cases
             if (case.case_id, case.trial) in others]
    found: dict[str, list[Change]] = {name: [] for name in
                                      ("to_fail", "to_pass", "retention", "unscored")}
    for one, other in pairs:
        if one.outcome is other.outcome:
            continue
        both = {one.outcome, other.outcome}
        if both != {Outcome.PASS, Outcome.FAIL}:
            kind = "unscored"
        elif one.level == NEVER_POOLED:
            kind = "retention"
        else:
            kind = "to_fail" if one.outcome is Outcome.PASS else "to_pass"
        found[kind].append(Change(one, other, (case_margin(first, one),
                                               case_margin(second, other))))
    same = [one for one, other in pairs if one.outcome is other.outcome]
    decided = (Outcome.PASS, Outcome.FAIL)
    return Changes(**{kind: tuple(sorted(some, key=_nearest)) for kind, some in found.items()},
                   common_n=len(pairs), same_n=len(same),
                   neither_n=sum(case.outcome not in decided for case in same))


def _nearest(change: Change) -> tuple[bool, int, float, str, int]:
    closeness = change.closeness
    return (closeness is None, _UNITS.index(change.quantity.unit), closeness or 0.0,
            change.first.case_id, change.first.trial)


def by_action(first: Loaded, second: Loaded) -> dict[str, dict[str, Any]]:
    """Second minus first for each action, all levels but L4a, adjusted as one family."""
    sides = [[c for c in run.system.cases if c.level != NEVER_POOLED] for run in (second, first)]
    actions = [a for a in Action if any(c.action is a for side in sides for c in side)]
    draws = Draws(c.stream for side in sides for c in side)
    found = differences([tuple([c for c in side if c.action is a] for side in sides)  # type: ignore[misc]
                         for a in actions], case_and_trial, draws)
    entries = {str(a): effect_entry(each) for a, each in zip(actions, found, strict=True)}
    adjust(list(entries.values()))
    return entries


def section(runs: Sequence[ScoredRun]) -> Section | None:
    """`None` unless there are exactly two runs."""
    if len(runs) != 2:
        return None
    first, second = runs
    title = f"Diff: {second.name} against {first.name}"
    try:
        loaded = load_runs([run.folder.path for run in runs])
    except InputError as error:
        return Section("diff", title, render("diff_refused.html.j2", problem=str(error)))
    found = changes(first, second)
    entries = by_action(*loaded)
    chart = Chart(
        "actions",
        dots(list(entries), [Series(f"{second.name} - {first.name}", [
            _point(entry) for entry in entries.values()])],
            axis="percentage points", zero=True),
        f"Percent passed by {second.name} less that by {first.name}, by action, on the sessions "
        "that both have scored, all levels but L4a; bars: bootstrap 95 % over audio streams. Full "
        "marks are resolved (clustered p, adjusted by Holm over the actions, below 0.05).",
        ["action", *DIFFERENCE_COLUMNS],
        [[action, *difference_cells(entry)] for action, entry in entries.items()])
    return Section("diff", title, render(
        "diff.html.j2", first=first.name, second=second.name, found=found,
        alone=[_alone(*pair) for pair in ((first, second), (second, first))],
        inputs=_inputs(loaded, runs), lists=[
            (_heading(title, some), key, _rows(some)) for title, key, some in (
                ("passed, now failed", "to_fail", found.to_fail),
                ("failed, now passed", "to_pass", found.to_pass),
                ("L4a, persona-default retention: neither better nor worse", "retention",
                 found.retention),
                ("not scored in one of the runs", "unscored", found.unscored))]),
        charts=[chart], scripts=["diff.js"])


def _point(entry: dict[str, Any]) -> Point:
    if entry["difference"] is None:
        return Point(None, None)
    ends = entry["interval"]
    return Point(100 * entry["difference"],
                 None if ends is None else (100 * ends[0], 100 * ends[1]),
                 f"n={entry['n']}, {entry['verdict']}", hollow=entry["verdict"] != "resolved")


def _heading(title: str, some: Sequence[Change]) -> str:
    near = sum(change.quantity.unit == "s" and change.closeness is not None
               and change.closeness <= NEAR_S for change in some)
    beside = f", {near} of them within {NEAR_S:g} s of a bound" if near else ""
    return f"{title}: {len(some)}{beside}"


def _rows(some: Iterable[Change]) -> list[dict[str, Any]]:
    return [{
        "first": change.first, "second": change.second,
        "measured": "; ".join(dict.fromkeys(_measured(m) for m in change.margins if m.quantity)),
        "margins": [_margin_text(m) for m in change.margins],
        "why": [None if m.reason is None else cut(m.reason) for m in change.margins],
    } for change in some]


def _measured(found: Margin) -> str:
    """What the distance is of, and to what."""
    # Of overlap and of speech where there should be none, the quantity says it all.
    told = found.bound_name is None or found.bound_name in ("any overlap", "no speech")
    to = "" if told else f" (bound: {found.bound_name})"
    return f"{found.quantity}{to}"


def _margin_text(found: Margin) -> str | None:
    """Signed, to the millisecond; a distance cut by the end of the recording is a least one."""
    if found.margin is None:
        return None
    sign = "" if not found.at_least else "≥" if found.margin >= 0 else "≤"
    return f"{sign}{found.margin:+.3f}{' s' if found.unit == 's' else ''}"


def _alone(run: ScoredRun, other: ScoredRun) -> dict[str, Any]:
    """Sessions that `other` has not."""
    have = {(case.case_id, case.trial) for case in other.cases}
    names = [f"{case.case_id} t{case.trial}" for case in run.cases
             if (case.case_id, case.trial) not in have]
    return {"run": run.name, "n": len(names), "names": names[:SHOWN],
            "left": max(0, len(names) - SHOWN)}


def _inputs(loaded: Sequence[Loaded], runs: Sequence[ScoredRun]) -> Table:
    """What is not the same in the two fingerprints."""
    rows = apart(*(run.info.model_dump() for run in loaded))
    return Table("What differs between the runs themselves", ["", *(run.name for run in runs)],
                 rows, frozenset({0, 1, 2}))
