"""From recordings to measurements to verdicts. No model is needed, and none is asked.

Measuring is done once per detector setting and does not know the thresholds; deciding is cheap
and is done for every threshold. What could not be measured is `unscored` with the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from audio.errors import AudioFileError, InputError
from audio.spans import Spans
from audio.timebase import SESSION_RATE_HZ, ns_to_s, s_to_ns
from audio.vad import VadSettings, spans_ns
from probes.manifest import Case, Params
from rig.ledger import latest, read
from rig.playout import POLICIES, Policy
from rig.record import SessionRecord
from rig.store import RunFolder
from rig.tracks import Track, analyse_tracks, check_files, make_track
from rig.transcript import heard_transcript
from rig.workers import Workers, result
from verifiers.decide import decide
from verifiers.measurement import Measurement, measure
from verifiers.scene import Action, CaseParams, Scene, Window
from verifiers.thresholds import Thresholds, effective_limits
from verifiers.verdict import Outcome, Verdict, unsupported

NO_SPANS = Spans()
CHUNK = 16
"""Records measured together: one batch of the detector."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Which case a row belongs to. `None` where a foreign manifest does not say."""

    case_id: str
    trial: int
    role: str | None
    probe: str | None
    level: str | None
    expected_action: Action
    params: CaseParams


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


def case_identity(case: Case, trial: int) -> Identity:
    return Identity(case.case_id, trial, case.role, case.probe, case.level,
                    Action(case.expected_action), case_params(case.params))


def case_params(params: Params) -> CaseParams:
    return CaseParams(max_wait_s=params.max_wait_s, max_latency_ms=params.max_latency_ms,
                      ceiling_s=params.ceiling_s, max_spans=params.max_spans,
                      min_coverage=params.min_coverage)


def scene_of(record: SessionRecord, track: Track, model: Spans, vad: VadSettings) -> Scene:
    """A record under one playout, as a verifier sees it."""
    windows = record.windows

    def window(start_s: float, end_s: float) -> Window:
        return Window(s_to_ns(start_s), s_to_ns(end_s))

    return Scene(
        expected_action=Action(record.case.expected_action),
        window=window(windows.scored.start_s, windows.scored.end_s),
        model=model,
        user=Spans.of(s for turn in record.turns for s in turn.speech_n).to_ns(SESSION_RATE_HZ),
        recorded_ns=track.recorded_ns,
        params=case_params(record.case.params),
        target_text=record.case.target_text,
        transcript=heard_transcript(record, track.placements, track.recorded_ns),
        readback_from_ns=(None if windows.readback_from_s is None
                          else s_to_ns(windows.readback_from_s)),
        user_offset_ns=s_to_ns(windows.user_offset_s),
        alternates=tuple((name, window(w.start_s, w.end_s))
                         for name, w in sorted(windows.alternates.items())),
        forced="forced" in record.flags,
        merge_gap_ns=s_to_ns(vad.merge_gap_s),
    )


def measure_records(run: RunFolder, identities: Sequence[Identity], vad: VadSettings,
                    ) -> list[Measured]:
    """Measure sessions under both playouts; the flush row follows its hold row."""
    out: list[Measured] = []
    tracks: list[tuple[Identity, Track]] = []
    for identity in identities:
        try:
            record = run.read_record(identity.case_id, identity.trial)
            check_files(run, record)
        except InputError as error:
            out += [_missing(identity, policy, str(error)) for policy in POLICIES]
            continue
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
        if isinstance(activity, AudioFileError):
            row = _missing(identity, track.policy, str(activity))
        else:
            model = spans_ns(activity.probabilities, activity.samples_n, vad)
            row = _measured(identity, track, scene_of(track.record, track, model, vad))
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
    """Flags of the schedule, and of a system that lacks a pathway."""
    flags = set(record.flags)
    capabilities = record.adapter.capabilities
    if not capabilities.get("persona_prompt", True) or not capabilities.get("full_duplex", True):
        flags.add("architecture_constrained")
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
        attempt = attempts.get((identity.case_id, identity.trial))
        if attempt is not None and attempt.status == "done":
            done.append(identity)
            continue
        problem = ("not played yet" if attempt is None
                   else f"{attempt.status}: {attempt.reason or 'no reason given'}")
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
    chunks = [done[i : i + CHUNK] for i in range(0, len(done), CHUNK)]
    if workers.jobs <= 1 or len(chunks) <= 1:
        for chunk in chunks:
            yield measure_records(run, chunk, vad)
        return
    futures = [workers.submit(measure_records, run, chunk, vad) for chunk in chunks]
    try:
        for future in futures:
            yield result(future)
    finally:
        for future in futures:
            future.cancel()


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
