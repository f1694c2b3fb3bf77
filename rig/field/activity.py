"""From frame features to the speech of both sides: detector, leak, edges.

Where one channel is heard on the other (`audio.crosstalk`), a frame of the receiving channel counts
as speech only if it is more than `LEAK_MARGIN_DB` above what the leak explains there: the source's
power, delayed and weakened by the path found, held on for the detector's release. So a leak makes
no turn of its own and does not lengthen one, and who really speaks over the other is still found.

Times are those of the sound: `rig.field.edges`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from audio.buffers import Float32
from audio.crosstalk import Leak
from audio.silero_graph import FRAME_N
from audio.spans import Interval, Spans
from audio.timebase import ANALYSIS_RATE_HZ, NS_PER_MS, s_to_ns
from audio.vad import VadSettings, spans_from_probabilities
from rig.field.edges import Edges, Placed, finder, placed
from rig.field.ingest import DETECTOR_FRAME_NS, CallFeatures, SideFeatures
from rig.one_signal import IDENTICAL_CORRELATION

LEAK_HEARD_DB = -55.0
"""Weaker paths are no crosstalk. Ours: -40 dB already makes phantom turns (corti#107); telephone
sets keep their own sidetone and echo losses above 45 to 55 dB (ITU-T G.131, weighted TCL)."""
LEAK_MARGIN_DB = 6.0
"""Ours: the path's gain is found up to 2.5 dB too low where the line fills only part of the band,
and the power of a frame varies."""
LEAK_WITHHELD_DB = 10.0
"""Ours: speech that stands less than this above a leak may be the leak; it is in no rate."""
LEAK_TOO_LOUD_DB = -6.0
"""Ours: above this the two sides cannot be told apart and nothing about turns is measured."""
SIDES = ("caller", "agent")
_FAINT_FRAMES = 8
"""256 ms: our longest faint stretch inside a word or between two."""
_NO_SPEECH = 0.1
_LEAST_QUIET_FRAMES = 31
_HOLD_FRAMES = 4
"""128 ms: how long the detector goes on after speech (docs/vad.md, largest end bias 91 ms)."""

_SAME_EDGE_NS = 100 * NS_PER_MS
_BUT_GAP = attrgetter(*(f.name for f in fields(VadSettings) if f.name != "merge_gap_s"))
KEPT_MOST = 500
"""Spans of a side: in a call of hours hardly two settings find the same, and memory is bounded."""


@dataclass(frozen=True, slots=True)
class LeakEffect:
    """What a leak did to one side: spans it would have made alone, spans it would have lengthened
    or joined, and spans that stand so little above it that they are in no rate."""

    leak: Leak
    invented: Spans
    masked: Spans
    withheld: Spans


@dataclass(frozen=True, slots=True)
class Speech:
    """Speech of both sides, ns. bounded_n: edges of caller and of agent that rest on
    the detector (`rig.field.edges`)."""

    caller: Spans
    agent: Spans
    bounded_n: tuple[int, int] = (0, 0)


class Listener:
    """The speech of a call under any setting of the detector."""

    def __init__(self, features: CallFeatures, edges: Edges) -> None:
        self._samples_n = features.samples_n
        self._bare = edges == "bare"
        self._sides = [_cleaned(features, side) for side in SIDES]
        self._finders = [finder(getattr(features, side), removed) if edges == "refined" else None
                         for side, (_, removed) in zip(SIDES, self._sides, strict=True)]

    def speech(self, vad: VadSettings) -> Speech:
        """Both sides under one setting."""
        return next(iter(self.under([vad])))

    def under(self, settings: Sequence[VadSettings]) -> Iterator[Speech]:
        """Both sides under each setting, in order. Neighbours that differ in `merge_gap_s` alone
        cost next to nothing."""
        made: VadSettings | None = None
        both: list[Placed] = []
        # Settings that find the same speech are the rule in a short call.
        known: dict[tuple[int, float, Spans], Placed] = {}
        for vad in settings:
            if made is None or _BUT_GAP(vad) != _BUT_GAP(made):
                made, both = vad, []
                for k, (probabilities, _) in enumerate(self._sides):
                    spans = spans_from_probabilities(probabilities, self._samples_n, vad)
                    key = (k, vad.speech_pad_ms, spans)
                    found = known.get(key) or placed(spans, vad, self._finders[k], self._samples_n,
                                                     bare=self._bare)
                    if len(spans) <= KEPT_MOST:
                        known[key] = found
                    both.append(found)
            (caller, bounded), (agent, also) = (
                side.bridged(s_to_ns(vad.merge_gap_s)) for side in both)
            yield Speech(caller, agent, (bounded, also))


def leak_effect(features: CallFeatures, side: str, vad: VadSettings) -> LeakEffect | None:
    """What the other side's leak does to `side` (caller, agent); `None` without one."""
    leak = heard_leak(features, side)
    if leak is None:
        return None
    receiver, source = _both(features, side)
    raw = _spans(receiver.probabilities, features.samples_n, vad)
    clean = _spans(_cleaned(features, side)[0], features.samples_n, vad)
    invented = Spans(tuple(s for s in raw if not clean.touching(*s)))
    masked = Spans(tuple(s for s in clean if _changed(s, raw)))
    expected = _expected(leak, source)
    withheld = Spans(tuple(s for s in clean if _weak(s, receiver.power, expected)))
    return LeakEffect(leak, invented, masked, withheld)


def heard_leak(features: CallFeatures, side: str) -> Leak | None:
    """The path from the other side, where it is loud enough to matter."""
    if is_one_signal(features):
        return None
    leak = features.leak_to_caller if side == "caller" else features.leak_to_agent
    return leak if leak is not None and leak.gain_db >= LEAK_HEARD_DB else None


def is_one_signal(features: CallFeatures) -> bool:
    """Are both channels the same, whatever the level and the sign?"""
    return (features.correlation is not None
            and abs(features.correlation) > IDENTICAL_CORRELATION)


def floor_power(side: SideFeatures) -> float:
    """Power of the quietest tenth of what is neither speech nor digital silence; 0 where there is
    less than a second of it."""
    quiet = side.power[(side.power > 0) & (side.probabilities < _NO_SPEECH)]
    return float(np.percentile(quiet, 10)) if len(quiet) >= _LEAST_QUIET_FRAMES else 0.0


def speech_power(side: SideFeatures) -> float | None:
    """Mean power of the frames that the detector takes for speech; `None` for none."""
    found = side.power[side.probabilities >= 0.5]
    return float(found.mean(dtype=np.float64)) if len(found) else None


def _both(features: CallFeatures, side: str) -> tuple[SideFeatures, SideFeatures]:
    if side == "caller":
        return features.caller, features.agent
    return features.agent, features.caller


def _cleaned(features: CallFeatures, side: str) -> tuple[Float32, NDArray[np.bool_] | None]:
    """The probabilities of a side without what the other side's leak explains, and in which frames
    it does; `None` where no leak is heard."""
    receiver, source = _both(features, side)
    leak = heard_leak(features, side)
    if leak is None:
        return receiver.probabilities, None
    expected = _expected(leak, source)
    floor = floor_power(receiver)
    explained = receiver.power <= 10 ** (LEAK_MARGIN_DB / 10) * expected + 2 * floor
    # Faint words of the leak lie between louder ones: the detector hears on, and so does this.
    removed = explained & _spread(expected > 0.25 * floor, _FAINT_FRAMES)
    return np.where(removed, np.float32(0), receiver.probabilities), removed


def _spread(mask: NDArray[np.bool_], frames: int) -> NDArray[np.bool_]:
    """True also up to `frames` before and after."""
    counts = np.concatenate(([0], np.cumsum(np.pad(mask, frames))))
    return np.asarray(counts[2 * frames + 1 :] - counts[: -2 * frames - 1] > 0)


def _expected(leak: Leak, source: SideFeatures) -> Float32:
    """Power that the leak puts into each frame, at most."""
    lag = leak.lag_s * ANALYSIS_RATE_HZ / FRAME_N
    first, last = int(np.floor(lag)) - 1, int(np.ceil(lag)) + _HOLD_FRAMES
    count = len(source.power)
    padded = np.pad(source.power, (max(0, last), max(0, -first)))
    base = max(0, last)
    shifted = [padded[base - shift : base - shift + count] for shift in range(first, last + 1)]
    loudest: Float32 = np.max(np.stack(shifted), axis=0)
    return (10 ** (leak.gain_db / 10) * loudest).astype(np.float32)


def _spans(probabilities: Float32, samples_n: int, vad: VadSettings) -> Spans:
    spans = spans_from_probabilities(probabilities, samples_n, vad)
    return placed(spans, vad, None, samples_n).bridged(s_to_ns(vad.merge_gap_s))[0]


def _changed(span: Interval, raw: Spans) -> bool:
    """Would the leak have moved an edge of the span?"""
    covering = raw.touching(*span).items
    return not covering or (abs(covering[0][0] - span[0]) >= _SAME_EDGE_NS
                            or abs(covering[-1][1] - span[1]) >= _SAME_EDGE_NS)


def frames_of(span: Interval, count: int) -> slice:
    """The frames of 32 ms that a span covers."""
    first, past = span[0] // DETECTOR_FRAME_NS, -(-span[1] // DETECTOR_FRAME_NS)
    return slice(min(count, first), min(count, past))


def _weak(span: Interval, power: Float32, expected: Float32) -> bool:
    """Does the span lie mostly under the leak, and little above it?"""
    part = frames_of(span, len(power))
    under: NDArray[np.bool_] = power[part] <= 10 ** (LEAK_WITHHELD_DB / 10) * expected[part]
    return bool(len(under)) and bool(under.mean() > 0.5)
