"""L1: caller speech offset to the agent's first audio, for each taken turn.

Definition (CallScreenBench, appendix A): "response latency, caller speech offset to agent's first
audio sample". One value a `reply` of `verifiers.calls.turns`; overlap starts carry their signed
overlap apart and never enter; nothing is clamped. Percentiles interpolate linearly. "Over 1 s" is
strictly more than 1000 ms, the published gate being "p50 < 1000 ms".

Beside it stands what has no latency: an agent that answers one turn of ten quickly is not quick.
"""

from __future__ import annotations

from dataclasses import dataclass

from audio.timebase import NS_PER_S
from verifiers.calls.turns import CallTurns, Fate, Kind

OVER_NS = NS_PER_S
"""CallScreenBench, table 2: "replies > 1 s"."""


@dataclass(frozen=True, slots=True)
class ReplyLatency:
    """The additive parts. `values_ns`: one a trusted reply, in order; `overlaps_ns`: one an overlap
    start, below 0. `caller_turns_n`: turns of the caller, answered or not. `missing_n`: those
    without a reply. `doubtful_n`: replies and overlap starts that lie where a channel could not be
    trusted."""

    values_ns: tuple[int, ...]
    overlaps_ns: tuple[int, ...]
    caller_turns_n: int
    missing_n: int
    doubtful_n: int

    @property
    def over_n(self) -> int:
        """Replies later than `OVER_NS`."""
        return sum(value > OVER_NS for value in self.values_ns)


def reply_latency(call: CallTurns) -> ReplyLatency:
    """L1 of one call."""
    return ReplyLatency(
        values_ns=tuple(t.latency_ns for t in call.of(Kind.REPLY) if t.latency_ns is not None),
        overlaps_ns=tuple(t.latency_ns for t in call.of(Kind.OVERLAP) if t.latency_ns is not None),
        caller_turns_n=len(call.caller),
        missing_n=sum(t.fate is not Fate.ANSWERED for t in call.caller),
        doubtful_n=call.doubtful_n(Kind.REPLY, Kind.OVERLAP))
