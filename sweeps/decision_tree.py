"""How the verdict on one stored measurement turns with the settings, as data.

A verdict reads at most one time limit, or a count and a ceiling, or a coverage, and turns at a few
points of each. `tree_of` finds these points by asking `verifiers.decide` itself and writes them
down as a small tree, so that whoever holds the tree re-decides the case by comparing numbers and
knows no rule: neither the verifiers, nor overrides and their scaling, nor rounding to nanoseconds.

A turning point is the least float64 of the setting from which on the next verdict holds, so that
the tree and the verifiers agree at every number that a setting can be.

Each verdict is assumed to hold on one unbroken stretch of a setting, as a comparison with a limit
gives it; the tests try that on random scenes, at the points where verdicts turn and beside them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from audio.timebase import NS_PER_MS, NS_PER_S
from verifiers.decide import decide
from verifiers.measurement import RECORD_BEYOND_NS, Measurement
from verifiers.scene import Action, CaseParams
from verifiers.thresholds import (
    DEFAULTS,
    MAX_LIMIT_S,
    MAX_SPANS_BOUND,
    Thresholds,
    effective_limits,
)
from verifiers.verdict import Outcome

SETTINGS_OF_ACTION: dict[Action, tuple[str, ...]] = {
    Action.LISTEN: (),
    Action.NO_BACKCHANNEL: (),
    Action.BACKCHANNEL: ("backchannel_max_spans", "backchannel_ceiling_s"),
    Action.TAKE_TURN: ("take_turn_max_wait_s",),
    Action.INTERRUPT: ("interrupt_max_latency_ms",),
    Action.READBACK: ("readback_min_coverage",),
    Action.YIELD: ("yield_max_latency_ms",),
    Action.CONTINUE: ("yield_max_latency_ms",),
    Action.ACCEPT_OVERLAP: (),
}
"""The settings that can turn a verdict of an action (the limits that its verifier reads)."""

_LIMIT_NS: dict[str, tuple[str, int]] = {
    "take_turn_max_wait_s": ("max_wait_ns", NS_PER_S),
    "interrupt_max_latency_ms": ("max_latency_ns", NS_PER_MS),
    "yield_max_latency_ms": ("max_latency_ns", NS_PER_MS),
    "backchannel_ceiling_s": ("ceiling_ns", NS_PER_S),
}
"""Settings that are times: the limit they become, and nanoseconds in their unit."""


@dataclass(frozen=True, slots=True)
class Range:
    """What a setting can be, both ends included; `whole` for a count."""

    least: float
    largest: float
    whole: bool = False


RANGES: dict[str, Range] = {
    "take_turn_max_wait_s": Range(math.ulp(0.0), MAX_LIMIT_S),
    "interrupt_max_latency_ms": Range(math.ulp(0.0), MAX_LIMIT_S * 1000),
    "yield_max_latency_ms": Range(math.ulp(0.0), MAX_LIMIT_S * 1000),
    "backchannel_ceiling_s": Range(math.ulp(0.0), MAX_LIMIT_S),
    "backchannel_max_spans": Range(1, MAX_SPANS_BOUND, whole=True),
    "readback_min_coverage": Range(math.ulp(0.0), 1.0),
}
"""As `verifiers.thresholds` checks them; `ulp(0)` is the least number above 0."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A verdict: its outcome and the flags that the verifier gives with it."""

    outcome: Outcome
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Branch:
    """`then[0]` holds below `at[0]`, `then[i]` from `at[i - 1]` on, the last one to the end.

    `at` ascends strictly and neighbours in `then` differ.
    """

    setting: str
    at: tuple[float, ...]
    then: tuple[Tree, ...]


Tree = Leaf | Branch

_MOST_STEPS = 1200
"""Halvings from any number to the least float64 above 0 are 1,080, and every hint is one step."""


def read(tree: Tree, settings: Thresholds) -> Leaf:
    """The verdict under `settings`."""
    while isinstance(tree, Branch):
        value = getattr(settings, tree.setting)
        tree = tree.then[sum(point <= value for point in tree.at)]
    return tree


def tree_of(action: Action, measurement: Measurement, params: CaseParams) -> Tree:
    """The verdict on a measurement under every setting.

    Raises `InputError` when an override of the case is out of range.
    """

    def grow(names: Sequence[str], settings: Thresholds) -> Tree:
        if not names:
            found = decide(action, measurement, effective_limits(settings, params, action))
            return Leaf(found.outcome, found.flags)
        name, *rest = names
        at, then = _pieces(
            lambda value: grow(rest, replace(settings, **{name: value})),
            RANGES[name], _hints(name, action, measurement, params))
        return Branch(name, at, then) if at else then[0]

    return grow(SETTINGS_OF_ACTION[action], DEFAULTS)


def turning_points(tree: Tree) -> list[tuple[str, float]]:
    """Every setting and point at which something turns."""
    if isinstance(tree, Leaf):
        return []
    return [*((tree.setting, point) for point in tree.at),
            *(found for child in tree.then for found in turning_points(child))]


def _pieces(tree_at: Callable[[Any], Tree], within: Range, hints: Iterable[float]
            ) -> tuple[tuple[float, ...], tuple[Tree, ...]]:
    known: dict[float, Tree] = {}

    def at(value: float) -> Tree:
        if value not in known:
            known[value] = tree_at(value)
        return known[value]

    hints = sorted(set(hints))
    points: list[float] = []
    then = [at(within.least)]
    low = within.least
    while then[-1] != at(within.largest):
        low = _first_after(at, low, within, hints)
        points.append(low)
        then.append(at(low))
    return tuple(points), tuple(then)


def _first_after(at: Callable[[float], Tree], low: float, within: Range,
                 hints: Sequence[float]) -> float:
    """The least value at which what holds at `low` does not hold any more."""
    holds, high = at(low), within.largest
    for _ in range(_MOST_STEPS):
        middle = _middle(low, high, within, hints)
        if middle is None:
            return high
        if at(middle) == holds:
            low = middle
        else:
            high = middle
    raise RuntimeError(f"no turning point between {low!r} and {high!r}")


def _middle(low: float, high: float, within: Range, hints: Sequence[float]) -> float | None:
    """A value strictly between: a hint as long as there is one. `None` between neighbours."""
    between = [hint for hint in hints if low < hint < high]
    if between:
        return between[len(between) // 2]
    middle = (low + high) // 2 if within.whole else low + (high - low) / 2
    return None if middle in (low, high) else middle


def _hints(name: str, action: Action, measurement: Measurement, params: CaseParams) -> list[float]:
    """Where the verdict may turn: at the setting whose limit is a quantity of the measurement, and
    beside it. They save nine steps of ten and decide nothing."""
    reading, found = measurement.scored, measurement.readback
    if name == "backchannel_max_spans":
        return [reading.spans_in_window, reading.spans_in_window + 1]
    if name == "readback_min_coverage":
        return [] if found is None else _beside(found.coverage)
    limit, unit_ns = _LIMIT_NS[name]
    # At the default the override of the case holds as written; elsewhere it is scaled.
    written_ns = getattr(effective_limits(DEFAULTS, params, action), limit)
    default_ns = round(getattr(DEFAULTS, name) * unit_ns)
    if not written_ns:  # an override that rounds to no nanosecond is scaled to none
        return []
    quantities_ns = {reading.onset_ns, reading.first_span_ns, reading.first_offset_ns,
                     reading.recorded_ns - RECORD_BEYOND_NS,
                     *(end - start for start, end in reading.spans_ns)}
    out = []
    for quantity_ns in quantities_ns:
        if quantity_ns is None:
            continue
        for least_ns in (quantity_ns, quantity_ns + 1):
            # Least whole number of ns that is scaled to `least_ns`, then the number in the unit of
            # the setting that is rounded to it, halves upwards.
            set_ns = -((default_ns - 2 * default_ns * least_ns) // (2 * written_ns))
            out += _beside((2 * set_ns - 1) / (2 * unit_ns))
    return out


def _beside(value: float) -> list[float]:
    return [math.nextafter(value, -math.inf), value, math.nextafter(value, math.inf)]
