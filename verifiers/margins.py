"""How far a case was from its other verdict: a signed distance to the bound that decides it.

Positive passes, negative fails, 0 lies on the bound itself, whose side the verdict says. Distances
are in seconds, of READBACK in shares of the target's tokens; the two are never compared. The bound
is the nearest one of the region in which the quantity passes:

- TAKE_TURN, INTERRUPT: the genuine onset passes in `[w0, last]`, `last` being the limit or the
  window's end, the earlier. The margin is to the nearer end. Of speech that already held the floor
  it is the onset itself, which lies before `w0`.
- YIELD: the first model offset at or after `w0` passes in `[w0, limit]`; to the nearer end. What
  stops before the barge-in has not stopped for it, so a quick stop lies nearer to the barge-in than
  to the limit.
- CONTINUE: offset of the span that held the floor, less the limit.
- BACKCHANNEL: the ceiling, less the whole length of the first span that begins in the window.
- READBACK: token coverage, less the limit.
- ACCEPT_OVERLAP: the overlap in the window; without one, less the gap between model and user
  speech in the window.
- LISTEN, NO_BACKCHANNEL: less the model speech in the window; without any, the gap from the window
  to the nearest model speech.

The two gaps need what lies around the window (`Surroundings`). Where a verdict hangs on what has
no distance (a count of spans, a floor that was not held, no onset at all, nothing heard), where the
case is unscored, or where a gap is asked for and what lies around is not given, there is no
distance: `margin` is `None` and `reason` says why. Definitions are ours; the rules are those of
`verifiers.decide`. One quantity is moved at a time: where it crosses its bound, another span may
take its place and the verdict stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from audio.spans import Spans
from audio.timebase import ns_to_s
from verifiers.decide import decide
from verifiers.measurement import Measurement
from verifiers.scene import Action, Window
from verifiers.thresholds import Limits
from verifiers.verdict import Outcome


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Merged speech of both sides over the whole session, and where the scored window lies in it;
    nanoseconds on the session clock, under the detector and playout of the measurement."""

    model: Spans
    user: Spans
    window: Window


@dataclass(frozen=True, slots=True)
class Margin:
    """`value`, `bound` and `margin` are in `unit` (`s` or `ratio`); times from the window's start.

    `quantity` and `bound_name` are for people: where a gap is told, `value` is its length. With
    `at_least` the end of the recording cut the quantity: the case lies this far from its bound, or
    further. `margin` is `None` exactly where `reason` is not.
    """

    quantity: str
    unit: str
    value: float | None = None
    bound: float | None = None
    bound_name: str | None = None
    margin: float | None = None
    at_least: bool = False
    reason: str | None = None


def margin(action: Action, measurement: Measurement, limits: Limits,
           around: Surroundings | None = None) -> Margin:
    """The margin of one case. `limits` are those of `verifiers.thresholds.effective_limits`."""
    verdict = decide(action, measurement, limits)
    quantity, unit, find = _OF_ACTION[action]
    found: Margin | str = (f"unscored: {verdict.reason}" if verdict.outcome is Outcome.UNSCORED
                           else find(measurement, limits, around))
    return Margin(quantity, unit, reason=found) if isinstance(found, str) else found


def _in_time(quantity: str, value_ns: int, bound_ns: int, bound_name: str, margin_ns: int, *,
             at_least: bool = False) -> Margin:
    return Margin(quantity, "s", ns_to_s(value_ns), ns_to_s(bound_ns), bound_name,
                  ns_to_s(margin_ns), at_least)


def _onset(measurement: Measurement, limit_ns: int, limit_name: str) -> Margin | str:
    reading = measurement.scored
    last_ns, last_name = limit_ns, limit_name
    if reading.length_ns < limit_ns:
        last_ns, last_name = reading.length_ns, "window end"
    onset = reading.onset_ns
    if onset is None and reading.held_at_w0:
        onset = reading.spans_ns[0][0]
    if onset is None:
        return "no onset in the window"
    if onset > last_ns - onset:
        return _in_time(_ONSET, onset, last_ns, last_name, last_ns - onset)
    return _in_time(_ONSET, onset, 0, "window start", onset)


def _take_turn(measurement: Measurement, limits: Limits, _: Surroundings | None) -> Margin | str:
    return _onset(measurement, limits.max_wait_ns, "maximum wait")


def _interrupt(measurement: Measurement, limits: Limits, _: Surroundings | None) -> Margin | str:
    return _onset(measurement, limits.max_latency_ns, "maximum latency")


def _yield(measurement: Measurement, limits: Limits, _: Surroundings | None) -> Margin | str:
    reading, limit = measurement.scored, limits.max_latency_ns
    offset = reading.first_offset_ns
    if offset is None:
        return "no model speech ended after the barge-in"
    if offset > limit - offset:
        return _in_time(_OFFSET, offset, limit, "maximum latency", limit - offset,
                        at_least=reading.first_offset_cut)
    return _in_time(_OFFSET, offset, 0, "barge-in", offset)


def _continue(measurement: Measurement, limits: Limits, _: Surroundings | None) -> Margin | str:
    reading, limit = measurement.scored, limits.max_latency_ns
    offset = reading.first_offset_ns
    if not reading.held_at_w0 or offset is None:
        return "the model did not hold the floor at the barge-in"
    return _in_time(_OFFSET, offset, limit, "latency to outlast", offset - limit,
                    at_least=reading.first_offset_cut)


def _backchannel(measurement: Measurement, limits: Limits, _: Surroundings | None) -> Margin | str:
    reading, ceiling = measurement.scored, limits.ceiling_ns
    first = reading.first_span_ns
    if first is None:
        return "no model span began in the window"
    if reading.spans_in_window > limits.max_spans:
        return (f"{reading.spans_in_window} model spans in the window, at most {limits.max_spans} "
                "pass: a count")
    return _in_time(_LENGTH, first, ceiling, "ceiling", ceiling - first,
                    at_least=reading.first_span_cut)


def _readback(measurement: Measurement, limits: Limits, _: Surroundings | None) -> Margin | str:
    found = measurement.readback
    assert found is not None  # without one the case is unscored
    if not found.heard:
        return "no model speech was heard"
    return Margin(_COVERAGE, "ratio", found.coverage, limits.min_coverage, "minimum coverage",
                  found.coverage - limits.min_coverage)


def _accept_overlap(measurement: Measurement, _: Limits,
                    around: Surroundings | None) -> Margin | str:
    overlap = measurement.scored.overlap_ns
    if overlap != 0:
        return _in_time(_OVERLAP, overlap, 0, "any overlap", overlap)
    if around is None:
        return _NOT_GIVEN
    model, user = (side.clip(around.window.start_ns, around.window.end_ns)
                   for side in (around.model, around.user))
    gaps = [max(a[0] - b[1], b[0] - a[1]) for a in model for b in user]
    if not gaps:
        return "one side did not speak in the window"
    return _in_time("gap between model and user", min(gaps), 0, "any overlap", -min(gaps))


def _silence(measurement: Measurement, _: Limits, around: Surroundings | None) -> Margin | str:
    reading = measurement.scored
    speech = Spans(reading.spans_ns).clip(0, reading.length_ns).total
    if speech != 0:
        return _in_time(_SPEECH, speech, 0, "no speech", -speech)
    if around is None:
        return _NOT_GIVEN
    window = around.window
    gaps = [(window.start_ns - end, "window start") if end <= window.start_ns
            else (start - window.end_ns, "window end") for start, end in around.model]
    if not gaps:
        return "the model never spoke"
    gap, edge = min(gaps)
    return _in_time("gap to the nearest model speech", gap, 0, edge, gap)


_ONSET, _OFFSET, _LENGTH = "model onset", "model offset", "length of the first span"
_COVERAGE, _SPEECH = "token coverage", "model speech in the window"
_OVERLAP = "overlap of model and user"
_NOT_GIVEN = "speech around the window is not given"
_Find = Callable[[Measurement, Limits, Surroundings | None], Margin | str]
_OF_ACTION: dict[Action, tuple[str, str, _Find]] = {
    Action.LISTEN: (_SPEECH, "s", _silence),
    Action.NO_BACKCHANNEL: (_SPEECH, "s", _silence),
    Action.BACKCHANNEL: (_LENGTH, "s", _backchannel),
    Action.TAKE_TURN: (_ONSET, "s", _take_turn),
    Action.INTERRUPT: (_ONSET, "s", _interrupt),
    Action.READBACK: (_COVERAGE, "ratio", _readback),
    Action.YIELD: (_OFFSET, "s", _yield),
    Action.CONTINUE: (_OFFSET, "s", _continue),
    Action.ACCEPT_OVERLAP: (_OVERLAP, "s", _accept_overlap),
}
