"""NO_BACKCHANNEL: no model span in the window, not even a short acknowledgment.

Pass when the label is `silent`: no model span starts or continues in `[w0, w1)`
(DSB-IFEval, appendix C.4; table 18 writes it as `bc_window_max = 0`).

Decided early: any span in the window is a fail, whatever follows.
Deviations and bias: none from the paper. A system that never speaks passes (flag
`no_model_speech`), and an acknowledgment shorter than the VAD's 90 ms is not seen: both bias
upwards.
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
        longest_ns = max(end - start for start, end in reading.spans_ns)
        what = f"{count} model span(s) in the window, the longest {text_s(longest_ns)}"
    else:
        outcome = Outcome.PASS if reading.complete else Outcome.UNSCORED
        what = ""
    return verdict(outcome, {
        Outcome.PASS: f"no model speech in the window of {text_s(reading.length_ns)}",
        Outcome.FAIL: what,
        Outcome.UNSCORED: ends_early(
            reading, f"into a window of {text_s(reading.length_ns)} that was silent so far"),
    }, value=float(count), unit="spans", limit=0.0)
