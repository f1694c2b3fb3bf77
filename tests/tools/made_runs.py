"""Scored runs made of scenes, as a page is given them: no recording, no file."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from random_scenes import LEVELS, random_scene

from audio.spans import Spans
from audio.timebase import ns_to_s
from audio.vad import VadSettings
from rig.report import case_list
from rig.report.loading import ScoredRun
from rig.report.page import Section
from rig.report.said import Said
from rig.report.scored import CaseRow, ScoredCase, case_key
from rig.scenes import Identity
from rig.scores import decide_all, scores_document
from rig.scoring import Measured
from rig.store import RunFolder
from verifiers.measurement import measure
from verifiers.scene import Action, Scene
from verifiers.thresholds import DEFAULTS, Thresholds
from verifiers.verdict import Outcome

ROLES = ("R1", "R2", None, "R8")
DEFAULT_VAD = VadSettings()


def scenes(seed: int, n: int) -> list[Scene]:
    """Scenes of every action in turn, many of them exactly at a limit."""
    rng, actions = random.Random(seed), list(Action)
    return [random_scene(rng, actions[i % len(actions)]) for i in range(n)]


def scored_run(name: str, of: Sequence[Scene], *, index: int = 0,
               thresholds: Thresholds = DEFAULTS, folder: Path = Path("made")) -> ScoredRun:
    """A run of these scenes, scored as `rig score` does, and one case that was never played."""
    rows = []
    for i, scene in enumerate(of):
        level = (*LEVELS, None)[i // 9 % 7]
        identity = Identity(f"R{i % 8 + 1}-C{i % 5}-{i}-{level}", 1, ROLES[i // 9 % 4],
                            f"C{i % 5}", level, scene.expected_action, scene.params)
        rows.append(Measured(identity, measure(scene), None, "hold", same_as_hold=True,
                             flags=("architecture_constrained",) if i % 7 == 0 else (),
                             recorded_ns=scene.recorded_ns, user=scene.user, model=scene.model,
                             window_ns=(scene.window.start_ns, scene.window.end_ns)))
    lost = Identity("R1-A-0-L1", 1, "R1", "A", "L1", Action.INTERRUPT, rows[0].identity.params)
    rows.append(Measured(lost, None, "infra_error: lost", "hold", same_as_hold=True))
    return run_of(name, rows, index=index, thresholds=thresholds, folder=folder)


def run_of(name: str, rows: Sequence[Measured], *, index: int = 0,
           thresholds: Thresholds = DEFAULTS, folder: Path = Path("made")) -> ScoredRun:
    """These measurements under their hold playout, decided under `thresholds`."""
    scored = decide_all(rows, thresholds, "hold")
    document = scores_document(scored, thresholds=thresholds, vad=DEFAULT_VAD, playout="hold")
    cases = tuple(_case(index, one.row, entry)
                  for one, entry in zip(scored, document["cases"], strict=True))
    return ScoredRun(index=index, name=name, folder=RunFolder(folder), info=None, planned={},
                     scores=document, thresholds=thresholds, vad=DEFAULT_VAD, playout="hold",
                     cases=cases)


def listed(runs: Sequence[ScoredRun]) -> Section:
    """Their list of cases, in which nothing was said."""
    return case_list.section(runs, [Said()] * sum(len(run.cases) for run in runs))


def measured_rows(run: ScoredRun) -> list[Measured]:
    """The other way: what a scored run holds, as scoring takes it."""
    out = []
    for case in run.cases:
        row = case.row(run.playout)
        assert row is not None
        out.append(Measured(
            Identity(case.case_id, case.trial, case.role, case.probe, case.level, case.action,
                     row.params),
            row.measurement, row.problem, "hold", same_as_hold=True, flags=case.flags))
    return out


def _case(index: int, row: Measured, entry: dict) -> ScoredCase:  # type: ignore[type-arg]
    def seconds(spans: Spans) -> tuple[tuple[float, float], ...]:
        return tuple((ns_to_s(a), ns_to_s(b)) for a, b in spans)

    window = row.window_ns or (0, 0)
    case_row = CaseRow("hold", row.measurement, row.problem, row.identity.params,
                       ns_to_s(row.recorded_ns), seconds(row.user), seconds(row.model),
                       (ns_to_s(window[0]), ns_to_s(window[1])), ())
    identity = row.identity
    return ScoredCase(
        key=case_key(index, identity.case_id, identity.trial), case_id=identity.case_id,
        trial=identity.trial, role=identity.role, probe=identity.probe, level=identity.level,
        action=identity.expected_action, outcome=Outcome(entry["outcome"]),
        reason=entry["reason"], value=entry["value"], unit=entry["unit"], limit=entry["limit"],
        measured=entry["measured"], flags=tuple(entry["flags"]), alternates=(),
        rows={"hold": case_row}, other_outcome=None)
