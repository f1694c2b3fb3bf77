"""What a worker is given of a run, and a session as it is read for a page: once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from audio.errors import InputError
from audio.vad import VadSettings
from probes.manifest import Case as PlannedCase
from rig.planned import StreamFacts
from rig.playout import Policy
from rig.record import SessionRecord
from rig.report.scored import ScoredCase
from rig.store import RunFolder
from rig.system import check_record, read_system
from rig.tracks import Track, check_recording, make_track
from rig.vad_decided import Plan
from verifiers.thresholds import Thresholds

_NOT_KNOWN = ("the recording is not part of this folder: it was scored with rig rescore, from a "
              "manifest")
_NOT_PLANNED = "expected a case that the run planned (cases.jsonl), got another"


@dataclass(frozen=True, slots=True)
class Job:
    """Cases of one run that are prepared together. `audio`: keys of those whose sound goes along,
    `redecided` of those that are decided at every setting of `plan`; `first` is the place of the
    first of them on the page's list."""

    folder: RunFolder
    recorded: bool
    playout: Policy
    thresholds: Thresholds
    vad: VadSettings
    cases: tuple[ScoredCase, ...]
    planned: Mapping[str, PlannedCase]
    streams: Mapping[str, StreamFacts]
    audio: frozenset[str]
    redecided: frozenset[str]
    plan: Plan
    first: int


@dataclass(frozen=True, slots=True)
class Session:
    """`record` is `None` where it cannot be read. Where the case cannot be drawn, `problem` says
    why, and there are no tracks; `flush` is there only where it differs from `hold`."""

    record: SessionRecord | None
    problem: str | None = None
    tracks: Mapping[Policy, Track] = field(default_factory=dict)


def read_session(job: Job, case: ScoredCase) -> Session:
    """The session of a case, and whether its recording is the one that was scored. What a damaged
    scores.json names is no path to read. Raises `InputError` where the session is not of the system
    that the run says it has."""
    if not job.recorded:
        return Session(None, _NOT_KNOWN)
    if case.case_id not in job.planned:
        return Session(None, _NOT_PLANNED)
    row = case.row(job.playout)
    problem = None if row is None else row.problem
    try:
        record = job.folder.read_record(case.case_id, case.trial)
    except InputError as error:
        return Session(None, problem or str(error))
    check_record(job.folder, record, read_system(job.folder))
    if problem is not None:
        return Session(record, problem)
    try:
        check_recording(job.folder, record)
        return Session(record, tracks={track.policy: track for track in _tracks(record)})
    except InputError as error:
        return Session(record, str(error))
    except ValueError as error:  # a rate or a time that no session has
        return Session(record, damaged(error))


def damaged(error: Exception) -> str:
    """The problem of a record that holds what no session does."""
    return f"the session record is damaged ({type(error).__name__}: {error})"


def _tracks(record: SessionRecord) -> Iterator[Track]:
    yield make_track(record, "hold")
    if record.interruptions() and (flush := make_track(record, "flush")).differs_from_hold:
        yield flush
