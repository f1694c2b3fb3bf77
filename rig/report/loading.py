"""Scored runs as a page needs them: read once, checked once.

`measurements.jsonl` is checked here in full, `scores.json` by `rig.recount` and `rig.complete`, so
that a section meets no missing field, no aggregate that the cases contradict and no session left
out. A run that `rig rescore` scored has no plan and no recordings of its own: `info` is `None`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from audio.errors import InputError
from audio.vad import VadSettings
from probes.manifest import Case as PlannedCase
from rig.comparing import run_names
from rig.complete import check_complete
from rig.playout import Policy
from rig.report.scored import CaseRow, ScoredCase, case_key
from rig.scores_model import CaseEntry, DifferenceEntry, Lenient, check
from rig.sent import condition_texts
from rig.store import RunFolder, RunInfo
from rig.stored import measurement_lines, read_scores, scored_settings
from rig.tables import changed_settings
from verifiers.record import from_json
from verifiers.scene import CaseParams
from verifiers.thresholds import Thresholds
from verifiers.verdict import Outcome

_Seconds = Annotated[float, Field(ge=0)]
_Pair = Annotated[tuple[float, float], Field(strict=False)]


class _Row(Lenient):
    """One line of `measurements.jsonl`."""

    case_id: str
    trial: int
    playout: Literal["hold", "flush"]
    problem: str | None
    params: dict[str, Any]
    measurement: dict[str, Any] | None
    recorded_s: _Seconds
    user_spans_s: list[_Pair]
    model_spans_s: list[_Pair]
    window_s: _Pair
    alternate_windows_s: dict[str, _Pair]


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """One scored run, checked. `index` is its place on the page, from 0; `name` is its folder's,
    unique on the page. `scores` is the whole document of `scores.json`."""

    index: int
    name: str
    folder: RunFolder
    info: RunInfo | None
    planned: Mapping[str, PlannedCase]
    """By case id; empty for a rescored run."""
    scores: Mapping[str, Any]
    thresholds: Thresholds
    vad: VadSettings
    playout: Policy
    cases: tuple[ScoredCase, ...]

    @property
    def changed(self) -> str:
        """Thresholds and detector settings that are not the defaults; empty where all are."""
        return changed_settings(self.scores)

    @property
    def conditions(self) -> list[str]:
        """Line conditions, as they were given."""
        return [] if self.info is None else condition_texts(self.info.conditions)


def load_scored(folders: Sequence[RunFolder]) -> list[ScoredRun]:
    """Read and check every run. Raises `InputError` where one is not scored, went on since, is
    damaged, or is given twice."""
    paths = [folder.path for folder in folders]
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise InputError(f"{path}: expected different runs, got this one twice")
        seen.add(path.resolve())
    return [_load(index, name, folder) for index, (name, folder) in
            enumerate(zip(run_names(paths), folders, strict=True))]


def _load(index: int, name: str, folder: RunFolder) -> ScoredRun:
    scores = read_scores(folder)
    info = folder.read_info() if folder.exists() else None
    planned = {} if info is None else {case.case_id: case for case in folder.read_cases()}
    if info is not None:
        check_complete(folder, scores, planned, info.trials)
    where = folder.scores_path
    try:
        thresholds, vad = scored_settings(scores)
    except (ValueError, KeyError, TypeError, InputError) as error:
        raise InputError.expected("thresholds and detector settings of `rig score`",
                                  got=f"others ({error})", where=where) from error
    differences = [check(DifferenceEntry, entry, f"{where}: playout_differences[{number}]")
                   for number, entry in enumerate(scores["playout_differences"])]
    playout: Policy = scores["playout"]
    others = {(d.case_id, d.trial): d.flush if playout == "hold" else d.hold for d in differences}
    rows = _rows(folder)
    entries = [check(CaseEntry, data, f"{where}: cases[{number}]")
               for number, data in enumerate(scores["cases"])]
    return ScoredRun(index=index, name=name, folder=folder, info=info, planned=planned,
                     scores=scores, thresholds=thresholds, vad=vad, playout=playout,
                     cases=tuple(_case(case_key(index, *key), entry, rows.get(key, {}),
                                       others.get(key))
                                 for entry in entries for key in [(entry.case_id, entry.trial)]))


def _case(key: str, entry: CaseEntry, rows: Mapping[Policy, CaseRow],
          other: Outcome | None) -> ScoredCase:
    return ScoredCase(
        key=key, case_id=entry.case_id, trial=entry.trial, role=entry.role, probe=entry.probe,
        level=entry.level, action=entry.expected_action, outcome=entry.outcome,
        reason=entry.reason, value=entry.value, unit=entry.unit, limit=entry.limit,
        measured=entry.measured, flags=tuple(entry.flags),
        alternates=tuple((n, a.outcome, a.reason) for n, a in sorted(entry.alternates.items())),
        rows=rows, other_outcome=other)


def _rows(folder: RunFolder) -> dict[tuple[str, int], dict[Policy, CaseRow]]:
    if not folder.measurements_path.exists():
        return {}  # verdicts alone still make a page
    out: dict[tuple[str, int], dict[Policy, CaseRow]] = {}
    for number, data in measurement_lines(folder):
        where = f"{folder.measurements_path}:{number}"
        row = check(_Row, data, where)
        try:
            params = CaseParams(**row.params)
        except TypeError as error:
            raise InputError.expected("parameters of a case", got=str(error),
                                      where=where) from error
        measurement = None if row.measurement is None else from_json(row.measurement, where)
        out.setdefault((row.case_id, row.trial), {})[row.playout] = CaseRow(
            playout=row.playout, measurement=measurement, problem=row.problem, params=params,
            recorded_s=row.recorded_s, user_s=tuple(row.user_spans_s),
            model_s=tuple(row.model_spans_s), window_s=row.window_s,
            alternates_s=tuple(sorted(row.alternate_windows_s.items())))
    return out
