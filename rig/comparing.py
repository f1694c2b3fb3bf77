"""Runs as systems to be compared: read, checked for being comparable, named."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from audio.errors import InputError
from probes.expand import base_stream_id
from probes.manifest import Case as PlannedCase
from rig.ledger import dumps
from rig.sent import condition_texts
from rig.store import RunFolder, RunInfo, read_text
from rig.stored import require_fresh
from sweeps.comparison import System
from sweeps.effects import Case
from verifiers.scene import Action
from verifiers.verdict import Outcome

FLOORS = frozenset({"silent", "monologue", "echo", "metronome", "long_endpoint", "eager", "random",
                    "oracle", "inverse"})
"""Agents of known behaviour, by adapter name."""
_SAME_RUN = ("suite", "suite_construction_sha256", "suite_audio_sha256", "bounds")
_SAME_SCORES = ("thresholds", "vad", "playout")


def load_systems(paths: Sequence[Path]) -> list[System]:
    """One system a run, in the order given. Agents of known behaviour are floors beside systems;
    where nothing else is given they are the systems.

    Raises `InputError` for a run that is not scored, that went on since, or whose suite, audio,
    schedule bounds, thresholds, detector or playout are not those of the first; and when a run has
    no case in common with the first.
    """
    systems: list[System] = []
    names = _names(paths)
    first: tuple[Path, RunInfo, dict[str, Any]] | None = None
    seen: dict[Path, Path] = {}
    for path, name in zip(paths, names, strict=True):
        if path.resolve() in seen:
            raise InputError(f"{path}: expected different runs, got this one twice")
        seen[path.resolve()] = path
        run = RunFolder(path)
        info, scores = run.read_info(), _scores(run)
        if first is None:
            first = path, info, scores
        else:
            _check_alike(first, (path, info, scores))
        systems.append(_system(run, info, scores, name))
    _check_common(systems)
    if all(s.floor for s in systems):
        return [replace(s, floor=False) for s in systems]
    return systems


def _names(paths: Sequence[Path]) -> list[str]:
    """The names of the folders, each followed by the path where two are alike."""
    folders = [path.resolve().name for path in paths]
    return [name if folders.count(name) == 1 else f"{name} ({path})"
            for name, path in zip(folders, paths, strict=True)]


def _scores(run: RunFolder) -> dict[str, Any]:
    require_fresh(run)
    where = run.scores_path
    text = read_text(where, f"a scored run; run `rig score {run.path}` first")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("cases"), list) \
            or any(name not in found for name in (*_SAME_SCORES, "attempts")):
        raise InputError.expected("scores as `rig score` writes them", got="something else",
                                  where=where)
    return found


def _check_alike(first: tuple[Path, RunInfo, dict[str, Any]],
                 other: tuple[Path, RunInfo, dict[str, Any]]) -> None:
    before, now = first[1].model_dump(), other[1].model_dump()
    apart = [name for name in _SAME_RUN if before[name] != now[name]]
    apart += [name for name in _SAME_SCORES if first[2][name] != other[2][name]]
    if apart:
        told = {**before, **first[2]}, {**now, **other[2]}
        details = "; ".join(f"{name} {_short(told[0][name])} and {_short(told[1][name])}"
                            for name in apart)
        raise InputError(f"{other[0]}: expected a run of the same suite, audio and schedule, "
                         f"scored alike, as {first[0]}; got {details}")


def _short(value: object) -> str:
    text = value if isinstance(value, str) else dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _system(run: RunFolder, info: RunInfo, scores: dict[str, Any], name: str) -> System:
    planned = {case.case_id: case for case in run.read_cases()}
    cases: list[Case] = []
    seen: set[tuple[str, int]] = set()
    flags: dict[str, int] = {}
    for number, entry in enumerate(scores["cases"]):
        try:
            case = planned[entry["case_id"]]
            _check_entry(entry, case, info.trials, seen)
            cases.append(Case(
                conversation=case.conversation_id, stream=base_stream_id(case.stream_id),
                role=case.role, probe=case.probe_id, level=case.level,
                action=Action(entry["expected_action"]), trial=entry["trial"],
                outcome=Outcome(entry["outcome"])))
            for flag in entry["flags"]:
                flags[flag] = flags.get(flag, 0) + 1
        except (KeyError, TypeError, ValueError) as error:
            raise InputError.expected("a case of this run with its verdict",
                                      got=f"a damaged entry ({error})",
                                      where=f"{run.scores_path}: cases[{number}]") from error
    if len(cases) != len(planned) * info.trials:
        raise InputError.expected(
            f"a verdict, or why there is none, for all of {len(planned) * info.trials} sessions",
            got=len(cases), where=run.scores_path)
    notes = [f"adapter {info.adapter.name} {info.adapter.version}", f"{info.clock} clock"]
    notes += [f"condition {text}" for text in condition_texts(info.conditions)]
    notes += [f"{flag}: {n}" for flag, n in sorted(flags.items())]
    return System(name, tuple(cases), info.adapter.name in FLOORS, tuple(notes))


def _check_entry(entry: dict[str, Any], case: PlannedCase, trials: int,
                 seen: set[tuple[str, int]]) -> None:
    """Raise `ValueError` for an entry that is not one of the run's sessions, or is there twice."""
    trial, action = entry["trial"], entry["expected_action"]
    if type(trial) is not int or not 1 <= trial <= trials:
        raise ValueError(f"trial {trial!r} of {trials}")
    if (case.case_id, trial) in seen:
        raise ValueError(f"{case.case_id} t{trial} again")
    if action != case.expected_action:
        raise ValueError(f"{case.case_id} expects {case.expected_action}, not {action!r}")
    seen.add((case.case_id, trial))


def _check_common(systems: Sequence[System]) -> None:
    first = {(c.conversation, c.level) for c in systems[0].cases}
    for other in systems[1:]:
        if not first & {(c.conversation, c.level) for c in other.cases}:
            raise InputError(f"{other.name}: expected cases in common with {systems[0].name}, got "
                             "none")
