"""A run as gates see it: every planned session with its verdict, read once and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rig.comparing import Loaded, load_runs
from rig.gate.figures import STATUSES, Figure, Session, catalogue
from rig.ledger import Attempt, latest
from rig.ledger import read as read_ledger
from rig.report.loading import ScoredRun, load_scored
from rig.report.scored import ScoredCase
from rig.store import RunFolder
from sweeps.effects import Case, Draws
from sweeps.table import NO_LEVEL


@dataclass(frozen=True, slots=True)
class GatedRun:
    """A run as gates see it. `loaded` is `None` for recordings of others (`rig rescore`)."""

    scored: ScoredRun
    sessions: tuple[Session, ...]
    attempts: Mapping[tuple[str, int], Attempt]
    loaded: Loaded | None = None
    baseline: Loaded | None = None

    @property
    def figures(self) -> dict[str, Figure]:
        """What gates can be set on."""
        return catalogue(self.sessions, self.scored.scores["flags"])

    def draws(self) -> Draws | None:
        """Of the bootstrap over the run's own audio streams."""
        if self.loaded is None:
            return None
        return Draws(case.stream for case in self.loaded.system.cases)


def load_gated(path: Path, baseline: Path | None = None) -> GatedRun:
    """Read and check a run, and the one it is held against.

    Raises `InputError` as `rig compare` does: not scored, scored before it went on, damaged, or not
    to be compared with the baseline.
    """
    scored = load_scored([RunFolder(path)])[0]
    return gated(scored, *(reversed(load_runs([baseline, path])) if baseline is not None else ()))


def gated(scored: ScoredRun, loaded: Loaded | None = None, baseline: Loaded | None = None,
          ) -> GatedRun:
    """A run that was read as gates see it. Raises `InputError` where a planned session is not
    accounted for."""
    path = scored.folder.path
    if loaded is None and scored.info is not None:
        loaded = load_runs([path])[0]
    attempts = latest(read_ledger(scored.folder.ledger_path)) if loaded is not None else {}
    paired: Sequence[Case | None] = (loaded.system.cases if loaded is not None
                                     else [None] * len(scored.cases))
    sessions = tuple(_session(case, own, attempts) for case, own
                     in zip(scored.cases, paired, strict=True))
    return GatedRun(scored, sessions, attempts, loaded, baseline)


def _session(case: ScoredCase, paired: Case | None,
             attempts: Mapping[tuple[str, int], Attempt]) -> Session:
    return Session(case.case_id, case.trial, case.action, case.level or NO_LEVEL, case.role,
                   case.outcome, case.reason, case.flags, case.measured, case.limit is not None,
                   None if paired is None else _status(attempts.get((case.case_id, case.trial))),
                   paired)


def _status(attempt: Attempt | None) -> str | None:
    """One of `STATUSES`, `None` for a session that was played or cannot be."""
    status = "not_played" if attempt is None else attempt.status
    return status if status in STATUSES else None
