"""The model's heard track of a session, and its frame probabilities, cached.

A probability depends on the samples and the detector's weights alone; the cache is keyed by both
and may be deleted at any time. Files are analysed in batches, which is bit-identical to one by
one (`audio.silero`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from audio.analysis import analysis_samples
from audio.buffers import Float32, float_to_pcm16, pcm16_to_float
from audio.errors import AudioFileError, InputError
from audio.files import atomic_path, read_channel, sha256_file
from audio.silero import WEIGHTS_SHA256, frame_probabilities_batch
from audio.timebase import SESSION_RATE_HZ, n_to_ns
from rig.playout import Placement, Policy, place, render
from rig.record import SessionRecord
from rig.store import RunFolder

MODEL_CHANNEL = 1


@dataclass(frozen=True, slots=True)
class Track:
    """One heard track to analyse: where its samples are, and where its words were heard."""

    record: SessionRecord
    policy: Policy
    placements: tuple[Placement, ...]
    differs_from_hold: bool

    @property
    def recorded_ns(self) -> int:
        return n_to_ns(self.record.recorded_n, SESSION_RATE_HZ)


@dataclass(frozen=True, slots=True)
class Activity:
    """Frame probabilities of one track at 16 kHz and the number of samples they cover."""

    probabilities: Float32
    samples_n: int


def make_track(record: SessionRecord, policy: Policy) -> Track:
    """Derive the playout of a record; `flush` equals `hold` where nothing was interrupted."""
    rate_hz = record.arrivals.rate_hz if record.arrivals is not None else SESSION_RATE_HZ
    arrivals, interruptions = record.arrival_list(), record.interruptions()
    hold = tuple(place(arrivals, (), "hold", rate_hz))
    if policy == "hold" or not interruptions:
        return Track(record, policy, hold, differs_from_hold=False)
    flush = tuple(place(arrivals, interruptions, "flush", rate_hz))
    return Track(record, policy, flush, differs_from_hold=flush != hold)


def check_files(run: RunFolder, record: SessionRecord) -> None:
    """The recording must be the one that its record describes."""
    path = run.rec_dir / record.stereo.path
    if not path.exists():
        raise AudioFileError.expected("the session's recording", got="no such file", where=path)
    if sha256_file(path) != record.stereo.sha256:
        raise AudioFileError(f"{path}: expected the bytes that its record describes, got others "
                             "(SHA-256 differs); the file was changed or damaged")


def analyse(run: RunFolder, tracks: Sequence[Track], *, batch: int = 16) -> list[Activity]:
    """Frame probabilities of every track, from the cache or by inference."""
    out: dict[int, Activity] = {}
    missing: list[tuple[int, Path, Float32]] = []

    def infer() -> None:
        for (index, path, samples), probabilities in zip(
                missing, frame_probabilities_batch([s for _, _, s in missing]), strict=True):
            out[index] = Activity(probabilities, len(samples))
            _store(path, out[index])
        missing.clear()

    for index, track in enumerate(tracks):
        path = run.cache_dir / f"{_key(track)}.npz"
        cached = _load(path)
        if cached is not None:
            out[index] = cached
            continue
        samples = _samples(run, track)
        if not samples.any():
            # Digital silence holds no speech; no verdict needs the detector to say so.
            frames_n = -(-len(samples) // 512)
            out[index] = Activity(np.zeros(frames_n, dtype=np.float32), len(samples))
            continue
        missing.append((index, path, samples))
        if len(missing) == batch:
            infer()
    if missing:
        infer()
    return [out[i] for i in range(len(tracks))]


def _samples(run: RunFolder, track: Track) -> Float32:
    """The track at 16 kHz, DC removed."""
    record = track.record
    if not track.differs_from_hold:
        samples = read_channel(run.rec_dir / record.stereo.path, MODEL_CHANNEL)
    else:
        assert record.arrivals is not None
        source = read_channel(run.rec_dir / record.arrivals.path, 0)
        heard = render(track.placements, source, record.arrivals.rate_hz, SESSION_RATE_HZ,
                       record.recorded_n)
        samples = pcm16_to_float(float_to_pcm16(heard))
    return analysis_samples(samples, SESSION_RATE_HZ)


def _key(track: Track) -> str:
    if not track.differs_from_hold:
        audio = track.record.stereo.sha256
    else:
        assert track.record.arrivals is not None
        text = f"{track.record.arrivals.sha256} {track.record.recorded_n} {track.placements!r}"
        audio = hashlib.sha256(text.encode()).hexdigest()
    return hashlib.sha256(f"{audio} {WEIGHTS_SHA256} channel {MODEL_CHANNEL}".encode()).hexdigest()


def _load(path: Path) -> Activity | None:
    """A cached result; a damaged cache file counts as missing."""
    try:
        with np.load(path, allow_pickle=False) as data:
            probabilities, samples_n = data["probabilities"], int(data["samples_n"])
    except (OSError, ValueError, KeyError, EOFError, ImportError):
        return None
    if probabilities.dtype != np.float32 or probabilities.ndim != 1:
        return None
    if len(probabilities) != -(-samples_n // 512):
        return None
    return Activity(probabilities, samples_n)


def _store(path: Path, activity: Activity) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            np.savez(file, probabilities=activity.probabilities,
                     samples_n=np.int64(activity.samples_n))
    except (OSError, InputError):
        return  # the cache is a convenience: a read-only run folder can still be scored
