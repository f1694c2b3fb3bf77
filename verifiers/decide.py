"""One scene in, one measurement and one verdict out.

`verify` measures and decides, `decide` decides from a stored measurement, `measured` gives the
numbers under the names of `scores.json`, and `decide_alternates` reads the windows that are
reported beside the scored one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from audio.timebase import NS_PER_S, ns_to_s
from verifiers import (
    accept_overlap,
    backchannel,
    continue_floor,
    interrupt,
    listen,
    no_backchannel,
    readback,
    take_turn,
    yield_floor,
)
from verifiers.label import label, silent_begun
from verifiers.measurement import Measurement, WindowReading, measure
from verifiers.scene import Action, CaseParams, Scene
from verifiers.thresholds import DEFAULTS, Limits, Thresholds, effective_limits
from verifiers.verdict import EvidenceValue, Outcome, Verdict, seconds, spans_s

VERIFIERS: dict[Action, Callable[[Measurement, Limits], Verdict]] = {
    Action.LISTEN: listen.decide,
    Action.NO_BACKCHANNEL: no_backchannel.decide,
    Action.BACKCHANNEL: backchannel.decide,
    Action.TAKE_TURN: take_turn.decide,
    Action.INTERRUPT: interrupt.decide,
    Action.READBACK: readback.decide,
    Action.YIELD: yield_floor.decide,
    Action.CONTINUE: continue_floor.decide,
    Action.ACCEPT_OVERLAP: accept_overlap.decide,
}
"""Each action is judged by exactly one verifier (DSB-IFEval, appendix B.1)."""

FLOOR_HELD_ACTIONS = (Action.YIELD, Action.CONTINUE, Action.ACCEPT_OVERLAP)
"""They need a model that holds the floor at the barge-in (design page "Opportunity")."""

ALTERNATE_ACTIONS = {"interrupt_reading": Action.INTERRUPT}
"""Windows that are judged by another action than the case's (design page: L4b of R2_B)."""


def verify(scene: Scene, thresholds: Thresholds = DEFAULTS) -> tuple[Measurement, Verdict]:
    """Measure a scene and judge it.

    Raises `InputError` when the scene contradicts itself or an override is out of range.
    """
    limits = effective_limits(thresholds, scene.params, scene.expected_action)
    measurement = measure(scene)
    return measurement, decide(scene.expected_action, measurement, limits)


def decide(action: Action, measurement: Measurement, limits: Limits) -> Verdict:
    """Judge a measurement; flags and the spans in the window are added to the evidence."""
    reading = measurement.scored
    if reading.outside:
        found = Verdict(Outcome.UNSCORED, f"window outside the recording: it begins "
                        f"{_outside(reading)}")
    else:
        found = VERIFIERS[action](measurement, limits)
    spans: tuple[tuple[str, EvidenceValue], ...] = (
        ("model_spans_s", spans_s(reading.spans_ns)),)
    return replace(found, evidence=(*found.evidence, *spans),
                   flags=_flags(action, measurement, limits, found.outcome))


def decide_alternates(
    action: Action, measurement: Measurement, thresholds: Thresholds, params: CaseParams
) -> tuple[tuple[str, Verdict], ...]:
    """The verdict that each alternate window would give; none of them is ever the case's own."""
    out = []
    for name, _ in measurement.alternates:
        as_action = ALTERNATE_ACTIONS.get(name, action)
        limits = effective_limits(thresholds, params, as_action)
        out.append((name, decide(as_action, measurement.through(name), limits)))
    return tuple(out)


def measured(action: Action, measurement: Measurement, limits: Limits) -> dict[str, Any]:
    """The numbers of one case under the names of `scores.json`, times in seconds.

    `None` stands for what does not exist; a length or offset that the end of the recording cuts
    is `None` too, with its least value under `..._at_least_s`.
    """
    found = measurement.readback
    offset = measurement.user_offset_ns
    onset = measurement.scored.onset_ns
    out = {
        **_window_numbers(measurement.scored, limits.ceiling_ns),
        "coverage": None if found is None else found.coverage,
        "coverage_ordered": None if found is None else found.coverage_ordered,
        "readback_heard": None if found is None else found.heard,
        "model_speaks": measurement.model_speaks,
        "onset_from_user_offset_s":
            None if onset is None or offset is None else ns_to_s(onset - offset),
        "onset_after_user_offset_s": seconds(measurement.onset_after_user_offset_ns),
        "alternates": {name: _window_numbers(reading, limits.ceiling_ns)
                       for name, reading in measurement.alternates},
    }
    if action is Action.CONTINUE:
        out["table18"] = str(continue_floor.table18(measurement.scored, limits.max_latency_ns))
    return out


def _window_numbers(reading: WindowReading, ceiling_ns: int) -> dict[str, Any]:
    named = label(reading, ceiling_ns)
    first, offset = seconds(reading.first_span_ns), seconds(reading.first_offset_ns)
    short = sum(start >= 0 and end - start < ceiling_ns for start, end in reading.spans_ns)
    numbers: dict[str, Any] = {
        "label": None if named is None else str(named),
        "silent_begun": silent_begun(reading),
        "genuine_onset_s": seconds(reading.onset_ns),
        "spans_in_window": reading.spans_in_window,
        "spans_begun_in_window": reading.spans_begun,
        "spans_s": [list(span) for span in spans_s(reading.spans_ns)],
        "short_spans_n": short,
        "short_spans_per_min": short * 60 * NS_PER_S / reading.length_ns,
        "first_span_s": None if reading.first_span_cut else first,
        "first_span_at_least_s": first if reading.first_span_cut else None,
        "held_at_w0": True if reading.held_at_w0 else False if reading.seen_ns >= 0 else None,
        "first_offset_s": None if reading.first_offset_cut else offset,
        "first_offset_at_least_s": offset if reading.first_offset_cut else None,
        "resumed_in_window": reading.resumed,
        "overlap_s": ns_to_s(reading.overlap_ns),
        "user_speech_s": ns_to_s(reading.user_speech_ns),
    }
    if reading.outside:  # a window that was not recorded holds no evidence, not even of silence
        numbers = dict.fromkeys(numbers)
    return {**numbers, "window_length_s": ns_to_s(reading.length_ns),
            "recorded_after_w0_s": ns_to_s(reading.recorded_ns)}


def _outside(reading: WindowReading) -> str:
    if reading.starts_before_recording:
        return "before the recording does"
    return f"{ns_to_s(-reading.recorded_ns):.3f} s after the recording ends"


def _flags(action: Action, measurement: Measurement, limits: Limits,
           outcome: Outcome) -> tuple[str, ...]:
    reading, found = measurement.scored, measurement.readback
    needs_floor = action in FLOOR_HELD_ACTIONS
    flags = {
        "floor_taken_besides": action is Action.BACKCHANNEL and outcome is Outcome.PASS
        and backchannel.floor_taken_besides(reading, limits),
        "forced": measurement.forced,
        "incomplete_recording": not reading.complete,
        "no_model_speech": not measurement.model_speaks,
        "no_opportunity": needs_floor and (
            measurement.forced or (not reading.held_at_w0 and reading.seen_ns >= 0)),
        "no_user_speech": action is Action.ACCEPT_OVERLAP and reading.user_speech_ns == 0,
        "resumed_in_window": action is Action.YIELD and reading.resumed is True,
        "transcript_without_speech": action is Action.READBACK and found is not None
        and readback.without_speech(found),
    }
    return tuple(name for name, is_set in flags.items() if is_set)
