"""A call read block by block: what every later figure rests on, a few numbers a frame.

Two passes over the file, nothing of it held: the first finds the mean (which is removed before
resampling, as `audio.files.read_analysis_channel` does, so that the spans are the same), what is
clipped, dead or not finite; the second runs the speech detector on both channels side by side and
keeps a probability and some powers for every 32 ms. Four hours are some 60 MB of them.

A sample that is not finite is taken as 0 and the stretch around it as one that cannot be trusted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from audio import recording as recordings
from audio.band_edges import BANDS_HZ, BandPowers
from audio.buffers import SAMPLE_LIMIT, Float32
from audio.crosstalk import Leak, LeakEstimator
from audio.errors import AudioFileError, InputError
from audio.inspection import inspect
from audio.levels import CLIPPED_RUN_N, full_scale
from audio.resample import StreamResampler
from audio.silero import load_model, push_together
from audio.silero_graph import FRAME_N
from audio.spans import Interval
from audio.timebase import ANALYSIS_RATE_HZ, NS_PER_S, convert_n, n_to_ns
from audio.tones import peak_shares
from rig.field.sources import CallSource, Track, require_two_sides

DETECTOR_FRAME_NS = FRAME_N * NS_PER_S // ANALYSIS_RATE_HZ
"""32 ms: one value of every array of features."""
CHUNK_FRAMES = 320
CHUNK_N = CHUNK_FRAMES * FRAME_N
"""10.24 s at 16 kHz: enough for the detector to be quick, 0.6 MB a channel."""
_RANGES_MAX = 1000
"""Bound on the stretches that are told apart: further ones are joined to the last."""
_LOUD = 10.0 ** (-55 / 10)
"""Power above which a frame without speech is looked at for tones: -55 dB re full scale."""


@dataclass(slots=True)
class SideFeatures:
    """One channel. Arrays have one value a frame of 32 ms.

    rate_hz, frames_n: of its file. mean, peak: of all its samples. clipped_n: samples in runs at
    full scale. last_sound_ns: where its last sample other than 0 ends.
    still_share: part of the time before that in which 20 ms and more are exactly 0. bad_ns:
    stretches of samples that are not finite; bad_n: how many those are. power: mean square. two,
    eight, bin: see `audio.tones` (0 where speech or too soft). bands: four rows a frame, see
    `audio.band_edges`.
    """

    rate_hz: int
    frames_n: int
    mean: float = 0.0
    peak: float = 0.0
    clipped_n: int = 0
    last_sound_ns: int = 0
    still_share: float = 0.0
    bad_n: int = 0
    bad_ns: list[Interval] = field(default_factory=list)
    probabilities: Float32 = field(default_factory=lambda: np.zeros(0, np.float32))
    power: Float32 = field(default_factory=lambda: np.zeros(0, np.float32))
    two: Float32 = field(default_factory=lambda: np.zeros(0, np.float32))
    eight: Float32 = field(default_factory=lambda: np.zeros(0, np.float32))
    bin: NDArray[np.int16] = field(default_factory=lambda: np.zeros(0, np.int16))
    bands: NDArray[np.uint8] = field(
        default_factory=lambda: np.zeros((0, len(BANDS_HZ) - 1), np.uint8))

    @property
    def recorded_ns(self) -> int:
        """Length of its file."""
        return n_to_ns(self.frames_n, self.rate_hz)


@dataclass(slots=True)
class CallFeatures:
    """Both channels of a call, and what they have in common.

    samples_n: length at 16 kHz, of the longer file. correlation: of the two channels at lag 0,
    `None` where one is silent. leak_to_caller: path from the agent's channel to the caller's.
    warnings: the reader's own. channels_n: channels of the file, of two files of the one with more.
    """

    caller: SideFeatures
    agent: SideFeatures
    samples_n: int
    correlation: float | None
    leak_to_caller: Leak | None
    leak_to_agent: Leak | None
    warnings: list[tuple[str, str]]
    channels_n: int

    @property
    def recorded_ns(self) -> int:
        """Length of the call."""
        return n_to_ns(self.samples_n, ANALYSIS_RATE_HZ)


def ingest(source: CallSource) -> CallFeatures:
    """Read a call. Raises `AudioFileError` when it cannot be used."""
    try:
        return _ingest(source)
    except AudioFileError:
        raise
    except InputError as error:
        raise AudioFileError(f"{source.name}: its samples are no audio: {error}") from error


def _ingest(source: CallSource) -> CallFeatures:
    opened = {path: inspect(path) for path in source.paths}
    for path, opened_file in opened.items():
        require_two_sides(source, opened_file.info.channels)
        if source.caller.path != source.agent.path and opened_file.info.channels != 1:
            raise AudioFileError.expected(
                "one channel in each of the two files of a call",
                got=f"{opened_file.info.channels} channels", where=path)
        if opened_file.info.frames_n == 0:
            raise AudioFileError.expected("a recording with samples", got="an empty one",
                                          where=path)
    tracks = (source.caller, source.agent)
    sides = [SideFeatures(opened[t.path].info.rate_hz, opened[t.path].info.frames_n)
             for t in tracks]
    for path, file in opened.items():
        which = [k for k, track in enumerate(tracks) if track.path == path]
        _survey(file, [tracks[k] for k in which], [sides[k] for k in which])
    for track, side in zip(tracks, sides, strict=True):
        if side.peak > SAMPLE_LIMIT:
            raise AudioFileError.expected(
                f"samples on a full scale of 1, none beyond {SAMPLE_LIMIT:g}",
                got=f"{side.peak:g} in channel {track.channel} (PCM numbers stored as floats?)",
                where=recordings.show(track.path))
    samples_n = max(convert_n(s.frames_n, s.rate_hz, ANALYSIS_RATE_HZ) for s in sides)
    correlation, leaks = _detect(opened, tracks, sides, samples_n)
    warnings = [w for file in opened.values() for w in file.info.warnings]
    return CallFeatures(sides[0], sides[1], samples_n, correlation, leaks[1], leaks[0], warnings,
                        max(file.info.channels for file in opened.values()))


def _survey(file: recordings.Recording, tracks: list[Track], sides: list[SideFeatures]) -> None:
    """First pass: mean, peak, clipping, where the sound ends, what is not finite."""
    info = file.info
    top = full_scale(info.subtype)
    totals = [0.0] * len(sides)
    last_n = [0] * len(sides)
    window_n = max(1, info.rate_hz // 50)
    still: list[list[NDArray[np.bool_]]] = [[] for _ in sides]
    for at, block in file.decode(0, info.frames_n):
        for k, (track, side) in enumerate(zip(tracks, sides, strict=True)):
            samples = np.ascontiguousarray(block[:, track.channel])
            total = float(samples.sum(dtype=np.float64))
            if not np.isfinite(total):
                samples = _finite(samples, at, info.rate_hz, side)
                total = float(samples.sum(dtype=np.float64))
            totals[k] += total
            low, high = float(samples.min()), float(samples.max())
            side.peak = max(side.peak, -low, high)
            if high >= top or low <= -top:
                side.clipped_n += _clipped(samples, top)
            whole = samples[: len(samples) // window_n * window_n].reshape(-1, window_n)
            still[k].append(np.asarray(~whole.any(axis=1)))
            if low != 0.0 or high != 0.0:
                last_n[k] = at + len(samples) - int(np.argmax(samples[::-1] != 0))
    for k, side in enumerate(sides):
        side.mean = totals[k] / info.frames_n
        side.last_sound_ns = n_to_ns(last_n[k], info.rate_hz)
        before = np.concatenate(still[k])
        before = before[: last_n[k] * len(before) // info.frames_n]
        side.still_share = float(before.mean()) if len(before) else 0.0


def _finite(samples: Float32, at: int, rate_hz: int, side: SideFeatures | None) -> Float32:
    """The samples with 0 for what is not finite; noted in `side`."""
    good = np.isfinite(samples)
    if good.all():
        return samples
    if side is not None:
        bad = np.flatnonzero(~good)
        side.bad_n += len(bad)
        # Stretches less than 10 ms apart are one.
        cuts = np.flatnonzero(np.diff(bad) > rate_hz // 100)
        firsts = [int(bad[0]), *(int(bad[c + 1]) for c in cuts)]
        lasts = [*(int(bad[c]) for c in cuts), int(bad[-1])]
        for first, last in zip(firsts, lasts, strict=True):
            here = (n_to_ns(at + first, rate_hz), n_to_ns(at + last + 1, rate_hz))
            if len(side.bad_ns) >= _RANGES_MAX:
                here = (side.bad_ns.pop()[0], here[1])
            side.bad_ns.append(here)
    return np.where(good, samples, np.float32(0.0))


def _clipped(samples: Float32, top: float) -> int:
    """Samples in runs of `CLIPPED_RUN_N` at full scale, on one side."""
    count = 0
    for side in (samples >= top, samples <= -top):
        change = np.diff(np.concatenate(([False], side, [False])).astype(np.int8))
        runs = np.flatnonzero(change)
        lengths = runs[1::2] - runs[::2]
        count += int(lengths[lengths >= CLIPPED_RUN_N].sum())
    return count


def _detect(
    opened: dict[Path, recordings.Recording], tracks: tuple[Track, Track],
    sides: list[SideFeatures], samples_n: int
) -> tuple[float | None, tuple[Leak | None, Leak | None]]:
    """Second pass. Gives the correlation and the leaks from caller and from agent."""
    model = load_model()
    streams = [model.stream(), model.stream()]
    banded = [BandPowers(), BandPowers()]
    found: list[list[_Frames]] = [[], []]
    leaks = LeakEstimator(samples_n)
    products = np.zeros(3)
    for first, second in _chunks(opened, tracks, sides, samples_n):
        # The last frame is filled up with zeros, as the end of a stream would do it.
        pad_n = -len(first) % FRAME_N
        pieces = [np.pad(x, (0, pad_n)) if pad_n else x for x in (first, second)]
        probabilities = push_together(streams, pieces)
        for k in (0, 1):
            found[k].append(_frames(pieces[k].reshape(-1, FRAME_N), probabilities[k],
                                    banded[k].push(pieces[k])))
        leaks.push(pieces[0], pieces[1])
        products += [float(np.dot(first, second)), float(np.dot(first, first)),
                     float(np.dot(second, second))]
    leaks.flush()
    for side, frames in zip(sides, found, strict=True):
        side.probabilities = np.concatenate([f.probabilities for f in frames])
        side.power = np.concatenate([f.power for f in frames])
        side.two = np.concatenate([f.two for f in frames])
        side.eight = np.concatenate([f.eight for f in frames])
        side.bin = np.concatenate([f.bin for f in frames])
        side.bands = np.concatenate([f.bands for f in frames])
    both = float(np.sqrt(products[1] * products[2]))
    return (products[0] / both if both > 0 else None), (leaks.leak(0), leaks.leak(1))


@dataclass(frozen=True, slots=True)
class _Frames:
    probabilities: Float32
    power: Float32
    two: Float32
    eight: Float32
    bin: NDArray[np.int16]
    bands: NDArray[np.uint8]


def _frames(frames: Float32, probabilities: Float32, bands: NDArray[np.uint8]) -> _Frames:
    power = np.einsum("ij,ij->i", frames, frames) / np.float32(FRAME_N)
    count = len(frames)
    two, eight = np.zeros(count, np.float32), np.zeros(count, np.float32)
    strongest = np.zeros(count, np.int16)
    looked = (power > _LOUD) & (probabilities < 0.5)
    if looked.any():
        two[looked], eight[looked], strongest[looked] = peak_shares(frames[looked])
    return _Frames(probabilities, power, two, eight, strongest, bands)


def _chunks(
    opened: dict[Path, recordings.Recording], tracks: tuple[Track, Track],
    sides: list[SideFeatures], samples_n: int
) -> Iterator[tuple[Float32, Float32]]:
    """Both channels at 16 kHz without their mean, `CHUNK_N` samples at a time; a channel that ends
    early goes on as silence."""
    queues: list[_Queue] = [_Queue(), _Queue()]
    readers = []
    for path, file in opened.items():
        which = [k for k, track in enumerate(tracks) if track.path == path]
        readers.append(_resampled(file, [(k, tracks[k], sides[k]) for k in which], queues))
    done_n = 0
    while done_n < samples_n:
        want_n = min(CHUNK_N, samples_n - done_n)
        for reader in list(readers):
            while any(queues[k].held_n < want_n for k in reader.sides) and reader.advance():
                pass
        yield queues[0].take(want_n), queues[1].take(want_n)
        done_n += want_n


class _Queue:
    """Samples of one channel that wait to be taken."""

    def __init__(self) -> None:
        self._parts: list[Float32] = []
        self.held_n = 0

    def put(self, samples: Float32) -> None:
        self._parts.append(samples)
        self.held_n += len(samples)

    def take(self, count: int) -> Float32:
        """The next samples; zeros once the channel has ended."""
        whole = np.concatenate(self._parts) if self._parts else np.zeros(0, np.float32)
        out, rest = whole[:count], whole[count:]
        self._parts, self.held_n = [rest], len(rest)
        if len(out) < count:
            out = np.pad(out, (0, count - len(out)))
        return np.ascontiguousarray(out)


class _resampled:  # noqa: N801 - written as a call
    """One file, decoded into the queues of its channels."""

    def __init__(self, file: recordings.Recording, wanted: list[tuple[int, Track, SideFeatures]],
                 queues: list[_Queue]) -> None:
        self.sides = [k for k, _, _ in wanted]
        self._wanted = wanted
        self._queues = queues
        self._rate_hz = file.info.rate_hz
        self._blocks = file.decode(0, file.info.frames_n)
        self._streams = [StreamResampler(self._rate_hz, ANALYSIS_RATE_HZ) for _ in wanted]

    def advance(self) -> bool:
        """Decode one block; False when there is none left."""
        found = next(self._blocks, None)
        if found is None:
            if not self._streams:
                return False
            for (k, _, _), stream in zip(self._wanted, self._streams, strict=True):
                self._queues[k].put(stream.flush())
            self._streams = []
            return True
        at, block = found
        for (k, track, side), stream in zip(self._wanted, self._streams, strict=True):
            samples = block[:, track.channel]
            if side.bad_n:
                samples = _finite(samples, at, self._rate_hz, None)
            self._queues[k].put(stream.push(
                (samples.astype(np.float64) - side.mean).astype(np.float32)))
        return True
