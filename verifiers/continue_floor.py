"""CONTINUE: the model holds the floor through a barge-in.

Pass when a model span contains the barge-in onset `w0` and is still active beyond the latency:
its offset minus `w0` is strictly greater than `max_latency` (DSB-IFEval, appendix C.4; the latency
is that of YIELD, table 18: 600 ms).

Decided early: a span that outlasts the latency passes even where the recording cuts it. One that
is cut earlier is unscored.
Deviations and bias: table 13 also wants the required speech to be completed, which C.4 does not
and no offset can show. Table 18 passes whatever has not yielded, so silence passes; that variant
is stored as `table18` and never decides. Against it this rule is stricter where the model was
silent. A pause of 0.3 s or more inside a rendering ends its span: bias downwards.
"""

from __future__ import annotations

from audio.timebase import ns_to_s
from verifiers.ends_early import ends_early
from verifiers.measurement import Measurement, WindowReading
from verifiers.thresholds import Limits
from verifiers.verdict import Outcome, Verdict, seconds, text_s, verdict
from verifiers.yield_floor import stopped_within


def table18(reading: WindowReading, limit_ns: int) -> Outcome:
    """Table 18's variant: not yielded within the latency."""
    opposite = {Outcome.PASS: Outcome.FAIL, Outcome.FAIL: Outcome.PASS}
    yielded = stopped_within(reading, limit_ns)
    return opposite.get(yielded, yielded)


def decide(measurement: Measurement, limits: Limits) -> Verdict:
    """Judge one case; reads `max_latency_ns`."""
    reading, limit = measurement.scored, limits.max_latency_ns
    offset = reading.first_offset_ns if reading.held_at_w0 else None
    if offset is None:
        found = "the model did not hold the floor at the barge-in"
    else:
        verb = "still spoke" if reading.first_offset_cut else "stopped"
        found = (f"the model held the floor and {verb} {text_s(offset, limit)} after the "
                 f"barge-in (more than {text_s(limit, offset)} asked)")
    return verdict(_outcome(reading, limit), {
        Outcome.PASS: found,
        Outcome.FAIL: found,
        Outcome.UNSCORED: ends_early(
            reading, f"after the barge-in, before {text_s(limit)} of holding were settled"),
    }, value=seconds(offset), unit="s", limit=ns_to_s(limit),
        evidence=(("held_at_w0", reading.held_at_w0), ("resumed_in_window", reading.resumed),
                  ("table18", str(table18(reading, limit)))))


def _outcome(reading: WindowReading, limit_ns: int) -> Outcome:
    if not reading.held_at_w0 or reading.first_offset_ns is None:
        return Outcome.FAIL if reading.seen_ns >= 0 else Outcome.UNSCORED
    if reading.first_offset_ns > limit_ns:
        return Outcome.PASS
    return Outcome.UNSCORED if reading.first_offset_cut else Outcome.FAIL
