"""From recordings to measurements to verdicts. No model is needed, and none is asked.

Measuring is done once per detector setting and does not know the thresholds; deciding is cheap
and is done for every threshold. What could not be measured is `unscored` with the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from audio.errors import AudioFileError, InputError
from audio.spans import Spans
from audio.timebase import ns_to_s
from audio.vad import VadSettings
from rig.activity import detected_ns
from rig.ledger import latest, read, why_not_done
from rig.playout import POLICIES, Policy
from rig.record import SessionRecord
from rig.scenes import Identity, case_identity, scene_of
from rig.store import RunFolder
from rig.system import check_record, read_system
from rig.tracks import Track, analyse_tracks, checked_record, make_track, track_channel
from rig.worker_load import SLOW, worker_load
from rig.workers import Workers
from verifiers.decide import decide
from verifiers.measurement import Measurement, measure
from verifiers.scene import Scene
from verifiers.thresholds import Thresholds, effective_limits
from verifiers.verdict import Outcome, Verdict, unsupported

NO_SPANS = Spans()
CHUNK = 16
"""Records measured together: one batch of the detector."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One case under one detector setting and one playout; `problem` says why it is missing."""

    identity: Identity
    measurement: Measurement | None
    problem: str | None
    playout: Policy
    same_as_hold: bool
    flags: tuple[str, ...] = ()
    recorded_ns: int = 0
    user: Spans = NO_SPANS
    model: Spans = NO_SPANS
    window_ns: tuple[int, int] | None = None
    alternates_ns: tuple[tuple[str, int, int], ...] = ()


def measure_records(run: RunFolder, identities: Sequence[Identity], vad: VadSettings,
                    ) -> list[Measured]:
    """Measure sessions under both playouts; the flush row follows its hold row.

    Raises `InputError` where a session is not of the system that the run says it has.
    """
    said = read_system(run)
    out: list[Measured] = []
    tracks: list[tuple[Identity, Track]] = []
    for identity in identities:
        try:
            record = checked_record(run, identity.case_id, identity.trial)
        except InputError as error:
            out += [_missing(identity, policy, str(error)) for policy in POLICIES]
            continue
        check_record(run, record, said)
        tracks += [(identity, make_track(record, policy)) for policy in POLICIES]
    wanted = [t for _, t in tracks if t.policy == "hold" or t.differs_from_hold]
    activities = iter(analyse_tracks(run, wanted))
    hold: Measured | None = None
    for identity, track in tracks:
        if track.policy == "flush" and not track.differs_from_hold:
            assert hold is not None
            out.append(replace(hold, playout="flush"))
            continue
        activity = next(activities)
        try:
            if isinstance(activity, AudioFileError):
                raise activity
            model = detected_ns(activity, track_channel(run, track), vad)
            row = _measured(identity, track, scene_of(track.record, track, model, vad))
        except AudioFileError as error:
            row = _missing(identity, track.policy, str(error))
        out.append(row)
        hold = row if track.policy == "hold" else hold
    return out


def _measured(identity: Identity, track: Track, scene: Scene) -> Measured:
    return Measured(
        identity=identity, measurement=measure(scene), problem=None, playout=track.policy,
        same_as_hold=not track.differs_from_hold, flags=session_flags(track.record),
        recorded_ns=track.recorded_ns, user=scene.user, model=scene.model,
        window_ns=(scene.window.start_ns, scene.window.end_ns),
        alternates_ns=tuple((n, w.start_ns, w.end_ns) for n, w in scene.alternates))


def session_flags(record: SessionRecord) -> tuple[str, ...]:
    """Flags of the schedule, and of a system that lacks a pathway or computes too slowly."""
    flags = set(record.flags)
    capabilities = record.adapter.capabilities
    if not capabilities.get("persona_prompt", True) or not capabilities.get("full_duplex", True):
        flags.add("architecture_constrained")
    load = worker_load(record)
    if load is not None and load.slow:
        flags.add(SLOW)
    return tuple(sorted(flags))


def _missing(identity: Identity, policy: Policy, problem: str) -> Measured:
    return Measured(identity, None, problem, policy, same_as_hold=True)


def measure_run(run: RunFolder, vad: VadSettings, workers: Workers,
                progress: Callable[[int, int], None] | None = None) -> list[Measured]:
    """Measure every planned case and trial of a run, in planned order, hold before flush."""
    info = run.read_info()
    attempts = latest(read(run.ledger_path))
    planned = [case_identity(case, trial) for trial in range(1, info.trials + 1)
               for case in run.read_cases()]
    done: list[Identity] = []
    rows: dict[tuple[str, int], list[Measured]] = {}
    for identity in planned:
        problem = why_not_done(attempts.get((identity.case_id, identity.trial)))
        if problem is None:
            done.append(identity)
            continue
        rows[identity.case_id, identity.trial] = [_missing(identity, p, problem)
                                                  for p in POLICIES]
    finished = 0
    for chunk in _measure_chunks(run, done, vad, workers):
        for row in chunk:
            rows.setdefault((row.identity.case_id, row.identity.trial), []).append(row)
        finished += len(chunk) // len(POLICIES)
        if progress is not None:
            progress(finished, len(done))
    return [row for identity in planned for row in rows[identity.case_id, identity.trial]]


def _measure_chunks(run: RunFolder, done: Sequence[Identity], vad: VadSettings,
                    workers: Workers) -> Iterator[list[Measured]]:
    return workers.in_order([partial(measure_records, run, done[i : i + CHUNK], vad)
                             for i in range(0, len(done), CHUNK)])


def verdict_of(row: Measured, thresholds: Thresholds) -> Verdict:
    """Decide one measured case; a case without a measurement is unscored or unsupported."""
    if row.measurement is None:
        problem = row.problem or "not measured"
        if problem.startswith("unsupported"):
            return unsupported(problem)
        return Verdict(Outcome.UNSCORED, problem)
    action = row.identity.expected_action
    return decide(action, row.measurement, effective_limits(thresholds, row.identity.params,
                                                            action))


def timeline_row(row: Measured) -> dict[str, Any]:
    """What a picture of the case needs, in seconds."""
    def seconds(spans: Spans) -> list[list[float]]:
        return [[ns_to_s(a), ns_to_s(b)] for a, b in spans]

    window = row.window_ns or (0, 0)
    return {
        "recorded_s": ns_to_s(row.recorded_ns),
        "user_spans_s": seconds(row.user),
        "model_spans_s": seconds(row.model),
        "window_s": [ns_to_s(window[0]), ns_to_s(window[1])],
        "alternate_windows_s": {n: [ns_to_s(a), ns_to_s(b)] for n, a, b in row.alternates_ns},
    }


def playout_differences(rows: Sequence[Measured], thresholds: Thresholds) -> list[dict[str, Any]]:
    """Cases whose verdict depends on the playout policy."""
    by_key: dict[tuple[str, int], dict[str, Verdict]] = {}
    for row in rows:
        if not row.same_as_hold or row.playout == "hold":
            by_key.setdefault((row.identity.case_id, row.identity.trial), {})[row.playout] = (
                verdict_of(row, thresholds))
    return [{"case_id": case_id, "trial": trial, "hold": v["hold"].outcome,
             "flush": v["flush"].outcome}
            for (case_id, trial), v in by_key.items()
            if "flush" in v and v["hold"].outcome != v["flush"].outcome]


def attempt_counts(run: RunFolder) -> dict[str, int]:
    """Deciding attempts by status."""
    return dict(sorted(Counter(a.status for a in latest(read(run.ledger_path)).values()).items()))
