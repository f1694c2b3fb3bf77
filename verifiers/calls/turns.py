"""Who had the floor when: every agent span of a call gets one kind, every caller turn one fate.

Input are the speech spans of both sides on one time line, in nanoseconds; nothing is known of
words. The kinds are those of the contract (`rig field --json`):

- `greeting`: begins before the caller has spoken. No reply, in no latency.
- `overlap`: begins inside caller speech. An overlap start: its `latency_ns` is negative, the signed
  overlap, and never enters L1.
- `reply`: the first to begin after a caller turn has ended, while the agent had not begun to answer
  it before. `latency_ns` is the agent's start minus the caller's end: L1.
- `backchannel`: shorter than `backchannel_ns` and fully contained in caller speech ("mm-hm").
  Neither reply nor interruption.
- `continuation`: the agent goes on: a later span of the same answer, a pause inside a sentence, a
  filler followed by the substance.

One reply is paired with one caller turn. To pair every agent span with the caller speech before it
measures the agent's own pauses: on a real call of 4 minutes that is a median of about 3 s where the
reply gap is 0.8 s.

Conventions, each with its source:

- A caller turn is caller speech with no agent answer inside: pauses, however long, do not end it.
- `pause_ns`, 0.5 s: the shortest caller silence that the published sweep calls a yield
  (CallScreenBench, appendix A). A side that pauses for less still holds the floor: it bridges gaps
  where a backchannel is looked for, an agent span that follows another by less is the same breath,
  and an agent that stops within it after a barge-in has yielded.
- `backchannel_ns`, 1.0 s: DSB-IFEval, table 18, `bc_ceiling_s`; "fully contained in user speech",
  table 13. The caller's own backchannels are told by the same ceiling, where the agent also goes on
  for `pause_ns` after them; they are no turn, so what the agent says next answers nothing.

Deviations and bias: without words a short reply in a caller pause under 0.5 s counts as a
backchannel, and a stale burst of an interrupted answer that begins after the caller's end counts as
the reply.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from audio.spans import Interval, Spans
from audio.timebase import NS_PER_MS, NS_PER_S


class Kind(StrEnum):
    """What an agent span is to the caller's speech before it."""

    REPLY = "reply"
    OVERLAP = "overlap"
    BACKCHANNEL = "backchannel"
    GREETING = "greeting"
    CONTINUATION = "continuation"


class Fate(StrEnum):
    """What became of a caller turn."""

    ANSWERED = "answered"
    OVERLAPPED = "overlapped"
    TALKED_OVER = "talked_over"
    UNANSWERED = "unanswered"


@dataclass(frozen=True, slots=True)
class TurnRules:
    """The two lengths that turns rest on; sources in the head of the module. Both above 0."""

    backchannel_ns: int = NS_PER_S
    pause_ns: int = 500 * NS_PER_MS


@dataclass(frozen=True, slots=True)
class Turn:
    """One agent span.

    caller_ns: the caller turn it belongs to, first onset to last offset before (or around) the
    agent's start; `None` for a greeting. latency_ns: agent start minus caller offset, for a reply
    (0 or more) and an overlap (below 0), else `None`. doubtful: lies where a channel could not be
    trusted; in no rate.
    """

    kind: Kind
    agent_ns: Interval
    caller_ns: Interval | None
    latency_ns: int | None = None
    doubtful: bool = False


@dataclass(frozen=True, slots=True)
class CallerTurn:
    """A turn of the caller: first onset to last offset, and what the agent did about it."""

    caller_ns: Interval
    fate: Fate


@dataclass(frozen=True, slots=True)
class CallTurns:
    """A call, classified. `turns` are agent spans in order, `caller` turns of the caller in order,
    `caller_backchannels` and `agent_floor` what the rates need besides: the agent's speech without
    its backchannels."""

    turns: tuple[Turn, ...]
    caller: tuple[CallerTurn, ...]
    caller_backchannels: Spans
    agent_floor: Spans

    def of(self, kind: Kind) -> tuple[Turn, ...]:
        """The trusted turns of a kind."""
        return tuple(t for t in self.turns if t.kind is kind and not t.doubtful)

    def doubtful_n(self, *kinds: Kind) -> int:
        """How many turns of these kinds are in no rate."""
        return sum(t.doubtful for t in self.turns if t.kind in kinds)


DEFAULT_RULES = TurnRules()
DOUBT_MARGIN_NS = 100 * NS_PER_MS
"""How near to a stretch that cannot be trusted an edge may lie: about the detector's largest edge
error, 91 ms (docs/vad.md)."""
NOWHERE = Spans()


class Lookup:
    """`Spans.at` by bisection: a call of hours has thousands of spans."""

    def __init__(self, spans: Spans) -> None:
        self._items = spans.items
        self._starts = [start for start, _ in spans.items]

    def at(self, point: int) -> Interval | None:
        """The span that holds `point`, if any."""
        found = bisect_right(self._starts, point) - 1
        if found < 0 or self._items[found][1] <= point:
            return None
        return self._items[found]


def classify(
    caller: Spans, agent: Spans, rules: TurnRules = DEFAULT_RULES, blind: Spans = NOWHERE
) -> CallTurns:
    """Give every agent span its kind and every caller turn its fate.

    Args:
        caller: the caller's speech, ns.
        agent: the agent's speech, ns, same time line.
        rules: lengths.
        blind: stretches in which one of the channels cannot be trusted; turns with one at an edge,
            or between the caller's end and the agent's start, are marked `doubtful`.
    """
    agent_holds = Lookup(agent.merge_gaps(rules.pause_ns))
    short = {c for c in caller if _is_caller_backchannel(c, agent_holds, rules)}
    speech = Spans(tuple(c for c in caller if c not in short))
    caller_holds = Lookup(speech.merge_gaps(rules.pause_ns))
    starts = [c[0] for c in speech]

    turns: list[Turn] = []
    said: list[Interval] = []
    said_starts: list[int] = []
    run_start: dict[int, int] = {}
    for span in agent:
        at = bisect_right(starts, span[0]) - 1
        before = speech.items[at] if at >= 0 else None
        kind = _kind(span, before, said, caller_holds, rules)
        turn = None
        if before is not None:
            turn = (_run_start(speech, at, said_starts, run_start), before[1])
        latency = (span[0] - before[1]
                   if before is not None and kind in (Kind.REPLY, Kind.OVERLAP) else None)
        turns.append(Turn(kind, span, turn, latency, _touches(blind, span, before)))
        if kind is not Kind.BACKCHANNEL:
            said.append(span)
            said_starts.append(span[0])
    return CallTurns(tuple(turns), _fates(speech, turns), Spans(tuple(sorted(short))),
                     Spans(tuple(said)))


def _is_caller_backchannel(span: Interval, agent_holds: Lookup, rules: TurnRules) -> bool:
    floor = agent_holds.at(span[0])
    return (floor is not None and span[1] - span[0] < rules.backchannel_ns
            and floor[1] - span[1] >= rules.pause_ns)


def _kind(span: Interval, before: Interval | None, said: Sequence[Interval],
          caller_holds: Lookup, rules: TurnRules) -> Kind:
    if before is None:
        return Kind.GREETING
    last = said[-1] if said else None
    # The caller's latest speech began while the agent spoke, or before it, and the agent goes on.
    if last is not None and before[0] < last[1] and span[0] - last[1] < rules.pause_ns:
        return Kind.CONTINUATION
    floor = caller_holds.at(span[0])
    if (floor is not None and span[1] <= floor[1]
            and span[1] - span[0] < rules.backchannel_ns):
        return Kind.BACKCHANNEL
    if span[0] < before[1]:
        return Kind.OVERLAP
    # It had begun to answer, or never stopped for the caller.
    if last is not None and last[1] > before[1] and (
            last[0] >= before[0] or last[1] - before[1] >= rules.pause_ns):
        return Kind.CONTINUATION
    return Kind.REPLY


def _run_start(speech: Spans, at: int, said_starts: Sequence[int], known: dict[int, int]) -> int:
    """First onset of the caller turn that holds `speech[at]`: no agent onset lies in between."""
    if at in known:
        return known[at]
    first = at
    while first:
        a, b = speech.items[first - 1][0], speech.items[first][0]
        if bisect_left(said_starts, b) != bisect_left(said_starts, a):
            break
        first -= 1
    known[at] = speech.items[first][0]
    return known[at]


def _fates(speech: Spans, turns: Sequence[Turn]) -> tuple[CallerTurn, ...]:
    """Caller speech cut into turns at the agent's onsets, each with what came first."""
    floor_turns = [t for t in turns if t.kind is not Kind.BACKCHANNEL]
    onsets = [t.agent_ns[0] for t in floor_turns]
    out: list[CallerTurn] = []
    group: list[Interval] = []
    for index, span in enumerate(speech):
        group.append(span)
        after = next((start for start, _ in speech.items[index + 1 : index + 2]), None)
        first = bisect_left(onsets, span[0])
        answered = any(after is None or onset < after for onset in onsets[first : first + 1])
        if not answered and after is not None:
            continue
        fate = Fate.UNANSWERED
        if answered:
            fate = {Kind.REPLY: Fate.ANSWERED, Kind.OVERLAP: Fate.OVERLAPPED}.get(
                floor_turns[first].kind, Fate.TALKED_OVER)
        out.append(CallerTurn((group[0][0], span[1]), fate))
        group = []
    return tuple(out)


def _touches(blind: Spans, span: Interval, before: Interval | None) -> bool:
    """Does a stretch that cannot be trusted lie at or near an edge that the turn rests on, or
    between the two, where it could hide another edge?"""
    edges = [span[0]] if before is None else [span[0], before[1]]
    return bool(blind.touching(min(edges) - DOUBT_MARGIN_NS, max(edges) + DOUBT_MARGIN_NS))
