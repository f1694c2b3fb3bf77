"""Where a detector puts edges, against where speech begins and ends by construction.

The user audio of a built suite is spoken segment by segment, cut to its speech and put between
exact zeros, so that its edges are known. It is played to the detector at several levels, as a
recording would hold it: conditions, PCM16, offset removed, 16 kHz.

Two truths, because they answer different questions:

- `segment`: the first and the last audible instant of the segment by itself, by the definition of
  `audio.edges` (35 dB below its speech level). It is what was cut at; the cut lies 5 ms outside.
- `words`: where the aligner puts the first word's start and the last word's end. It counts in
  frames of 10 ms and is given the cut segment alone, so that a first word begins where the cut is;
  the end of a last word is moved on to where sound fades. At the outer edges it is no second
  opinion, only a coarser one (docs/instrument.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from audio.active_level import active_level
from audio.analysis import analysis_samples
from audio.buffers import Float32, float_to_pcm16, pcm16_to_float
from audio.conditions import AnyCondition, Context, apply
from audio.edge_refine import refined
from audio.edges import measure_edges
from audio.energy_vad import energy_spans
from audio.errors import SynthesisError
from audio.silero import frame_probabilities_batch
from audio.spans import Spans
from audio.timebase import ANALYSIS_RATE_HZ, SESSION_RATE_HZ, n_to_ns, s_to_n, s_to_ns
from audio.vad import VadSettings, merged_spans
from probes.built import BuiltSuite
from probes.manifest import SegmentAudio, Stream, TurnAudio
from rig.workers import Workers
from sweeps.edge_bias import EdgeErrors, edge_errors, summary

DETECTORS = ("silero", "refined", "energy")
"""The scoring detector as set, the same with its edges refined, and `audio.energy_vad`."""
TRUTHS = ("segment", "words")
GAINS_DB = (0.0, -10.0, -20.0, -30.0)
LEAD_S = TAIL_S = 1.0
"""Silence around a turn: longer than any rule looks for an edge. The noise floor of the energy
detector looks farther, and finds silence in it all the same."""
APART_S = 0.2
"""A pause is a gap where it is longer than the merge gap by this: ends are detected up to 0.1 s
late (docs/vad.md), which must not join what is apart."""
CHUNK = 8


@dataclass(frozen=True, slots=True)
class Utterance:
    """Speech between two long enough silences of a turn; times from the start of the turn."""

    start_n: int
    end_n: int
    words_ns: tuple[int | None, int | None]
    """Start of the first word and end of the last; `None` where they were not aligned."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One distinct turn of a suite, ready to be played."""

    name: str
    voice: str
    samples: Float32
    utterances: tuple[Utterance, ...]
    skipped_n: int = 0
    """Utterances without audible speech at their edges: nothing to compare with."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One turn at one gain, seen by one detector: errors against both truths."""

    turn: str
    voice: str
    gain_db: float
    detector: str
    segment: EdgeErrors
    words_onset_ns: tuple[int | None, ...]
    words_offset_ns: tuple[int | None, ...]


def turns_of(suite: BuiltSuite, merge_gap_s: float, limit: int | None = None) -> Iterator[Turn]:
    """The distinct turns of a suite (by their samples), evenly chosen where `limit` asks for fewer.

    Raises `InputError` for audio that is not what was built.
    """
    distinct: dict[str, tuple[Stream, TurnAudio, int]] = {}
    for stream in suite.streams.values():
        for number, turn in enumerate((stream.turn1, stream.turn2), start=1):
            distinct.setdefault(turn.audio_sha256, (stream, turn, number))
    chosen = list(distinct.values())
    if limit is not None and limit < len(chosen):
        chosen = [chosen[i * len(chosen) // limit] for i in range(limit)]
    for stream, turn, number in chosen:
        samples = suite.samples(turn)
        found = utterances(turn, samples, merge_gap_s + APART_S)
        heard = tuple(u for u in found if u is not None)
        yield Turn(f"{stream.stream_id}/turn{number}", stream.voice, samples, heard,
                   len(found) - len(heard))


def utterances(turn: TurnAudio, samples: Float32, apart_s: float) -> list[Utterance | None]:
    """Segments with less than `apart_s` of declared silence between them are one utterance; `None`
    for one whose first or last segment holds no speech."""
    groups: list[list[SegmentAudio]] = []
    silent_n = s_to_n(apart_s, SESSION_RATE_HZ)
    for segment in turn.segments:
        if segment.kind == "silence":
            silent_n += segment.end_n - segment.start_n
            continue
        if silent_n >= s_to_n(apart_s, SESSION_RATE_HZ):
            groups.append([])
        groups[-1].append(segment)
        silent_n = 0
    return [_utterance(group[0], group[-1], samples) for group in groups]


def _utterance(first: SegmentAudio, last: SegmentAudio, samples: Float32) -> Utterance | None:
    def edges(segment: SegmentAudio) -> tuple[int, int]:
        found = measure_edges(samples[segment.start_n:segment.end_n], SESSION_RATE_HZ)
        return segment.start_n + found.start_n, segment.start_n + found.end_n

    def aligned(segment: SegmentAudio, at: int, name: str) -> int | None:
        if segment.alignment != "forced" or not segment.words:
            return None
        return s_to_ns(getattr(segment.words[at], name))

    try:
        start_n, end_n = edges(first)[0], edges(last)[1]
    except SynthesisError:
        return None
    return Utterance(start_n, end_n, (aligned(first, 0, "start_s"), aligned(last, -1, "end_s")))


def played(turn: Turn, gain_db: float, conditions: Sequence[AnyCondition]) -> Float32:
    """The turn between silences at 16 kHz, as the detector is given a recording."""
    lead = np.zeros(s_to_n(LEAD_S, SESSION_RATE_HZ), np.float32)
    tail = np.zeros(s_to_n(TAIL_S, SESSION_RATE_HZ), np.float32)
    speech = turn.samples * np.float32(10 ** (gain_db / 20))
    signal = np.concatenate((lead, speech, tail))
    if conditions:
        level = active_level(speech, SESSION_RATE_HZ)
        context = Context(SESSION_RATE_HZ, turn.name, 1,
                          None if level is None else level.level_dbov)
        signal, _ = apply(conditions, signal, context)
    return analysis_samples(pcm16_to_float(float_to_pcm16(signal)), SESSION_RATE_HZ)


def read_turns(turns: Sequence[Turn], gains_db: Sequence[float], vad: VadSettings,
               conditions: Sequence[AnyCondition] = ()) -> list[Reading]:
    """Every turn at every gain, by every detector."""
    plans = [(turn, gain) for turn in turns for gain in gains_db]
    signals = [played(turn, gain, conditions) for turn, gain in plans]
    out: list[Reading] = []
    for (turn, gain), x16k, probabilities in zip(
            plans, signals, frame_probabilities_batch(signals), strict=True):
        raw = merged_spans(probabilities, len(x16k), vad)
        for detector, spans in (("silero", raw), ("refined", refined(x16k, raw)),
                                ("energy", energy_spans(x16k, vad))):
            out.append(_reading(turn, gain, detector, spans))
    return out


def _reading(turn: Turn, gain_db: float, detector: str, spans: Spans) -> Reading:
    lead_ns = s_to_ns(LEAD_S)
    true = [(n_to_ns(u.start_n, SESSION_RATE_HZ), n_to_ns(u.end_n, SESSION_RATE_HZ))
            for u in turn.utterances]
    found = edge_errors(Spans(tuple(true)), spans.to_ns(ANALYSIS_RATE_HZ).shift(-lead_ns))

    def against_words(errors: Sequence[int | None], side: int) -> tuple[int | None, ...]:
        return tuple(None if error is None or (word := u.words_ns[side]) is None
                     else error + edges[side] - word
                     for error, edges, u in zip(errors, true, turn.utterances, strict=True))

    return Reading(turn.name, turn.voice, gain_db, detector, found,
                   against_words(found.onset_ns, 0), against_words(found.offset_ns, 1))


def calibrate(turns: Sequence[Turn], gains_db: Sequence[float], vad: VadSettings,
              conditions: Sequence[AnyCondition], workers: Workers,
              progress: Callable[[int, int], None] | None = None) -> list[Reading]:
    """`read_turns` in chunks, in as many processes as `workers` has; the order is kept."""
    starts = range(0, len(turns), CHUNK)
    out: list[Reading] = []
    for start, found in zip(starts, workers.in_order(
            [partial(read_turns, turns[i:i + CHUNK], gains_db, vad, conditions) for i in starts]),
            strict=True):
        out += found
        if progress is not None:
            progress(min(len(turns), start + CHUNK), len(turns))
    return out


def document(readings: Sequence[Reading]) -> dict[str, Any]:
    """Edges by detector, gain, end and truth; and by voice at the first gain, against segments."""
    edges: list[dict[str, Any]] = []
    counts: list[dict[str, Any]] = []
    by_voice: list[dict[str, Any]] = []
    gains = list(dict.fromkeys(r.gain_db for r in readings))
    for detector in DETECTORS:
        for gain in gains:
            some = [r for r in readings if (r.detector, r.gain_db) == (detector, gain)]
            counts.append({
                "detector": detector, "gain_db": gain,
                "utterances_n": sum(len(r.segment.onset_ns) for r in some),
                **{name: sum(getattr(r.segment, name) for r in some)
                   for name in ("missed_n", "joined_n", "split_n", "spurious_n")}})
            for truth in TRUTHS:
                for edge in ("onset", "offset"):
                    edges.append({"detector": detector, "gain_db": gain, "truth": truth,
                                  "edge": edge, **summary(_errors(some, truth, edge))})
        for voice in sorted({r.voice for r in readings}):
            some = [r for r in readings if (r.detector, r.gain_db, r.voice)
                    == (detector, gains[0], voice)]
            for edge in ("onset", "offset"):
                by_voice.append({"detector": detector, "voice": voice, "gain_db": gains[0],
                                 "edge": edge, **summary(_errors(some, "segment", edge))})
    return {"gains_db": gains, "counts": counts, "edges": edges, "by_voice": by_voice}


def _errors(readings: Sequence[Reading], truth: str, edge: str) -> list[int | None]:
    out: list[int | None] = []
    for r in readings:
        if truth == "segment":
            out += r.segment.onset_ns if edge == "onset" else r.segment.offset_ns
        else:
            out += r.words_onset_ns if edge == "onset" else r.words_offset_ns
    return out
