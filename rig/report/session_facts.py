"""All that a page takes from a session: made in one go, so that a record and a recording are read
once for all sections. This is what the workers of a report run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from audio.errors import AudioFileError
from rig.activity import Activity
from rig.playout import Policy
from rig.report.case_data import CaseParts, case_parts
from rig.report.collector import collector_paused
from rig.report.job import Job, Session, read_session
from rig.report.said import Said, said
from rig.report.scored import ScoredCase
from rig.scenes import case_identity
from rig.timing import TimingCertificate
from rig.tracks import analyse_tracks
from rig.vad_decided import Codes, decide_session


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """Of one case. `timing` is `None` where its record cannot be read, `codes` (its verdict at
    every setting of the job's plan) where it was not among those to be decided again, or cannot
    be."""

    parts: CaseParts
    said: Said
    timing: TimingCertificate | None
    codes: Codes | None


def facts_of(job: Job) -> list[SessionFacts]:
    """In the order of the job's cases."""
    with collector_paused():
        return _all_facts(job)


def _all_facts(job: Job) -> list[SessionFacts]:
    sessions = [read_session(job, case) for case in job.cases]
    tracks = [(i, track) for i, session in enumerate(sessions)
              for track in session.tracks.values()]
    found = analyse_tracks(job.folder, [track for _, track in tracks])
    activities: list[dict[Policy, Activity | AudioFileError]] = [{} for _ in sessions]
    for (i, track), activity in zip(tracks, found, strict=True):
        activities[i][track.policy] = activity
    return [_facts(job, i, session, own)
            for i, (session, own) in enumerate(zip(sessions, activities, strict=True))]


def _facts(job: Job, at: int, session: Session,
           activities: Mapping[Policy, Activity | AudioFileError]) -> SessionFacts:
    case, record = job.cases[at], session.record
    words = Said() if record is None else said(record)
    # With more words than a page takes a read-back is not compared once a setting.
    long = words.cut and record is not None and bool(record.case.target_text)
    return SessionFacts(
        case_parts(job, case, session, activities, str(job.first + at)), words,
        None if record is None else record.timing,
        None if long else _codes(job, case, session, activities))


def _codes(job: Job, case: ScoredCase, session: Session,
           activities: Mapping[Policy, Activity | AudioFileError]) -> Codes | None:
    if case.key not in job.redecided or not session.tracks:
        return None
    policy: Policy = job.playout if job.playout in session.tracks else "hold"
    return decide_session(job.folder, session.tracks[policy], activities[policy],
                          case_identity(job.planned[case.case_id], case.trial), job.plan,
                          job.thresholds)
