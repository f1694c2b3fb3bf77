"""The model's heard track of a session, under either playout."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from audio.analysis import analysis_samples
from audio.buffers import Float32, float_to_pcm16, pcm16_to_float
from audio.errors import AudioFileError, InputError
from audio.files import read_analysis_channel, read_channel, sha256_file
from audio.timebase import SESSION_RATE_HZ, n_to_ns
from rig.activity import Activity, Channel, analyse
from rig.playout import Placement, Policy, place, render
from rig.record import SessionRecord
from rig.store import RunFolder

MODEL_CHANNEL = 1


@dataclass(frozen=True, slots=True)
class Track:
    """One heard track to analyse: where its samples are, and when they were heard."""

    record: SessionRecord
    policy: Policy
    placements: tuple[Placement, ...]
    differs_from_hold: bool

    @property
    def recorded_ns(self) -> int:
        return n_to_ns(self.record.recorded_n, SESSION_RATE_HZ)


def make_track(record: SessionRecord, policy: Policy) -> Track:
    """Derive the playout of a record; `flush` equals `hold` where nothing was interrupted."""
    rate_hz = record.arrivals.rate_hz if record.arrivals is not None else SESSION_RATE_HZ
    arrivals, interruptions = record.arrival_list(), record.interruptions()
    hold = tuple(place(arrivals, (), "hold", rate_hz))
    if policy == "hold" or not interruptions:
        return Track(record, policy, hold, differs_from_hold=False)
    flush = tuple(place(arrivals, interruptions, "flush", rate_hz))
    return Track(record, policy, flush, differs_from_hold=flush != hold)


def checked_record(run: RunFolder, case_id: str, trial: int) -> SessionRecord:
    """The record of a session whose recording is the one that it describes; raises `InputError`
    where either is missing or damaged, or they do not fit."""
    record = run.read_record(case_id, trial)
    check_recording(run, record)
    return record


def check_recording(run: RunFolder, record: SessionRecord) -> None:
    """Raise `AudioFileError` where the recording of a session is not the one that its record
    describes."""
    _check_file(run.rec_dir / record.stereo.path, record.stereo.sha256)


def _check_file(path: Path, sha256: str) -> None:
    if not path.exists():
        raise AudioFileError.expected("the session's recording", got="no such file", where=path)
    try:
        found = sha256_file(path)
    except InputError as error:
        raise AudioFileError(str(error)) from error
    if found != sha256:
        raise AudioFileError(f"{path}: expected the bytes that its record describes, got others "
                             "(SHA-256 differs); the file was changed or damaged")


def analyse_tracks(run: RunFolder, tracks: Sequence[Track]) -> list[Activity | AudioFileError]:
    """Frame probabilities of every track, cached in the run folder."""
    return analyse([track_channel(run, track) for track in tracks], run.cache_dir)


def track_channel(run: RunFolder, track: Track) -> Channel:
    """What names the samples of a track, and how to get them."""
    record = track.record
    if not track.differs_from_hold:
        path = run.rec_dir / record.stereo.path
        return Channel(f"{record.stereo.sha256} channel {MODEL_CHANNEL}",
                       lambda: read_analysis_channel(path, MODEL_CHANNEL)[0])
    assert record.arrivals is not None
    text = f"{record.arrivals.sha256} {record.recorded_n} {track.placements!r}"
    return Channel(hashlib.sha256(text.encode()).hexdigest(), lambda: _flushed(run, track))


def heard_samples(run: RunFolder, track: Track) -> Float32:
    """The track at `SESSION_RATE_HZ`. Raises `AudioFileError` when what came is not what the record
    describes; the recording itself is not checked again (`checked_record`)."""
    record = track.record
    if not track.differs_from_hold:
        return read_channel(run.rec_dir / record.stereo.path, MODEL_CHANNEL)
    assert record.arrivals is not None
    path = run.rec_dir / record.arrivals.path
    _check_file(path, record.arrivals.sha256)
    return render(track.placements, read_channel(path, 0), record.arrivals.rate_hz,
                  SESSION_RATE_HZ, record.recorded_n)


def _flushed(run: RunFolder, track: Track) -> Float32:
    """The track under `flush`, with the same rounding to PCM16 that a recording has."""
    heard = pcm16_to_float(float_to_pcm16(heard_samples(run, track)))
    return analysis_samples(heard, SESSION_RATE_HZ)
