"""What the case view shows of one case: everything on the clock of its session.

A case that cannot be drawn (not played, its recording gone or changed) still has its verdict, and
`problem` says why there is no picture.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from audio.buffers import Int16, float_to_pcm16
from audio.errors import AudioFileError, InputError
from audio.files import blocks, plain_pcm16
from audio.silero_graph import FRAME_N
from audio.timebase import ANALYSIS_RATE_HZ, NS_PER_S, SESSION_RATE_HZ, n_to_s, ns_to_s
from rig.activity import Activity
from rig.playout import Policy
from rig.record import (
    AudioEvent,
    FaultEvent,
    InterruptedEvent,
    PlayedTurn,
    ResponseDoneEvent,
    ResponseStartedEvent,
    SessionRecord,
    StateEvent,
    TextEvent,
    UserEvent,
)
from rig.report import clip, waveform
from rig.report.cut import cut
from rig.report.job import Job, Session, damaged
from rig.report.packed import Packed, pack
from rig.report.said import MAX_TEXT
from rig.report.scored import CaseRow, ScoredCase
from rig.tracks import Track, heard_samples
from rig.transcript import first_words
from verifiers.decide import decide, measured
from verifiers.margins import margin
from verifiers.thresholds import effective_limits
from verifiers.verdict import Verdict

MAX_WORDS = 4_000
MAX_EVENTS = 2_000
"""Ours: far above what a session of minutes has; a flood is cut, and the case says so."""
MAX_EVENT = 200
"""Characters of what a peer calls an event; ours."""
PIECE_N = 1 << 16
"""Frames; ours: what is done to a piece finds it in the processor's cache."""


@dataclass(frozen=True, slots=True)
class CaseParts:
    """Parts of the page for one case, by name; `audio_n` characters of them are sound."""

    parts: Mapping[str, Packed]
    audio_n: int


def case_parts(job: Job, case: ScoredCase, session: Session,
               activities: Mapping[Policy, Activity | AudioFileError], name: str) -> CaseParts:
    """The parts of a case: `NAME`, and `NAME-hold`, `NAME-flush` where there is sound."""
    data = _verdicts(job, case)
    sounds: dict[Policy, str] = {}
    if session.record is None or session.problem is not None:
        data["problem"] = cut(session.problem or "")
    else:
        try:
            data |= _session(job, case, session.record, session.tracks)
            data["waves"], sounds = _sound(job, case, session.tracks)
            data["probability"] = {
                policy: waveform.curve(found.probabilities, ANALYSIS_RATE_HZ / FRAME_N)
                for policy, found in activities.items() if isinstance(found, Activity)}
        except InputError as error:
            data["problem"] = cut(str(error))
        except (LookupError, TypeError, ValueError) as error:
            data["problem"] = cut(damaged(error))
    data["sound"] = {policy: f"case-{name}-{policy}" for policy in sounds}
    parts = {name: pack(data, where=f"{job.folder.path}, {case.case_id}")}
    for policy, text in sounds.items():
        parts[f"{name}-{policy}"] = Packed(f'{{"mime":"{clip.MIME}","base64":"{text}"}}', False,
                                           late=True)
    return CaseParts(parts, sum(len(text) for text in sounds.values()))


# --- the verdict -----------------------------------------------------------------------------


def _verdicts(job: Job, case: ScoredCase) -> dict[str, Any]:
    planned = job.planned.get(case.case_id)
    return {
        "key": case.key, "case_id": case.case_id, "trial": case.trial,
        "action": str(case.action), "level": case.level, "role": case.role, "probe": case.probe,
        "flags": list(case.flags), "scored_playout": job.playout,
        "alternates": [[name, str(outcome), cut(reason)]
                       for name, outcome, reason in case.alternates],
        "prompt": None if planned is None else planned.system_prompt,
        "target": None if planned is None else planned.target_text,
        "threshold": job.vad.threshold,
        "spans": {"user": _row_spans(case.row(job.playout), "user_s"),
                  "model": {p: _row_spans(row, "model_s") for p, row in case.rows.items()}},
        "windows": _windows(case.row(job.playout)),
        "duration_s": max((row.recorded_s for row in case.rows.values()), default=0.0),
        "verdict": {**{policy: _decided(job, case, row) for policy, row in case.rows.items()},
                    job.playout: _stored(job, case)},
        "problem": None,
    }


def _row_spans(row: CaseRow | None, name: str) -> list[list[float]]:
    return [] if row is None else [[a, b] for a, b in getattr(row, name)]


def _windows(row: CaseRow | None) -> list[dict[str, Any]]:
    if row is None or row.measurement is None:
        return []
    return [{"name": name, "start_s": a, "end_s": b, "scored": name == "window"}
            for name, (a, b) in (("window", row.window_s), *row.alternates_s)]


def _stored(job: Job, case: ScoredCase) -> dict[str, Any]:
    """The verdict as `scores.json` has it."""
    row = case.row(job.playout)
    return {"outcome": str(case.outcome), "reason": cut(case.reason), "value": case.value,
            "unit": case.unit, "limit": case.limit,
            "measured": _numbers(case.measured), **_deciding(job, case, row)}


def _decided(job: Job, case: ScoredCase, row: CaseRow) -> dict[str, Any]:
    """The verdict under the other playout, decided as `rig score` would."""
    if row.measurement is None:
        return {"outcome": "unscored", "reason": cut(row.problem or "not measured"), "value": None,
                "unit": None, "limit": None, "measured": [], "deciding": None, "marks": []}
    limits = effective_limits(job.thresholds, row.params, case.action)
    found: Verdict = decide(case.action, row.measurement, limits)
    return {"outcome": str(found.outcome), "reason": cut(found.reason), "value": found.value,
            "unit": found.unit, "limit": found.limit,
            "measured": _numbers(measured(case.action, row.measurement, limits)),
            **_deciding(job, case, row)}


def _deciding(job: Job, case: ScoredCase, row: CaseRow | None) -> dict[str, Any]:
    """What the verdict hung on, and the moments on the timeline that it was read from."""
    if row is None or row.measurement is None:
        return {"deciding": None, "marks": []}
    limits = effective_limits(job.thresholds, row.params, case.action)
    found = margin(case.action, row.measurement, limits, row.surroundings())
    reading, start_s = row.measurement.scored, row.window_s[0]
    marks = [[start_s + ns_to_s(at_ns), name] for name, at_ns in
             (("onset", reading.onset_ns), ("offset", reading.first_offset_ns))
             if at_ns is not None]
    return {"marks": marks, "deciding": {
        "quantity": found.quantity, "unit": found.unit, "value": found.value,
        "bound": found.bound, "bound_name": found.bound_name, "margin": found.margin,
        "at_least": found.at_least, "reason": found.reason}}


def _numbers(found: Mapping[str, Any]) -> list[list[Any]]:
    """Name and value of everything that exists, windows beside the scored one left out."""
    return [[name, value] for name, value in found.items()
            if value is not None and not isinstance(value, dict | list)]


# --- the session -----------------------------------------------------------------------------


def _session(job: Job, case: ScoredCase, record: SessionRecord,
             tracks: Mapping[Policy, Track]) -> dict[str, Any]:
    events, left_out = _events(record)
    text = "".join(e.text for e in record.events if isinstance(e, TextEvent))
    timing = record.timing
    return {
        "duration_s": n_to_s(record.recorded_n, SESSION_RATE_HZ),
        "user_words": _user_words(job, record),
        "model_words": {p: _model_words(record, track) for p, track in tracks.items()},
        "text": text[:MAX_TEXT], "text_left_out": max(0, len(text) - MAX_TEXT),
        "events": events, "events_left_out": left_out,
        "waiting": _waiting(record),
        "schedule": _schedule(job, case, record),
        "timing": {"clock": record.clock, "late_p99_ms": timing.late_p99_ms,
                   "late_max_ms": timing.late_max_ms,
                   "late_max_near_window_ms": timing.late_max_near_window_ms,
                   "model_underruns_n": timing.model_underruns_n},
        # A page is passed on: it says where in the run the recording lies, not on which disk.
        "recording": "/".join(job.folder.stereo_path(case.case_id, case.trial).parts[-3:]),
        "conditions": None if record.line is None else list(record.line.conditions),
    }


def _user_words(job: Job, record: SessionRecord) -> dict[str, Any]:
    """Aligned words where the run holds them for the very audio that was played; else what each
    segment says, over its length."""
    planned = job.planned.get(record.case_id)
    facts = None if planned is None else job.streams.get(planned.stream_id)
    words: list[list[Any]] = []
    alignments = []
    for turn in record.turns:
        known = None if facts is None else (
            facts.turn1_words if turn.name == "turn1" else facts.turn2_words)
        sha256 = None if facts is None else (
            facts.turn1_sha256 if turn.name == "turn1" else facts.turn2_sha256)
        if known is None or sha256 != turn.audio_sha256 or known.alignment == "none":
            words += _segments(turn)
            alignments.append("segments")
            continue
        start_s = n_to_s(turn.onset_n, SESSION_RATE_HZ)
        words += [[w.word, start_s + w.start_s, start_s + w.end_s] for w in known.words]
        alignments.append(known.alignment)
    least = min(alignments, key=("segments", "uniform", "forced").index, default="segments")
    return {"words": words[:MAX_WORDS], "alignment": least,
            "left_out": max(0, len(words) - MAX_WORDS)}


def _segments(turn: PlayedTurn) -> list[list[Any]]:
    return [[text, n_to_s(start_n, SESSION_RATE_HZ), n_to_s(end_n, SESSION_RATE_HZ)]
            for text, (start_n, end_n) in zip(turn.texts, turn.speech_n, strict=False)]


def _model_words(record: SessionRecord, track: Track) -> dict[str, Any] | None:
    """`None` where the system gives no text."""
    found = first_words(record, track.placements, track.recorded_ns, MAX_WORDS)
    if found is None:
        return None
    words, left_out = found
    return {"words": [[w.text[:200], ns_to_s(w.start_ns), ns_to_s(w.end_ns)] for w in words],
            "left_out": left_out}


def _events(record: SessionRecord) -> tuple[list[list[Any]], int]:
    """Time, kind and words of what happened; audio and text, which come in their hundreds, are
    shown otherwise."""
    out: list[list[Any]] = []
    for event in record.events:
        if isinstance(event, AudioEvent | TextEvent):
            continue
        at_s = ns_to_s(event.t_ns)
        match event:
            case UserEvent(name=name):
                out.append([at_s, "user", name])
            case ResponseStartedEvent():
                out.append([at_s, "model", "response started"])
            case ResponseDoneEvent(status=status):
                out.append([at_s, "model", f"response done: {cut(status, MAX_EVENT)}"])
            case InterruptedEvent():
                out.append([at_s, "model", "interrupted"])
            case StateEvent(name=name, detail=detail):
                told = f"{cut(name, MAX_EVENT)} {cut(detail, MAX_EVENT)}".strip()
                out.append([at_s, "state", told])
            case FaultEvent(reason=reason):
                out.append([at_s, "fault", cut(reason, MAX_EVENT)])
    return out[:MAX_EVENTS], max(0, len(out) - MAX_EVENTS)


def _waiting(record: SessionRecord) -> list[list[float]]:
    """Seconds of model audio that had arrived and were not heard yet, nothing being dropped: points
    before and after every arrival and where nothing waits any more. Of more than `MAX_EVENTS`
    arrivals, neighbours are put together at the time of the first."""
    arrivals = record.arrival_list()
    if record.arrivals is None or not arrivals:
        return []
    every = -(-len(arrivals) // MAX_EVENTS)
    at_s = np.array([a.t_ns for a in arrivals[::every]]) / NS_PER_S
    each = np.array([a.n for a in arrivals] + [0] * (-len(arrivals) % every))
    length_s = each.reshape(-1, every).sum(axis=1) / record.arrivals.rate_hz
    # The end of the queue: max(its end before, arrival) + length, over all arrivals at once.
    sent_s = np.cumsum(length_s)
    end_s = sent_s + np.maximum.accumulate(at_s - (sent_s - length_s))
    before_s = np.concatenate(([0.0], end_s[:-1]))
    empty = before_s < at_s
    rows = np.stack((
        np.stack((np.where(empty, before_s, at_s), np.zeros_like(at_s)), axis=1),
        np.stack((at_s, np.maximum(before_s - at_s, 0)), axis=1),
        np.stack((at_s, end_s - at_s), axis=1)), axis=1).reshape(-1, 2)
    wanted = np.stack((empty, *[np.full_like(empty, True)] * 2), axis=1).reshape(-1)
    points: list[list[float]] = np.round(rows[wanted], 4).tolist()
    return [*points, [round(float(end_s[-1]), 4), 0.0]]


def _schedule(job: Job, case: ScoredCase, record: SessionRecord) -> list[list[Any]]:
    """Moment, when it was planned before the session (`None`: it follows from what happened), how
    the plan says it, when it was, and when the plan wanted it after what had happened (`None`: it
    names no moment)."""
    planned = job.planned.get(case.case_id)
    actual = {e.name: ns_to_s(e.t_ns) for e in record.events if isinstance(e, UserEvent)}
    turns = {t.name: n_to_s(t.end_n - t.onset_n, SESSION_RATE_HZ) for t in record.turns}
    onset_s = actual.get("turn2_start")
    turn1_s = turns.get("turn1")
    wanted: dict[str, tuple[float | None, str, float | None]] = {
        "turn1_start": (0.0, "the session's begin", 0.0),
        "turn1_end": (turn1_s, "turn 1 without a break", turn1_s),
        "turn2_start": (None, "after the reply to turn 1 and a pause", None),
        "turn2_end": (None, "turn 2 without a break",
                      None if onset_s is None else onset_s + turns.get("turn2", 0.0)),
    }
    delay_s = None if planned is None else planned.delivery.barge_in_after_s
    if delay_s is not None:
        heard_s = record.barge_in_model_onset_s
        wanted["turn2_start"] = (None, f"{delay_s:g} s after the model is heard to begin",
                                 None if heard_s is None else heard_s + delay_s)
    rows: list[list[Any]] = []
    for name, at_s in actual.items():
        planned_s, how, after_s = wanted.get(name, (None, "when the last reply has ended", None))
        rows.append([name, planned_s, how, at_s, after_s])
    if planned is not None and onset_s is not None:
        scored = record.windows.scored
        for name, plan_s, at_s in (("window start", planned.window.start_s, scored.start_s),
                                   ("window end", planned.window.end_s, scored.end_s)):
            rows.append([name, None, f"turn 2's begin and {plan_s:.3f} s", at_s,
                         onset_s + plan_s])
    return rows


# --- its sound -------------------------------------------------------------------------------


def _sound(job: Job, case: ScoredCase, tracks: Mapping[Policy, Track],
           ) -> tuple[dict[str, Any], dict[Policy, str]]:
    """Waves of both sides, of the model under each playout, and FLAC of those that go along."""
    path = job.folder.stereo_path(case.case_id, case.trial)
    frames_n = tracks["hold"].record.recorded_n
    n = waveform.bucket_n(frames_n, SESSION_RATE_HZ)
    wanted = case.key in job.audio and frames_n <= clip.MAX_S * SESSION_RATE_HZ
    plain = plain_pcm16(path)
    kept: list[Int16] = [] if plain is None or not wanted else [plain[0]]

    def pieces() -> Iterator[Int16]:
        """The recording, stereo PCM16. One that the rig wrote is not decoded: of hundreds of cases
        that would be half of the work."""
        if plain is not None:
            # Whole stretches of the wave, so that nothing is left over to be put before the next.
            size_n = max(n, PIECE_N // n * n)
            yield from (plain[0][at:at + size_n] for at in range(0, len(plain[0]), size_n))
            return
        for block in blocks(path, PIECE_N):
            piece = float_to_pcm16(block)
            if wanted:
                kept.append(piece)
            yield piece

    user, hold = waveform.waves(pieces(), 2, SESSION_RATE_HZ, n)
    out: dict[str, Any] = {"user": user, "model": {"hold": hold}}
    sounds: dict[Policy, str] = {}
    both = None if not kept else kept[0] if len(kept) == 1 else np.concatenate(kept)
    if both is not None:
        sounds["hold"] = clip.flac_base64(both, SESSION_RATE_HZ)
    if "flush" in tracks:
        flushed = float_to_pcm16(heard_samples(job.folder, tracks["flush"]))
        out["model"]["flush"] = waveform.waves([flushed[:, None]], 1, SESSION_RATE_HZ, n)[0]
        if both is not None:
            sounds["flush"] = clip.flac_base64(np.stack([both[:, 0], flushed], axis=1),
                                               SESSION_RATE_HZ)
    return out, sounds
