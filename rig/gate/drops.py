"""Drops against a baseline: baseline minus run over the cases that both have scored.

A drop is judged by its size; the paired test of `rig compare`, which says whether it is resolved,
stands beside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rig.comparing import Loaded
from rig.gate.asked import POOL_DROPS, Gate
from rig.gate.figures import Figure, Session
from rig.gate.loading import GatedRun
from rig.gate.readings import Interval, Reading
from rig.gate.results import At, Result, shown
from rig.wording import counted
from sweeps.comparison import System, adjust, effect_entry, pairs
from sweeps.effects import Case, Draws, case_and_trial, differences
from sweeps.intervals import wilson
from sweeps.paired import POWER

BASELINE, RUN = "baseline", "run"



def judge_drops(run: GatedRun, gates: Sequence[Gate], figures: Mapping[str, Figure], at: At,
           ) -> Iterator[list[Result]]:
    """The results of each of `gates`, all of them drops: one, or one a level for a whole pool.

    Levels of a pool are one family of Holm's, as in `rig compare`; everything else that is asked is
    another. The run must have a baseline.
    """
    if not gates:
        return
    assert run.loaded is not None
    assert run.baseline is not None
    before, now = run.baseline.system, run.loaded.system
    draws = Draws(c.stream for s in (before, now) for c in s.cases)
    by_level = {(p["pool"], p["level"]): p for p in pairs([
        System(BASELINE, before.cases), System(RUN, now.cases)], draws)}
    of_path = {f"ias_{pool}.{level}": entry for (pool, level), entry in by_level.items()}
    rest = [g.path for g in gates if g.path not in of_path and g.path not in POOL_DROPS]
    wanted = {path: figures[path].wanted for path in rest}
    sides = [(_chosen(run.baseline, pick), _chosen(run.loaded, pick)) for pick in wanted.values()]
    other = [effect_entry(found) for found in differences(sides, case_and_trial, draws)]
    adjust(other)
    of_path |= dict(zip(rest, other, strict=True))
    for gate in gates:
        if gate.path not in POOL_DROPS:
            yield [_dropped(gate, of_path[gate.path], at)]
            continue
        pool = gate.path.removeprefix("ias_")
        found = [(level, entry) for (name, level), entry in by_level.items() if name == pool]
        yield [_dropped(replace(gate, path=f"{gate.path}.{level}"), entry, at)
               for level, entry in found] or [Result(
                   gate, False, Reading(None, 0, why_none="no level"), "rate",
                   "no evidence: no level but L4a, which is in no pool")]


def _chosen(side: Loaded, pick: Callable[[Session], bool] | None) -> list[Case]:
    """The cases of a run that a rate is over."""
    assert pick is not None
    return [case for case in side.system.cases if pick(_as_session(case))]


def _as_session(case: Case) -> Session:
    return Session(case.conversation, case.trial, case.action, case.level, case.role, case.outcome,
                   "", paired=case)


def _dropped(gate: Gate, entry: Mapping[str, Any], at: At) -> Result:
    drop, interval = entry["difference"], _drop_interval(entry)
    reading = Reading(drop, entry["n"], unscored=entry["one_sided"], interval=interval,
                      why_none=None if drop is not None else "no common case that both scored "
                      f"({entry['one_sided']} scored on one side alone)",
                      about_interval="bootstrap over audio streams" if entry["interval"] else
                      "no pair differs: Wilson with streams for trials" if interval else
                      "no interval: nothing varies between audio streams")
    if drop is None:
        return Result(gate, False, reading, "rate", f"no evidence: {reading.why_none}", entry)
    value, what = drop, "drop "
    if at == "interval":
        if interval is None or interval[1] is None:
            return Result(gate, False, reading, "rate", reading.about_interval or "", entry)
        value, what = interval[1], "the upper end of the drop "
    met = value <= gate.limit
    why = (f"{what}{shown(value, gate.limit)} is "
           f"{'at most' if met else 'above'} {shown(gate.limit)}; "
           f"{_resolved(entry, gate.limit)}")
    return Result(gate, met, reading, "rate", why, entry)


def _drop_interval(entry: Mapping[str, Any]) -> Interval | None:
    """The bootstrap's; where no pair differs that has no width, and Wilson's upper end of none in
    so many streams bounds the change on both sides. A single stream says nothing of others."""
    if entry["interval"] is not None:
        low, high = entry["interval"]
        return low, high
    if entry["only_first"] or entry["only_second"] or entry["clusters"] < 2:
        return None
    none = wilson(0, entry["clusters"])
    assert none is not None
    return -none[1], none[1]


def _resolved(entry: Mapping[str, Any], limit: float) -> str:
    """Whether the difference can be told from none, and what this design could tell at all."""
    p, least = entry["p_holm"], entry["resolves"]
    verdict = entry["verdict"] + ("" if p is None else f" (Holm p {p:.2g})")
    if least is None:
        return (f"{verdict}: {counted(entry['clusters'], 'audio stream')}, no drop could be "
                "resolved")
    beyond = ", more than the limit" if least > limit else ""
    powered = entry["resolves_powered"]
    likely = "" if powered is None else f"; {powered:.3g} with power {POWER:g}"
    # Holm's family can ask for more than that.
    return (f"{verdict}; before Holm, {entry['n']} pairs on {entry['clusters']} audio streams "
            f"resolve a drop of {least:.3g} at the least{beyond}{likely}")
