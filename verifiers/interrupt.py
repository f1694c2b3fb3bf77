"""INTERRUPT: the model cuts in within the latency bound while the user goes on.

Pass when a genuine onset exists in `[w0, w1)` and `onset - w0 <= max_latency`, `w0` being the end
of the trigger token and `w1` the end of what the user goes on to say
(DSB-IFEval, appendix C.4; table 18: 1500 ms, per role R1, R5 1500, R3, R6 1200).

Decided early: an onset decides; its absence once 0.5 s behind the last moment that could pass is
recorded.
Deviations and bias: none from C.4. Speech that already held the floor is no cut-in. A
backchannel within the bound passes (its length is stored as `first_span_s`): bias upwards.
"""

from __future__ import annotations

from audio.timebase import ns_to_s
from verifiers.ends_early import ends_early
from verifiers.measurement import Measurement
from verifiers.onset import onset_within
from verifiers.thresholds import Limits
from verifiers.verdict import Outcome, Verdict, seconds, text_s, verdict


def decide(measurement: Measurement, limits: Limits) -> Verdict:
    """Judge one case; reads `max_latency_ns`."""
    reading, limit = measurement.scored, limits.max_latency_ns
    onset = reading.onset_ns
    if onset is None:
        held = "; speech that already held the floor is no cut-in" if reading.held_at_w0 else ""
        found = f"no model onset after the trigger{held} (latency at most {text_s(limit)})"
    else:
        found = (f"the model cut in {text_s(onset, limit)} after the trigger "
                 f"(latency at most {text_s(limit, onset)})")
    return verdict(onset_within(reading, limit), {
        Outcome.PASS: found,
        Outcome.FAIL: found,
        Outcome.UNSCORED: ends_early(
            reading, f"after the trigger, before a latency of {text_s(limit)} was over"),
    }, value=seconds(onset), unit="s", limit=ns_to_s(limit),
        evidence=(("first_span_s", seconds(reading.first_span_ns)),))
