"""LISTEN: no model speech in the protected window.

Pass when the label is `silent`: no model span starts or continues in `[w0, w1)`
(DSB-IFEval, appendix C.4).

Decided early: any span in the window is a fail, whatever follows.
Deviations and bias: table 18 asks only that no span *begins*; over-talk that runs into the window
fails here and would pass there, so this rule can only be stricter. The other reading is stored as
`silent_begun`. A system that never speaks passes (flag `no_model_speech`), and speech below the
VAD threshold is silence: both bias upwards.
"""

from __future__ import annotations

from verifiers.ends_early import ends_early
from verifiers.measurement import Measurement
from verifiers.thresholds import Limits
from verifiers.verdict import Outcome, Verdict, text_s, verdict


def decide(measurement: Measurement, limits: Limits) -> Verdict:  # noqa: ARG001
    """Judge one case; no limit is read."""
    reading = measurement.scored
    count = reading.spans_in_window
    if count > 0:
        outcome = Outcome.FAIL
        what = (f"began {text_s(reading.spans_ns[0][0])} after its start"
                if reading.spans_ns[0][0] >= 0 else "was already under way")
    else:
        outcome = Outcome.PASS if reading.complete else Outcome.UNSCORED
        what = ""
    return verdict(outcome, {
        Outcome.PASS: f"no model speech in the window of {text_s(reading.length_ns)}",
        Outcome.FAIL: f"{count} model span(s) in the window, the first {what}",
        Outcome.UNSCORED: ends_early(
            reading, f"into a window of {text_s(reading.length_ns)} that was silent so far"),
    }, value=float(count), unit="spans", limit=0.0)
