"""Whether a run meets its gates: one result a gate, and what the run as a whole holds.

A gate is met when the figure itself keeps the limit (`at="value"`), or when the end of its 95 %
interval that is nearer to the limit does (`at="interval"`). A figure without evidence meets
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rig.gate.asked import Gate, check_gates
from rig.gate.drops import judge_drops
from rig.gate.figures import STATUSES, Figure
from rig.gate.loading import GatedRun
from rig.gate.readings import Reading, read
from rig.gate.results import At, Result, shown


def judge(run: GatedRun, gates: Sequence[Gate], at: At = "value") -> list[Result]:
    """One result a gate, in their order; a drop of a whole pool gives one for each level.

    Raises `InputError` for a figure that does not exist and a limit out of range.
    """
    figures = run.figures
    check_gates(gates, figures)
    draws = run.draws()
    drops = iter(judge_drops(run, [g for g in gates if g.bound == "max_drop"], figures, at))
    out: list[Result] = []
    for gate in gates:
        if gate.bound == "max_drop":
            out += next(drops)
            continue
        figure = figures[gate.path]
        out.append(_judged(gate, figure, read(figure, run.sessions, draws), at))
    return out


def _judged(gate: Gate, figure: Figure, reading: Reading, at: At) -> Result:
    value, what = reading.value, ""
    if value is not None and at == "interval" and reading.interval is not None:
        end = "lower" if gate.bound == "min" else "upper"
        value, what = reading.interval[end == "upper"], f"the {end} end "
        if value is None:
            return Result(gate, False, reading, figure.unit,
                          f"no {end} end of the interval: {reading.about_interval}")
    if value is None:
        return Result(gate, False, reading, figure.unit, f"no evidence: {reading.why_none}")
    met = value >= gate.limit if gate.bound == "min" else value <= gate.limit
    beyond = "below" if gate.bound == "min" else "above"
    within = "at least" if gate.bound == "min" else "at most"
    why = f"{what}{shown(value, gate.limit)} is "
    why += f"{within if met else beyond} {shown(gate.limit)}"
    if reading.named and not met:
        why += f": {_some(reading.named)}"
    return Result(gate, met, reading, figure.unit, why)


def _some(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


# --- the whole -------------------------------------------------------------------------------


def session_counts(run: GatedRun) -> dict[str, int]:
    """Sessions by outcome, and by what became of those that have no recording."""
    outcomes = Counter(str(s.outcome) for s in run.sessions)
    lost = Counter(s.status for s in run.sessions if s.status is not None)
    return {"n": len(run.sessions),
            **{name: outcomes[name] for name in ("pass", "fail", "unscored", "unsupported")},
            **{name: lost[name] for name in STATUSES}}


def exit_code(results: Sequence[Result], counts: Mapping[str, int]) -> int:
    """1 where a gate is not met, whatever else; 3 where all are and sessions are missing."""
    if not all(result.met for result in results):
        return 1
    return 3 if any(counts[name] for name in STATUSES) else 0


def gate_document(run: GatedRun, results: Sequence[Result], at: At) -> dict[str, Any]:
    """What `rig gate --json` prints."""
    counts = session_counts(run)
    info = run.scored.info
    return {
        "schema_version": 1, "run": str(run.scored.folder.path), "name": run.scored.name,
        "baseline": None if run.baseline is None else str(run.baseline.path),
        "suite": None if info is None else f"{info.suite} {info.suite_version}",
        "adapter": None if info is None else f"{info.adapter.name} {info.adapter.version}",
        "playout": run.scored.playout, "changed": run.scored.changed,
        "conditions": run.scored.conditions,
        "at": at, "met": all(r.met for r in results),
        "exit_code": exit_code(results, counts), "sessions": counts,
        "gates": [_entry(r) for r in results],
    }


def _entry(result: Result) -> dict[str, Any]:
    gate, reading = result.gate, result.reading
    return {
        "bound": gate.bound, "path": gate.path, "limit": gate.limit, "unit": result.unit,
        "met": result.met, "why": result.why, "value": reading.value, "n": reading.n,
        "passed": reading.passed, "unscored": reading.unscored,
        "unsupported": reading.unsupported, "missing": reading.missing,
        "interval": None if reading.interval is None else list(reading.interval),
        "wilson": reading.wilson, "bootstrap": reading.bootstrap,
        "about_interval": reading.about_interval, "cases": list(reading.named),
        "drop": None if result.drop is None else dict(result.drop),
    }
