"""What was not scored and why, and the fingerprint of everything that went in. Nothing is left out
of the counts; of reasons and attempts the most frequent are shown and the rest are counted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from audio.errors import InputError
from audio.files import sha256_file
from rig.ledger import Attempt, latest, read
from rig.report.cut import cut
from rig.report.figures import Cell, Table
from rig.report.loading import ScoredRun
from rig.report.page import Section, render
from rig.system import read_system
from rig.tables import alike
from verifiers.verdict import Outcome

MOST_REASONS = 40
"""Rows of a table of reasons, of one run. Ours."""


def section(runs: Sequence[ScoredRun]) -> Section:
    """Three tables of trouble, then one of fingerprints a run."""
    return Section("inputs", "Not scored, and inputs", render(
        "inputs.html.j2", sessions=_sessions(runs), attempts=_attempts(runs),
        reasons=_reasons(runs), flags=_flags(runs),
        fingerprints=[_fingerprint(run) for run in runs]))


def _sessions(runs: Sequence[ScoredRun]) -> Table:
    statuses = ("done", "infra_error", "void", "unsupported")
    rows: list[list[Cell]] = []
    for run in runs:
        outcomes = Counter(case.outcome for case in run.cases)
        told = run.scores["attempts"]
        played = sum(told.values())
        rows.append([
            run.name, len(run.cases), *(told.get(status, 0) for status in statuses),
            None if run.info is None else len(run.cases) - played,
            *(outcomes[o] for o in (Outcome.UNSCORED, Outcome.UNSUPPORTED))])
    return Table("Sessions by the attempt that decides them, and verdicts outside every rate",
                 ["system", "cases", *statuses, "not played", "unscored", "unsupported"], rows)


def _attempts(runs: Sequence[ScoredRun]) -> Table | None:
    """Every attempt that was not done, those that were made good included."""
    rows: list[list[Cell]] = []
    for run in runs:
        attempts = read(run.folder.ledger_path) if run.info is not None else []
        deciding = {id(attempt) for attempt in latest(attempts).values()}
        groups: dict[tuple[str, str], list[Attempt]] = defaultdict(list)
        for attempt in attempts:
            if attempt.status != "done":
                groups[attempt.status, alike(attempt.reason or "no reason given",
                                             attempt.case_id)].append(attempt)
        ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
        for (status, _), found in ordered[:MOST_REASONS]:
            left = sum(id(attempt) in deciding for attempt in found)
            reason = cut(found[0].reason or "no reason given")
            rows.append([run.name, status, len(found), left, reason,
                         f"{found[0].case_id} t{found[0].trial}"])
        rest = [attempt for _, found in ordered[MOST_REASONS:] for attempt in found]
        if rest:
            rows.append([run.name, "others", len(rest), sum(id(a) in deciding for a in rest),
                         f"{len(ordered) - MOST_REASONS} more reasons", None])
    if not rows:
        return None
    return Table("Attempts that failed, were void or unsupported; left: no later attempt was done",
                 ["system", "status", "attempts", "left", "reason, of one", "case"], rows,
                 frozenset({1, 4, 5}))


def _reasons(runs: Sequence[ScoredRun]) -> Table | None:
    """Why verdicts are missing; reasons that differ in numbers alone are one."""
    rows: list[list[Cell]] = []
    for run in runs:
        groups: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
        for case in run.cases:
            if case.outcome not in (Outcome.PASS, Outcome.FAIL):
                groups[str(case.outcome), alike(case.reason, case.case_id)].append(
                    (cut(case.reason), f"{case.case_id} t{case.trial}"))
        ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
        rows += [[run.name, outcome, len(found), *found[0]]
                 for (outcome, _), found in ordered[:MOST_REASONS]]
        rest = sum(len(found) for _, found in ordered[MOST_REASONS:])
        if rest:
            rows.append([run.name, "others", rest,
                         f"{len(ordered) - MOST_REASONS} more reasons", None])
    if not rows:
        return None
    return Table("Cases without a verdict", ["system", "outcome", "cases", "reason, of one",
                                             "case"], rows, frozenset({1, 3, 4}))


def _flags(runs: Sequence[ScoredRun]) -> Table | None:
    rows: list[list[Cell]] = [[run.name, flag, n] for run in runs
                              for flag, n in run.scores["flags"].items()]
    rows += [[run.name, "verdict depends on the playout", n] for run in runs
             if (n := len(run.scores["playout_differences"]))]
    return Table("Flags", ["system", "flag", "cases"], rows, frozenset({1})) if rows else None


def _fingerprint(run: ScoredRun) -> Table:
    """All that the numbers come from: the run's own fingerprint, how it was scored, the files."""
    facts: list[tuple[str, str]] = [("playout", str(run.playout))]
    if run.info is not None:
        facts += _flat("", run.info.model_dump(exclude={"conditions"}))
        facts += [("condition", text) for text in run.conditions]
        facts += _flat("system.", read_system(run.folder) or {})
    facts += [(f"scored: {name}", str(value)) for part in ("thresholds", "vad")
              for name, value in run.scores[part].items()]
    folder = run.folder
    for path in (folder.info_path, folder.system_path, folder.cases_path, folder.streams_path,
                 folder.ledger_path, folder.measurements_path, folder.scores_path):
        if path.exists():
            try:
                facts.append((f"sha256 {path.name}", sha256_file(path)))
            except InputError as error:
                facts.append((f"sha256 {path.name}", f"unreadable ({error})"))
    return Table(run.name, ["what", "value"], facts, frozenset({1}))


def _flat(prefix: str, tree: dict[str, object]) -> list[tuple[str, str]]:
    out: list[tuple[str, str]] = []
    for name, value in tree.items():
        if isinstance(value, dict):
            out += _flat(f"{prefix}{name}.", value)
        else:
            out.append((f"{prefix}{name}", str(value)))
    return out
