"""Runs as systems to be compared: read, checked for being comparable, named."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from adapters.simulated.reads import READS
from audio.errors import InputError
from probes.expand import base_stream_id
from probes.manifest import Case as PlannedCase
from rig.complete import check_complete
from rig.planned import StreamFacts, read_streams
from rig.playout import Policy
from rig.sent import condition_texts
from rig.store import RunFolder, RunInfo, apart
from rig.stored import read_scores
from rig.system import read_system, system_note
from sweeps.comparison import System
from sweeps.effects import Case
from verifiers.scene import Action
from verifiers.verdict import Outcome

FLOORS = frozenset(READS)
"""Agents of known behaviour, by adapter name."""
_SAME_RUN = ("suite", "bounds")
_SAME_SCORES = ("thresholds", "vad")
_SHOWN = 3
"""Cases that an error names."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """What a run was to play. `planned` is by case id; `streams` is `None` in a run of before."""

    path: Path
    info: RunInfo
    planned: Mapping[str, PlannedCase]
    streams: Mapping[str, StreamFacts] | None


@dataclass(frozen=True, slots=True)
class Loaded(PlannedRun):
    """One scored run, with its verdicts under `playout`."""

    scores: Mapping[str, Any]
    playout: Policy
    system: System


def load_runs(paths: Sequence[Path], playout: Policy | None = None) -> list[Loaded]:
    """The runs in the order given, each with its verdicts under `playout`, or under the one that it
    was scored with. Agents of known behaviour are floors beside systems; where nothing else is
    given they are the systems.

    Raises `InputError` for a run that is not scored, that went on since, or whose suite, schedule
    bounds, thresholds, detector or playout are not those of the first; for two runs whose common
    cases are not the same, audio included; and when a run has no case in common with the first.
    """
    runs: list[Loaded] = []
    seen: set[Path] = set()
    for path, name in zip(paths, run_names(paths), strict=True):
        if path.resolve() in seen:
            raise InputError(f"{path}: expected different runs, got this one twice")
        seen.add(path.resolve())
        run = _load(path, name, playout)
        if runs:
            _check_alike(runs[0], run)
        runs.append(run)
    _check_all_cases(runs)
    if all(run.system.floor for run in runs):
        return [replace(run, system=replace(run.system, floor=False)) for run in runs]
    return runs


def require_same_cases(paths: Sequence[Path]) -> bool:
    """Whether the runs hold the same cases; recordings of others (`rig rescore`) are of no suite,
    and nothing is known of their cases.

    Raises `InputError` where two runs are of different suites, have no case in common, or have
    common cases that are not the same, audio included.
    """
    runs = [_planned(path) for path in paths if RunFolder(path).exists()]
    for other in runs[1:]:
        if other.info.suite != runs[0].info.suite:
            raise InputError(f"{other.path}: expected a run of suite {runs[0].info.suite}, as "
                             f"{runs[0].path}; got one of {other.info.suite}")
    _check_all_cases(runs)
    return all(run.planned.keys() == runs[0].planned.keys() for run in runs)


def _check_all_cases(runs: Sequence[PlannedRun]) -> None:
    for first, other in itertools.combinations(runs, 2):
        _check_cases(first, other)
    for other in runs[1:]:
        if not runs[0].planned.keys() & other.planned.keys():
            raise InputError(f"{other.path}: expected cases in common with {runs[0].path}, got "
                             "none")


def load_systems(paths: Sequence[Path]) -> list[System]:
    """`load_runs` as systems alone, each under the playout that it was scored with."""
    return [run.system for run in load_runs(paths)]


def run_names(paths: Sequence[Path]) -> list[str]:
    """The names of the folders, each followed by the path where two are alike."""
    folders = [path.resolve().name for path in paths]
    return [name if folders.count(name) == 1 else f"{name} ({path})"
            for name, path in zip(folders, paths, strict=True)]


def _planned(path: Path) -> PlannedRun:
    run = RunFolder(path)
    return PlannedRun(path, run.read_info(), {case.case_id: case for case in run.read_cases()},
                      read_streams(run))


def _load(path: Path, name: str, playout: Policy | None) -> Loaded:
    run = RunFolder(path)
    run.read_info()  # that it is a run at all comes before that it is scored
    scores = read_scores(run)
    plan = _planned(path)
    wanted: Policy = playout or scores["playout"]
    return Loaded(path, plan.info, plan.planned, plan.streams, scores, wanted,
                  _system(run, plan.info, scores, plan.planned, wanted, name))


def _check_alike(first: Loaded, other: Loaded) -> None:
    before, now = first.info.model_dump(), other.info.model_dump()
    names = [name for name in _SAME_RUN if before[name] != now[name]]
    told = ({**before, **first.scores, "playout": first.playout},
            {**now, **other.scores, "playout": other.playout})
    names += [name for name in (*_SAME_SCORES, "playout") if told[0][name] != told[1][name]]
    if names:
        details = "; ".join(f"{name} {mine} and {theirs}" for name, mine, theirs in apart(
            *({name: side[name] for name in names} for side in told)))
        either = "; --playout compares both under one" if names == ["playout"] else ""
        raise InputError(f"{other.path}: expected a run of the same suite and schedule, "
                         f"scored alike, as {first.path}; got {details}{either}")


def _check_cases(first: PlannedRun, other: PlannedRun) -> None:
    """Two runs may hold different cases, but a case must be the same in both: what was asked, and
    the samples that were played."""
    one, two = first.info, other.info
    if one.suite_audio_sha256 == two.suite_audio_sha256 and one.cases_sha256 == two.cases_sha256:
        return
    common = [case_id for case_id in first.planned if case_id in other.planned]
    asked = [c for c in common if first.planned[c] != other.planned[c]]
    if asked:
        raise _not_the_same(first, other, "another prompt, action, window or limit", asked, common)
    if one.suite_audio_sha256 == two.suite_audio_sha256:
        return
    for run in (first, other):
        if run.streams is None and common:
            raise InputError(
                f"{run.path}: expected streams.jsonl, as suite_audio_sha256 is not that of the "
                "other run and the cases differ in part; got a run of an older rig (`rig run "
                "--resume` writes it)")
    heard = [c for c in common if _audio(first, c) != _audio(other, c)]
    if heard:
        raise _not_the_same(first, other, "other audio", heard, common)


def _audio(run: PlannedRun, case_id: str) -> tuple[str, str]:
    assert run.streams is not None
    stream_id = run.planned[case_id].stream_id
    facts = run.streams.get(stream_id)
    if facts is None:
        raise InputError.expected(f"stream {stream_id} of {case_id}", got="none",
                                  where=RunFolder(run.path).streams_path)
    return facts.turn1_sha256, facts.turn2_sha256


def _not_the_same(first: PlannedRun, other: PlannedRun, what: str, differ: Sequence[str],
                  common: Sequence[str]) -> InputError:
    more = ", ..." if len(differ) > _SHOWN else ""
    return InputError(f"{other.path}: expected the cases in common with {first.path} to be the "
                      f"same, got {what} in {len(differ)} of {len(common)} "
                      f"({', '.join(differ[:_SHOWN])}{more})")


def _system(run: RunFolder, info: RunInfo, scores: Mapping[str, Any],
            planned: Mapping[str, PlannedCase], playout: Policy, name: str) -> System:
    check_complete(run, scores, planned, info.trials)
    differences = _differences(run, scores, playout)
    cases: list[Case] = []
    flags: dict[str, int] = {}
    for number, entry in enumerate(scores["cases"]):
        try:
            case = planned[entry["case_id"]]
            outcome = differences.get((case.case_id, entry["trial"]), entry["outcome"])
            cases.append(as_case(case, Outcome(outcome), entry["trial"]))
            for flag in entry["flags"]:
                flags[flag] = flags.get(flag, 0) + 1
        except (KeyError, TypeError, ValueError) as error:
            raise InputError.expected("a case of this run with its verdict",
                                      got=f"a damaged entry ({error})",
                                      where=f"{run.scores_path}: cases[{number}]") from error
    notes = [f"adapter {info.adapter.name} {info.adapter.version}", f"{info.clock} clock",
             f"playout {playout}", *system_note(read_system(run))]
    notes += [f"condition {text}" for text in condition_texts(info.conditions)]
    notes += [f"{flag}: {n}" for flag, n in sorted(flags.items())]
    return System(name, tuple(cases), info.adapter.name in FLOORS, tuple(notes))


def as_case(case: PlannedCase, outcome: Outcome, trial: int = 1) -> Case:
    """A planned case and its verdict, as the statistics take it."""
    return Case(conversation=case.conversation_id, stream=base_stream_id(case.stream_id),
                role=case.role, probe=case.probe_id, level=case.level,
                action=Action(case.expected_action), trial=trial, outcome=outcome)


def _differences(run: RunFolder, scores: Mapping[str, Any],
                 playout: Policy) -> dict[tuple[str, int], str]:
    """Verdicts under `playout` where they depend on it."""
    out: dict[tuple[str, int], str] = {}
    for number, entry in enumerate(scores["playout_differences"]):
        try:
            out[entry["case_id"], entry["trial"]] = entry[playout]
        except (KeyError, TypeError) as error:
            raise InputError.expected("a verdict that depends on the playout",
                                      got=f"a damaged entry ({error})",
                                      where=f"{run.scores_path}: playout_differences[{number}]",
                                      ) from error
    return out
