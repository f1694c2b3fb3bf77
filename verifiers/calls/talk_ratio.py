"""L3, talk ratio: agent speech out of all speech, with both summed (CallScreenBench, appendix A).

Seconds that both speak count for both. `None` where nobody spoke.
"""

from __future__ import annotations

from collections.abc import Iterable

from audio.spans import Spans


def talk_ratio(calls: Iterable[tuple[Spans, Spans]]) -> float | None:
    """Agent speech over the sum of both sides' speech, 0..1, over all calls `(caller, agent)`."""
    caller_n = agent_n = 0
    for caller, agent in calls:
        caller_n, agent_n = caller_n + caller.total, agent_n + agent.total
    both = caller_n + agent_n
    return agent_n / both if both else None
