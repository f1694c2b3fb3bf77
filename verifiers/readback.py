"""READBACK: the model says the dictated items back.

Pass when the multiset token coverage of the target by the model's transcript is at least
`min_coverage` (DSB-IFEval, appendix C.5; table 18: 0.90) and the model was heard to speak. Only
words heard from `readback_from` on count. The normaliser is `verifiers.readback_text`.

Decided early: more words can only add coverage, so a pass stands; a fail needs the whole
recording. Without a target, or without a transcript, the case is unscored: a system that gives no
text may have read back perfectly. That holds for a silent one too, or such systems would be
scored on their failures alone; and where a system that gives text spoke and not one word of it
came.
Deviations and bias: a transcript without any detected model speech does not pass (the contract
counts only what was heard; flag `transcript_without_speech`). "Before proceeding" (table 13) is
not asked, as in C.5. Order is not asked; `coverage_ordered` is stored beside. Chance hits of
common words count: bias upwards. "Thirty six" for dictated "three six" is missed: bias downwards.
"""

from __future__ import annotations

from verifiers.ends_early import ends_early
from verifiers.measurement import Measurement, Readback
from verifiers.thresholds import Limits
from verifiers.verdict import Outcome, Verdict, text_s, verdict


def decide(measurement: Measurement, limits: Limits) -> Verdict:
    """Judge one case; reads `min_coverage`."""
    found, reading = measurement.readback, measurement.scored
    if not measurement.target_given:
        return Verdict(Outcome.UNSCORED, "the case has no target text", unit="ratio",
                       limit=limits.min_coverage)
    if found is None:
        return Verdict(Outcome.UNSCORED, "the model spoke, and its words never came"
                       if measurement.transcript_given else "the system gives no transcript",
                       unit="ratio", limit=limits.min_coverage)
    if found.coverage >= limits.min_coverage and found.heard:
        outcome = Outcome.PASS
    else:
        outcome = Outcome.FAIL if reading.complete else Outcome.UNSCORED
    sentence = (f"{found.matched_n} of {found.target_n} dictated tokens were read back: coverage "
                f"{found.coverage:.3f} (at least {limits.min_coverage:g} asked)")
    if without_speech(found):
        sentence += ", but no model speech was heard"
    return verdict(outcome, {
        Outcome.PASS: sentence,
        Outcome.FAIL: sentence,
        Outcome.UNSCORED: ends_early(
            reading, f"into a window of {text_s(reading.length_ns)}; so far {sentence}"),
    }, value=found.coverage, unit="ratio", limit=limits.min_coverage,
        evidence=(("matched_tokens", found.matched_n), ("target_tokens", found.target_n),
                  ("coverage_ordered", found.coverage_ordered), ("heard", found.heard)))


def without_speech(found: Readback) -> bool:
    """Words in the transcript, none heard."""
    return found.matched_n > 0 and not found.heard
