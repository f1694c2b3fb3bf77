"""One call measured: additive parts first, so that calls can be pooled; ratios come last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from audio.errors import AudioFileError
from audio.spans import Spans
from audio.timebase import NS_PER_MS, NS_PER_S, ns_to_s, s_to_ns
from audio.vad import VadSettings
from rig.field.activity import (
    KEPT_MOST,
    SIDES,
    LeakEffect,
    Listener,
    Speech,
    floor_power,
    leak_effect,
    speech_power,
)
from rig.field.cache import load_features
from rig.field.edges import Edges
from rig.field.ingest import CallFeatures
from rig.field.prosody import NOT_ASKED, Prosody, measure_prosody
from rig.field.recognise import Recogniser
from rig.field.sanity import Sanity, decibel, inspect_channels, inspect_turns
from rig.field.sources import CallSource
from rig.field.word_measures import Listening, WordMeasures, measure_words
from verifiers.calls.interruption import Interruption, interruption
from verifiers.calls.latency import ReplyLatency, reply_latency
from verifiers.calls.turn_take import (
    SWEEP_NS,
    TurnTake,
    YieldPoint,
    counted,
    turn_take,
    yield_points,
)
from verifiers.calls.turns import CallTurns, classify

LONG_SPAN_NS = 30 * NS_PER_S
"""snakers4/silero-vad#785: pauses of 310 to 600 ms were missed, and turns merged to over a
minute."""
SENSITIVITY: dict[str, tuple[float, ...]] = {
    "threshold": (0.3, 0.4, 0.5, 0.6, 0.7),
    "min_silence_ms": (90, 300, 500, 1000),
    "merge_gap_s": (0.2, 0.3, 0.5),
}
"""Ours: the published 0.5 with two steps to each side; pauses from the paper's 90 ms to 1 s;
the paper's 0.3 s with what others take. 60 settings, all combined; what a
user sets is added."""


@dataclass(frozen=True, slots=True)
class FieldSettings:
    """What a field study rests on. no_transcript: no word of a call in anything that is said."""

    vad: VadSettings = field(default_factory=VadSettings)
    yield_silence_s: float = 1.0
    guessed_channels: bool = False
    both_channels_named: bool = False
    sensitivity: bool = True
    prosody: bool = False
    no_transcript: bool = False
    edges: Edges = "refined"
    recogniser: Recogniser | None = None


@dataclass(frozen=True, slots=True)
class SettingParts:
    """The parts of L1, interruption and turn-take under one detector setting."""

    latencies_ms: tuple[float, ...]
    interruption: tuple[int, int]
    turn_take: tuple[int, int]


@dataclass(frozen=True, slots=True)
class CallMeasures:
    """A call: its turns and the parts of every figure.

    refused: why nothing about turns was measured, `None` where it was. left_out: why it is in no
    total of turns and words. crosstalk: what was heard on a side of the other, by the side that
    heard it. sensitivity: one entry a setting of `sensitivity_grid`, empty
    where not asked for or refused. bare_ms: L1 as the detector's own edges give it.
    """

    source: CallSource
    duration_ns: int
    levels: dict[str, dict[str, float | None]]
    warnings: tuple[tuple[str, str], ...]
    refused: str | None
    left_out: str | None
    call: CallTurns
    l1: ReplyLatency
    interruption: Interruption
    turn_take: TurnTake
    points: tuple[YieldPoint, ...]
    sweep: tuple[TurnTake, ...]
    speech: Speech
    sensitivity: tuple[SettingParts, ...]
    crosstalk: dict[str, LeakEffect]
    words: WordMeasures
    prosody: Prosody | str
    bare_ms: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A recording that could not be read, and why."""

    name: str
    reason: str


def sensitivity_values(base: VadSettings) -> dict[str, list[float]]:
    """`SENSITIVITY` with the values of `base`, so that a range holds the figure beside it."""
    return {name: sorted({*values, getattr(base, name)}) for name, values in SENSITIVITY.items()}


@cache
def sensitivity_grid(base: VadSettings) -> tuple[VadSettings, ...]:
    """Every combination of `sensitivity_values`, other settings as in `base`."""
    values = sensitivity_values(base)
    return tuple(replace(base, threshold=t, min_silence_ms=s, merge_gap_s=g,
                         neg_threshold=base.neg_threshold if t == base.threshold else None)
                 for t in values["threshold"] for s in values["min_silence_ms"]
                 for g in values["merge_gap_s"])


def measure_file(source: CallSource, settings: FieldSettings,
                 cache_dir: Path | None) -> CallMeasures | Skipped:
    """Read and measure a call. What cannot be read is `Skipped`; nothing else is caught."""
    try:
        features = load_features(source, cache_dir)
    except AudioFileError as error:
        return Skipped(source.name, str(error))
    return measure(source, features, settings, cache_dir)


def measure(source: CallSource, features: CallFeatures, settings: FieldSettings,
            cache_dir: Path | None = None) -> CallMeasures:
    """Measure a call from its frame features."""
    listener = Listener(features, settings.edges)
    found = listener.speech(settings.vad)
    effects = {side: leak_effect(features, side, settings.vad) for side in SIDES}
    sanity = inspect_channels(features, found, effects, guessed=settings.guessed_channels,
                              both_named=settings.both_channels_named)
    call = classify(found.caller, found.agent, blind=sanity.blind)
    inspect_turns(sanity, features, found, call)
    recorded_ns = features.recorded_ns
    silence_ns = s_to_ns(settings.yield_silence_s)
    points = yield_points(found.caller, call, recorded_ns, silence_ns, blind=sanity.blind)
    sweep = tuple(turn_take(found.caller, call, recorded_ns, ns, blind=sanity.blind)
                  for ns in SWEEP_NS)
    many: tuple[SettingParts, ...] = ()
    if settings.sensitivity and sanity.refused is None:
        many = tuple(_all_parts(listener.under(sensitivity_grid(settings.vad)), recorded_ns, sanity,
                                settings))
    listening = None
    if settings.recogniser is not None and sanity.refused is None:
        # The cache would hold the words.
        listening = Listening(settings.recogniser, found,
                              None if settings.no_transcript else cache_dir)
    bare = Listener(features, "bare").speech(settings.vad)
    return CallMeasures(
        source=source, duration_ns=recorded_ns, levels=_levels(features, found),
        warnings=tuple(sanity.warnings), refused=sanity.refused, left_out=sanity.left_out,
        call=call, l1=reply_latency(call), interruption=interruption(call),
        turn_take=counted(points, silence_ns), points=points, sweep=sweep,
        speech=found, sensitivity=many,
        crosstalk={side: effect for side, effect in effects.items() if effect is not None},
        words=measure_words(source, call, private=settings.no_transcript, listening=listening),
        prosody=measure_prosody(source.agent, found.agent, call, features.agent.power)
        if settings.prosody and sanity.refused is None else NOT_ASKED,
        bare_ms=_latencies_ms(classify(bare.caller, bare.agent, blind=sanity.blind)))


def _latencies_ms(call: CallTurns) -> tuple[float, ...]:
    return tuple(v / NS_PER_MS for v in reply_latency(call).values_ns)


def _all_parts(found: Iterable[Speech], recorded_ns: int, sanity: Sanity,
               settings: FieldSettings) -> Iterator[SettingParts]:
    """The parts under each setting; the same speech has the same."""
    known: dict[tuple[Spans, Spans], SettingParts] = {}
    for speech in found:
        key = (speech.caller, speech.agent)
        parts = known.get(key) or _parts(speech, recorded_ns, sanity, settings)
        if len(speech.caller) + len(speech.agent) <= KEPT_MOST:
            known[key] = parts
        yield parts


def _parts(found: Speech, recorded_ns: int, sanity: Sanity,
           settings: FieldSettings) -> SettingParts:
    call = classify(found.caller, found.agent, blind=sanity.blind)
    begun = interruption(call)
    taken = turn_take(found.caller, call, recorded_ns, s_to_ns(settings.yield_silence_s),
                      blind=sanity.blind)
    return SettingParts(_latencies_ms(call), (begun.count, begun.n), (taken.taken, taken.n))


def _levels(features: CallFeatures, found: Speech) -> dict[str, dict[str, float | None]]:
    """Both channels with level and speech, so that a channel that went missing is seen."""
    out: dict[str, dict[str, float | None]] = {}
    for k, name in enumerate(SIDES):
        side = getattr(features, name)
        spans: Spans = getattr(found, name)
        power, floor = speech_power(side), floor_power(side)
        out[name] = {
            "speech_s": ns_to_s(spans.total), "spans_n": len(spans),
            "edges_bounded_n": found.bounded_n[k],
            "spans_over_30s_n": sum(end - start > LONG_SPAN_NS for start, end in spans),
            "longest_span_s": max((ns_to_s(end - start) for start, end in spans), default=None),
            "speech_db": None if power is None else decibel(power),
            "floor_db": decibel(floor) if floor > 0 else None,
            "peak_db": decibel(side.peak ** 2) if side.peak > 0 else None}
    return out
