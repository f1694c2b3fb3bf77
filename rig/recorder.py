"""Turns a played session into its files: stereo recording, arrivals, session record.

The order matters: audio first, the record last, the ledger (elsewhere) after that. Every write is
atomic, so a run killed at any instant holds only whole files.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

import numpy as np

from adapters.base import Adapter
from audio.buffers import Float32
from audio.files import atomic_write_text, sha256_file, write_flac_pcm16, write_wav_pcm16
from audio.timebase import SESSION_RATE_HZ, n_to_s, ns_to_s, s_to_ns
from probes.manifest import Case, Stream, TurnAudio, WindowSpec
from rig.clock import ClockKind
from rig.level_flags import level_flags
from rig.orchestrator import Played
from rig.playout import Arrival, Placement, place, render
from rig.record import (
    AdapterFacts,
    AudioEvent,
    AudioFile,
    CaseFacts,
    Event,
    LineRecord,
    PlayedTurn,
    ResponseDoneEvent,
    SessionRecord,
    StateEvent,
    Windows,
)
from rig.store import RunFolder
from rig.timing import TimingCertificate, certify, heard_without_a_gap, model_underruns, peer_timing


def adapter_facts(adapter: Adapter) -> AdapterFacts:
    """What a record and a fingerprint say about the system."""
    return AdapterFacts(name=adapter.name, version=adapter.version, settings=adapter.settings,
                        capabilities=asdict(adapter.capabilities))


def absolute_windows(case: Case, turn2_onset_n: int) -> Windows:
    """The manifest's windows moved to the session clock."""
    onset_s = n_to_s(turn2_onset_n, SESSION_RATE_HZ)

    def move(window: WindowSpec) -> WindowSpec:
        return WindowSpec(start_s=onset_s + window.start_s, end_s=onset_s + window.end_s)

    return Windows(
        turn2_onset_s=onset_s,
        scored=move(case.window),
        alternates={name: move(w) for name, w in case.alternate_windows.items()},
        user_offset_s=onset_s + case.user_offset_s,
        readback_from_s=(None if case.readback_from_s is None
                         else onset_s + case.readback_from_s),
    )


def hold_placements(played: Played, rate_hz: int) -> list[Placement]:
    """Where every received sample is heard under `hold`."""
    log = [Arrival(e.t_ns, e.n, e.response_id) for e in played.events if isinstance(e, AudioEvent)]
    return place(log, (), "hold", rate_hz)


def heard_track(played: Played, rate_hz: int) -> Float32:
    """The model's side under `hold`, at 24 kHz, as long as the user's side."""
    placements = hold_placements(played, rate_hz)
    if not placements:
        return np.zeros(len(played.user), dtype=np.float32)
    source = np.concatenate(played.received)
    return render(placements, source, rate_hz, SESSION_RATE_HZ, len(played.user))


def status_flags(events: Iterable[Event]) -> set[str]:
    """`response_incomplete`: the system itself said that a response broke off before its end (a
    token limit, a content filter). What was heard of it is scored; a reader should know."""
    broke_off = any(isinstance(e, ResponseDoneEvent) and e.status == "incomplete" for e in events)
    return {"response_incomplete"} if broke_off else set()


def certificate(played: Played, rate_hz: int,
                window_ns: tuple[int, int] | None) -> TimingCertificate:
    """The timing certificate of a session whose audio came at `rate_hz`."""
    states = ((e.name, e.detail) for e in played.events if isinstance(e, StateEvent))
    placements = hold_placements(played, rate_hz)
    return certify(
        played.late_ns, window_ns, wake_ns=played.wake_ns,
        heard_ns=heard_without_a_gap(placements, rate_hz),
        underruns_ns=model_underruns(placements, rate_hz),
        detection_behind_ns=played.detection_behind_ns,
        peer=peer_timing(states, played.origin_ns),
        events_per_s=played.events_per_s, all_events_per_s=played.all_events_per_s)


def write_session(
    run: RunFolder, case: Case, stream: Stream, trial: int, seed: int, adapter: AdapterFacts,
    played: Played, clock: ClockKind,
) -> SessionRecord:
    """Write the three files of one session and return the record. Nothing is written when the
    timing certificate says `void`: such a session is discarded and run again."""
    windows = absolute_windows(case, played.turn2_onset_n)
    output_rate_hz: int = adapter.capabilities["output_rate_hz"]
    timing = certificate(played, output_rate_hz, (s_to_ns(windows.scored.start_s),
                                                  s_to_ns(windows.scored.end_s)))
    stereo_path = run.stereo_path(case.case_id, trial)
    arrivals_path = run.arrivals_path(case.case_id, trial)
    model = heard_track(played, output_rate_hz)
    received_n = sum(len(chunk) for chunk in played.received)
    stereo_sha256 = arrivals_sha256 = "0" * 64
    if not timing.void:
        write_wav_pcm16(stereo_path, np.column_stack([played.user, model]), SESSION_RATE_HZ)
        stereo_sha256 = sha256_file(stereo_path)
        if received_n:
            write_flac_pcm16(arrivals_path, np.concatenate(played.received), output_rate_hz)
            arrivals_sha256 = sha256_file(arrivals_path)
        else:
            arrivals_path.unlink(missing_ok=True)
    record = SessionRecord(
        case_id=case.case_id,
        trial=trial,
        case=CaseFacts(
            conversation_id=case.conversation_id, stream_id=case.stream_id, role=case.role,
            probe=case.probe, probe_id=case.probe_id, level=case.level,
            expected_action=case.expected_action, params=case.params,
            target_text=case.target_text),
        adapter=adapter,
        clock=clock,
        seed=seed,
        recorded_n=len(played.user),
        turns=(_played_turn("turn1", stream.turn1, 0),
               _played_turn("turn2", stream.turn2, played.turn2_onset_n)),
        windows=windows,
        barge_in_model_onset_s=(None if played.model_onset_ns is None
                                else ns_to_s(played.model_onset_ns)),
        flags=tuple(sorted(played.flags | level_flags((model,), SESSION_RATE_HZ)
                           | status_flags(played.events))),
        events=tuple(played.events),
        stereo=AudioFile(path=stereo_path.name, sha256=stereo_sha256, rate_hz=SESSION_RATE_HZ,
                         frames_n=len(played.user)),
        arrivals=(AudioFile(path=arrivals_path.name, sha256=arrivals_sha256,
                            rate_hz=output_rate_hz, frames_n=received_n)
                  if received_n else None),
        timing=timing,
        line=_write_sent(run, case, trial, played, void=timing.void),
    )
    if not timing.void:
        atomic_write_text(run.record_path(case.case_id, trial), record.model_dump_json() + "\n")
    return record


def _write_sent(run: RunFolder, case: Case, trial: int, played: Played, *,
                void: bool) -> LineRecord | None:
    """What the system was sent under line conditions, beside the clean track."""
    path = run.sent_path(case.case_id, trial)
    if played.line is None:
        path.unlink(missing_ok=True)  # of a session under other settings
        return None
    sent_n = sum(len(frame) for frame in played.sent)
    sha256 = "0" * 64
    if not void:
        write_flac_pcm16(path, np.concatenate(played.sent), played.line.rate_hz)
        sha256 = sha256_file(path)
    return LineRecord(conditions=played.line.conditions, achieved=played.line.achieved,
                      sent=AudioFile(path=path.name, sha256=sha256, rate_hz=played.line.rate_hz,
                                     frames_n=sent_n))


def _played_turn(name: str, turn: TurnAudio, onset_n: int) -> PlayedTurn:
    speech = [s for s in turn.segments if s.kind == "speech"]
    return PlayedTurn(
        name="turn1" if name == "turn1" else "turn2",
        audio_sha256=turn.audio_sha256,
        onset_n=onset_n,
        end_n=onset_n + turn.duration_n,
        speech_n=tuple((onset_n + s.start_n, onset_n + s.end_n) for s in speech),
        texts=tuple(s.text or "" for s in speech),
    )
