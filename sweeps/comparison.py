"""Everything that is said when systems are compared, as one document.

The figures are those of `sweeps.effects` and `sweeps.paired`; here they are pooled, put into
families and worded. A family is what Holm's adjustment ranges over, and is named with its size:
one pool's three effects of all systems under test, and one pool's pairs of systems at all levels.
Floors and oracles are computed alike, listed apart, and are in no family: nothing is claimed of
them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweeps.aggregate import LEVELS, NEVER_POOLED
from sweeps.effects import (
    DRAWS,
    EFFECTS,
    POOLS,
    SEED,
    Case,
    Difference,
    Draws,
    Rate,
    case_and_trial,
    conversation_and_trial,
    differences,
    effects,
    paired,
    pool,
    rates,
    sides,
    trials_of,
)
from sweeps.intervals import wilson
from sweeps.paired import ALPHA, POWER, holm, pass_hat_k, trial_variance, upper_bound_of_zero
from verifiers.verdict import Outcome

MATCHED_ROLES = ("R1", "R2", "R3")
"""Roles that share audio (design page: C1 and C4, instances 1 to 4)."""


@dataclass(frozen=True, slots=True)
class System:
    """One run. `floor`: an agent of known behaviour, shown beside and claimed nothing of."""

    name: str
    cases: tuple[Case, ...]
    floor: bool = False
    notes: tuple[str, ...] = ()


def compare(systems: Sequence[System], *, draws_n: int = DRAWS, seed: int = SEED,
            ) -> dict[str, Any]:
    """The document. Raises `ValueError` where two systems have one name."""
    if len({s.name for s in systems}) != len(systems):
        raise ValueError("expected systems of different names")
    draws = Draws((c.stream for s in systems for c in s.cases), draws_n, seed)
    out = {
        "alpha": ALPHA, "power": POWER, "draws": draws_n, "seed": seed,
        "systems": {s.name: _system(s, draws) for s in systems},
        "common": _common(systems),
        "pairs": pairs(systems, draws),
        "flips": [*_flips_by_effect(systems), *_flips_by_system(systems)]}
    _adjust_effects(systems, out)
    return out


def _system(system: System, draws: Draws) -> dict[str, Any]:
    cases = list(system.cases)
    pooled = [c for c in cases if c.level != NEVER_POOLED]
    trials = trials_of(pooled)
    most = max((n for _, n in trials_of(cases)), default=0)
    return {
        "floor": system.floor, "notes": list(system.notes),
        "cases": len(cases), "verdicts": sum(c.passed is not None for c in cases),
        "unscored": sum(c.outcome is Outcome.UNSCORED for c in cases),
        "unsupported": sum(c.outcome is Outcome.UNSUPPORTED for c in cases),
        "levels": [level for level in LEVELS if any(c.level == level for c in cases)],
        "streams": len({c.stream for c in cases}), "trials": most,
        "ias": {name: _rates({level: found for level in LEVELS
                              if (found := [c for c in pool(cases, name) if c.level == level])},
                             draws)
                for name in POOLS},
        "by_action": _grouped(pooled, lambda c: str(c.action), draws),
        "by_role": _grouped(pooled, lambda c: c.role, draws),
        "by_probe": _grouped(pooled, lambda c: c.probe, draws),
        "effects": {name: _effects(pool(cases, name), draws) for name in POOLS},
        "effects_by_role": {role: _effects(found, draws)
                            for role, found in _groups(cases, lambda c: c.role).items()},
        "matched_audio": _matched(cases, draws),
        "repeated": None if most < 2 else _repeated(trials, most),
    }


def _rates(pools: Mapping[str, Sequence[Case]], draws: Draws) -> dict[str, Any]:
    return {name: _rate(found)
            for name, found in zip(pools, rates(pools.values(), draws), strict=True)}


def _effects(cases: Sequence[Case], draws: Draws) -> dict[str, Any]:
    return {name: effect_entry(found) for name, found in effects(cases, draws).items()}


def _rate(found: Rate) -> dict[str, Any]:
    return {"n": found.n, "passed": found.passed, "unscored": found.unscored,
            "unsupported": found.unsupported,
            "rate": found.passed / found.n if found.n else None,
            "wilson": wilson(found.passed, found.n), "bootstrap": found.interval,
            "upper_bound_of_zero": upper_bound_of_zero(found.n) if found.passed == 0 else None}


def effect_entry(found: Difference) -> dict[str, Any]:
    """One difference. Nothing is claimed of it outside a family: `p_holm` is `None` and `verdict`
    at most "not adjusted". `adjust` fills both in."""
    return {"n": found.n, "only_first": found.only_first, "only_second": found.only_second,
            "one_sided": found.one_sided, "clusters": found.clusters,
            "difference": found.difference, "interval": found.interval,
            "p_mcnemar": found.p_mcnemar, "p_clustered": found.p_clustered, "p_holm": None,
            "resolves": found.resolution.certain, "resolves_powered": found.resolution.powered,
            "verdict": found.verdict(None)}


def _groups(cases: Iterable[Case], key: Callable[[Case], str]) -> dict[str, list[Case]]:
    ordered = sorted(cases, key=key)
    return {name: list(found) for name, found in itertools.groupby(ordered, key)}


def _grouped(cases: Iterable[Case], key: Callable[[Case], str], draws: Draws) -> dict[str, Any]:
    return _rates(_groups(cases, key), draws)


def _matched(cases: Sequence[Case], draws: Draws) -> dict[str, Any] | None:
    """Roles on the same audio: the user's side is byte for byte alike, so what differs is the
    prompt. `None` where the cases hold no audio of two roles."""
    roles: dict[str, set[str]] = {}
    for case in cases:
        if case.role in MATCHED_ROLES and case.level != NEVER_POOLED:
            roles.setdefault(case.stream, set()).add(case.role)
    shared = {stream for stream, heard in roles.items() if len(heard) != 1}
    kept = [c for c in cases if c.stream in shared and c.role in MATCHED_ROLES
            and c.level != NEVER_POOLED]
    if not kept:
        return None
    by_role = _groups(kept, lambda c: c.role)
    pairs = list(itertools.combinations(by_role, 2))
    found = differences([(by_role[a], by_role[b]) for a, b in pairs], _without_role, draws)
    return {
        "streams": len(shared),
        "by_role": _rates(by_role, draws),
        "pairs": {f"{a}-{b}": effect_entry(each)
                  for (a, b), each in zip(pairs, found, strict=True)}}


def _without_role(case: Case) -> tuple[str, str, str, int]:
    """What two roles have in common: the same audio in the same place of the suite."""
    place = case.conversation.removeprefix(f"{case.role}-")
    return case.stream, place, case.level, case.trial


def _repeated(trials: Sequence[tuple[int, int]], most: int) -> dict[str, Any]:
    found = trial_variance(trials)
    return {
        "cases": found.cases if found else 0, "unstable": found.unstable if found else 0,
        "variance_within": found.within if found else None,
        "variance_between": found.between if found else None,
        "pass_hat": {str(k): pass_hat_k(trials, k) for k in range(1, most + 1)}}


def pairs(systems: Sequence[System], draws: Draws) -> list[dict[str, Any]]:
    """Each pair of systems under test, at each level, in both pools."""
    out: list[dict[str, Any]] = []
    for name in POOLS:
        named: list[dict[str, Any]] = []
        both: list[tuple[list[Case], list[Case]]] = []
        for a, b in _tested(systems):
            ones, others = pool(a.cases, name), pool(b.cases, name)
            for level in LEVELS:
                first = [c for c in ones if c.level == level]
                second = [c for c in others if c.level == level]
                if level == NEVER_POOLED or not (first or second):
                    continue
                named.append({"pool": name, "level": level, "first": a.name, "second": b.name})
                both.append((first, second))
        family = [{**names, **effect_entry(found)} for names, found in zip(
            named, differences(both, case_and_trial, draws), strict=True)]
        adjust(family)
        out += family
    return out


def _tested(systems: Sequence[System]) -> Iterable[tuple[System, System]]:
    return itertools.combinations([s for s in systems if not s.floor], 2)


def _common(systems: Sequence[System]) -> list[dict[str, Any]]:
    """How many sessions (case and trial) each pair of systems under test holds in common, scored or
    not, and how many one of them alone."""
    out = []
    for a, b in _tested(systems):
        first, second = ({case_and_trial(c) for c in s.cases} for s in (a, b))
        out.append({"first": a.name, "second": b.name, "common": len(first & second),
                    "only_first": len(first - second), "only_second": len(second - first)})
    return out


def _flips_by_effect(systems: Sequence[System]) -> list[dict[str, Any]]:
    """Every conversation of a system that passed at one level of an effect and failed at the other.
    """
    out = []
    for system in systems:
        if system.floor:
            continue
        for name, (plus, minus) in EFFECTS.items():
            pairs = paired(*sides(system.cases, name), conversation_and_trial)
            out += [{"kind": "effect", "system": system.name, "second": None, "name": name,
                     **_flip(a), "passed": plus if a.passed else minus} for a, _ in pairs.flipped]
    return out


def _flips_by_system(systems: Sequence[System]) -> list[dict[str, Any]]:
    """Every case that one system of a pair passed and the other failed, but on L4a."""
    out = []
    for a, b in _tested(systems):
        first, second = ([c for c in s.cases if c.level != NEVER_POOLED] for s in (a, b))
        out += [{"kind": "pair", "system": a.name, "second": b.name, "name": one.level,
                 **_flip(one), "passed": a.name if one.passed else b.name}
                for one, _ in paired(first, second, case_and_trial).flipped]
    return out


def _flip(case: Case) -> dict[str, Any]:
    return {"conversation": case.conversation, "trial": case.trial, "action": str(case.action)}


def _adjust_effects(systems: Sequence[System], document: dict[str, Any]) -> None:
    for name in POOLS:
        adjust([document["systems"][s.name]["effects"][name][e]
                for s in systems if not s.floor for e in EFFECTS])


def adjust(family: Sequence[dict[str, Any]]) -> None:
    """Holm over the clustered p of all entries that have one; words from the adjusted p."""
    tested = [entry for entry in family if entry["p_clustered"] is not None]
    for entry, p in zip(tested, holm([e["p_clustered"] for e in tested]), strict=True):
        entry["p_holm"] = p
        entry["family"] = len(tested)
        if entry["verdict"] == "not adjusted":
            entry["verdict"] = "resolved" if p < ALPHA else "not resolved"
