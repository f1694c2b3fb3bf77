"""The figures of `rig compare` for a page, for every run whatever it can be compared with.

Runs that can be compared are, together, with the floors that ship beside them. Where they cannot
(`rig compare` refuses them) each stands alone, and the reason is told. A run that has no plan
(`rig rescore`) has the rates of its `scores.json` and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from audio.errors import InputError
from rig.comparing import Loaded, load_runs
from rig.floor_data import NO_FLOORS, beside, read_floors
from rig.report.loading import ScoredRun
from sweeps.comparison import compare

BOOTSTRAP, WILSON_STREAMS, WILSON_CASES = (
    "bootstrap over streams", "Wilson over streams", "Wilson over cases")
"""Methods of the intervals on a page."""
GROUPS = ("core", "all", "action", "role")


@dataclass(frozen=True, slots=True)
class Rate:
    """Passed out of scored, 0..1. `interval` is the bootstrap's over audio streams. Where all or
    none passed that has no width, and it is Wilson's with streams for trials; where there is none
    (one stream, no plan) Wilson's, which takes cases for independent. `method` says which."""

    n: int
    passed: int
    rate: float | None
    interval: tuple[float, float] | None
    method: str
    unscored: int
    unsupported: int


@dataclass(frozen=True, slots=True)
class System:
    """Rates by `GROUPS` and name (level, action or role), effects by pool and name as `rig compare`
    gives them; none of a run without a plan."""

    name: str
    floor: bool
    agent: str
    """Which agent that ships it is, by the name of its adapter, also of a run; empty for others."""
    rates: Mapping[str, Mapping[str, Rate]]
    effects: Mapping[str, Mapping[str, dict[str, Any]]]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Compared:
    """Systems in the order of the runs, then floors. `problems`: why runs stand alone, or a run has
    no floors or no effects."""

    systems: tuple[System, ...]
    pairs: tuple[dict[str, Any], ...]
    problems: tuple[str, ...]

    @property
    def tested(self) -> tuple[System, ...]:
        """Those that are no floors."""
        return tuple(s for s in self.systems if not s.floor)

    @property
    def unskilled(self) -> tuple[System, ...]:
        """Floors, and runs of the same agents, which stand for them."""
        return tuple(s for s in self.systems if s.agent and s.agent not in NO_FLOORS)

    @property
    def floors(self) -> tuple[System, ...]:
        """Agents of known behaviour, the ceiling and its inverse among them."""
        return tuple(s for s in self.systems if s.floor)


def compared(runs: Sequence[ScoredRun]) -> Compared:
    """All that `rig compare` says of the runs."""
    planned = [run for run in runs if run.info is not None]
    problems: list[str] = []
    documents: list[tuple[list[ScoredRun], dict[str, Any]]] = []
    try:
        if planned:
            documents.append((planned, _document(planned, problems)))
    except InputError as error:
        if len(planned) > 1:
            problems.append(f"not compared with each other: {error}")
        for run in planned:
            try:
                documents.append(([run], _document([run], problems)))
            except InputError as alone:
                problems.append(f"{run.name}: rates alone: {alone}")
    problems += [f"{run.name}: rates alone: its recordings belong to no suite"
                 for run in runs if run.info is None]
    systems: dict[str, System] = {}
    floors: list[System] = []
    shipped = read_floors().verdicts
    for among, document in documents:
        names = {run.name: run.info.adapter.name for run in among if run.info is not None}
        of = "" if len(documents) == 1 else f" (beside {among[0].name})"
        for name, found in document["systems"].items():
            if name in names:
                systems[name] = _system(name, found,
                                        names[name] if names[name] in shipped else "")
            else:
                agent = name.partition(" ")[0]  # "agent", or "agent (whose cases)"
                floors.append(_system(f"{name}{of}", found, agent))
    for run in runs:
        systems.setdefault(run.name, _alone(run))
    return Compared((*(systems[run.name] for run in runs), *floors),
                    tuple(pair for _, document in documents for pair in document["pairs"]),
                    tuple(dict.fromkeys(problems)))


def _document(runs: Sequence[ScoredRun], problems: list[str]) -> dict[str, Any]:
    loaded = [_named(one, run) for one, run in
              zip(load_runs([run.folder.path for run in runs]), runs, strict=True)]
    floors, why_none = beside(loaded, read_floors())
    problems += why_none
    return compare([*(one.system for one in loaded), *floors])


def _named(one: Loaded, run: ScoredRun) -> Loaded:
    return replace(one, system=replace(one.system, name=run.name))


def _system(name: str, found: Mapping[str, Any], agent: str) -> System:
    rates = {group: {key: _rate(each) for key, each in levels.items()} for group, levels in (
        *found["ias"].items(), ("action", found["by_action"]), ("role", found["by_role"]))}
    return System(name, found["floor"], agent, rates, found["effects"], tuple(found["notes"]))


def _rate(found: Mapping[str, Any]) -> Rate:
    drawn = found["bootstrap"]
    # `sweeps.effects` puts Wilson's over streams where a bootstrap would have no width.
    method = (WILSON_CASES if not drawn else
              WILSON_STREAMS if found["passed"] in (0, found["n"]) else BOOTSTRAP)
    return Rate(found["n"], found["passed"], found["rate"], drawn or found["wilson"], method,
                found["unscored"], found["unsupported"])


def _alone(run: ScoredRun) -> System:
    ias = run.scores["ias"]
    return System(run.name, floor=False, agent="", effects={}, rates={
        group: {key: Rate(stat["n"], stat.get("passed", 0), stat["rate"],
                          None if stat.get("ci") is None else tuple(stat["ci"]), WILSON_CASES,
                          stat.get("unscored", 0), stat.get("unsupported", 0))
                for key, stat in ias[name].items()}
        for group, name in zip(GROUPS, ("core", "all", "by_action", "by_role"), strict=True)})
