"""The verdict of one session under many settings of the detector.

Frame probabilities are given, so that a setting costs the rules of `audio.vad` and no inference.
Scene, measurement and verdict are made by the code that `rig score` uses. Channels that give the
same spans under several settings are measured once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audio.buffers import Float32
from audio.edge_refine import refined
from audio.energy_vad import MARGIN_DB, levels_of, spans_of
from audio.errors import AudioFileError
from audio.spans import Spans
from audio.timebase import ANALYSIS_RATE_HZ, s_to_ns
from audio.vad import VadSettings, bare_intervals, finished_spans
from rig.activity import Activity
from rig.scenes import Identity, scene_of
from rig.settings import VAD_NAMES
from rig.store import RunFolder
from rig.tracks import Track, track_channel
from verifiers.decide import decide
from verifiers.measurement import measure
from verifiers.thresholds import Thresholds, effective_limits
from verifiers.verdict import Outcome

Codes = NDArray[np.int8]
CODES = {Outcome.FAIL: 0, Outcome.PASS: 1, Outcome.UNSCORED: 2}


@dataclass(frozen=True, slots=True)
class Setting:
    """One way to detect speech. `varied` holds what is not the base's, by contract names."""

    detector: str
    vad: VadSettings
    margin_db: float | None = None
    varied: tuple[tuple[str, float], ...] = ()

    @property
    def name(self) -> str:
        """For people: what differs from the default."""
        if self.detector == "energy":
            return f"energy, {self.margin_db:g} dB"
        if self.detector == "refined":
            return "silero, edges refined"
        return "default" if not self.varied else ", ".join(f"{k}={v:g}" for k, v in self.varied)

    def as_dict(self) -> dict[str, Any]:
        """For JSON; `None` is what the detector has not got."""
        unused = ("vad_threshold", "vad_speech_pad_ms") if self.detector == "energy" else ()
        return {"name": self.name, "detector": self.detector, "margin_db": self.margin_db,
                "varied": dict(self.varied),
                **{name: None if name in unused else getattr(self.vad, field)
                   for name, field in VAD_NAMES.items()}}


@dataclass(frozen=True, slots=True)
class Plan:
    """All settings: the grid around `base`, then the other detectors. `default` is the base's
    place."""

    base: VadSettings
    settings: tuple[Setting, ...]
    grid_n: int
    default: int


def decide_session(run: RunFolder, track: Track, activity: Activity | AudioFileError,
                   identity: Identity, plan: Plan, thresholds: Thresholds) -> Codes | None:
    """Verdicts of a session at every setting, int8 `(n_settings,)` by `CODES`; `None` for one that
    cannot be measured."""
    try:
        if isinstance(activity, AudioFileError):
            raise activity
        # Only what is not the plain detector looks at samples.
        x16k = (track_channel(run, track).load()
                if any(s.detector != "silero" or s.vad.corrections for s in plan.settings)
                else np.zeros(0, np.float32))
    except AudioFileError:
        return None
    # Words are compared with a target; of a case without one they decide nothing.
    scene = scene_of(track.record, track, Spans(), plan.base,
                     with_words=bool(track.record.case.target_text))
    limits = effective_limits(thresholds, identity.params, identity.expected_action)
    decided: dict[tuple[Spans, float], int] = {}
    codes = np.empty(len(plan.settings), dtype=np.int8)
    spans = _spans(plan, activity.probabilities, activity.samples_n, x16k)
    for index, (setting, found) in enumerate(zip(plan.settings, spans, strict=True)):
        key = found, setting.vad.merge_gap_s
        if key not in decided:
            verdict = decide(identity.expected_action, measure(replace(
                scene, model=found.to_ns(ANALYSIS_RATE_HZ),
                merge_gap_ns=s_to_ns(setting.vad.merge_gap_s))), limits)
            decided[key] = CODES[verdict.outcome]
        codes[index] = decided[key]
    return codes


def _spans(plan: Plan, probabilities: Float32, samples_n: int,
           x16k: Float32) -> Iterator[Spans]:
    """Merged model speech under each setting, samples at 16 kHz. What settings share is done once:
    padding and merging do not need the frames again."""
    bare: dict[tuple[float, float, float], tuple[tuple[int, int], ...]] = {}
    merged: dict[tuple[tuple[tuple[int, int], ...], float, float], Spans] = {}
    levels = levels_of(x16k)
    for setting in plan.settings:
        vad = setting.vad
        if setting.detector == "energy":
            yield spans_of(levels, vad, margin_db=setting.margin_db or MARGIN_DB)
            continue
        rules = vad.threshold, vad.min_silence_ms, vad.min_speech_ms
        if rules not in bare:
            bare[rules] = tuple(bare_intervals(probabilities, samples_n, vad))
        key = bare[rules], vad.speech_pad_ms, vad.merge_gap_s
        if key not in merged:
            merged[key] = finished_spans(bare[rules], samples_n, vad)
        found = merged[key]
        if vad.corrections:
            found = refined(x16k, found, onset=vad.onset_refine, offset=vad.offset_refine)
        yield found
