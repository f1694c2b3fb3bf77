"""What a verifier answers: outcome, number, limit, one plain sentence and its evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from audio.timebase import ns_to_s


class Outcome(StrEnum):
    """`unscored` and `unsupported` are outside every denominator and counted beside it."""

    PASS = "pass"  # noqa: S105
    FAIL = "fail"
    UNSCORED = "unscored"
    UNSUPPORTED = "unsupported"


EvidenceValue = str | float | int | bool | None | tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision on one case.

    `value` and `limit` are in `unit` (`s`, `spans` or `ratio`); `value` is `None` when the
    quantity does not exist. `evidence` is name and value, in the order of importance.
    """

    outcome: Outcome
    reason: str
    value: float | None = None
    unit: str = ""
    limit: float | None = None
    evidence: tuple[tuple[str, EvidenceValue], ...] = ()
    flags: tuple[str, ...] = ()


def verdict(outcome: Outcome, reasons: Mapping[Outcome, str], *, value: float | None, unit: str,
            limit: float | None,
            evidence: tuple[tuple[str, EvidenceValue], ...] = ()) -> Verdict:
    """A verdict with the sentence of its outcome; what is unscored has no value."""
    return Verdict(outcome, reasons[outcome], None if outcome is Outcome.UNSCORED else value,
                   unit, limit, evidence)


def unsupported(reason: str) -> Verdict:
    """A case that cannot be played on a system at all; decided when planning."""
    return Verdict(Outcome.UNSUPPORTED, reason)


def seconds(ns: int | None) -> float | None:
    """Nanoseconds to seconds, `None` to `None`."""
    return None if ns is None else ns_to_s(ns)


def text_s(ns: int, beside_ns: int | None = None) -> str:
    """Seconds for a sentence: three decimals, nine when these hide a difference to `beside_ns`."""
    short = f"{ns_to_s(ns):.3f}"
    hidden = beside_ns is not None and ns != beside_ns and short == f"{ns_to_s(beside_ns):.3f}"
    return f"{ns_to_s(ns):.9f} s" if hidden else f"{short} s"


def spans_s(spans_ns: tuple[tuple[int, int], ...]) -> tuple[tuple[float, float], ...]:
    """Span edges in seconds."""
    return tuple((ns_to_s(start), ns_to_s(end)) for start, end in spans_ns)
