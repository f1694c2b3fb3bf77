"""The 180 threshold configurations as a picture: what moves, and what is concluded all the same.

Every verdict is decided again from the stored measurements under the playout that the run was
scored with, at the thresholds of DSB-IFEval, appendix C.7 (`sweeps.threshold_grid`); the default
configuration is that of table 18. Conclusions are those of `sweeps.instrument`: the order of two
systems at a level, the sign of an effect, and whether each is the same at all 180.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audio.errors import InputError
from rig.comparing import FLOORS, require_same_cases
from rig.comparison_text import EFFECT_NAMES
from rig.report.colours import SERIES
from rig.report.figures import (
    LEGEND,
    SYMBOLS,
    Cell,
    Heat,
    Table,
    heat,
    legend_px,
    percent,
    plain,
)
from rig.report.loading import ScoredRun
from rig.report.page import Chart, Section, render
from sweeps.aggregate import NEVER_POOLED
from sweeps.instrument import Conclusion, conclusions
from sweeps.sweep import SweepResult, sweep
from sweeps.table import MeasurementTable, TableRow
from sweeps.threshold_grid import AXIS_OF_ACTION, Grid, VerdictMatrix, decide_grid
from verifiers.scene import Action
from verifiers.thresholds import DEFAULTS
from verifiers.verdict import Outcome

AXIS_TITLES: Mapping[str, str] = {
    "take_turn_max_wait_s": "longest wait, s", "yield_max_latency_ms": "latency, ms",
    "interrupt_max_latency_ms": "latency, ms", "backchannel_ceiling_s": "ceiling, s"}
LEVELS_N = 40
"""Rows of the heat map; more are too thin to be told apart. The table has them all. Ours."""


def section(runs: Sequence[ScoredRun]) -> Section | None:
    """`None` where no run has measurements."""
    tables = {run.name: table_of(run) for run in runs}
    measured = [run for run in runs if len(tables[run.name])]
    if not measured:
        return None
    grid = Grid()
    result = sweep({run.name: tables[run.name] for run in measured}, grid)
    verdicts = {run.name: decide_grid(tables[run.name], grid) for run in measured}
    problem = _together(measured)
    found = _found(result, measured, problem)
    charts = [_actions(tables, verdicts, grid), _matrix(result)]
    return Section("sweep", "Threshold sweep", render(
        "sweep_picture.html.j2", configs=len(grid.configs),
        default=", ".join(f"{name}={getattr(DEFAULTS, name):g}" for name, _ in grid.axes),
        notices=_notices(runs, tables, verdicts, grid, problem),
        flips=_flips(result), ranking=None if problem else _ranking(result),
        concluded=_concluded(found, result), conclusions=_conclusions(found, result)),
        charts=charts)


def table_of(run: ScoredRun) -> MeasurementTable:
    """The measured cases of a run as columns, under the playout that it was scored with."""
    return MeasurementTable.of([
        TableRow(case.case_id, case.trial, case.role, case.level, case.action, row.params,
                 row.measurement)
        for case in run.cases
        if (row := case.row(run.playout)) is not None and row.measurement is not None])


def _together(runs: Sequence[ScoredRun]) -> str | None:
    """Why the runs have no conclusion about each other."""
    if len({str(run.scores["vad"]) for run in runs}) != 1:
        return "the runs were measured with different detector settings"
    try:
        require_same_cases([run.folder.path for run in runs])
    except InputError as error:
        return str(error)
    return None


def _notices(runs: Sequence[ScoredRun], tables: Mapping[str, MeasurementTable],
             verdicts: Mapping[str, VerdictMatrix], grid: Grid,
             problem: str | None) -> list[str]:
    out = []
    if problem is not None:
        out.append(f"no conclusion between runs: {problem}")
    for run in runs:
        unmeasured = len(run.cases) - len(tables[run.name])
        if unmeasured:
            out.append(f"{run.name}: {unmeasured} of {len(run.cases)} cases have no measurement: "
                       "unscored at every configuration, and in no rate here")
        if run.thresholds != DEFAULTS:
            out.append(f"{run.name} was scored with {run.changed}; what is marked here is the "
                       "published default")
        elif run.name in verdicts and (other := _unlike(run, tables[run.name],
                                                        verdicts[run.name], grid)):
            out.append(f"{run.name}: {other} verdicts in scores.json are not those of its "
                       "measurements; run `rig score` again")
    return out


def _unlike(run: ScoredRun, table: MeasurementTable, verdicts: VerdictMatrix, grid: Grid) -> int:
    """Stored verdicts that are not those of the default configuration."""
    told = {(case.case_id, case.trial): case.outcome for case in run.cases}
    codes = {Outcome.FAIL: 0, Outcome.PASS: 1, Outcome.UNSCORED: 2}
    found = verdicts.codes[grid.default_index]
    return sum(codes.get(told[str(case_id), int(trial)]) != int(code) for case_id, trial, code in
               zip(table.case_ids, table.trials, found, strict=True))


# each action over its own threshold

@dataclass(frozen=True, slots=True)
class Curve:
    """Pass rates of one action of one system over its threshold, all levels but L4a; each list is
    as long as the axis."""

    system: str
    action: Action
    axis: str
    values: tuple[float, ...]
    passed: tuple[int, ...]
    n: tuple[int, ...]
    unscored: tuple[int, ...]

    @property
    def rates(self) -> tuple[float | None, ...]:
        """Passed out of scored, 0..1."""
        return tuple(p / n if n else None for p, n in zip(self.passed, self.n, strict=True))


def curves(name: str, table: MeasurementTable, verdicts: VerdictMatrix, grid: Grid) -> list[Curve]:
    """One for each action that reads an axis and occurs."""
    out = []
    for action, axis in AXIS_OF_ACTION.items():
        chosen = (table.actions == str(action)) & (table.levels != NEVER_POOLED)
        if not chosen.any():
            continue
        # Configurations that differ in other axes alone give this action the same.
        index = grid.axis_index(axis)
        rows = [int(np.flatnonzero(index == i)[0]) for i in range(len(grid.axis_values(axis)))]
        passed = verdicts.passed[rows][:, chosen].sum(axis=1)
        unscored = verdicts.unscored[rows][:, chosen].sum(axis=1)
        out.append(Curve(name, action, axis, grid.axis_values(axis), tuple(map(int, passed)),
                         tuple(int(chosen.sum()) - int(u) for u in unscored),
                         tuple(map(int, unscored))))
    return out


def _actions(tables: Mapping[str, MeasurementTable], verdicts: Mapping[str, VerdictMatrix],
             grid: Grid) -> Chart:
    found = [curve for name, matrix in verdicts.items()
             for curve in curves(name, tables[name], matrix, grid)]
    shown = [a for a in AXIS_OF_ACTION if any(c.action is a for c in found)]
    names = list(verdicts)
    traces: list[dict[str, Any]] = []
    layout: dict[str, Any] = {"shapes": [], "annotations": [], "legend": LEGEND,
                              "margin": {"l": 40, "r": 12, "t": 8, "b": 4}}
    rows_n = -(-len(shown) // _COLUMNS)
    layout["height"] = 230 * rows_n + 12 + legend_px(len(names))
    for place, action in enumerate(shown):
        x, y = _panel(place, rows_n)
        suffix = "" if place == 0 else str(place + 1)
        axis = AXIS_OF_ACTION[action]
        values = [f"{v:g}" for v in grid.axis_values(axis)]
        layout[f"xaxis{suffix}"] = {
            "domain": x, "anchor": f"y{suffix}", "type": "category", "categoryorder": "array",
            "categoryarray": values, "title": {"text": AXIS_TITLES[axis], "standoff": 4}}
        layout[f"yaxis{suffix}"] = {"domain": y, "anchor": f"x{suffix}", "range": [-4, 104],
                                    "zeroline": False}
        default = grid.axis_values(axis).index(getattr(DEFAULTS, axis))
        layout["shapes"].append({
            "type": "line", "xref": f"x{suffix}", "yref": f"y{suffix} domain", "x0": default,
            "x1": default, "y0": 0, "y1": 1, "line": {"dash": "dot", "width": 2,
                                                      "color": "#8c959f"}})
        layout["annotations"].append({
            "text": f"{action}, % passed", "xref": f"x{suffix} domain",
            "yref": f"y{suffix} domain", "x": 0, "y": 1, "xanchor": "left",
            "yanchor": "bottom", "showarrow": False})
        for curve in (c for c in found if c.action is action):
            index = names.index(curve.system)
            traces.append({
                "type": "scatter", "mode": "lines+markers", "name": plain(curve.system),
                "legendgroup": str(index), "showlegend": place == 0, "x": values,
                "y": [None if r is None else 100 * r for r in curve.rates],
                "xaxis": f"x{suffix}", "yaxis": f"y{suffix}",
                "customdata": [f"{p} of {n}, {u} unscored" for p, n, u in
                               zip(curve.passed, curve.n, curve.unscored, strict=True)],
                "marker": {"symbol": SYMBOLS[index % len(SYMBOLS)], "size": 8,
                           "color": SERIES[index % len(SERIES)]},
                "line": {"color": SERIES[index % len(SERIES)],
                         "dash": ("solid", "dash", "dot")[index // len(SERIES) % 3]},
                "hovertemplate": "%{y:.1f} % at %{x} (%{customdata})"
                                 "<extra>%{fullData.name}</extra>"})
    rows: list[list[Cell]] = [
        [c.system, str(c.action), f"{c.axis}={v:g}" + (
            " (default)" if v == getattr(DEFAULTS, c.axis) else ""), n, p, percent(r), u]
        for c in found for v, n, p, r, u in
        zip(c.values, c.n, c.passed, c.rates, c.unscored, strict=True)]
    return Chart("actions", {"data": traces, "layout": layout},
                 "Percent passed of each action over the one threshold that it reads; dotted: the "
                 "default. All levels but L4a. LISTEN, NO_BACKCHANNEL, READBACK and ACCEPT_OVERLAP "
                 "read no threshold of the grid and do not move.",
                 ["system", "action", "threshold", "n", "passed", "%", "unscored"], rows)


_COLUMNS = 2
"""Panels side by side: on a narrow screen more have no room for their ticks."""


def _panel(place: int, rows_n: int) -> tuple[list[float], list[float]]:
    """Where a panel lies, as shares of the chart."""
    column, row = place % _COLUMNS, place // _COLUMNS
    width, height = 1 / _COLUMNS, 1 / rows_n
    low = 1 - (row + 1) * height
    return ([column * width + (0.06 if column else 0), (column + 1) * width - 0.02],
            [low + 0.3 * height, low + 0.92 * height])


# all configurations

def _matrix(result: SweepResult) -> Chart:
    """IAS on all nine actions, a row a system and level, a column a configuration."""
    n = len(result.grid.configs)
    rates = {f"{name} {level}": [None if (r := counts.rate(i)) is None else 100 * float(r)
                                 for i in range(n)]
             for name, system in result.systems.items()
             for level, counts in system.counts["all"].items()}
    shown = list(rates)[:LEVELS_N]
    columns = [", ".join(f"{axis}={getattr(config, axis):g}" for axis, _ in result.grid.axes)
               for config in result.grid.configs]
    first, _ = result.grid.axes[0]
    block = n // len(result.grid.axis_values(first))
    ticks = {i * block + block // 2: f"wait {value:g} s"
             for i, value in enumerate(result.grid.axis_values(first))}
    figure = heat(Heat(shown, columns, [rates[name] for name in shown],
                       result.grid.default_index, "default", f"{n} configurations", ticks))
    left = len(rates) - len(shown)
    text = (f"ias_all at each of the {n} configurations, in the order of the grid: the wait "
            "changes slowest, then yield latency, interrupt latency and, fastest, the ceiling; "
            "outlined: the default."
            + (f" {left} more rows are in the table alone." if left else ""))
    table: list[list[Cell]] = [
        [f"{i}{' (default)' if i == result.grid.default_index else ''}",
         *(f"{getattr(config, axis):g}" for axis, _ in result.grid.axes),
         *(None if row[i] is None else f"{row[i]:.1f}" for row in rates.values())]
        for i, config in enumerate(result.grid.configs)]
    return Chart("configurations", figure, text,
                 ["configuration", *(axis for axis, _ in result.grid.axes), *rates], table)


# what is concluded

def _flips(result: SweepResult) -> Table:
    default = result.grid.default_index
    rows: list[list[Cell]] = []
    for name, system in result.systems.items():
        for pool, levels in system.as_dict(default)["ias"].items():
            rows += [[name, f"ias_{pool} {level}", f["n"], f["unscored"], percent(f["rate"]),
                      percent(f["min"]), percent(f["max"])] for level, f in levels.items()]
        rows.append([name, "cases whose verdict changes", system.n_cases, None, None, None,
                     len(system.flips)])
    return Table("IAS over all configurations, percent",
                 ["system", "what", "n", "unscored", "default", "lowest", "highest"], rows,
                 frozenset({1}))


def _ranking(result: SweepResult) -> Table:
    n = len(result.grid.configs)
    found = result.as_dict()["ranking"]
    rows = [[f"ias_{pool}", f["n_distinct"], _number(f["tau_mean"]), _number(f["tau_min"]),
             *(None if f[f"{name}_unchanged"] is None else f"{f[f'{name}_unchanged']} of {n}"
               for name in ("largest", "two_largest", "order")), f["reason"] or ""]
            for pool, f in found.items()]
    return Table("ranking by entailment gap (L1 - L2) against that of the default",
                 ["pool", "distinct configurations", "tau mean", "tau least",
                  "largest unchanged", "two largest", "full order", "why none"], rows,
                 frozenset({7}))


def _found(result: SweepResult, runs: Sequence[ScoredRun],
           problem: str | None) -> list[Conclusion]:
    """Floors conclude nothing, unless there is nothing else. What is lost comes first."""
    tested = [run.name for run in runs
              if run.info is None or run.info.adapter.name not in FLOORS]
    systems = {name: result.systems[name] for name in tested or result.systems}
    found = [c for c in conclusions(systems, result.grid.default_index, len(result.grid.configs))
             if problem is None or c.kind != "order"]
    return sorted(found, key=lambda c: (c.survives, -len(c.lost)))


def _concluded(found: Sequence[Conclusion], result: SweepResult) -> str:
    return (f"{len(found)} conclusions at the default, {sum(c.survives for c in found)} the same "
            f"at all {len(result.grid.configs)} configurations")


def _conclusions(found: Sequence[Conclusion], result: SweepResult) -> Table | None:
    n = len(result.grid.configs)
    if not found:
        return None
    return Table(
        "Percentage points. Whether a difference could be chance is another question (Summary).",
        ["conclusion", "survives", "default", "lowest", "highest", "lost at", "reversed at"],
        [[_what(c), "yes" if c.survives else "no", f"{100 * c.default:+.1f}",
          f"{100 * c.lowest:+.1f}", f"{100 * c.highest:+.1f}", f"{len(c.lost)} of {n}",
          f"{c.reversed_n} of {n}"] for c in found], frozenset({1}))


def _what(c: Conclusion) -> str:
    if c.kind == "order":
        return f"{c.first} - {c.second}, ias_{c.pool} {c.level}"
    return f"{c.first}: {EFFECT_NAMES[c.kind]}, ias_{c.pool}"


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f}"
