"""Rendered speech segments: who renders them, and a cache keyed by everything that shapes them.

A renderer is given from outside, so that a build needs no engine of its own. Each distinct
segment is rendered once, in this process or in several; the result is the same bytes either way,
because a segment depends on its text, voice and seed alone.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from audio.buffers import Float32, Int16, float_to_pcm16
from audio.errors import InfrastructureError, RigError, SynthesisError
from audio.files import atomic_write_text, read_channel, sha256_samples, write_wav_pcm16
from audio.processes import end_with_parent
from audio.timebase import SESSION_RATE_HZ

Alignment = Literal["forced", "uniform", "none"]
CACHE_SCHEMA = 1
IN_FLIGHT_PER_JOB = 4
"""Ours: enough to keep every worker busy, few enough to stop soon after an error."""


class RenderedWord(Protocol):
    """A word of a rendered segment: `[start_n, end_n)` samples at 24 kHz within it."""

    @property
    def word(self) -> str: ...
    @property
    def start_n(self) -> int: ...
    @property
    def end_n(self) -> int: ...


class Rendered(Protocol):
    """A spoken segment: float32 `(n,)` at 24 kHz, cut to its speech edges."""

    @property
    def samples(self) -> Float32: ...
    @property
    def words(self) -> Sequence[RenderedWord]: ...
    @property
    def alignment(self) -> Alignment: ...


class SegmentRenderer(Protocol):
    """What `build_suite` needs of a speech engine.

    `engine` and `aligner` identify what renders and aligns, as text: `name`, `version`, every
    setting that changes the sound under a key that begins with `setting_`, and whatever else
    decides the bytes on this machine. `voices` is never empty and its order is fixed. With more
    than one job the renderer must survive pickling.
    """

    @property
    def engine(self) -> Mapping[str, str]: ...
    @property
    def aligner(self) -> Mapping[str, str]: ...
    @property
    def voices(self) -> Sequence[str]: ...
    def render(self, text: str, voice: str, seed: int) -> Rendered: ...


@dataclass(frozen=True, slots=True)
class WordPosition:
    word: str
    start_n: int
    end_n: int


@dataclass(frozen=True, slots=True)
class SpokenSegment:
    """A segment out of the cache: PCM16 `(n,)` at 24 kHz and its words."""

    pcm: Int16
    words: tuple[WordPosition, ...]
    alignment: Alignment


@dataclass(frozen=True, slots=True)
class SegmentJob:
    """One segment to render; `label` says whose it is, for messages and progress only."""

    text: str
    voice: str
    seed: int
    label: str = ""


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no blanks: equal values give equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def sha256_json(value: Any) -> str:
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def choose_voice(audio_key: str, voices: Sequence[str]) -> str:
    """One voice a conversation: `sha1(audio_key) mod N` (DSB-IFEval, table 29)."""
    if not voices:
        raise SynthesisError("speech engine: expected at least one voice, got none")
    return voices[int(hashlib.sha1(audio_key.encode()).hexdigest(), 16) % len(voices)]  # noqa: S324


def segment_seed(audio_key: str, turn: int, name: str) -> int:
    """Seed of a segment, 0 to 2**31 - 1: fixed by what it is, not by when it is rendered."""
    digest = hashlib.sha256(f"{audio_key}/turn{turn}/{name}".encode()).digest()
    return int.from_bytes(digest[:4], "big") & 0x7FFFFFFF


class SegmentCache:
    """Rendered segments on disk, one WAV and one JSON file each, named by content.

    The JSON file is written last and holds the hash of the samples; an entry that is torn,
    damaged or foreign is rendered again.
    """

    def __init__(self, folder: Path, engine: Mapping[str, str], aligner: Mapping[str, str]) -> None:
        self.folder = folder
        self._identity = {"engine": dict(engine), "aligner": dict(aligner)}

    def key(self, job: SegmentJob) -> str:
        return sha256_json({"schema": CACHE_SCHEMA, "rate_hz": SESSION_RATE_HZ, "text": job.text,
                            "voice": job.voice, "seed": job.seed, **self._identity})

    def load(self, job: SegmentJob) -> SpokenSegment | None:
        """The segment, or `None` when it must be rendered."""
        key = self.key(job)
        wav, meta = self.folder / f"{key}.wav", self.folder / f"{key}.json"
        try:
            facts = json.loads(meta.read_text(encoding="utf-8"))
            pcm = float_to_pcm16(read_channel(wav, 0))
            words = tuple(WordPosition(str(w), int(a), int(b)) for w, a, b in facts["words"])
            if (sha256_samples(pcm) != facts["audio_sha256"]
                    or sha256_json(facts["words"]) != facts["words_sha256"]):
                return None
            return SpokenSegment(pcm, words, facts["alignment"])
        except (OSError, RigError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None

    def store(self, job: SegmentJob, segment: SpokenSegment) -> None:
        key = self.key(job)
        words = [[w.word, w.start_n, w.end_n] for w in segment.words]
        self.folder.mkdir(parents=True, exist_ok=True)
        write_wav_pcm16(self.folder / f"{key}.wav", segment.pcm, SESSION_RATE_HZ)
        atomic_write_text(self.folder / f"{key}.json", canonical_json({
            "schema": CACHE_SCHEMA, "text": job.text, "voice": job.voice, "seed": job.seed,
            "audio_sha256": sha256_samples(segment.pcm), "alignment": segment.alignment,
            "words": words, "words_sha256": sha256_json(words)}) + "\n")

    def forget(self, job: SegmentJob) -> None:
        """A segment that turned out to be no good is rendered again by the next build."""
        for suffix in (".json", ".wav"):
            (self.folder / f"{self.key(job)}{suffix}").unlink(missing_ok=True)


def render_job(renderer: SegmentRenderer, job: SegmentJob) -> SpokenSegment:
    """Render one segment and check what came.

    Raises `SynthesisError` that names the segment, `InfrastructureError` for trouble with a server.
    """
    try:
        out = renderer.render(job.text, job.voice, job.seed)
    except InfrastructureError as error:
        raise InfrastructureError(f"{job.label}: {error}") from error
    except RigError as error:
        raise SynthesisError(f"{job.label}: {error}") from error
    if out.samples.ndim != 1 or not out.samples.size or not np.isfinite(out.samples).all():
        raise SynthesisError(f"{job.label}: expected finite samples of shape (n,), got shape "
                             f"{out.samples.shape}")
    words = tuple(WordPosition(w.word, w.start_n, w.end_n) for w in out.words)
    for word in words:
        if not 0 <= word.start_n <= word.end_n <= out.samples.size:
            raise SynthesisError(f"{job.label}: expected word {word.word!r} inside "
                                 f"{out.samples.size} samples, got [{word.start_n}, "
                                 f"{word.end_n})")
    return SpokenSegment(float_to_pcm16(out.samples), words, out.alignment)


def render_all(
    renderer: SegmentRenderer, cache: SegmentCache, jobs: Iterable[SegmentJob], *,
    workers: int = 1, progress: Callable[[int, int, str], None] | None = None,
) -> None:
    """See that every segment is in the cache, with `workers` processes.

    `progress(done, total, label)` counts distinct segments. Raises the first `SynthesisError`;
    what is finished by then stays in the cache, so that the next build goes on from there.
    """
    distinct: dict[str, SegmentJob] = {}
    for job in jobs:
        distinct.setdefault(cache.key(job), job)
    todo = [job for job in distinct.values() if cache.load(job) is None]
    total, done = len(distinct), len(distinct) - len(todo)

    def tell(job: SegmentJob | None) -> None:
        if progress is not None:
            progress(done, total, job.label if job else "from cache")

    tell(None)
    if workers <= 1 or len(todo) <= 1:
        for job in todo:
            cache.store(job, render_job(renderer, job))
            done += 1
            tell(job)
        return
    # spawn: a fork would copy threads of the inference runtime in an unknown state
    with ProcessPoolExecutor(min(workers, len(todo)),
                             mp_context=multiprocessing.get_context("spawn"),
                             initializer=_start_worker, initargs=(renderer, cache)) as pool:
        waiting = list(reversed(todo))
        running: dict[Future[None], SegmentJob] = {}
        try:
            while waiting or running:
                while waiting and len(running) < workers * IN_FLIGHT_PER_JOB:
                    job = waiting.pop()
                    running[pool.submit(_work, job)] = job
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    job = running.pop(future)
                    future.result()
                    done += 1
                    tell(job)
        except BrokenProcessPool as error:
            raise SynthesisError("speech engine: expected a segment, got a rendering process "
                                 "that died (out of memory?)") from error
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


_worker: tuple[SegmentRenderer, SegmentCache] | None = None
"""Set once in a worker process, never in the parent."""


def _start_worker(renderer: SegmentRenderer, cache: SegmentCache) -> None:
    global _worker
    end_with_parent()
    _worker = (renderer, cache)


def _work(job: SegmentJob) -> None:
    assert _worker is not None
    renderer, cache = _worker
    cache.store(job, render_job(renderer, job))
