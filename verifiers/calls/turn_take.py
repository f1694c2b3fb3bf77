"""L3, turn-take rate: does the agent take the floor when the caller gives it?

A yield point is a caller speech offset that at least `yield_silence` of caller silence follows; the
end of the recording ends the silence. It is taken when the agent begins to speak before the caller
resumes (backchannels do not count). Definition: design page "Field study" (CallScreenBench,
appendix A). The paper names no default; ours is 1.0 s, and the sweep is the paper's range.

Two kinds of yield point are counted apart and are in no rate:

- `overlapped`: the agent is already speaking at the caller's offset (it bridges pauses under
  `TurnRules.pause_ns`). The published tool charged 131 of 594 such points as missed turns.
- `fast`: the silence is shorter than `yield_silence` because the agent took the floor in it and the
  caller spoke again at once ("yes"). The point exists; by silence alone it would be lost, and a
  quick agent with it. `with_fast` is the rate over both.

Every caller span counts here, the caller's backchannels too: they end while the agent speaks and so
are `overlapped`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from audio.spans import Spans
from audio.timebase import NS_PER_MS, NS_PER_S
from verifiers.calls.turns import (
    DEFAULT_RULES,
    DOUBT_MARGIN_NS,
    NOWHERE,
    CallTurns,
    Lookup,
    TurnRules,
)

YIELD_SILENCE_NS = NS_PER_S
"""Ours (the paper names none); printed with every rate."""
SWEEP_NS = tuple(ms * NS_PER_MS for ms in (500, 750, 1000, 1500, 2000, 3000))
"""CallScreenBench, appendix A: 0.5 s to 3 s."""


@dataclass(frozen=True, slots=True)
class TurnTake:
    """Counts at one `yield_silence_ns`: `taken` of `n`; `overlapped` and `fast` apart; `doubtful_n`
    points lie where a channel could not be trusted and are in none of them."""

    yield_silence_ns: int
    n: int
    taken: int
    overlapped: int
    fast: int
    doubtful_n: int


class Outcome(StrEnum):
    """What became of a yield point. Only `taken` and `missed` are in the rate."""

    TAKEN = "taken"
    MISSED = "missed"
    OVERLAPPED = "overlapped"
    FAST = "fast"
    DOUBTFUL = "doubtful"


@dataclass(frozen=True, slots=True)
class YieldPoint:
    """A caller offset, ns, and what became of it."""

    at_ns: int
    outcome: Outcome


def yield_points(
    caller: Spans, call: CallTurns, recorded_ns: int, yield_silence_ns: int = YIELD_SILENCE_NS,
    rules: TurnRules = DEFAULT_RULES, blind: Spans = NOWHERE,
) -> tuple[YieldPoint, ...]:
    """Yield points of one call, in order.

    Args:
        caller: all speech of the caller, ns; `call` was classified from it.
        recorded_ns: end of the recording.
        yield_silence_ns: above 0.
    """
    holds = Lookup(call.agent_floor.merge_gaps(rules.pause_ns))
    onsets = [start for start, _ in call.agent_floor]
    out: list[YieldPoint] = []
    for index, (_, offset) in enumerate(caller):
        # After its last word the caller is silent to the end of the recording.
        resumed = next((start for start, _ in caller.items[index + 1 : index + 2]), recorded_ns)
        is_yield = resumed - offset >= yield_silence_ns
        takes = _begins(onsets, offset, resumed)
        found: Outcome | None
        if blind.touching(offset - DOUBT_MARGIN_NS, resumed):
            found = Outcome.DOUBTFUL if is_yield else None
        elif _speaking(holds, offset):
            found = Outcome.OVERLAPPED if is_yield else None
        elif is_yield:
            found = Outcome.TAKEN if takes else Outcome.MISSED
        else:
            found = Outcome.FAST if takes else None
        if found is not None:
            out.append(YieldPoint(offset, found))
    return tuple(out)


def turn_take(
    caller: Spans, call: CallTurns, recorded_ns: int, yield_silence_ns: int = YIELD_SILENCE_NS,
    rules: TurnRules = DEFAULT_RULES, blind: Spans = NOWHERE,
) -> TurnTake:
    """Yield points of one call, counted. Arguments as in `yield_points`."""
    return counted(yield_points(caller, call, recorded_ns, yield_silence_ns, rules, blind),
                   yield_silence_ns)


def counted(points: Sequence[YieldPoint], yield_silence_ns: int) -> TurnTake:
    """How many of each."""
    many = Counter(point.outcome for point in points)
    return TurnTake(yield_silence_ns, many[Outcome.TAKEN] + many[Outcome.MISSED],
                    many[Outcome.TAKEN], many[Outcome.OVERLAPPED], many[Outcome.FAST],
                    many[Outcome.DOUBTFUL])


def _speaking(holds: Lookup, offset: int) -> bool:
    """An agent that begins at the very offset takes the floor then; it did not hold it before."""
    floor = holds.at(offset)
    return floor is not None and floor[0] != offset


def _begins(onsets: Sequence[int], start: int, end: int) -> bool:
    return bisect_left(onsets, start) != bisect_left(onsets, end)
