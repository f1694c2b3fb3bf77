"""Voice interaction metrics of tau2-bench (τ-voice).

The exact rules are those of the repository sierra-research/tau2-bench at commit a2c0247:
`src/tau2/metrics/voice_interaction_metrics.py` (version 1.0) and `docs/interaction-metrics.md`.

Time is cut into ticks of 0.2 s; in each, either side speaks or not. A *segment* is a run of ticks
in which a side speaks.

- **Response** (L_R, R_R), for each user segment that is no backchannel and behind which (in the
  tick after it) the agent is silent: *response* when the next agent segment begins no later than
  the next such user segment, its latency the ticks between; *no response* when the user begins
  before. With neither, nothing is counted.
- **Yield** (L_Y, R_Y), for each user segment in whose first tick the agent speaks: *yield* when a
  tick without agent speech comes within 2.0 s (10 ticks, that at 2.0 s excluded), its latency the
  ticks until then.
- **I_A**: agent segments in whose first tick the user speaks, over all response events.
- **Selectivity** S_BC, S_VT, S_ND: user backchannels, vocal tics and speech to others through which
  the agent talked on for 1.0 s (5 ticks). The panel's S is their plain mean, shown only with all
  three from 10 events each.

Where ours differs:

- Our sessions have no ticks. Here a tick speaks when any detected speech (model, pauses below
  0.3 s bridged) or speech from construction (user) lies in it; theirs when any audio arrived in
  it, sound or not.
- An answer that begins in the tick of the user's end or in the one behind it drops the turn from
  L_R and R_R, so no latency below one tick exists; in the former it counts for I_A, overlap or
  not, and the dropped turn's answer becomes a late one to the turn before. Reproduced; the number
  dropped is given beside (`fast_dropped`). Ours keeps the latency to a detector frame.
- The last turn, unanswered, is no event: an agent that falls silent for good loses one turn
  less. Reproduced; ours fails TAKE_TURN.
- One silent tick is a yield, though the agent goes on behind it. Reproduced; ours passes the case
  too, but flags `resumed_in_window`.
- A session that ends while the agent still speaks, before 2.0 s, is *no yield* there, a verdict
  that was not observed; here the event is left out (`cut_off`).
- Their yield may take 2.0 s, ours 0.6 s by default.
- Any agent segment that begins in user speech is an interruption for I_A, a "mm" as well.
- Selectivity needs backchannels, tics and asides on the user's side, which our suites do not
  have: null. The rule of S_BC on our CONTINUE turns is given under a name of its own, `s_hold`;
  those turns are then in no other figure but I_A, as with their backchannels.
- The filter of the last tick (an artefact of their stop token) has nothing to filter here.
"""

from __future__ import annotations

from dataclasses import dataclass

from audio.spans import Spans
from audio.timebase import NS_PER_MS
from verifiers.definitions.talk import (
    Metric,
    Reading,
    Talk,
    none_because,
    seconds_each,
    start_of,
)

TICK_NS = 200 * NS_PER_MS
"""`tick_duration_sec`."""
YIELD_TICKS = 10
"""`no_yield_window_sec`, 2.0 s."""
HOLD_TICKS = 5
"""`backchannel_yield_window_sec`, 1.0 s."""


@dataclass(frozen=True, slots=True)
class Ticks:
    """A session in ticks: runs `[first, end)` of ticks in which a side speaks.

    `hold_from` is the tick at which a turn begins that the model should talk through.
    """

    user: Spans
    agent: Spans
    n: int
    hold_from: int | None = None


def ticks_of(talk: Talk, tick_ns: int = TICK_NS) -> Ticks:
    """Every tick that holds any speech speaks."""
    n = -(-talk.recorded_ns // tick_ns)

    def runs(spans: Spans) -> Spans:
        return Spans.of((start // tick_ns, -(-end // tick_ns)) for start, end in spans).clip(0, n)

    hold = start_of(talk.turns[-1]) // tick_ns if talk.hold_through else None
    return Ticks(runs(talk.user), runs(talk.model), n, hold)


@dataclass(frozen=True, slots=True)
class Responses:
    """Latencies of the answered turns, turns without an answer, and turns that were left out
    because the answer began in the tick of their end or in the one behind it."""

    latencies: tuple[int, ...]
    unanswered: int
    fast_dropped: int

    @property
    def total(self) -> int:
        return len(self.latencies) + self.unanswered


def responses(ticks: Ticks) -> Responses:
    """In ticks."""
    turns = [(start, end) for start, end in ticks.user if not _held(ticks, start)]
    valid = [(start, end) for start, end in turns if ticks.agent.at(end) is None]
    dropped = sum(bool(ticks.agent.starting_in(end - 1, end + 1)) for _, end in turns)
    latencies, unanswered = [], 0
    following = [*(start for start, _ in valid[1:]), None]
    for (_, end), user in zip(valid, following, strict=bool(valid)):
        agent = next((start for start, _ in ticks.agent.starting_in(end, ticks.n)), None)
        if agent is not None and (user is None or agent <= user):
            latencies.append(agent - end)
        elif user is not None:
            unanswered += 1
    return Responses(tuple(latencies), unanswered, dropped)


@dataclass(frozen=True, slots=True)
class Yields:
    """Ticks until the agent was silent, events in which it was not, and those cut by the end."""

    latencies: tuple[int, ...]
    held: int
    cut_off: int


def yields(ticks: Ticks) -> Yields:
    """User segments that begin while the agent speaks, but for those to be talked through."""
    return _stops(ticks, [start for start, _ in ticks.user if not _held(ticks, start)],
                  YIELD_TICKS)


def holds(ticks: Ticks) -> Yields:
    """The same for the turn that is to be talked through, within 1.0 s."""
    return _stops(ticks, [start for start, _ in ticks.user if _held(ticks, start)][:1], HOLD_TICKS)


def agent_interruptions(ticks: Ticks) -> int:
    """Agent segments that begin in a tick in which the user speaks."""
    return sum(ticks.user.at(start) is not None for start, _ in ticks.agent)


def _held(ticks: Ticks, start: int) -> bool:
    return ticks.hold_from is not None and start >= ticks.hold_from


def _stops(ticks: Ticks, starts: list[int], window: int) -> Yields:
    latencies, held, cut_off = [], 0, 0
    for start in starts:
        spoken = ticks.agent.at(start)
        if spoken is None:
            continue
        lasted = spoken[1] - start
        if lasted >= window:
            held += 1
        elif spoken[1] == ticks.n:
            cut_off += 1
        else:
            latencies.append(lasted)
    return Yields(tuple(latencies), held, cut_off)


_SOURCE = "tau2-bench a2c0247, src/tau2/metrics/voice_interaction_metrics.py"

METRICS = (
    Metric("l_r", "L_R", "s", (), _SOURCE,
           "ticks from a user segment's end to the agent's next, where the agent is silent in the "
           "tick behind it",
           "quantised to 0.2 s and never below; ours from the detected onset, by turn"),
    Metric("r_r", "R_R", "share", (), _SOURCE,
           "answered before the user spoke again; the last turn unanswered is no event",
           "a pause inside a turn ends a segment; ours counts the scored turn, unanswered too"),
    Metric("fast_dropped", "turns dropped for an answer within a tick", "per_turn", (), _SOURCE,
           "the agent begins in the tick of the user's end or behind it (shown beside), over "
           "response events", "ours keeps them"),
    Metric("l_y", "L_Y", "s", (), _SOURCE,
           "ticks from the user's onset over the agent to the first tick without it, within 2.0 s",
           "quantised to 0.2 s; one silent tick is enough; ours merges pauses below 0.3 s"),
    Metric("r_y", "R_Y", "share", (), _SOURCE, "the share of these within 2.0 s",
           "ours within 0.6 s by default; unobserved ends are left out here"),
    Metric("cut_off", "yields not observed to their end", "per_turn", (), _SOURCE,
           "the session ends in agent speech before 2.0 s; no yield in theirs (shown beside), over "
           "yield events", "ours: unscored"),
    Metric("i_a", "I_A", "per_turn", (), _SOURCE,
           "agent segments that begin in user speech, over response events, both summed over "
           "sessions first; above 1 is possible",
           "ours asks in the window alone, by the case's action"),
    Metric("s_hold", "rule of S_BC on CONTINUE turns", "share", ("CONTINUE",), _SOURCE,
           "the agent speaks on for 1.0 s behind the user's onset",
           "theirs is of backchannels; ours: still speaking behind 0.6 s by default"),
    Metric("s_bc", "S_BC", "share", (), _SOURCE, "user backchannels talked through",
           "no such turn"),
    Metric("s_vt", "S_VT", "share", (), _SOURCE, "vocal tics ignored", "no such event"),
    Metric("s_nd", "S_ND", "share", (), _SOURCE, "speech to others ignored", "no such event"),
)


def read(talk: Talk) -> dict[str, Reading]:
    """The panel of one session, by key."""
    ticks = ticks_of(talk)
    said, stopped, kept = responses(ticks), yields(ticks), holds(ticks)
    yields_n = len(stopped.latencies) + stopped.held
    no_turn = "no user segment that counts as a turn"
    out = {
        "l_r": seconds_each([n * TICK_NS for n in said.latencies], "no turn was answered"),
        "r_r": _over(len(said.latencies), said.total, no_turn),
        "fast_dropped": _over(said.fast_dropped, said.total, no_turn),
        "l_y": seconds_each([n * TICK_NS for n in stopped.latencies],
                            "the agent never stopped for the user" if stopped.held
                            else _no_yield(stopped)),
        "r_y": _over(len(stopped.latencies), yields_n, _no_yield(stopped)),
        "cut_off": _over(stopped.cut_off, yields_n + stopped.cut_off, _no_yield(stopped)),
        "i_a": _over(agent_interruptions(ticks), said.total, no_turn),
        "s_bc": none_because("no user backchannels in these sessions"),
        "s_vt": none_because("no vocal tics in these sessions"),
        "s_nd": none_because("no speech to others in these sessions"),
    }
    if talk.hold_through:
        out["s_hold"] = _over(kept.held, len(kept.latencies) + kept.held,
                              _no_yield(kept))
    return out


def _no_yield(found: Yields) -> str:
    """Why no yield event was seen to its end."""
    return ("the session ends before it is seen whether the agent stops" if found.cut_off
            else "the user never begins over the agent")


def _over(count: int, n: int, reason: str) -> Reading:
    return Reading(float(count), n, "" if n else reason)
