"""A sweep of the detector as one document, tables for the terminal, and rows for a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from rig.comparison_text import EFFECT_NAMES, csv_cell
from rig.console import Output
from rig.vad_decided import Plan
from rig.vad_sweep import AXES, SweptRun
from sweeps.instrument import Conclusion, Flips, conclusions, flips_by_action, rankings
from sweeps.sweep import SettingsResult, sweep_settings
from sweeps.threshold_grid import VerdictMatrix

SHOWN_CONCLUSIONS = 20
"""Lost conclusions that are listed on a terminal; JSON has them all."""


def document(plan: Plan, runs: Mapping[str, SweptRun], floors: Sequence[str]) -> dict[str, Any]:
    """All figures. Floors are swept alike and are in no ranking and no conclusion; at least one
    run is none."""
    names = [setting.name for setting in plan.settings]
    result = sweep_settings({name: (run.cases, run.verdicts) for name, run in runs.items()},
                            names, plan.default)
    grid = sweep_settings({name: (run.cases, _part(run.verdicts, plan.grid_n))
                           for name, run in runs.items() if name not in floors},
                          names[: plan.grid_n], plan.default)
    tested = {name: result.systems[name] for name in grid.systems}
    flips = {name: flips_by_action(run.cases, run.verdicts, plan.default)
             for name, run in runs.items()}
    return {
        "schema_version": 1,
        "settings": [setting.as_dict() for setting in plan.settings],
        "grid_n": plan.grid_n, "default_index": plan.default,
        "default_equals_score": True,
        "systems": {name: {
            **result.systems[name].as_dict(plan.default), "floor": name in floors,
            "unmeasured": run.unmeasured_n,
            "flips_by_action": {action: _flips(found, plan) for action, found in
                                flips[name].items()}}
            for name, run in runs.items()},
        "flips_by_action": {action: _flips(found, plan)
                            for action, found in _pooled(flips.values()).items()},
        "ranking": _ranking(grid, plan),
        "conclusions": [_conclusion(found, plan) for found in
                        conclusions(tested, plan.default, len(names))],
    }


def _part(verdicts: VerdictMatrix, n: int) -> VerdictMatrix:
    return VerdictMatrix(verdicts.passed[:n], verdicts.unscored[:n])


def _pooled(systems: Iterable[dict[str, Flips]]) -> dict[str, Flips]:
    """All systems together."""
    out: dict[str, Flips] = {}
    for flips in systems:
        for action, found in flips.items():
            had = out.get(action)
            out[action] = found if had is None else Flips(
                had.n_cases + found.n_cases, had.to_pass + found.to_pass,
                had.to_fail + found.to_fail, had.to_unscored + found.to_unscored)
    return out


def _flips(found: Flips, plan: Plan) -> dict[str, Any]:
    total = found.total[: plan.grid_n]
    worst = int(total.argmax())
    return {"n": found.n_cases,
            "grid_median": float(np.median(total)) / found.n_cases,
            "grid_max": int(total[worst]) / found.n_cases,
            "grid_max_at": plan.settings[worst].name if total[worst] else None,
            "to_pass": found.to_pass.tolist(), "to_fail": found.to_fail.tolist(),
            "to_unscored": found.to_unscored.tolist()}


def _ranking(grid: SettingsResult, plan: Plan) -> dict[str, Any]:
    def entry(found: Any) -> dict[str, Any]:
        return {name: value for name, value in asdict(found).items() if name != "tau"}

    by_level = rankings(grid.systems, plan.default, plan.grid_n)
    return {pool: {"entailment_gap": entry(grid.stability[pool]),
                   **{level: entry(found) for level, found in by_level[pool].items()}}
            for pool in grid.stability}


def _conclusion(found: Conclusion, plan: Plan) -> dict[str, Any]:
    in_grid = [i for i in found.lost if i < plan.grid_n]
    return {**found.as_dict(), "survives_grid": not in_grid,
            "lost_in_grid": len(in_grid),
            "lost_to": [plan.settings[i].name for i in found.lost if i >= plan.grid_n],
            "lost_first": plan.settings[found.lost[0]].name if found.lost else None}


# for people

def print_vad_sweep(output: Output, told: dict[str, Any]) -> None:
    """What flips, what it does to scores, and which conclusions hold."""
    settings, grid_n = told["settings"], told["grid_n"]
    output.line(f"{grid_n} settings of the detector and {len(settings) - grid_n} other ways to "
                "find speech; at the default every verdict is the one of rig score")
    pooled = told["flips_by_action"]
    alone = [i for i in range(grid_n) if len(settings[i]["varied"]) == 1]
    alone.sort(key=lambda i: list(AXES).index(next(iter(settings[i]["varied"]))))
    shown = [*alone, *range(grid_n, len(settings))]
    output.table(
        f"verdicts that flip, percent of all {len(told['systems'])} system(s): one setting changed",
        ["", *pooled], [[settings[i]["name"], *(_flip_rate(f, i) for f in pooled.values())]
                        for i in shown])
    output.table(f"over all {grid_n} settings of the grid, percent",
                 ["", "n", "median", "most", "at"],
                 [[action, f["n"], _percent(f["grid_median"]), _percent(f["grid_max"]),
                   f["grid_max_at"] or "-"] for action, f in pooled.items()])
    rows = []
    for name, system in told["systems"].items():
        for pool, levels in system["ias"].items():
            for level, found in levels.items():
                grid = [r for r in found["rates"][:grid_n] if r is not None]
                rows.append([f"{name} ias_{pool} {level}", found["n"], _percent(found["rate"]),
                             _percent(min(grid, default=None)), _percent(max(grid, default=None)),
                             *(_percent(r) for r in found["rates"][grid_n:])])
    output.table("IAS, percent: default, lowest and highest of the grid, other detectors",
                 ["", "n", "default", "lowest", "highest", *(s["name"] for s in settings[grid_n:])],
                 rows)
    for name, system in told["systems"].items():
        if system["unmeasured"]:
            output.line(f"{name}: {system['unmeasured']} sessions could not be measured, at any "
                        "setting")
    _print_ranking(output, told)
    _print_conclusions(output, told)


def _print_ranking(output: Output, told: dict[str, Any]) -> None:
    rows = [[f"{what}, {pool}", len(found["systems"]), _number(found["tau_mean"]),
             _number(found["tau_min"]), found["largest_unchanged"],
             found["two_largest_unchanged"], found["order_unchanged"]]
            for pool, parts in told["ranking"].items() for what, found in parts.items()
            if found["order_unchanged"] is not None]
    if rows:
        output.table(f"rankings over the {told['grid_n']} settings of the grid",
                     ["", "systems", "tau mean", "tau least", "first kept", "first two kept",
                      "order kept"], rows)


def _print_conclusions(output: Output, told: dict[str, Any]) -> None:
    found = told["conclusions"]
    for title, kinds in (("orders of two systems", ("order",)),
                         ("signs of effects", tuple(EFFECT_NAMES))):
        some = [c for c in found if c["kind"] in kinds]
        output.line(f"{title}: {len(some)} at the default, "
                    f"{sum(c['survives_grid'] for c in some)} survive the grid, "
                    f"{sum(c['survives'] for c in some)} the other detectors as well")
    lost = sorted((c for c in found if not c["survives"]),
                  key=lambda c: (-len(c["lost"]), c["kind"]))
    if not lost:
        return
    rows = [[_what(c), f"{100 * c['default']:+.1f}",
             f"{100 * c['lowest']:+.1f} to {100 * c['highest']:+.1f}",
             f"{c['lost_in_grid']} of {told['grid_n']}", ", ".join(c["lost_to"]) or "-",
             c["lost_first"]] for c in lost[:SHOWN_CONCLUSIONS]]
    output.table("conclusions that do not survive, percentage points",
                 ["", "default", "range", "lost in grid", "lost to", "first at"], rows)
    if len(lost) > SHOWN_CONCLUSIONS:
        output.line(f"and {len(lost) - SHOWN_CONCLUSIONS} more; --json or --out has them all")


def _what(c: dict[str, Any]) -> str:
    if c["kind"] == "order":
        return f"{c['first']} - {c['second']}, ias_{c['pool']} {c['level']}"
    return f"{c['first']}: {EFFECT_NAMES[c['kind']]}, {c['pool']}"


def _flip_rate(found: dict[str, Any], i: int) -> str:
    total = found["to_pass"][i] + found["to_fail"][i] + found["to_unscored"][i]
    return _percent(total / found["n"])


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


# for a spreadsheet

_COLUMNS = ("system", "setting", "detector", "margin_db", "vad_threshold", "vad_min_silence_ms",
            "vad_min_speech_ms", "vad_speech_pad_ms", "merge_gap_s", "action", "n", "to_pass",
            "to_fail", "to_unscored", "flip_rate")


def as_csv(told: dict[str, Any]) -> str:
    """A row a system, setting and action; shares in 0..1."""
    out = io.StringIO()
    writer = csv.DictWriter(out, _COLUMNS, restval="", lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    for system, s in told["systems"].items():
        for action, found in s["flips_by_action"].items():
            for i, setting in enumerate(told["settings"]):
                counts = {name: found[name][i] for name in ("to_pass", "to_fail", "to_unscored")}
                row = {**setting, **counts, "system": system, "setting": setting["name"],
                       "action": action, "n": found["n"],
                       "flip_rate": sum(counts.values()) / found["n"]}
                writer.writerow({k: csv_cell(v) for k, v in row.items()})
    return out.getvalue()
