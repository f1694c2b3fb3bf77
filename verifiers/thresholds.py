"""The scoring settings, and what they become for one case.

Defaults are those of DSB-IFEval, table 18. A case may carry an override of its own (DSB-IFEval,
table 14; design page "Verifiers"). At the default setting the override holds as written; a
setting that the user or a sweep changes scales the override in proportion
(`override * set / default`), so that the point (2.0 s, 600 ms, 1500 ms, 1.0 s) of the sweep is
what `rig score` prints. A count and a coverage are not scaled: "1.25 spans" means nothing, and a
coverage of 1.0 could be scaled past the whole; such an override simply holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from audio.errors import InputError
from audio.timebase import ms_to_ns, s_to_ns
from verifiers.scene import Action, CaseParams

TAKE_TURN_MAX_WAIT_S = 2.0
"""DSB-IFEval, table 18: TAKE_TURN, `max_wait_s`."""
INTERRUPT_MAX_LATENCY_MS = 1500.0
"""DSB-IFEval, table 18: INTERRUPT, `max_latency_ms`."""
YIELD_MAX_LATENCY_MS = 600.0
"""DSB-IFEval, table 18: YIELD, `max_latency_ms`; CONTINUE reads the same latency."""
BACKCHANNEL_CEILING_S = 1.0
"""DSB-IFEval, table 18: BACKCHANNEL, `bc_ceiling_s`."""
BACKCHANNEL_MAX_SPANS = 1
"""DSB-IFEval, table 18: BACKCHANNEL, `bc_window_max`."""
READBACK_MIN_COVERAGE = 0.90
"""DSB-IFEval, table 18: READBACK, coverage."""

MAX_LIMIT_S = 60.0
"""No time limit may be longer than a minute (ours): it catches milliseconds given as seconds."""
MAX_SPANS_BOUND = 1000
"""No count may be larger (ours); far above what any window can hold."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Scoring settings under the names of the command line.

    Times lie in (0, 60] seconds, `backchannel_max_spans` in 1..1000 and
    `readback_min_coverage` in (0, 1]; anything else raises `InputError`.
    """

    take_turn_max_wait_s: float = TAKE_TURN_MAX_WAIT_S
    interrupt_max_latency_ms: float = INTERRUPT_MAX_LATENCY_MS
    yield_max_latency_ms: float = YIELD_MAX_LATENCY_MS
    backchannel_ceiling_s: float = BACKCHANNEL_CEILING_S
    backchannel_max_spans: int = BACKCHANNEL_MAX_SPANS
    readback_min_coverage: float = READBACK_MIN_COVERAGE

    def __post_init__(self) -> None:
        check_time(self.take_turn_max_wait_s, MAX_LIMIT_S, "s", "take_turn_max_wait_s")
        check_time(self.interrupt_max_latency_ms, MAX_LIMIT_S * 1000, "ms",
                   "interrupt_max_latency_ms")
        check_time(self.yield_max_latency_ms, MAX_LIMIT_S * 1000, "ms", "yield_max_latency_ms")
        check_time(self.backchannel_ceiling_s, MAX_LIMIT_S, "s", "backchannel_ceiling_s")
        check_count(self.backchannel_max_spans, "backchannel_max_spans")
        check_coverage(self.readback_min_coverage, "readback_min_coverage")


@dataclass(frozen=True, slots=True)
class Limits:
    """What one case is held to: nanoseconds, a count and a ratio; override and scaling applied.

    Every verifier reads its own field. `ceiling_ns` also decides the label of every case.
    """

    max_wait_ns: int
    max_latency_ns: int
    ceiling_ns: int
    max_spans: int
    min_coverage: float


def effective_limits(thresholds: Thresholds, params: CaseParams, action: Action) -> Limits:
    """The limits of one case.

    `params.max_latency_ms` overrides the interrupt latency of an INTERRUPT case and the yield
    latency of every other (YIELD and CONTINUE are the two that read it).
    Raises `InputError` when an override is out of range.
    """
    check_params(params)
    if action is Action.INTERRUPT:
        latency_ms, default_latency_ms = (
            thresholds.interrupt_max_latency_ms, INTERRUPT_MAX_LATENCY_MS)
    else:
        latency_ms, default_latency_ms = thresholds.yield_max_latency_ms, YIELD_MAX_LATENCY_MS
    return Limits(
        max_wait_ns=_scaled(
            None if params.max_wait_s is None else s_to_ns(params.max_wait_s),
            s_to_ns(thresholds.take_turn_max_wait_s), s_to_ns(TAKE_TURN_MAX_WAIT_S)),
        max_latency_ns=_scaled(
            None if params.max_latency_ms is None else ms_to_ns(params.max_latency_ms),
            ms_to_ns(latency_ms), ms_to_ns(default_latency_ms)),
        ceiling_ns=_scaled(
            None if params.ceiling_s is None else s_to_ns(params.ceiling_s),
            s_to_ns(thresholds.backchannel_ceiling_s), s_to_ns(BACKCHANNEL_CEILING_S)),
        max_spans=thresholds.backchannel_max_spans if params.max_spans is None
        else params.max_spans,
        min_coverage=thresholds.readback_min_coverage if params.min_coverage is None
        else params.min_coverage,
    )


def check_params(params: CaseParams) -> None:
    """Raise `InputError` when an override of a case is out of range."""
    if params.max_wait_s is not None:
        check_time(params.max_wait_s, MAX_LIMIT_S, "s", "params.max_wait_s")
    if params.max_latency_ms is not None:
        check_time(params.max_latency_ms, MAX_LIMIT_S * 1000, "ms", "params.max_latency_ms")
    if params.ceiling_s is not None:
        check_time(params.ceiling_s, MAX_LIMIT_S, "s", "params.ceiling_s")
    if params.max_spans is not None:
        check_count(params.max_spans, "params.max_spans")
    if params.min_coverage is not None:
        check_coverage(params.min_coverage, "params.min_coverage")


def check_time(value: float, largest: float, unit: str, where: str) -> None:
    """Raise `InputError` unless `value` is a number in (0, largest]."""
    if not _is_number(value) or not 0 < value <= largest:
        raise InputError.expected(f"a number of {unit} above 0 and at most {largest:g}",
                                  got=repr(value), where=where)


def check_count(value: int, where: str) -> None:
    """Raise `InputError` unless `value` is a whole number in 1..1000."""
    if type(value) is not int or not 1 <= value <= MAX_SPANS_BOUND:
        raise InputError.expected(f"a whole number from 1 to {MAX_SPANS_BOUND}",
                                  got=repr(value), where=where)


def check_coverage(value: float, where: str) -> None:
    """Raise `InputError` unless `value` is a number in (0, 1]."""
    if not _is_number(value) or not 0 < value <= 1:
        raise InputError.expected("a ratio above 0 and at most 1", got=repr(value), where=where)


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]


def _scaled(override_ns: int | None, set_ns: int, default_ns: int) -> int:
    """`override * set / default` rounded to the nearest nanosecond, in whole numbers."""
    if override_ns is None:
        return set_ns
    return (2 * override_ns * set_ns + default_ns) // (2 * default_ns)


DEFAULTS = Thresholds()
"""Table 18 as it stands."""
