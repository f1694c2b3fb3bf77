"""Spans as algebra: sorted, disjoint, half-open `[start, end)` integer intervals.

A `Spans` carries no unit: the name of the variable that holds it does (`model_ns`, `speech_n`).
Touching intervals are one interval; empty ones are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import index

from audio.timebase import n_to_ns

Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Spans:
    """An immutable set of points on an integer time line, as disjoint half-open intervals."""

    items: tuple[Interval, ...] = ()

    def __post_init__(self) -> None:
        previous_end: int | None = None
        for start, end in self.items:
            if start >= end:
                raise ValueError(f"span [{start}, {end}) is empty or reversed")
            if previous_end is not None and start <= previous_end:
                raise ValueError(f"span [{start}, {end}) touches or precedes one ending at "
                                 f"{previous_end}; build with Spans.of()")
            previous_end = end

    @classmethod
    def of(cls, intervals: Iterable[Interval]) -> Spans:
        """Normalise any intervals: sort, drop empty ones, join those that overlap or touch.

        Edges are integers, NumPy's too (`TypeError` for floats); a reversed interval: `ValueError`.
        """
        joined: list[Interval] = []
        for start, end in sorted((index(a), index(b)) for a, b in intervals):
            if start > end:
                raise ValueError(f"span [{start}, {end}) is reversed")
            if start == end:
                continue
            if joined and start <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(joined[-1][1], end))
            else:
                joined.append((start, end))
        return cls(tuple(joined))

    def __iter__(self) -> Iterator[Interval]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __bool__(self) -> bool:
        return bool(self.items)

    @property
    def total(self) -> int:
        """Summed length of all intervals."""
        return sum(end - start for start, end in self.items)

    def union(self, other: Spans) -> Spans:
        """Points in either."""
        return Spans.of((*self.items, *other.items))

    def intersect(self, other: Spans) -> Spans:
        """Points in both."""
        out: list[Interval] = []
        i = j = 0
        while i < len(self.items) and j < len(other.items):
            start = max(self.items[i][0], other.items[j][0])
            end = min(self.items[i][1], other.items[j][1])
            if start < end:
                out.append((start, end))
            if self.items[i][1] <= other.items[j][1]:
                i += 1
            else:
                j += 1
        return Spans.of(out)

    def gaps(self, start: int, end: int) -> Spans:
        """The points of `[start, end)` that are in no span."""
        out: list[Interval] = []
        at = start
        for a, b in self.clip(start, end):
            if a > at:
                out.append((at, a))
            at = b
        if at < end:
            out.append((at, end))
        return Spans(tuple(out))

    def subtract(self, other: Spans) -> Spans:
        """Points in self and not in other."""
        if not self.items:
            return self
        return self.intersect(other.gaps(self.items[0][0], self.items[-1][1]))

    def clip(self, start: int, end: int) -> Spans:
        """The part inside `[start, end)`."""
        if start >= end:
            return Spans()
        return Spans(tuple((max(a, start), min(b, end)) for a, b in self.items
                           if a < end and b > start))

    def touching(self, start: int, end: int) -> Spans:
        """Whole, unclipped spans that share at least one point with `[start, end)`."""
        if start >= end:
            return Spans()
        return Spans(tuple((a, b) for a, b in self.items if a < end and b > start))

    def starting_in(self, start: int, end: int) -> Spans:
        """Whole, unclipped spans whose onset lies in `[start, end)`."""
        return Spans(tuple((a, b) for a, b in self.items if start <= a < end))

    def at(self, point: int) -> Interval | None:
        """The span that holds `point`, if any."""
        for a, b in self.items:
            if a <= point < b:
                return a, b
        return None

    def merge_gaps(self, less_than: int) -> Spans:
        """Join neighbours whose gap is strictly shorter than `less_than`."""
        out: list[Interval] = []
        for a, b in self.items:
            if out and a - out[-1][1] < less_than:
                out[-1] = (out[-1][0], b)
            else:
                out.append((a, b))
        return Spans(tuple(out))

    def shift(self, by: int) -> Spans:
        """Move every point by `by` (signed)."""
        return Spans(tuple((a + by, b + by) for a, b in self.items))

    def map(self, convert: Callable[[int], int]) -> Spans:
        """Convert every edge with a monotone function, for instance samples to nanoseconds."""
        return Spans.of((convert(a), convert(b)) for a, b in self.items)

    def to_ns(self, rate_hz: int) -> Spans:
        """Read the edges as sample indices at `rate_hz` and give nanoseconds."""
        return self.map(lambda n: n_to_ns(n, rate_hz))
