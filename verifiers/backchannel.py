"""BACKCHANNEL: one short model span in the window, and no more.

Pass when the label is `backchannel` and `1 <= spans in window <= max_spans`, where a span counts
that starts or continues in `[w0, w1)` and the first that starts there is, unclipped, strictly
shorter than the ceiling (DSB-IFEval, appendix C.4 and table 18: 1.0 s, 1 span).

Decided early: too many spans, or a first span that has already lasted the ceiling, is a fail. A
span cut by the end of the recording has no length, so such a case is unscored.
Deviations and bias: "fully contained in user speech" (table 13) is not asked, as in C.4; the
windows lie in pauses. With `max_spans` above 1 only the first span's length is looked at, as the
label says; a pass in which another span reached the ceiling is flagged `floor_taken_besides`.
Breaths and clicks that the VAD takes for speech pass: bias upwards.
"""

from __future__ import annotations

from audio.timebase import ns_to_s
from verifiers.ends_early import ends_early
from verifiers.label import Label, label
from verifiers.measurement import Measurement, WindowReading
from verifiers.thresholds import Limits
from verifiers.verdict import Outcome, Verdict, seconds, text_s, verdict


def decide(measurement: Measurement, limits: Limits) -> Verdict:
    """Judge one case; reads `ceiling_ns` and `max_spans`."""
    reading = measurement.scored
    outcome = _outcome(reading, limits)
    return verdict(outcome, {
        Outcome.PASS: _sentence(reading, limits),
        Outcome.FAIL: _sentence(reading, limits),
        Outcome.UNSCORED: ends_early(
            reading, f"into a window of {text_s(reading.length_ns)}, before the count and the "
            "length of the model's spans were settled"),
    }, value=seconds(reading.first_span_ns), unit="s", limit=ns_to_s(limits.ceiling_ns),
        evidence=(("spans_in_window", reading.spans_in_window), ("max_spans", limits.max_spans)))


def floor_taken_besides(reading: WindowReading, limits: Limits) -> bool:
    """Some span in the window reached the ceiling."""
    return any(end - start >= limits.ceiling_ns for start, end in reading.spans_ns)


def _outcome(reading: WindowReading, limits: Limits) -> Outcome:
    named = label(reading, limits.ceiling_ns)
    # Where none has begun yet, the span that could still pass adds to those that go on.
    least = reading.spans_in_window + (0 if reading.spans_begun else 1)
    if least > limits.max_spans or named in (Label.SILENT, Label.FLOOR_TAKE):
        return Outcome.FAIL
    if named is None or not reading.complete:
        return Outcome.UNSCORED
    return Outcome.PASS


def _sentence(reading: WindowReading, limits: Limits) -> str:
    count, first = reading.spans_in_window, reading.first_span_ns
    if first is None:
        going_on = f"; {count} span(s) ran into it" if count else ""
        return f"no model span began in the window of {text_s(reading.length_ns)}{going_on}"
    more = "at least " if reading.first_span_cut else ""
    return (f"{count} model span(s) in the window (at most {limits.max_spans}), the first begun "
            f"one lasts {more}{text_s(first, limits.ceiling_ns)} (shorter than "
            f"{text_s(limits.ceiling_ns, first)} asked)")
