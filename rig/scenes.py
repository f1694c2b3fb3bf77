"""Sessions as verifiers see them: which case one is, and its scene under one playout."""

from __future__ import annotations

from dataclasses import dataclass

from audio.spans import Spans
from audio.timebase import SESSION_RATE_HZ, s_to_ns
from audio.vad import VadSettings
from probes.manifest import Case, Params
from rig.record import SessionRecord
from rig.tracks import Track
from rig.transcript import heard_transcript, heard_wordless
from verifiers.scene import Action, CaseParams, Scene, Window


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


def case_identity(case: Case, trial: int) -> Identity:
    return Identity(case.case_id, trial, case.role, case.probe, case.level,
                    Action(case.expected_action), case_params(case.params))


def case_params(params: Params) -> CaseParams:
    return CaseParams(max_wait_s=params.max_wait_s, max_latency_ms=params.max_latency_ms,
                      ceiling_s=params.ceiling_s, max_spans=params.max_spans,
                      min_coverage=params.min_coverage)


def scene_of(record: SessionRecord, track: Track, model: Spans, vad: VadSettings, *,
             with_words: bool = True) -> Scene:
    """A record under one playout, as a verifier sees it; without its words where no verdict is to
    be read from them."""
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
        transcript=(heard_transcript(record, track.placements, track.recorded_ns)
                    if with_words else None),
        # Asked of a read-back alone.
        wordless=(heard_wordless(record, track.placements)
                  if with_words and record.case.target_text else Spans()),
        readback_from_ns=(None if windows.readback_from_s is None
                          else s_to_ns(windows.readback_from_s)),
        user_offset_ns=s_to_ns(windows.user_offset_s),
        alternates=tuple((name, window(w.start_s, w.end_s))
                         for name, w in sorted(windows.alternates.items())),
        forced="forced" in record.flags,
        merge_gap_ns=s_to_ns(vad.merge_gap_s),
    )
