"""Text to a segment of speech: engines, quality gate, edges, words.

    text -> normalise -> engine -> 24 kHz -> cut to speech edges -> PCM16 grid -> align -> gate

A segment is spoken alone. What it is made of is known from construction: its first sample is at
most 10 ms before speech, its last at most 10 ms after, and silence between segments is inserted
by whoever assembles them, as exact zeros. No loudness is changed (DSB-IFEval, table 29).

Same text, engine, voice and seed give the same bytes on one machine and installation. Across
machines the bytes may differ; `construction_key` holds there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Literal, Protocol

import numpy as np

from audio import edges, engines
from audio.align import AlignedWord, align
from audio.aligners import Aligner
from audio.buffers import Float32, float_to_pcm16, pcm16_to_float
from audio.errors import AlignmentError, InputError, SynthesisError
from audio.levels import FULL_SCALE
from audio.resample import resample
from audio.spoken_text import normalise, words
from audio.timebase import SESSION_RATE_HZ, n_to_s

DEFAULT_ENGINE = "hibari"
"""Chosen by measurement: docs/synthesis.md, bench/measure_engines.py."""

class Engine(Protocol):
    """A speech engine. Loading is lazy: making one costs nothing, the first utterance does.

    What may be relied on, licence and settings stand in `audio.engines`, to be read without it.
    """

    @property
    def name(self) -> str:
        """Registered name."""

    @property
    def version(self) -> str:
        """Version of the package that speaks."""

    @property
    def sample_rate_hz(self) -> int:
        """Rate of what `synthesize` returns."""

    def voices(self) -> tuple[str, ...]:
        """Names that need nothing but the install; the same on every machine, the best first."""

    def synthesize(self, text: str, voice: str, seed: int) -> Float32:
        """Speak normalised `text`: float32 mono in [-1, 1] at `sample_rate_hz`.

        A pure function of its arguments on one machine where the engine is `deterministic`. One
        without randomness ignores the seed. Raises `InputError` for an unknown voice,
        `SynthesisError` when it fails, `InfrastructureError` for trouble with a server.
        """

    def facts(self) -> dict[str, str]:
        """Name, version and what else decides the bytes, for the manifest."""


@dataclass(frozen=True, slots=True)
class Gate:
    """What a rendering must satisfy; otherwise the segment is rendered again with another seed.

    The bounds come from the 729 segments of the built-in suite, spoken by the default engine
    (docs/synthesis.md): 0.041 to 0.073 s a character; the last word ends 13 to 228 ms before the
    end of the segment, the first begins 0 to 60 ms after its start.
    """

    min_s_per_char: float = 0.035
    """Below: speech was cut, or words left out."""
    max_s_per_char: float = 0.10
    max_extra_s: float = 0.45
    """Longest allowed: `max_extra_s + max_s_per_char * characters`. Beyond: sounds were added."""
    min_level_dbfs: float = -45.0
    """Speech level. Ours: 17 dB below the quietest of the 729 segments, and above where a detector
    begins to lose speech (`rig.level_flags.NEAR_SILENT_DBFS`)."""
    max_pause_s: float = 1.0
    """Longest silence inside a segment; designed pauses are never left to an engine."""
    max_head_s: float = 0.25
    max_tail_s: float = 0.25
    """Longest sound before the first and after the last aligned word: noise that an engine added
    ends the file late, while the user's speech ends with the last word. Twice what the suite shows,
    because the aligner gives up to 0.23 s of clean texts ("uh-huh", "ha ha") to silence."""


GATES = {"espeak": Gate(max_head_s=0.5, max_tail_s=0.5)}
"""Where an engine's own gate differs. The aligner's model fits formant speech less well: it puts
clean first and last words up to 0.33 s inside the segment."""


def gate_of(engine_name: str) -> Gate:
    """The gate of an engine's renderings."""
    return GATES.get(engine_name, Gate())


@dataclass(frozen=True, slots=True, eq=False)
class RenderedSegment:
    """Speech of one segment.

    `samples` is float32 mono at 24 kHz on the PCM16 grid (what is stored is what is played).
    Times of `words` are samples within it. `alignment` says where they come from: `forced`
    (measured) or `uniform` (spread over the segment by letters because alignment failed).
    `attempts` counts the renderings made; `seed` is that of the one kept.
    """

    samples: Float32
    words: tuple[AlignedWord, ...]
    alignment: Literal["forced", "uniform"]
    seconds_per_char: float
    attempts: int
    seed: int
    text: str


def engine_names() -> tuple[str, ...]:
    """Every engine that can be asked for."""
    return tuple(engines.ENGINES)


def engine(
    name: str, settings: Mapping[str, str] | None = None, *, post: object = None
) -> Engine:
    """The engine of that name; its module is imported now, its model at the first utterance.

    Args:
        name: one of `engine_names()`.
        settings: as `audio.engines` lists them, as text.
        post: what sends a request (`audio.engine_endpoint.Post`), for an engine that needs a
            network.

    Raises:
        InputError: no such engine or setting (with the nearest name), a required setting or a
            package that is missing.
    """
    built: Engine = engines.entry(name).build(settings or {}, post)
    return built


def render_segment(
    text: str, engine: Engine, voice: str, seed: int, *, max_attempts: int = 3,
    gate: Gate | None = None, aligner: Aligner | None = None,
) -> RenderedSegment:
    """Speak `text` alone and measure it, its words with the default aligner or another one.

    Attempt k (from 0) uses seed + k. A rendering that the gate refuses, or that cannot be aligned,
    is made again, as long as that gives other samples. When every rendering that passes the rest
    of the gate fails to align, the first of them is returned with words marked `uniform` (seed
    002, table 29: regenerate up to 3 times, else flag).

    Raises:
        InputError: text not in spoken form, unknown voice, `max_attempts` below 1.
        SynthesisError: no rendering passed the gate; names the text and the last refusal.
    """
    if max_attempts < 1:
        raise InputError.expected("at least 1 attempt", got=max_attempts, where="render_segment")
    spoken = normalise(text)
    bounds = gate or gate_of(engine.name)
    find_words = align if aligner is None else aligner.align
    refusal = stray = ""
    unaligned: RenderedSegment | None = None
    seen: list[Float32] = []
    made = 0
    for attempt in range(max_attempts):
        try:
            raw = engine.synthesize(spoken, voice, seed + attempt)
        except SynthesisError as error:
            made += 1
            refusal = str(error)
            continue
        if any(np.array_equal(raw, other) for other in seen):
            break  # the engine has no other rendering of this text
        made += 1
        seen.append(raw)
        try:
            samples, seconds_per_char = _cut(raw, engine.sample_rate_hz, spoken, bounds)
        except SynthesisError as error:
            refusal = str(error)
            continue
        try:
            aligned = find_words(samples, SESSION_RATE_HZ, spoken)
        except AlignmentError:
            if unaligned is None:
                unaligned = RenderedSegment(
                    samples, _spread(spoken, samples.size), "uniform", seconds_per_char,
                    attempt + 1, seed + attempt, spoken,
                )
            continue
        stray = _stray_sound(aligned, samples.size, bounds)
        if not stray:
            return RenderedSegment(
                samples, aligned, "forced", seconds_per_char, attempt + 1, seed + attempt, spoken
            )
        refusal = stray
    if unaligned is not None and not stray:
        return replace(unaligned, attempts=made)
    raise SynthesisError(
        f"{engine.name}: no rendering of {spoken!r} passed in {made} "
        f"attempt(s): {refusal}"
    )


def construction_key(
    text: str, engine_name: str, engine_version: str, voice: str, seed: int,
    *, max_attempts: int = 3, gate: Gate | None = None,
) -> dict[str, object]:
    """Everything that decides a segment and is the same on every machine: no audio in it.

    JSON-ready; hash it with sorted keys. Raises `InputError` as `spoken_text.normalise`.
    """
    return {
        "schema": 1,
        "text": normalise(text),
        "engine": engine_name,
        "engine_version": engine_version,
        "voice": voice,
        "seed": seed,
        "max_attempts": max_attempts,
        "rate_hz": SESSION_RATE_HZ,
        "resampler": "soxr VHQ",
        "edge_below_level_db": edges.EDGE_BELOW_LEVEL_DB,
        "margin_ms": edges.MARGIN_MS,
        "fade_ms": edges.FADE_MS,
        "gate": asdict(gate or gate_of(engine_name)),
    }


def construction_facts(engine_name: str) -> dict[str, str]:
    """What else decides a segment, beside the engine's own facts: for caches and the manifest."""
    return {
        "cut": f"{edges.EDGE_BELOW_LEVEL_DB:g} dB below speech, margin {edges.MARGIN_MS:g} ms, "
               f"fade {edges.FADE_MS:g} ms",
        "gate": ", ".join(f"{name} {value:g}" for name, value in
                          asdict(gate_of(engine_name)).items()),
    }


def _cut(raw: Float32, rate_hz: int, text: str, gate: Gate) -> tuple[Float32, float]:
    """24 kHz samples on the PCM16 grid between the speech edges, and seconds a character.

    Raises `SynthesisError` where a property of the sound itself is out of bounds.
    """
    if raw.ndim != 1 or not np.isfinite(raw).all():
        raise SynthesisError("expected finite mono samples from the engine")
    at_24k = resample(raw, rate_hz, SESSION_RATE_HZ)
    for array in (raw, at_24k):
        if array.size and float(np.abs(array).max()) >= FULL_SCALE:
            raise SynthesisError("expected samples below full scale, got clipping")
    found = edges.measure_edges(at_24k, SESSION_RATE_HZ)
    if found.speech_level_db < gate.min_level_dbfs:
        raise SynthesisError(f"expected speech at {gate.min_level_dbfs:g} dBFS or louder, got "
                             f"{found.speech_level_db:.0f}")
    trimmed, _ = edges.trim(at_24k, SESSION_RATE_HZ, found)
    samples = pcm16_to_float(float_to_pcm16(trimmed))
    duration_s = n_to_s(samples.size, SESSION_RATE_HZ)
    longest_s = gate.max_extra_s + gate.max_s_per_char * len(text)
    shortest_s = gate.min_s_per_char * len(text)
    if not shortest_s <= duration_s <= longest_s:
        raise SynthesisError(f"expected {shortest_s:.2f} to {longest_s:.2f} s for {len(text)} "
                             f"characters, got {duration_s:.2f} s")
    pause_s = n_to_s(found.longest_pause_n, SESSION_RATE_HZ)
    if pause_s > gate.max_pause_s:
        raise SynthesisError(f"expected no silence over {gate.max_pause_s} s inside, "
                             f"got {pause_s:.2f} s")
    return samples, duration_s / len(text)


def _stray_sound(aligned: tuple[AlignedWord, ...], size_n: int, gate: Gate) -> str:
    """Why the sound outside the words is refused; empty when it is not."""
    head_s = n_to_s(aligned[0].start_n, SESSION_RATE_HZ)
    last = aligned[-1]
    # Before it was moved on to where sound fades: sound is what is looked for.
    end_n = last.end_n if last.found_end_n is None else last.found_end_n
    tail_s = n_to_s(size_n - end_n, SESSION_RATE_HZ)
    if head_s > gate.max_head_s:
        return f"{head_s:.2f} s of sound before the first word"
    if tail_s > gate.max_tail_s:
        return f"{tail_s:.2f} s of sound after the last word"
    return ""


def _spread(text: str, size_n: int) -> tuple[AlignedWord, ...]:
    """Words over the whole segment in proportion to their letters."""
    spoken = words(text)
    letters = np.cumsum([0, *(len(word) for word in spoken)])
    at = [round(size_n * float(share)) for share in letters / letters[-1]]
    return tuple(
        AlignedWord(word, start_n, end_n)
        for word, start_n, end_n in zip(spoken, at, at[1:], strict=False)
    )
