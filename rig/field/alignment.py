"""Are both channels on one clock? Told from the turns, so a warning and never a correction."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from audio.timebase import NS_PER_S, ns_to_s
from rig.field.activity import Speech, heard_leak
from rig.field.ingest import CallFeatures
from verifiers.calls.turns import CallTurns, Kind

_STEP_NS = NS_PER_S // 20
_REACH = 100
"""Shifts of up to 5 s, in steps of 50 ms."""
_LEAST_EXCHANGES = 4
_SHARE = 0.4
"""So many exchanges begin inside the other side's speech: the published agent that interrupts most
has 33 % (CallScreenBench, table 2)."""
_LONG_NS = 10 * NS_PER_S
"""livekit/agents#4651 (reference/field_problems, row 27): latencies over 10 s."""
_LEAST_DRIFT_S = 0.3
_LEAST_N = 8
_Z = 3.0
"""Both trends together (Stouffer); about one clean call in a thousand reaches it."""
_Z_EACH = 1.0
_SLOPES_ALIKE = 3.0
"""One drift makes both trends, so neither may be much steeper."""
_LAG_MOVES_S = 0.02


def shift_problem(speech: Speech, call: CallTurns, recorded_ns: int) -> str | None:
    """One channel before or behind the other, in words; `None` where nothing speaks for it."""
    if speech.caller and speech.agent and speech.agent.items[-1][1] <= speech.caller.items[0][0]:
        return ("all of the agent's speech lies before the caller's first: utterances without the "
                "silence between them, or the wrong channels")
    replies = call.of(Kind.REPLY)
    overlaps = call.of(Kind.OVERLAP)
    exchanges = len(replies) + len(overlaps)
    if exchanges < _LEAST_EXCHANGES:
        return None
    late = [t for t in replies if t.latency_ns is not None and t.latency_ns > _LONG_NS]
    if len(late) >= _SHARE * exchanges:
        return f"{len(late)} of {exchanges} latencies are over {ns_to_s(_LONG_NS):.0f} s"
    inside = [t for t in call.caller if call.agent_floor.at(t.caller_ns[0]) is not None]
    early_share = len(overlaps) / exchanges
    late_share = len(inside) / len(call.caller)
    if max(early_share, late_share) < _SHARE:
        return None
    now, best, shift_s = _least_overlap(speech, recorded_ns)
    if best > now / 2 or abs(shift_s) < 0.2:
        return None
    what = (f"the agent begins inside caller speech at {len(overlaps)} of {exchanges} exchanges"
            if early_share >= late_share else
            f"the caller begins inside agent speech at {len(inside)} of {len(call.caller)} turns")
    return (f"{what}; with the agent's channel {abs(shift_s):.1f} s "
            f"{'later' if shift_s > 0 else 'earlier'} the sides would hardly overlap")


def _least_overlap(speech: Speech, recorded_ns: int) -> tuple[int, int, float]:
    """Overlap as it is and at its least, in steps, and the shift of the agent that gives it."""
    count = recorded_ns // _STEP_NS + 1
    rows = np.zeros((2, count + 2 * _REACH), np.float32)
    for row, spans in zip(rows, (speech.caller, speech.agent), strict=True):
        for start, end in spans:
            row[start // _STEP_NS + _REACH : end // _STEP_NS + _REACH] = 1
    inner = rows[0, _REACH : _REACH + count]
    found = [float(inner @ rows[1, _REACH - k : _REACH - k + count])
             for k in range(-_REACH, _REACH + 1)]
    least = min(found)
    # Of all shifts with nearly the least overlap, the smallest.
    shift = min((k for k in range(-_REACH, _REACH + 1)
                 if found[k + _REACH] <= least + 0.1 * found[_REACH]), key=abs)
    return int(found[_REACH]), int(found[shift + _REACH]), ns_to_s(shift * _STEP_NS)


def drift_problem(features: CallFeatures, call: CallTurns) -> str | None:
    """Clocks that run apart, in words; `None` where nothing speaks for it.

    With crosstalk: its delay moves. Without: the agent's reply gaps grow while the caller's shrink,
    or the other way round, as one clock cannot make them (Kendall's trend test on both, slope by
    Theil and Sen).
    """
    for side in ("caller", "agent"):
        leak = heard_leak(features, side)
        lags = [] if leak is None else [lag for lag in leak.lags_s if lag is not None]
        if len(lags) >= 3 and abs(lags[-1] - lags[0]) >= _LAG_MOVES_S:
            return (f"the crosstalk on the {side}'s channel moves from {1000 * lags[0]:.0f} to "
                    f"{1000 * lags[-1]:.0f} ms")
    replies = [(ns_to_s(t.agent_ns[0]), ns_to_s(t.latency_ns)) for t in call.turns
               if t.latency_ns is not None and abs(t.latency_ns) < _LONG_NS]
    answers = _caller_gaps(call)
    if min(len(replies), len(answers)) < _LEAST_N:
        return None
    (slope_a, z_a), (slope_c, z_c) = _trend(replies), _trend(answers)
    length_s = ns_to_s(features.recorded_ns)
    if slope_a * slope_c >= 0 or min(abs(z_a), abs(z_c)) < _Z_EACH:
        return None
    steep, flat = sorted((abs(slope_a), abs(slope_c)), reverse=True)
    if abs(z_a - z_c) / math.sqrt(2) < _Z or steep > _SLOPES_ALIKE * flat:
        return None
    drift_s = (slope_a - slope_c) / 2 * length_s
    if abs(drift_s) < _LEAST_DRIFT_S:
        return None
    return (f"reply gaps {'grow' if drift_s > 0 else 'shrink'} and the caller's do the opposite: "
            f"about {abs(drift_s):.1f} s over the call ({abs(drift_s) / length_s * 1e6:.0f} ppm)")


def _caller_gaps(call: CallTurns) -> list[tuple[float, float]]:
    """When a caller turn began, and how long after the agent's end (below 0: before it)."""
    out = []
    floor = call.agent_floor.items
    starts = [start for start, _ in floor]
    for turn in call.caller:
        start = turn.caller_ns[0]
        before_n = bisect_left(starts, start)
        if before_n and abs(start - floor[before_n - 1][1]) < _LONG_NS:
            out.append((ns_to_s(start), ns_to_s(start - floor[before_n - 1][1])))
    return out


def _trend(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Slope (Theil 1950, Sen 1968) and the normal score of Kendall's test."""
    t, y = np.array(points).T
    upper = np.triu_indices(len(t), 1)
    dt, dy = (t[None, :] - t[:, None])[upper], (y[None, :] - y[:, None])[upper]
    n = len(t)
    score = float(np.sign(dy * dt).sum())
    return float(np.median(dy / np.where(dt == 0, np.inf, dt))), score / math.sqrt(
        n * (n - 1) * (2 * n + 5) / 18)
