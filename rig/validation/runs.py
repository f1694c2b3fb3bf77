"""Scored runs as pools to draw from: what can be drawn, and what balances it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from audio.errors import InputError
from probes.manifest import Case
from rig.report.loading import ScoredRun, load_scored
from rig.report.scored import ScoredCase
from rig.store import RunFolder
from rig.validation.drawing import Candidate
from rig.validation.key import Source


@dataclass(frozen=True, slots=True)
class Drawable:
    """A scored case of a run, with its plan."""

    run: ScoredRun
    case: ScoredCase
    planned: Case

    @property
    def name(self) -> tuple[str, str, int]:
        """System, case, trial: what an item id is made of."""
        return self.run.name, self.case.case_id, self.case.trial


def load_pool(paths: Sequence[Path]) -> tuple[list[ScoredRun], list[Drawable]]:
    """The runs, and every case of theirs that passed or failed.

    Raises `InputError` for a run that is not scored, or has no recordings of its own (`rig
    rescore`): what annotators hear comes from the session records.
    """
    runs = load_scored([RunFolder(path) for path in paths])
    pool = []
    for run in runs:
        if run.info is None:
            raise InputError.expected("a run of `rig run`, with its recordings",
                                      got="no run.json", where=run.folder.path)
        for case in run.cases:
            planned = run.planned.get(case.case_id)
            if planned is None:
                raise InputError.expected("scores of planned cases", got=case.case_id,
                                          where=run.folder.scores_path)
            pool.append(Drawable(run, case, planned))
    return runs, pool


def candidate(item: Drawable, traits: Iterable[str] = (), *, probe: bool = True,
              ) -> Candidate[Drawable]:
    """Balanced over systems, levels, roles and, with `probe`, probes and instances (A.2)."""
    factors = {"system": item.run.name, "level": item.planned.level, "role": item.planned.role}
    if probe:
        factors |= {"probe": item.planned.probe, "instance": str(item.planned.instance)}
    return Candidate(item, "\0".join(str(part) for part in item.name), factors, frozenset(traits))


def one_session(found: Candidate[Drawable]) -> str:
    """Trials of one case with one system are much alike: drawn together only when need be."""
    return "\0".join(found.item.name[:2])


def sources_of(runs: Sequence[ScoredRun]) -> tuple[Source, ...]:
    """The runs as the key names them."""
    return tuple(Source(
        name=run.name, suite=run.info.suite, suite_version=run.info.suite_version,
        construction_sha256=run.info.suite_construction_sha256,
        adapter=f"{run.info.adapter.name} {run.info.adapter.version}", playout=run.playout)
        for run in runs if run.info is not None)
