"""The 180 threshold configurations, re-decided from stored measurements in whole arrays.

Grid of DSB-IFEval, appendix C.7: take-turn wait 1.5, 2.0, 2.5 s x yield/continue latency 200, 400,
600, 1000, 1500 ms x interrupt latency 1000, 1500, 2000 ms x backchannel ceiling 0.6, 0.8, 1.0,
1.2 s. The order is that of nested loops in this sequence: the wait changes slowest, the ceiling
fastest. An override of a case is scaled as in `verifiers.thresholds`.

Each action reads at most one axis (TAKE_TURN the wait; YIELD and CONTINUE the yield latency;
INTERRUPT its own; BACKCHANNEL the ceiling; the other four none), so a case is decided at 1 to 5
points and these are spread over the grid. LISTEN and NO_BACKCHANNEL are unmoved by the ceiling:
`silent` does not depend on it. On the four core actions that leaves 3 x 5 = 15 distinct
configurations, each of which stands in the grid 12 times.

The rules are written a second time here, on arrays; the tests hold them equal to
`verifiers.decide` at every configuration.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from audio.errors import InputError
from sweeps.table import Bools, Ints, MeasurementTable
from verifiers.scene import Action
from verifiers.thresholds import DEFAULTS, Thresholds, effective_limits

AXES: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("take_turn_max_wait_s", (1.5, 2.0, 2.5)),
    ("yield_max_latency_ms", (200, 400, 600, 1000, 1500)),
    ("interrupt_max_latency_ms", (1000, 1500, 2000)),
    ("backchannel_ceiling_s", (0.6, 0.8, 1.0, 1.2)),
)
"""DSB-IFEval, appendix C.7."""

AXIS_OF_ACTION: dict[Action, str] = {
    Action.TAKE_TURN: "take_turn_max_wait_s",
    Action.YIELD: "yield_max_latency_ms",
    Action.CONTINUE: "yield_max_latency_ms",
    Action.INTERRUPT: "interrupt_max_latency_ms",
    Action.BACKCHANNEL: "backchannel_ceiling_s",
}


@dataclass(frozen=True, slots=True)
class Grid:
    """All combinations of the values of four axes around the settings `base`.

    Raises `InputError` when an axis is unknown, given twice, empty, or repeats a value.
    """

    axes: tuple[tuple[str, tuple[float, ...]], ...] = AXES
    base: Thresholds = DEFAULTS
    configs: tuple[Thresholds, ...] = field(init=False)

    def __post_init__(self) -> None:
        known = [name for name, _ in AXES]
        names = [name for name, _ in self.axes]
        if sorted(names) != sorted(known):
            raise InputError.expected(f"each of the axes {', '.join(known)} once",
                                      got=", ".join(names) or "none", where="threshold grid")
        for name, values in self.axes:
            if not values or len(set(values)) != len(values):
                raise InputError.expected("different values", got=str(list(values)),
                                          where=f"threshold grid, {name}")
        object.__setattr__(self, "configs", tuple(
            _with(self.base, dict(zip(names, values, strict=True)))
            for values in itertools.product(*(values for _, values in self.axes))))

    @property
    def default_index(self) -> int:
        """Place of the configuration that equals `base`; `InputError` when it is not there."""
        if self.base not in self.configs:
            raise InputError.expected("a grid that holds the default settings",
                                      got=str(self.base), where="threshold grid")
        return self.configs.index(self.base)

    def axis_values(self, name: str) -> tuple[float, ...]:
        """The values of one axis."""
        return dict(self.axes)[name]

    def axis_index(self, name: str) -> npt.NDArray[np.intp]:
        """For each configuration, which value of the axis it holds, `(n_configs,)`."""
        shape = [len(values) for _, values in self.axes]
        place = [axis for axis, _ in self.axes].index(name)
        index: npt.NDArray[np.intp] = np.indices(shape)[place].reshape(-1)
        return index

    def distinct(self, actions: Sequence[Action]) -> int:
        """How many configurations can differ on cases of these actions alone."""
        read = {AXIS_OF_ACTION[action] for action in actions if action in AXIS_OF_ACTION}
        return int(np.prod([len(self.axis_values(name)) for name in sorted(read)], dtype=int))


def _with(base: Thresholds, values: dict[str, float]) -> Thresholds:
    return replace(base, **values)  # type: ignore[arg-type]  # the axes are all float settings


@dataclass(frozen=True, slots=True)
class VerdictMatrix:
    """Verdicts of every case under every configuration, both `(n_configs, n_cases)`.

    An unscored case is never passed; what is neither passed nor unscored has failed.
    """

    passed: Bools
    unscored: Bools

    @property
    def codes(self) -> npt.NDArray[np.int8]:
        """0 fail, 1 pass, 2 unscored."""
        return self.passed.astype(np.int8) + np.int8(2) * self.unscored.astype(np.int8)


def decide_grid(table: MeasurementTable, grid: Grid) -> VerdictMatrix:
    """Judge every case at every configuration."""
    shape = (len(grid.configs), len(table))
    passed, unscored = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    for action in Action:
        cases = np.flatnonzero(table.actions == str(action))
        part = table.take(cases)
        axis = AXIS_OF_ACTION.get(action)
        points = [grid.base] if axis is None else [
            _with(grid.base, {axis: value}) for value in grid.axis_values(axis)]
        rule = _RULES[action]
        decided = [rule(part, _limits(part, action, point)) for point in points]
        rows = np.zeros(shape[0], dtype=np.intp) if axis is None else grid.axis_index(axis)
        for out, values in zip((passed, unscored), zip(*decided, strict=True), strict=True):
            out[:, cases] = np.stack(values)[rows]
    outside = table.outside
    return VerdictMatrix(passed & ~outside, unscored | outside)


@dataclass(frozen=True, slots=True)
class _Limits:
    """Effective limits of each case, `(n,)`."""

    max_wait_ns: Ints
    max_latency_ns: Ints
    ceiling_ns: Ints
    max_spans: Ints
    min_coverage: npt.NDArray[np.float64]


def _limits(table: MeasurementTable, action: Action, thresholds: Thresholds) -> _Limits:
    found = [effective_limits(thresholds, params, action) for params in table.distinct_params]

    def of(name: str) -> Ints:
        values: Ints = np.array([getattr(limits, name) for limits in found], dtype=np.int64)
        return values[table.params_index]

    coverage = np.array([limits.min_coverage for limits in found], dtype=np.float64)
    return _Limits(of("max_wait_ns"), of("max_latency_ns"), of("ceiling_ns"), of("max_spans"),
                   coverage[table.params_index])


_Rule = Callable[[MeasurementTable, _Limits], tuple[Bools, Bools]]


def _silent(t: MeasurementTable, limits: _Limits) -> tuple[Bools, Bools]:  # noqa: ARG001
    silent = t.spans_in_window == 0
    return silent & t.complete, silent & ~t.complete


def _onset(t: MeasurementTable, limit_ns: Ints) -> tuple[Bools, Bools]:
    passed = t.has_onset & (t.onset_ns <= limit_ns)
    last_chance_ns = np.minimum(limit_ns, t.length_ns)
    return passed, ~t.has_onset & (t.seen_ns < last_chance_ns)


def _take_turn(t: MeasurementTable, limits: _Limits) -> tuple[Bools, Bools]:
    return _onset(t, limits.max_wait_ns)


def _interrupt(t: MeasurementTable, limits: _Limits) -> tuple[Bools, Bools]:
    return _onset(t, limits.max_latency_ns)


def _yield(t: MeasurementTable, limits: _Limits) -> tuple[Bools, Bools]:
    in_time = t.has_offset & (t.first_offset_ns <= limits.max_latency_ns)
    open_still = ~t.has_offset & (t.seen_ns < limits.max_latency_ns)
    return in_time & ~t.first_offset_cut, open_still | (in_time & t.first_offset_cut)


def _continue(t: MeasurementTable, limits: _Limits) -> tuple[Bools, Bools]:
    held = t.held_at_w0 & t.has_offset
    beyond = t.first_offset_ns > limits.max_latency_ns
    return held & beyond, (~held & (t.seen_ns < 0)) | (held & ~beyond & t.first_offset_cut)


def _backchannel(t: MeasurementTable, limits: _Limits) -> tuple[Bools, Bools]:
    least = t.spans_in_window + ~t.has_onset
    long = t.has_onset & (t.first_span_ns >= limits.ceiling_ns)
    failed = (least > limits.max_spans) | long
    settled = t.complete & ~(t.has_onset & t.first_span_cut)
    return ~failed & settled & t.has_onset, ~failed & ~settled


def _accept_overlap(t: MeasurementTable, limits: _Limits) -> tuple[Bools, Bools]:  # noqa: ARG001
    passed = t.overlap_ns > 0
    return passed, ~passed & ~t.complete


def _readback(t: MeasurementTable, limits: _Limits) -> tuple[Bools, Bools]:
    passed = t.has_coverage & t.readback_heard & (t.coverage >= limits.min_coverage)
    return passed, ~t.has_coverage | (~passed & ~t.complete)


_RULES: dict[Action, _Rule] = {
    Action.LISTEN: _silent,
    Action.NO_BACKCHANNEL: _silent,
    Action.TAKE_TURN: _take_turn,
    Action.INTERRUPT: _interrupt,
    Action.YIELD: _yield,
    Action.CONTINUE: _continue,
    Action.BACKCHANNEL: _backchannel,
    Action.ACCEPT_OVERLAP: _accept_overlap,
    Action.READBACK: _readback,
}
