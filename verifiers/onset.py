"""A genuine onset within a bound: the rule that TAKE_TURN and INTERRUPT share."""

from __future__ import annotations

from verifiers.measurement import WindowReading
from verifiers.verdict import Outcome


def onset_within(reading: WindowReading, limit_ns: int) -> Outcome:
    """Pass when the first span that starts in the window does so at or before `limit_ns`.

    An onset decides at once. Its absence decides as soon as the recording shows that none came
    while one could still have passed: up to the limit or the window's end, the earlier one.
    """
    if reading.onset_ns is not None:
        return Outcome.PASS if reading.onset_ns <= limit_ns else Outcome.FAIL
    last_chance_ns = min(limit_ns, reading.length_ns)
    return Outcome.FAIL if reading.seen_ns >= last_chance_ns else Outcome.UNSCORED
