"""Frame probabilities of many channels: from the cache, or inferred in batches.

A probability depends on the samples and the detector's weights alone; the cache is keyed by both
and may be deleted at any time. Batches are bit-identical to one by one (`audio.silero`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from audio.buffers import Float32
from audio.edge_refine import refined
from audio.errors import AudioFileError, InputError
from audio.files import atomic_path
from audio.silero import WEIGHTS_SHA256, frame_probabilities_batch
from audio.silero_graph import FRAME_N
from audio.spans import Spans
from audio.timebase import ANALYSIS_RATE_HZ
from audio.vad import VadSettings, merged_spans

BATCH = 16
"""Channels inferred together; more rows gain nothing on one core (bench/bench_vad.py)."""
BATCH_SAMPLES_N = 16_000 * 60 * 30
"""A batch is closed once it holds half an hour, so that long recordings are not piled up."""


@dataclass(frozen=True, slots=True)
class Activity:
    """Frame probabilities of one channel at 16 kHz and the number of samples they cover."""

    probabilities: Float32
    samples_n: int


@dataclass(frozen=True, slots=True)
class Channel:
    """One channel to analyse: what names its samples, and how to get them (16 kHz, centred)."""

    content: str
    load: Callable[[], Float32]


def analyse(channels: Sequence[Channel], cache_dir: Path) -> list[Activity | AudioFileError]:
    """Activity of every channel, in order, or the reason why its recording cannot be used."""
    out: dict[int, Activity | AudioFileError] = {}
    missing: list[tuple[int, Path, Float32]] = []
    contents = [channel.content for channel in channels]

    def infer() -> None:
        for (index, path, samples), found in zip(missing, _inferred([s for _, _, s in missing]),
                                                 strict=True):
            if isinstance(found, AudioFileError):
                out[index] = found
                continue
            activity = Activity(found, len(samples))
            _store(path, activity, contents[index])
            out[index] = activity
        missing.clear()

    for index, channel in enumerate(channels):
        path = cache_dir / f"{_key(channel.content)}.npz"
        cached = _load(path, channel.content)
        if cached is not None:
            out[index] = cached
            continue
        try:
            samples = channel.load()
        except AudioFileError as error:
            out[index] = error
            continue
        if not samples.any():
            # Digital silence holds no speech; no verdict needs the detector to say so.
            frames_n = -(-len(samples) // FRAME_N)
            out[index] = Activity(np.zeros(frames_n, dtype=np.float32), len(samples))
            continue
        missing.append((index, path, samples))
        if len(missing) == BATCH or sum(len(s) for _, _, s in missing) > BATCH_SAMPLES_N:
            infer()
    if missing:
        infer()
    return [out[i] for i in range(len(channels))]


def is_cached(channel: Channel, cache_dir: Path) -> bool:
    """Whether a file of this channel's probabilities is there; whether it is sound is not asked."""
    return (cache_dir / f"{_key(channel.content)}.npz").is_file()


def detected_ns(activity: Activity, channel: Channel, vad: VadSettings) -> Spans:
    """Merged speech spans of a channel in nanoseconds, with the corrections that `vad` asks for.

    Raises `AudioFileError` where a correction needs samples that cannot be read.
    """
    spans = merged_spans(activity.probabilities, activity.samples_n, vad)
    if vad.corrections:
        spans = refined(channel.load(), spans, onset=vad.onset_refine, offset=vad.offset_refine)
    return spans.to_ns(ANALYSIS_RATE_HZ)


def _inferred(channels: Sequence[Float32]) -> list[Float32 | AudioFileError]:
    """Probabilities of a batch. Samples that the detector refuses concern their recording alone."""
    try:
        return list(frame_probabilities_batch(channels))
    except InputError as error:
        if len(channels) == 1:
            return [AudioFileError(f"its samples are no audio: {error}")]
        return [found for channel in channels for found in _inferred([channel])]


def _key(content: str) -> str:
    return hashlib.sha256(f"{content}\n{WEIGHTS_SHA256}".encode()).hexdigest()


def _seal(content: str, probabilities: Float32, samples_n: int) -> str:
    """What a cache file must carry to be believed: it is for these samples, and undamaged."""
    digest = hashlib.sha256(probabilities.astype("<f4").tobytes()).hexdigest()
    return _key(f"{content} {samples_n} {digest}")


def _load(path: Path, content: str) -> Activity | None:
    """A cached result; a file that is damaged, foreign or no file counts as missing."""
    if not path.is_file():
        return None
    try:
        # Opened here: where numpy refuses a file it leaves its own handle open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
            probabilities, samples_n = data["probabilities"], int(data["samples_n"])
            seal = str(data["seal"])
    except Exception:  # noqa: BLE001 - a damaged archive fails in a dozen ways, all alike to us
        return None
    if probabilities.dtype != np.float32 or probabilities.ndim != 1:
        return None
    if seal != _seal(content, probabilities, samples_n):
        return None
    return Activity(probabilities, samples_n)


def _store(path: Path, activity: Activity, content: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            np.savez(file, probabilities=activity.probabilities,
                     samples_n=np.int64(activity.samples_n),
                     seal=np.str_(_seal(content, activity.probabilities, activity.samples_n)))
    except (OSError, InputError):
        return  # the cache is a convenience: a read-only folder can still be scored
