"""What the systems reached: by level, action and role, with floors and ceiling, and effects.

Figures are those of `rig compare` (`rig.report.compared`); nothing is computed here but the order
in which it is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rig.comparison_text import DIFFERENCE_COLUMNS, EFFECT_NAMES, difference_cells
from rig.floor_data import CEILING, mark
from rig.report.compared import (
    BOOTSTRAP,
    WILSON_CASES,
    WILSON_STREAMS,
    Compared,
    Rate,
    System,
    compared,
)
from rig.report.figures import Beside, Cell, Point, Series, Table, dots, interval, percent
from rig.report.loading import ScoredRun
from rig.report.page import Chart, Section, render
from sweeps.aggregate import LEVELS, NEVER_POOLED
from verifiers.scene import CORE_ACTIONS, Action

POOLS: Mapping[str, str] = {
    "core": f"ias_core ({', '.join(CORE_ACTIONS)}: the published headline)",
    "all": "ias_all (nine actions)"}
LETTERS: Mapping[str, str] = {BOOTSTRAP: "", WILSON_STREAMS: " S", WILSON_CASES: " C"}
"""What stands behind an interval in a table of many, by its method; the caption explains it."""
RATE_COLUMNS = ("system", "n", "passed", "%", "95 %", "interval by", "unscored", "unsupported")


def section(runs: Sequence[ScoredRun]) -> Section:
    """Tables by level, then a chart a question, each with its numbers."""
    found = compared(runs)
    levels = _ordered({level for system in found.systems for pool in POOLS
                       for level in system.rates[pool]}, LEVELS)
    charts = [_rates(f"level-{pool}", found, pool, levels,
                     f"{title} by level, percent passed.", _L4A if "L4a" in levels else "")
              for pool, title in POOLS.items()]
    charts.append(_rates(
        "action", found, "action",
        _ordered({a for s in found.systems for a in s.rates["action"]}, tuple(map(str, Action))),
        "By expected action, all levels but L4a, percent passed."))
    roles = _ordered({r for s in found.systems for r in s.rates["role"]}, ())
    if roles:
        charts.append(_rates("role", found, "role", roles,
                             "By role, all levels but L4a, nine actions, percent passed."))
    charts += _effects(found)
    return Section("summary", "Summary", render(
        "summary.html.j2", notices=_notices(runs, found), tables=[
            _by_level(found, pool, title, levels) for pool, title in POOLS.items()],
        pairs=_pairs(found)), charts=charts)


_L4A = " L4a is persona-default retention: not ranked, in no pool."


def _read(beside: Beside) -> str:
    """How to read a chart: of what is drawn, and of nothing else."""
    return (" Bars: 95 % intervals, by the method in the table."
            + (" Grey band: from the least to the best floor, agents without any skill, runs of "
               "them that are shown included."
               if any(beside.floors) else "")
            + (" Star: the oracle, the ceiling." if any(beside.ceiling) else ""))


def _ordered(found: set[str], known: Sequence[str]) -> list[str]:
    return [name for name in known if name in found] + sorted(found - set(known))


def _notices(runs: Sequence[ScoredRun], found: Compared) -> list[str]:
    """What a reader must know before any number."""
    out = list(found.problems)
    out += [f"{run.name} was played under line conditions: {', '.join(run.conditions)}"
            for run in runs if run.conditions]
    out += [f"{run.name} was not scored with the default settings: {run.changed}"
            for run in runs if run.changed]
    for run in runs:
        counts = {name: sum(case.outcome == name for case in run.cases)
                  for name in ("unscored", "unsupported")}
        told = ", ".join(f"{n} {name}" for name, n in counts.items() if n)
        if told:
            out.append(f"{run.name}: of {len(run.cases)} cases {told}: outside every rate, and "
                       "listed below with the reasons")
        troubles = ", ".join(f"{n} {status}" for status, n in run.scores["attempts"].items()
                             if status != "done" and n)
        if troubles:
            out.append(f"{run.name}: sessions that ended in trouble and were not made good: "
                       f"{troubles}")
    return out


def _by_level(found: Compared, pool: str, title: str, levels: Sequence[str]) -> Table:
    def cell(rate: Rate | None) -> str:
        if rate is None:
            return "–"
        missing = "".join(f", {n} {name}" for name, n in (
            ("unscored", rate.unscored), ("unsupported", rate.unsupported)) if n)
        if not rate.n:
            return f"none scored{missing}"
        by = LETTERS[rate.method] if rate.interval else ""
        return f"{percent(rate.rate)} {interval(rate.interval)}{by} n={rate.n}{missing}"

    rows = [[_named(system),
             *(cell(system.rates[pool].get(level)) for level in levels)]
            for system in found.systems]
    used = [rate.method for system in found.systems for level in levels
            if (rate := system.rates[pool].get(level)) is not None and rate.interval]
    methods = "; ".join(f"{LETTERS[m].strip()}: {m}" if LETTERS[m] else m for m in LETTERS
                        if m in used)
    return Table(f"{title}: percent passed and 95 % interval"
                 f"{f' ({methods})' if methods else ''}", ["system", *levels],
                 rows, frozenset(range(1, 1 + len(levels))))


def _named(system: System) -> str:
    return f"{system.name}{mark(system.agent) if system.floor else ''}"


def _rates(key: str, found: Compared, group: str, names: Sequence[str], text: str,
           more: str = "") -> Chart:
    """One line a name: systems as marks, floors as a band, the oracle as the ceiling."""
    def points(system: System) -> list[Point]:
        return [_point(system.rates[group].get(name)) for name in names]

    def agents(wanted: Sequence[System]) -> list[dict[str, float]]:
        return [{s.name: 100 * rate.rate for s in wanted
                 if (rate := s.rates[group].get(name)) is not None and rate.rate is not None}
                for name in names]

    beside = Beside(agents(found.unskilled),
                    agents([s for s in found.floors if s.agent == CEILING]))
    figure = dots(names, [Series(s.name, points(s)) for s in found.tested],
                  axis="percent passed", span=(-2, 102), beside=beside)
    kind = "level" if group in POOLS else group
    rows: list[list[Cell]] = [
        [name, _named(s), rate.n, rate.passed,
         percent(rate.rate), interval(rate.interval, 1),
         rate.method if rate.interval else None, rate.unscored,
         rate.unsupported]
        for name in names for s in found.systems
        if (rate := s.rates[group].get(name)) is not None]
    return Chart(key, figure, text + _read(beside) + more, [kind, *RATE_COLUMNS], rows)


def _point(rate: Rate | None) -> Point:
    if rate is None or rate.rate is None:
        return Point(None, None)
    ends = None if rate.interval is None else (100 * rate.interval[0], 100 * rate.interval[1])
    beside = "".join(f", {n} {name}" for name, n in (
        ("unscored", rate.unscored), ("unsupported", rate.unsupported)) if n)
    by = f", {rate.method}" if ends else ""
    return Point(100 * rate.rate, ends, f"n={rate.n}{by}{beside}")


def _effects(found: Compared) -> list[Chart]:
    charts = []
    for pool in POOLS:
        systems = [s for s in found.tested
                   if any(e["n"] for e in s.effects.get(pool, {}).values())]
        if not systems:
            continue
        shown = [e for e in EFFECT_NAMES if any(s.effects[pool][e]["n"] for s in systems)]
        lines = [EFFECT_NAMES[e].partition(" (")[0] for e in shown]
        figure = dots(lines, [Series(s.name, [_effect(s.effects[pool][e]) for e in shown])
                              for s in systems], axis="percentage points", zero=True)
        rows = [[s.name, EFFECT_NAMES[e], *difference_cells(s.effects[pool][e])]
                for s in systems for e in shown if s.effects[pool][e]["n"]]
        left = [name for e, name in EFFECT_NAMES.items() if e not in shown]
        charts.append(Chart(
            f"effects-{pool}", figure,
            f"Effects of the conditioning on ias_{pool}, percentage points. A full mark is "
            "resolved: its clustered p, adjusted by Holm in its family, is below 0.05; of a hollow "
            "one nothing is claimed." + (
                f" Not drawn: {', '.join(left)}: no case was scored at both levels."
                if left else ""),
            ["system", "effect", *DIFFERENCE_COLUMNS], rows))
    return charts


def _effect(found: Mapping[str, Any]) -> Point:
    if found["difference"] is None:
        return Point(None, None)
    ends = found["interval"]
    return Point(100 * found["difference"],
                 None if ends is None else (100 * ends[0], 100 * ends[1]),
                 f"n={found['n']}, {found['verdict']}", hollow=found["verdict"] != "resolved")


def _pairs(found: Compared) -> Table | None:
    """Every two systems at every level, but L4a."""
    rows = [[f"{p['first']} - {p['second']}", f"{p['level']}, {p['pool']}", *difference_cells(p)]
            for p in found.pairs if p["n"]]
    if not rows:
        return None
    return Table(f"systems against each other, percentage points; not on {NEVER_POOLED}",
                 ["systems", "where", *DIFFERENCE_COLUMNS], rows, frozenset({1}))
