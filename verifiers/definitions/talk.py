"""What another benchmark's definition is given of a session, and what it gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from audio.spans import Spans
from audio.timebase import ns_to_s


@dataclass(frozen=True, slots=True)
class Talk:
    """One session on one clock, in nanoseconds from its start.

    `turns` are the user's turns in order, at least one, each as its speech segments, none empty;
    `model` is the detected speech of the model, merged as the definition wants it; `words_ns` the
    moments at which the words of its transcript were heard, `None` when the system gives none;
    `window_ns` the scored window. `hold_through` says that the model should talk on through
    the last turn (our CONTINUE).
    """

    turns: tuple[Spans, ...]
    model: Spans
    recorded_ns: int
    window_ns: tuple[int, int]
    words_ns: tuple[int, ...] | None = None
    hold_through: bool = False

    @property
    def user(self) -> Spans:
        """All that the user says."""
        return Spans.of(span for turn in self.turns for span in turn)


def start_of(turn: Spans) -> int:
    """Onset of a turn."""
    return turn.items[0][0]


def end_of(turn: Spans) -> int:
    """Offset of a turn; pauses inside belong to it."""
    return turn.items[-1][1]


@dataclass(frozen=True, slots=True)
class Reading:
    """What one session adds to a figure: the figure is `Σ total / Σ n` over sessions.

    `reason` says why `n` is 0. Where events of one kind are counted over events of another, a
    session may hold some of the first and none of the second: then `total` is not 0.
    """

    total: float
    n: int
    reason: str = ""


def none_because(reason: str) -> Reading:
    """A session that has no such event, or in which it cannot be known."""
    return Reading(0.0, 0, reason)


def share(happened: bool) -> Reading:
    """One trial."""
    return Reading(float(happened), 1)


def one(value: float) -> Reading:
    """One value a session."""
    return Reading(value, 1)


def seconds_each(lengths_ns: Sequence[int], reason: str) -> Reading:
    """Events of a session in seconds; `reason` where there are none."""
    if not lengths_ns:
        return none_because(reason)
    return Reading(ns_to_s(sum(lengths_ns)), len(lengths_ns))


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of another benchmark.

    `unit` is `share` (0..1), `s`, `ms`, `per_s`, `per_turn` or `score` (0..1). `actions` are ours
    whose sessions it is read on; empty: all of them. `differs` says where and why ours differs.
    """

    key: str
    name: str
    unit: str
    actions: tuple[str, ...]
    source: str
    rule: str
    differs: str
