"""Turn taking of EVA (ServiceNow).

The exact rules are those of the repository ServiceNow/eva at commit 997ae97:
`src/eva/metrics/experience/turn_taking.py` (version v0.2), `src/eva/metrics/processor.py` and
`docs/metrics/turn_taking.md`.

A turn is what the user says and the agent's audio that begins behind its start, before the next
turn's; audio before the first turn is the greeting and is left out. A turn counts when both sides
have audio in it. Its latency is the agent's first start less the user's last end. A turn is
*user-interrupted* when the agent's audio is running as the user begins, *agent-interrupted* when
agent audio begins while the user's is running. Its score:

- latency, where neither: 0 up to -0.5 s, rising to 1 at 0.5 s, 1 up to 2 s, falling to 0 at 3.5 s
  (3 and 5 s in turns with a tool call);
- agent-interrupted: the least of overlap (0.5 falling to 0 at 2 s), count of agent segments that
  overlap (0.5, 0.25, 0 from three) and the latency curve of the gap from the user's end to the
  agent's next segment, where none spans that end;
- user-interrupted: 1 falling to 0 at 2 s, of the agent's last end in the turn before less the
  user's start;
- both: the less of the two.

The session's score is the mean over turns. Rates are over counted turns: early below 0.2 s, late
from 2.75 s on (4 s with a tool call). Percentiles take the element at `int(p * n)` of the sorted
list.

Where ours differs:

- Their times are starts and ends of audio that a framework reports; ours are detected speech
  (model, pauses below 0.3 s bridged) and speech from construction (user). Silence that is played
  is none of it here.
- Their turn counter advances with each user audio behind the agent's speech. We take the turns of
  the schedule: a pause inside a turn does not end it.
- A model that yields and never speaks again has no agent audio in the turn, so the yield does not
  count. Reproduced; ours scores it.
- A reply that begins in a pause of the user is an agent interruption only while the user speaks;
  its latency to the user's last end is negative, and is in the means and among the early ones
  though the turn's score does not use it. Reproduced; ours counts from the pause.
- Overlap counts what the agent begins in the turn; speech that runs on from the turn before is in
  the yield alone. Ours counts all overlap inside the window.
- Their score is 0 for a session without a counted turn; here it is null: nothing was measured.
- They set a session to 0 that ends by inactivity behind the user. Ours end by schedule: never.
- There are no tool calls in our sessions: the first curve holds throughout.
- Percentiles at `int(p * n)` lie above the median for even n; ours interpolate (Hyndman and Fan,
  type 7).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from audio.spans import Spans
from audio.timebase import NS_PER_MS
from verifiers.definitions.talk import Metric, Reading, Talk, end_of, none_because, one, start_of

HARD_EARLY_MS, SWEET_LOW_MS = -500.0, 500.0
"""`LATENCY_HARD_EARLY_MS`, `LATENCY_SWEET_SPOT_LOW_MS`."""
SWEET_HIGH_MS, HARD_LATE_MS = 2000.0, 3500.0
"""`LATENCY_SWEET_SPOT_HIGH_MS`, `LATENCY_HARD_LATE_MS`: turns without a tool call."""
INTERRUPT_MAX = 0.5
"""`AGENT_INTERRUPT_MAX_SCORE`."""
OVERLAP_HARD_MS, YIELD_HARD_MS = 2000.0, 2000.0
"""`OVERLAP_HARD_MS`, `YIELD_HARD_MS`."""
COUNT_HARD = 3
"""`INTERRUPT_COUNT_HARD`."""
EARLY_MS, LATE_MS = 200.0, 2750.0
"""`EARLY_THRESHOLD_MS`, `LATE_THRESHOLD_MS`."""
LEAST_OVERLAP_NS = NS_PER_MS
"""`_count_agent_interrupt_segments`: a segment overlaps by more than 1 ms."""


def latency_score(ms: float) -> float:
    """The curve of a turn without a tool call, 0..1."""
    rise = (ms - HARD_EARLY_MS) / (SWEET_LOW_MS - HARD_EARLY_MS)
    fall = (HARD_LATE_MS - ms) / (HARD_LATE_MS - SWEET_HIGH_MS)
    return max(0.0, min(rise, 1.0, fall))


def overlap_score(ms: float) -> float:
    """0..0.5."""
    return max(0.0, INTERRUPT_MAX * (1 - ms / OVERLAP_HARD_MS))


def count_score(segments_n: int) -> float:
    """0..0.5; of one segment or more."""
    return max(0.0, INTERRUPT_MAX * (1 - (segments_n - 1) / (COUNT_HARD - 1)))


def yield_score(ms: float) -> float:
    """0..1."""
    return max(0.0, 1 - ms / YIELD_HARD_MS)


@dataclass(frozen=True, slots=True)
class Turn:
    """A counted turn; `None` is what does not exist in it. Times in milliseconds."""

    latency_ms: float
    score: float
    agent_interrupted: bool
    user_interrupted: bool
    overlap_ms: float
    segments_n: int
    settled_ms: float | None
    yield_ms: float | None


def turns_of(talk: Talk) -> list[Turn]:
    """The turns in which both sides have audio, in order."""
    starts = [start_of(turn) for turn in talk.turns]
    ends = [*starts[1:], talk.recorded_ns]
    agents = [talk.model.starting_in(a, b) for a, b in zip(starts, ends, strict=True)]
    before = talk.model.starting_in(0, starts[0])
    return [_turn(turn, agent, previous, talk.model)
            for turn, agent, previous in zip(talk.turns, agents, [before, *agents[:-1]],
                                             strict=True) if agent]


def _turn(user: Spans, agent: Spans, previous: Spans, model: Spans) -> Turn:
    start, end = start_of(user), end_of(user)
    running = model.at(start)
    # Audio that begins with the user is open for neither when the other begins.
    user_interrupted = running is not None and running[0] != start
    agent_interrupted = any(user.at(a) is not None for a, _ in agent)
    overlap_ms = agent.intersect(user).total / NS_PER_MS
    segments_n = sum(user.clip(a, b).total > LEAST_OVERLAP_NS for a, b in agent)
    # Agent audio that spans the user's end leaves no silent gap.
    gap_ns = next((a - end for a, _ in agent.clip(end, end_of(agent))), 0)
    settled_ms = gap_ns / NS_PER_MS if gap_ns else None
    yield_ms = max(0, end_of(previous) - start) / NS_PER_MS if previous else None
    latency_ms = (start_of(agent) - end) / NS_PER_MS
    scores: list[float] = []
    if agent_interrupted:
        scores.append(overlap_score(overlap_ms))
        if segments_n:
            scores.append(count_score(segments_n))
        if settled_ms is not None:
            scores.append(latency_score(settled_ms))
    if user_interrupted and yield_ms is not None:
        scores.append(yield_score(yield_ms))
    return Turn(latency_ms, min(scores, default=latency_score(latency_ms)), agent_interrupted,
                user_interrupted, overlap_ms, segments_n, settled_ms, yield_ms)


def percentile(values: Sequence[float], p: float) -> float:
    """The element at `int(p * n)` of the sorted values, the last at most."""
    return sorted(values)[min(len(values) - 1, int(p * len(values)))]


_SOURCE = "ServiceNow/eva 997ae97, src/eva/metrics/experience/turn_taking.py"
_EACH = "a value a session, their mean over sessions"

METRICS = (
    Metric("score", "turn_taking score", "score", (), _SOURCE,
           "mean over turns of the curves of latency, overlap and yield; " + _EACH,
           "a pass at one limit each in ours; a session without a counted turn is 0 in theirs"),
    Metric("mean_latency", "mean_latency_ms", "ms", (), _SOURCE,
           "agent's first start less the user's last end, of every counted turn, sign kept; "
           + _EACH,
           "interrupted turns are in it with their negative gaps; ours counts onsets behind the "
           "user's end"),
    Metric("p50_latency", "p50_latency_ms", "ms", (), _SOURCE,
           "element int(0.5 n) of the sorted; " + _EACH,
           "the larger of two; ours interpolates, over all sessions"),
    Metric("p90_latency", "p90_latency_ms", "ms", (), _SOURCE,
           "element int(0.9 n) of the sorted; " + _EACH,
           "the largest of up to ten; ours interpolates, over all sessions"),
    Metric("on_time", "on_time_rate", "share", (), _SOURCE,
           "0.2 s <= latency < 2.75 s; " + _EACH, "ours passes from 0 to the wait"),
    Metric("early", "early_rate", "share", (), _SOURCE, "latency < 0.2 s; " + _EACH,
           "an answer within 0.2 s behind the user passes in ours"),
    Metric("late", "late_rate", "share", (), _SOURCE, "latency >= 2.75 s; " + _EACH,
           "ours fails above the wait, 2.0 s by default"),
    Metric("agent_interruption", "agent_interruption.rate", "share", (), _SOURCE,
           "counted turns in which agent audio begins while the user speaks; " + _EACH,
           "ours fails in the window alone"),
    Metric("overlap", "agent_interruption.mean_overlap_ms", "ms", (), _SOURCE,
           "speech at once in these, of what the agent began in the turn; " + _EACH,
           "ours is all overlap inside the window"),
    Metric("user_interruption", "user_interruption.rate", "share", (), _SOURCE,
           "counted turns as which the user begins over the agent; " + _EACH,
           "ours counts held_at_w0 of barge-ins, answered or not"),
    Metric("yield", "user_interruption.mean_yield_ms", "ms", (), _SOURCE,
           "the agent's last end in the turn before less the user's start; " + _EACH,
           "only if the agent speaks again in the turn; ours is the first offset, always"),
    Metric("yield_score", "user_interruption.mean_yield_score", "score", (), _SOURCE,
           "1 falling to 0 at 2 s; " + _EACH, "ours passes up to 0.6 s by default"),
)


def read(talk: Talk) -> dict[str, Reading]:
    """The figures of one session, by key."""
    turns = turns_of(talk)
    if not turns:
        return {metric.key: none_because("no turn in which the model answers (theirs: score 0)")
                for metric in METRICS}
    latencies = [turn.latency_ms for turn in turns]
    n = len(turns)
    early = sum(ms < EARLY_MS for ms in latencies)
    late = sum(ms >= LATE_MS for ms in latencies)
    overlapped = [turn.overlap_ms for turn in turns if turn.agent_interrupted]
    yielded = [turn.yield_ms for turn in turns
               if turn.user_interrupted and turn.yield_ms is not None]
    return {
        "score": _mean([turn.score for turn in turns]),
        "mean_latency": _mean(latencies),
        "p50_latency": one(percentile(latencies, 0.5)),
        "p90_latency": one(percentile(latencies, 0.9)),
        "on_time": one((n - early - late) / n),
        "early": one(early / n),
        "late": one(late / n),
        "agent_interruption": one(len(overlapped) / n),
        "overlap": _mean(overlapped),
        "user_interruption": one(sum(turn.user_interrupted for turn in turns) / n),
        "yield": _mean(yielded),
        "yield_score": _mean([yield_score(ms) for ms in yielded]),
    }


def _mean(values: Sequence[float]) -> Reading:
    return one(sum(values) / len(values)) if values else none_because("no such turn")
