"""YIELD: the model stops soon after the user barges in.

Let `off` be the first model offset at or after the barge-in onset `w0`, minus `w0`. Pass when
`off` exists and `off <= max_latency` (DSB-IFEval, appendix C.4; table 18: 600 ms, R4 1000 ms).

Decided early: a known offset decides. One at the end of the recording is only a least value: it
fails beyond the limit and is unscored otherwise. No offset at all is a fail once 0.5 s behind the
limit is recorded.
Deviations and bias: none from C.4, which does not ask whether the model was speaking: a breath,
or a span begun after `w0`, passes, and so does stopping and starting again. `held_at_w0`,
`resumed_in_window` and the flag `no_opportunity` show it: bias upwards. A model silent throughout
fails although there was nothing to yield: bias downwards, same flag. Silero's offsets are late by
tens of ms.
"""

from __future__ import annotations

from audio.timebase import ns_to_s
from verifiers.ends_early import ends_early
from verifiers.measurement import Measurement, WindowReading
from verifiers.thresholds import Limits
from verifiers.verdict import Outcome, Verdict, seconds, text_s, verdict


def stopped_within(reading: WindowReading, limit_ns: int) -> Outcome:
    """The rule alone; CONTINUE reads its opposite beside its own."""
    offset = reading.first_offset_ns
    if offset is None:
        return Outcome.FAIL if reading.seen_ns >= limit_ns else Outcome.UNSCORED
    if offset > limit_ns:
        return Outcome.FAIL
    return Outcome.UNSCORED if reading.first_offset_cut else Outcome.PASS


def decide(measurement: Measurement, limits: Limits) -> Verdict:
    """Judge one case; reads `max_latency_ns`."""
    reading, limit = measurement.scored, limits.max_latency_ns
    offset = reading.first_offset_ns
    if offset is None:  # without one no span held the floor either
        found = (f"the model held no floor at the barge-in, and neither spoke nor stopped after it "
                 f"(latency at most {text_s(limit)})")
    else:
        verb = "still spoke" if reading.first_offset_cut else "stopped"
        moment = (f"{verb} {text_s(offset, limit)} after the barge-in" if reading.held_at_w0 else
                  f"held no floor at the barge-in; it {verb} {text_s(offset, limit)} after it")
        found = f"the model {moment} (latency at most {text_s(limit, offset)})"
    return verdict(stopped_within(reading, limit), {
        Outcome.PASS: found,
        Outcome.FAIL: found,
        Outcome.UNSCORED: ends_early(
            reading, f"after the barge-in, before a stop within {text_s(limit)} was settled"),
    }, value=seconds(offset), unit="s", limit=ns_to_s(limit),
        evidence=(("held_at_w0", reading.held_at_w0), ("resumed_in_window", reading.resumed)))
