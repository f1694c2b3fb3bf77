"""Runs under other people's definitions, ours beside them.

A figure is `Σ total / Σ n` over sessions (verifiers/definitions/talk.py). Its interval is Wilson's
for shares of counted events, and else the percentile bootstrap over audio streams. A session that
adds nothing to a figure is counted under its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from audio.errors import AudioFileError, InputError
from audio.spans import Spans
from audio.timebase import NS_PER_MS, NS_PER_S, SESSION_RATE_HZ
from audio.vad import VadSettings, spans_ns
from probes.expand import base_stream_id
from probes.manifest import Case
from rig.ledger import latest, read
from rig.scenes import case_identity, scene_of
from rig.scoring import CHUNK
from rig.store import RunFolder
from rig.tracks import Track, analyse_tracks, checked_record, make_track
from sweeps.effects import Draws
from sweeps.intervals import wilson
from verifiers.decide import decide
from verifiers.definitions import eva, full_duplex_bench, tau2_voice
from verifiers.definitions.talk import Metric, Reading, Talk, none_because, one, share
from verifiers.label import Label, label
from verifiers.measurement import Measurement, measure
from verifiers.scene import Action, Scene
from verifiers.thresholds import Limits, Thresholds, effective_limits
from verifiers.verdict import Outcome, Verdict

FAMILIES: dict[str, tuple[Metric, ...]] = {
    "fdb": full_duplex_bench.METRICS, "tau2": tau2_voice.METRICS, "eva": eva.METRICS}
"""Full-Duplex-Bench, tau2-bench's voice panel, EVA's turn taking."""
SILERO_DEFAULTS = VadSettings(min_speech_ms=250, min_silence_ms=100, merge_gap_s=0)
"""silero-vad 6.2.1, `get_speech_timestamps`: what Full-Duplex-Bench calls without arguments."""
BARGE_INS = (Action.YIELD, Action.CONTINUE, Action.ACCEPT_OVERLAP)


@dataclass(frozen=True, slots=True)
class Ours:
    """Our verdict and measurement of one session."""

    action: Action
    measurement: Measurement
    verdict: Verdict
    limits: Limits


@dataclass(frozen=True, slots=True)
class Counterpart:
    """Our figure that asks the nearest question: on which actions, and what a session adds."""

    name: str
    actions: tuple[Action, ...]
    read: Callable[[Ours], Reading]


def _passed(ours: Ours) -> Reading:
    if ours.verdict.outcome in (Outcome.PASS, Outcome.FAIL):
        return share(ours.verdict.outcome is Outcome.PASS)
    return none_because(ours.verdict.reason)


def _failed(ours: Ours) -> Reading:
    passed = _passed(ours)
    return replace(passed, total=passed.n - passed.total)


def _floor_taken(ours: Ours) -> Reading:
    found = label(ours.measurement.scored, ours.limits.ceiling_ns)
    return none_because("no label") if found is None else share(found is Label.FLOOR_TAKE)


def _short_per_s(ours: Ours) -> Reading:
    reading = ours.measurement.scored
    short = sum(start >= 0 and end - start < ours.limits.ceiling_ns
                for start, end in reading.spans_ns)
    return one(short * NS_PER_S / reading.length_ns)


def _time(ns: int | None, reason: str, unit_ns: int) -> Reading:
    return none_because(reason) if ns is None else one(ns / unit_ns)


def _onset(ours: Ours) -> Reading:
    return _time(ours.measurement.scored.onset_ns, "no onset in the window", NS_PER_S)


def _reply(unit_ns: int) -> Callable[[Ours], Reading]:
    return lambda ours: _time(ours.measurement.onset_after_user_offset_ns,
                              "no onset in the window behind the user's end", unit_ns)


def _offset(unit_ns: int) -> Callable[[Ours], Reading]:
    def read_offset(ours: Ours) -> Reading:
        reading = ours.measurement.scored
        if not reading.held_at_w0:
            return none_because("the model held no floor at the barge-in")
        known = None if reading.first_offset_cut else reading.first_offset_ns
        return _time(known, "the recording ends before the model stops", unit_ns)
    return read_offset


def _overlap_ms(ours: Ours) -> Reading:
    overlap = ours.measurement.scored.overlap_ns
    return one(overlap / NS_PER_MS) if overlap else none_because("no overlap in the window")


def _held(ours: Ours) -> Reading:
    return share(ours.measurement.scored.held_at_w0)


_ANY = tuple(Action)
_LISTEN_FAILED = Counterpart("LISTEN failed", (Action.LISTEN,), _failed)
_TURN_PASSED = Counterpart("TAKE_TURN passed", (Action.TAKE_TURN,), _passed)
_YIELD_PASSED = Counterpart("YIELD passed", (Action.YIELD,), _passed)
_CONTINUE_PASSED = Counterpart("CONTINUE passed", (Action.CONTINUE,), _passed)
_FLOOR = Counterpart("label floor_take in the window", (Action.BACKCHANNEL,), _floor_taken)

COUNTERPARTS: dict[tuple[str, str], Counterpart] = {
    ("fdb", "pause.tor"): _LISTEN_FAILED,
    ("fdb", "turn.tor"): _TURN_PASSED,
    ("fdb", "turn.latency"): Counterpart("onset from w0", (Action.TAKE_TURN,), _onset),
    ("fdb", "backchannel.tor_last"): _FLOOR,
    ("fdb", "backchannel.tor_any"): _FLOOR,
    ("fdb", "backchannel.frequency"): Counterpart("short spans in the window",
                                                  (Action.BACKCHANNEL,), _short_per_s),
    ("fdb", "interruption.tor"): _YIELD_PASSED,
    ("fdb", "interruption.latency"): Counterpart("onset behind the user's end", (Action.YIELD,),
                                                 _reply(NS_PER_S)),
    ("fdb", "v1.5.stop"): Counterpart("first offset from the barge-in", BARGE_INS,
                                      _offset(NS_PER_S)),
    ("fdb", "v1.5.response"): Counterpart("onset behind the user's end", BARGE_INS,
                                          _reply(NS_PER_S)),
    ("tau2", "l_r"): Counterpart("onset behind the user's end", _ANY, _reply(NS_PER_S)),
    ("tau2", "r_r"): _TURN_PASSED,
    ("tau2", "l_y"): Counterpart("first offset from the barge-in",
                                 (Action.YIELD, Action.ACCEPT_OVERLAP), _offset(NS_PER_S)),
    ("tau2", "r_y"): _YIELD_PASSED,
    ("tau2", "s_hold"): _CONTINUE_PASSED,
    ("eva", "mean_latency"): Counterpart("onset behind the user's end", _ANY, _reply(NS_PER_MS)),
    ("eva", "on_time"): _TURN_PASSED,
    ("eva", "agent_interruption"): _LISTEN_FAILED,
    ("eva", "overlap"): Counterpart("overlap in the window, where there is any", _ANY, _overlap_ms),
    ("eva", "user_interruption"): Counterpart("floor held at the barge-in", BARGE_INS, _held),
    ("eva", "yield"): Counterpart("first offset from the barge-in", BARGE_INS, _offset(NS_PER_MS)),
    ("eva", "yield_score"): _YIELD_PASSED,
}
"""Where nothing of ours asks anything like it, there is no entry."""


@dataclass(frozen=True, slots=True)
class Session:
    """One session, read: what each definition finds in it, and ours."""

    stream: str
    action: Action
    readings: dict[str, dict[str, Reading]]
    ours: Ours


def run_document(run: RunFolder, families: Sequence[str], thresholds: Thresholds,
                 vad: VadSettings) -> dict[str, Any]:
    """All figures of a run.

    Raises `InputError` when it is no run folder. Sessions that were not played, or whose recording
    cannot be used, are counted with the reason and are in no figure.
    """
    left_out: Counter[str] = Counter()
    sessions = list(read_sessions(run, thresholds, vad, left_out))
    draws = Draws(session.stream for session in sessions)
    info = run.read_info()
    return {
        "adapter": info.adapter.name, "sessions": len(sessions),
        "left_out": dict(sorted(left_out.items())),
        "figures": [_figure(family, metric, sessions, draws)
                    for family in families for metric in FAMILIES[family]],
    }


def read_sessions(run: RunFolder, thresholds: Thresholds, vad: VadSettings,
                  left_out: Counter[str]) -> Iterator[Session]:
    """Every session that was played, in planned order; the others are counted in `left_out`."""
    info = run.read_info()
    attempts = latest(read(run.ledger_path))
    waiting: list[tuple[Case, Track]] = []
    for trial in range(1, info.trials + 1):
        for case in run.read_cases():
            attempt = attempts.get((case.case_id, trial))
            if attempt is None or attempt.status != "done":
                left_out["not played" if attempt is None else attempt.status] += 1
                continue
            try:
                record = checked_record(run, case.case_id, trial)
            except InputError:
                left_out["recording or record cannot be used"] += 1
                continue
            waiting.append((case, make_track(record, "hold")))
    for first in range(0, len(waiting), CHUNK):
        chunk = waiting[first : first + CHUNK]
        activities = analyse_tracks(run, [track for _, track in chunk])
        for (case, track), activity in zip(chunk, activities, strict=True):
            if isinstance(activity, AudioFileError):
                left_out["recording or record cannot be used"] += 1
                continue
            found = [spans_ns(activity.probabilities, activity.samples_n, settings)
                     for settings in (vad, SILERO_DEFAULTS)]
            yield _session(case, scene_of(track.record, track, found[0], vad), track, found[1],
                           thresholds)


def _session(case: Case, scene: Scene, track: Track, segments: Spans,
             thresholds: Thresholds) -> Session:
    action = scene.expected_action
    talk = talk_of(scene, track)
    measurement = measure(scene)
    limits = effective_limits(thresholds, case_identity(case, 1).params, action)
    return Session(
        base_stream_id(case.stream_id), action,
        {"fdb": full_duplex_bench.read(action, replace(talk, model=segments)),
         "tau2": tau2_voice.read(talk), "eva": eva.read(talk)},
        Ours(action, measurement, decide(action, measurement, limits), limits))


def talk_of(scene: Scene, track: Track) -> Talk:
    """A session as the definitions read it; a word is heard in its middle."""
    return Talk(
        turns=tuple(Spans.of(turn.speech_n).to_ns(SESSION_RATE_HZ) for turn in track.record.turns),
        model=scene.model, recorded_ns=scene.recorded_ns,
        window_ns=(scene.window.start_ns, scene.window.end_ns),
        words_ns=None if scene.transcript is None else tuple(
            (word.start_ns + word.end_ns) // 2 for word in scene.transcript),
        hold_through=scene.expected_action is Action.CONTINUE)


def _figure(family: str, metric: Metric, sessions: Sequence[Session],
            draws: Draws) -> dict[str, Any]:
    theirs = [(s.stream, s.readings[family][metric.key]) for s in sessions
              if metric.key in s.readings[family]]
    counted = metric.unit == "share" and family != "eva"
    counterpart = COUNTERPARTS.get((family, metric.key))
    ours = None
    if counterpart is not None:
        rows = [(s.stream, _read_ours(counterpart, s.ours)) for s in sessions
                if s.action in counterpart.actions]
        ours = {"name": counterpart.name, **_aggregate(
            rows, draws, counted=counterpart.read in (_passed, _failed, _floor_taken, _held))}
    return {"family": family, "key": metric.key, "name": metric.name, "unit": metric.unit,
            "actions": list(metric.actions), "theirs": _aggregate(theirs, draws, counted=counted),
            "ours": ours, "source": metric.source, "rule": metric.rule, "differs": metric.differs}


def _read_ours(counterpart: Counterpart, ours: Ours) -> Reading:
    if ours.measurement.scored.outside:
        return none_because("the window lies outside the recording")
    return counterpart.read(ours)


def _aggregate(rows: Sequence[tuple[str, Reading]], draws: Draws, *,
               counted: bool) -> dict[str, Any]:
    """`n` counts events (sessions where one gives one value); `ci` is the 95 % interval."""
    sums: dict[str, tuple[float, float]] = {}
    reasons: Counter[str] = Counter()
    for stream, reading in rows:
        if not reading.n and not reading.total:
            reasons[reading.reason] += 1
            continue
        total, n = sums.get(stream, (0.0, 0.0))
        sums[stream] = (total + reading.total, n + reading.n)
    total, n = (sum(column) for column in zip(*sums.values(), strict=True)) if sums else (0.0, 0.0)
    out: dict[str, Any] = {
        "value": total / n if n else None, "n": int(n), "ci": None, "interval": None,
        "null_sessions": dict(sorted(reasons.items())), "reason": None}
    if not n:
        why = Counter(reading.reason for _, reading in rows)
        out["reason"] = max(why, key=lambda r: why[r]) if why else "no session of these actions"
    elif counted:
        out["ci"], out["interval"] = wilson(round(total), int(n)), "wilson"
    elif (ci := draws.interval(sums)) is not None:
        out["ci"], out["interval"] = ci, "bootstrap over audio streams"
    return out
