"""T1: how the agent speaks. F0 range, pauses, energy, spectral tilt and centroid of its voice.

Definition: design page "Field study" (CallScreenBench, appendix A: F0 interquartile range in
semitones, pauses inside replies a minute, energy dynamics; its clusters stand at 9.68 st and 18.3 a
minute, and 5.40 st and 8.9). Only on request: it reads the recordings once more.

- pauses: gaps between the agent's spans of one answer (a reply and its continuations), so of at
  least the detector's merge gap and with the caller silent or not; a minute of answer, first onset
  to last offset. The published tool's shortest pause is not known.
- energy: 90th minus 10th percentile of the level of frames of 32 ms inside agent speech, dB. Ours.
- F0, tilt, centroid: voiced frames of agent speech alone (`audio.prosody`).
- clusters of calls by tilt and centroid: `rig.field.clusters`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from audio import recording as recordings
from audio.buffers import Float32
from audio.errors import AudioFileError
from audio.inspection import inspect
from audio.prosody import (
    STEP_S,
    ProsodyError,
    centroid_hz,
    semitones,
    tilt_db_per_octave,
    voiced_frames,
    voiced_spectrum,
    window_n,
)
from audio.spans import Spans
from audio.timebase import NS_PER_S, ns_to_s
from rig.field.activity import frames_of
from rig.field.clusters import clusters, clusters_facts
from rig.field.figures import pair
from rig.field.reading import read_stretches
from rig.field.sources import Track
from sweeps.clustered import clustered_percentile
from verifiers.calls.percentiles import percentile
from verifiers.calls.substance import answers
from verifiers.calls.turns import CallTurns

NOT_ASKED = "not asked for: --prosody"
PIECE_S = 30
"""Longer speech is looked at in pieces: bounds memory, costs the frame at the cut."""
VOICED_LEAST_N = 100
"""Ours: under 1 s of voiced frames there is no F0 range."""


@dataclass(frozen=True, slots=True)
class Prosody:
    """Figures of one call, `None` where there is too little of what they need. voiced_s: voiced
    frames; answers_s: length of the answers that the pauses were counted in. reason: why nothing is
    known of the voice (F0, tilt, centroid), where it was not looked at."""

    voiced_s: float | None
    f0_median_hz: float | None
    f0_iqr_st: float | None
    tilt_db_per_octave: float | None
    centroid_hz: float | None
    pauses_n: int
    answers_s: float
    pauses_per_min: float | None
    energy_range_db: float | None
    reason: str | None = None


_Voice = tuple[float | None, float | None, float | None, float | None, float | None]
_NO_VOICE: _Voice = (None, None, None, None, None)

FIGURES = ("f0_median_hz", "f0_iqr_st", "pauses_per_min", "energy_range_db", "tilt_db_per_octave",
           "centroid_hz")


def measure_prosody(track: Track, speech: Spans, call: CallTurns,
                    power: Float32) -> Prosody:
    """Measure the agent of one call. Pauses and energy need no package.

    Args:
        track: the agent's channel.
        speech: the agent's speech, ns. power: mean square of each frame of 32 ms.
    """
    reason: str | None = None
    try:
        voice = _voice(track, speech)
    except (ProsodyError, AudioFileError) as error:
        voice, reason = _NO_VOICE, str(error)
    pauses_n, answers_ns = _pauses(call)
    inside = np.concatenate([power[:0], *(power[frames_of(s, len(power))] for s in speech)])
    levels = 10 * np.log10(inside[inside > 0])
    return Prosody(
        *voice, pauses_n, ns_to_s(answers_ns),
        60 * pauses_n / ns_to_s(answers_ns) if answers_ns else None,
        float(np.subtract(*np.percentile(levels, [90, 10]))) if len(levels) else None,
        reason)


def _voice(track: Track, speech: Spans) -> _Voice:
    """Voiced seconds, F0 median and range, tilt, centroid."""
    file = inspect(track.path)
    rate_hz = file.info.rate_hz
    hz = [np.zeros(0)]
    spectrum = np.zeros(window_n(rate_hz) // 2 + 1)
    for samples in _pieces(file, track.channel, speech):
        middles, found = voiced_frames(samples, rate_hz)
        hz.append(found)
        spectrum += voiced_spectrum(samples, rate_hz, middles)
    pitch = np.concatenate(hz)
    if len(pitch) < VOICED_LEAST_N:
        return len(pitch) * STEP_S, None, None, None, None
    iqr = float(np.subtract(*np.percentile(semitones(pitch), [75, 25])))
    return (len(pitch) * STEP_S, float(np.median(pitch)), iqr,
            tilt_db_per_octave(spectrum, rate_hz), centroid_hz(spectrum, rate_hz))


def _pieces(file: recordings.Recording, channel: int, speech: Spans) -> Iterator[Float32]:
    """The samples of each span, in pieces of `PIECE_S` at most."""
    piece_ns = PIECE_S * NS_PER_S
    stretches = [(at, min(at + piece_ns, end)) for start, end in speech
                 for at in range(start, end, piece_ns)]
    for _, samples in read_stretches(file, channel, stretches):
        yield samples


def _pauses(call: CallTurns) -> tuple[int, int]:
    """Pauses inside answers, and the length of those."""
    count = length = 0
    for _, members in answers(call.turns):
        spans = [call.turns[k].agent_ns for k in members]
        count += len(spans) - 1
        length += spans[-1][1] - spans[0][0]
    return count, length


def prosody_figures(found: Prosody | str, refused: str | None) -> dict[str, Any]:
    """`prosody` of one call: its figures."""
    if refused is not None or isinstance(found, str):
        return {**{f.name: None for f in fields(Prosody)}, "reason": refused or found}
    return {k: v for k, v in asdict(found).items() if k != "reason" or v is not None}


def prosody_totals(found: Sequence[Prosody | str], refused: str | None) -> dict[str, Any]:
    """`prosody` of many calls: the median over calls of each figure, with its interval."""
    held = [f for f in found if isinstance(f, Prosody)]
    out: dict[str, Any] = {"calls_n": len(held)}
    for name in FIGURES:
        values = [v for f in held if (v := getattr(f, name)) is not None]
        out[name] = {"n": len(values), "median": percentile(values, 50),
                     "ci": pair(clustered_percentile([[v] for v in values], 50))}
    why = {f if isinstance(f, str) else f.reason for f in found}
    if refused or None not in why:
        out["reason"] = refused or (why.pop() if len(why) == 1 else "in no call")
    return out


def prosody_clusters(
    found: Sequence[Prosody | str], refused: str | None
) -> tuple[dict[str, Any], list[int | None]]:
    """`prosody.clusters` of many calls, and the cluster of each call, `None` for a call in none.

    Beside each cluster stand the medians of what was not clustered on, too.
    """
    held = [(k, f, f.tilt_db_per_octave, f.centroid_hz) for k, f in enumerate(found)
            if isinstance(f, Prosody)]
    known = [(k, f, tilt, hz) for k, f, tilt, hz in held if tilt is not None and hz is not None]
    split = clusters([tilt for _, _, tilt, _ in known], [hz for _, _, _, hz in known])
    labels: list[int | None] = [None] * len(found)
    for (place, *_), label in zip(known, split.labels, strict=True):
        labels[place] = label
    out = clusters_facts(split)
    out["groups"] = [
        {"cluster": name, "calls_n": len(members),
         **{figure: percentile([v for f in members if (v := getattr(f, figure)) is not None], 50)
            for figure in FIGURES}}
        for name in range(1, (split.k or 0) + 1)
        if (members := [f for (_, f, *_), label in zip(known, split.labels, strict=True)
                        if label == name])]
    if not known:
        out["reason"] = refused or _why(found)
    return out, labels


def _why(found: Sequence[Prosody | str]) -> str:
    """Why no call has what is asked for."""
    why = {f if isinstance(f, str) else f.reason or "too little speech" for f in found}
    return why.pop() if len(why) == 1 else "in no call"
