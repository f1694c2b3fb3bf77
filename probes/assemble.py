"""Put a turn together from spoken segments and exact silence, and say where everything is.

Every position comes from construction: the sum of what was put before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from audio.buffers import Int16, pcm16_to_float
from audio.edges import measure_edges
from audio.errors import SynthesisError
from audio.synthesis import construction_key
from audio.timebase import SESSION_RATE_HZ, n_to_s
from probes.expand import PlannedSegment, PlannedStream
from probes.gates import GateFailure, allowed_range_s
from probes.manifest import SegmentAudio, Word
from probes.segments import SegmentJob, SpokenSegment, choose_voice, segment_seed, sha256_json
from probes.spec import Suite

EDGE_LIMIT_MS = 20.0
"""No window edge may lie further from audible speech (design of the suite, "Segment edges")."""


@dataclass(frozen=True, slots=True)
class Turn:
    """An assembled turn: PCM16 `(n,)` at 24 kHz; segments cover `[0, n)` without a gap."""

    pcm: Int16
    segments: tuple[SegmentAudio, ...]

    @property
    def positions(self) -> dict[str, tuple[int, int]]:
        return {s.name: (s.start_n, s.end_n) for s in self.segments}


def speech_jobs(stream: PlannedStream, voices: tuple[str, ...]) -> Iterator[
        tuple[int, PlannedSegment, SegmentJob]]:
    """What must be rendered for a stream: number of the turn, segment, job."""
    voice = choose_voice(stream.base_id, voices)
    for turn, segments in ((1, stream.turn1), (2, stream.turn2)):
        for segment in segments:
            if segment.kind == "speech":
                assert segment.text is not None
                seed = segment_seed(stream.base_id, turn, segment.name)
                label = f"{stream.stream_id} turn {turn} {segment.name}"
                yield turn, segment, SegmentJob(segment.text, voice, seed, label)


def assemble(segments: tuple[PlannedSegment, ...], spoken: Mapping[str, SpokenSegment]) -> Turn:
    """Concatenate. `spoken` gives the audio of every speech segment by name."""
    pieces: list[Int16] = []
    out: list[SegmentAudio] = []
    at_n = 0
    for segment in segments:
        if segment.kind == "silence":
            pcm: Int16 = np.zeros(segment.silence_n, dtype=np.int16)
            out.append(SegmentAudio(kind="silence", name=segment.name, start_n=at_n,
                                    end_n=at_n + pcm.size))
        else:
            audio = spoken[segment.name]
            pcm = audio.pcm
            words = tuple(Word(word=w.word, start_s=n_to_s(at_n + w.start_n, SESSION_RATE_HZ),
                               end_s=n_to_s(at_n + w.end_n, SESSION_RATE_HZ))
                          for w in audio.words)
            out.append(SegmentAudio(kind="speech", name=segment.name, start_n=at_n,
                                    end_n=at_n + pcm.size, text=segment.text, words=words,
                                    alignment=audio.alignment))
        pieces.append(pcm)
        at_n += pcm.size
    return Turn(np.concatenate(pieces), tuple(out))


SETTING_PREFIX = "setting_"
"""Entries of `SegmentRenderer.engine` that begin so are settings; they shape what is spoken."""


def construction_sha256(stream: PlannedStream, voice: str, engine: Mapping[str, str]) -> str:
    """Hash of what a stream is made from: texts, silences, voice, seeds, engine, its settings.

    It holds across machines: of `engine` only `name`, `version` and settings are in it, and
    nothing that was measured on audio.
    """
    name, version = engine.get("name", "unnamed"), engine.get("version", "unknown")

    def turn(number: int, segments: tuple[PlannedSegment, ...]) -> list[dict[str, Any]]:
        return [{"name": s.name, "silence_n": s.silence_n} if s.text is None else
                {"name": s.name, "speech": construction_key(
                    s.text, name, version, voice, segment_seed(stream.base_id, number, s.name))}
                for s in segments]

    return sha256_json({"settings": {k: v for k, v in engine.items()
                                     if k.startswith(SETTING_PREFIX)},
                        "turn1": turn(1, stream.turn1), "turn2": turn(2, stream.turn2)})


def check_audio(suite: Suite, stream: PlannedStream, turn: int, segment: PlannedSegment,
                spoken: SpokenSegment) -> Iterator[GateFailure]:
    """The gates that need sound: length against the target, and audible speech at both edges."""
    key = "turn1" if turn == 1 else f"turn2.{segment.name}"
    if segment.name.startswith("l4b_"):
        key = f"l4b_append.{segment.name.removeprefix('l4b_')}"
    item = f"conversation {stream.base_id}.{key}"
    at = suite.origin(item)

    def fail(rule: str, detail: str) -> GateFailure:
        return GateFailure(at.file, at.line, item, rule, (), detail)

    length_s = n_to_s(spoken.pcm.size, SESSION_RATE_HZ)
    if segment.target_s is not None:
        low_s, high_s = allowed_range_s(segment.target_s)
        if not low_s <= length_s <= high_s:
            yield fail("rendered_duration_off_target", f"rendered {length_s:.2f} s, allowed "
                       f"{low_s:.1f} to {high_s:.1f} s")
    if segment.min_s is not None and length_s < segment.min_s:
        yield fail("rendered_too_short", f"rendered {length_s:.2f} s, at least "
                   f"{segment.min_s:g} s are needed")
    try:
        edges = measure_edges(pcm16_to_float(spoken.pcm), SESSION_RATE_HZ)
    except SynthesisError as error:
        yield fail("rendered_without_speech", str(error))
        return
    for side, silent_n in (("start", edges.start_n), ("end", spoken.pcm.size - edges.end_n)):
        silent_ms = 1000 * silent_n / SESSION_RATE_HZ
        if silent_ms > EDGE_LIMIT_MS:
            yield fail("edge_not_audible", f"{side}: {silent_ms:.0f} ms without audible speech, "
                       f"at most {EDGE_LIMIT_MS:g} ms are allowed")
