"""TAKE_TURN: the model begins to speak within the maximum wait.

Pass when a genuine onset exists in `[w0, w1)` and `onset - w0 <= max_wait`
(DSB-IFEval, appendix C.4; table 18: 2.0 s, per role R1 2.0, R3 1.5, R6 1.2, R8 0.8).

Decided early: an onset decides; its absence once 0.5 s behind the last moment that could pass is
recorded.
Deviations and bias: there is no minimum length, so an "mm" passes (its length is stored as
`first_span_s`); speech that already held the floor at `w0` is no onset, so a model that talks
over the user's end and goes on fails, as in the paper. Silero's onsets are late by tens of ms:
bias downwards at the limit.
"""

from __future__ import annotations

from audio.timebase import ns_to_s
from verifiers.ends_early import ends_early
from verifiers.measurement import Measurement
from verifiers.onset import onset_within
from verifiers.thresholds import Limits
from verifiers.verdict import Outcome, Verdict, seconds, text_s, verdict


def decide(measurement: Measurement, limits: Limits) -> Verdict:
    """Judge one case; reads `max_wait_ns`."""
    reading, limit = measurement.scored, limits.max_wait_ns
    onset = reading.onset_ns
    if onset is None:
        held = "; speech that already held the floor is no onset" if reading.held_at_w0 else ""
        found = f"no model onset in the window{held} (wait at most {text_s(limit)})"
    else:
        found = (f"the model began {text_s(onset, limit)} into the window "
                 f"(wait at most {text_s(limit, onset)})")
    return verdict(onset_within(reading, limit), {
        Outcome.PASS: found,
        Outcome.FAIL: found,
        Outcome.UNSCORED: ends_early(
            reading, f"into the window, before a wait of {text_s(limit)} was over"),
    }, value=seconds(onset), unit="s", limit=ns_to_s(limit),
        evidence=(("first_span_s", seconds(reading.first_span_ns)),))
