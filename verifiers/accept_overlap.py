"""ACCEPT_OVERLAP: model and user speak at once.

Pass when the overlap of model speech and user speech in `[w0, w1)` is greater than 0
(DSB-IFEval, appendix C.4 and table 18).

Decided early: any overlap passes.
Deviations and bias: both sides are clipped to the window; C.4 can be read as taking whole spans,
which differs only where they overlap outside it alone. Table 13 asks that overlap be
*maintained*; neither table 18 nor this rule does, so the tail of a model that yields passes:
bias upwards, and by how much is `overlap_s`. `no_opportunity` marks a model that held no floor at
`w0`, `no_user_speech` a window in which nothing could overlap.
"""

from __future__ import annotations

from audio.timebase import ns_to_s
from verifiers.ends_early import ends_early
from verifiers.measurement import Measurement
from verifiers.thresholds import Limits
from verifiers.verdict import Outcome, Verdict, text_s, verdict


def decide(measurement: Measurement, limits: Limits) -> Verdict:  # noqa: ARG001
    """Judge one case; no limit is read."""
    reading = measurement.scored
    if reading.overlap_ns > 0:
        outcome = Outcome.PASS
    else:
        outcome = Outcome.FAIL if reading.complete else Outcome.UNSCORED
    user = f"the user spoke {text_s(reading.user_speech_ns)} of the window"
    return verdict(outcome, {
        Outcome.PASS: f"model and user overlapped for {text_s(reading.overlap_ns)}; {user}",
        Outcome.FAIL: f"model and user never overlapped; {user}",
        Outcome.UNSCORED: ends_early(
            reading, f"into a window of {text_s(reading.length_ns)} without an overlap so far"),
    }, value=ns_to_s(reading.overlap_ns), unit="s", limit=0.0,
        evidence=(("held_at_w0", reading.held_at_w0),
                  ("user_speech_s", ns_to_s(reading.user_speech_ns))))
