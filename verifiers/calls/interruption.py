"""L3, interruption rate: agent turns that begin inside caller speech.

    overlap starts / (replies + overlap starts)

Definition: design page "Field study" (CallScreenBench, appendix A: "23.5% of replies begin inside
caller speech"). Backchannels, greetings and continuations are in neither part.
"""

from __future__ import annotations

from dataclasses import dataclass

from verifiers.calls.turns import CallTurns, Kind


@dataclass(frozen=True, slots=True)
class Interruption:
    """`count` of `n`; `backchannels_n` stand apart, `doubtful_n` were left out."""

    count: int
    n: int
    backchannels_n: int
    doubtful_n: int


def interruption(call: CallTurns) -> Interruption:
    """Interruptions of one call."""
    count = len(call.of(Kind.OVERLAP))
    return Interruption(count, count + len(call.of(Kind.REPLY)), len(call.of(Kind.BACKCHANNEL)),
                        call.doubtful_n(Kind.REPLY, Kind.OVERLAP))
