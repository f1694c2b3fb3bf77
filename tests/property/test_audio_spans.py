"""Span algebra against the plainest model there is: a set of integers."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from audio.spans import Interval, Spans

POINTS = st.integers(-12, 40)
SPANS = st.lists(st.tuples(POINTS, st.integers(0, 8)), max_size=7).map(
    lambda pairs: Spans.of((start, start + length) for start, length in pairs)
)
LAWS = settings(max_examples=100, deadline=None)


def points(spans: Spans | Interval) -> set[int]:
    intervals = spans if isinstance(spans, Spans) else [spans]
    return {point for start, end in intervals for point in range(start, end)}


def window(start: int, end: int) -> set[int]:
    return set(range(start, end))


@given(st.lists(st.tuples(POINTS, st.integers(0, 8)), max_size=7))
@LAWS
def test_of_holds_the_same_points_in_the_fewest_intervals(pairs: list[tuple[int, int]]) -> None:
    intervals = [(start, start + length) for start, length in pairs]
    spans = Spans.of(intervals)
    expected = {point for start, end in intervals for point in range(start, end)}
    assert points(spans) == expected
    assert spans.total == len(expected)
    onsets = {point for point in expected if point - 1 not in expected}
    assert len(spans) == len(onsets)
    assert {start for start, _ in spans} == onsets


@given(SPANS, SPANS)
@LAWS
def test_set_operations(a: Spans, b: Spans) -> None:
    assert points(a.union(b)) == points(a) | points(b)
    assert points(a.intersect(b)) == points(a) & points(b)
    assert points(a.subtract(b)) == points(a) - points(b)
    assert a.union(b) == b.union(a)
    assert a.intersect(b) == b.intersect(a)
    # Equal sets of points are equal values: the form is canonical.
    assert a.subtract(b).union(a.intersect(b)) == a
    assert a.intersect(b).total + a.union(b).total == a.total + b.total


@given(SPANS, SPANS, SPANS)
@LAWS
def test_distributive_and_associative(a: Spans, b: Spans, c: Spans) -> None:
    assert a.intersect(b.union(c)) == a.intersect(b).union(a.intersect(c))
    assert a.union(b).union(c) == a.union(b.union(c))
    assert a.subtract(b.union(c)) == a.subtract(b).subtract(c)


@given(SPANS, POINTS, POINTS)
@LAWS
def test_windows(spans: Spans, start: int, end: int) -> None:
    inside = window(start, end)
    assert points(spans.clip(start, end)) == points(spans) & inside
    assert points(spans.gaps(start, end)) == inside - points(spans)
    assert list(spans.touching(start, end)) == [s for s in spans if points(s) & inside]
    assert list(spans.starting_in(start, end)) == [s for s in spans if s[0] in inside]


@given(SPANS, POINTS)
@LAWS
def test_at(spans: Spans, point: int) -> None:
    found = spans.at(point)
    assert (found is not None) == (point in points(spans))
    if found is not None:
        assert found in spans.items
        assert point in points(found)


@given(SPANS, st.integers(0, 12))
@LAWS
def test_merge_gaps_fills_exactly_the_short_gaps(spans: Spans, less_than: int) -> None:
    merged = spans.merge_gaps(less_than)
    expected = points(spans)
    for (_, end), (start, _) in zip(spans.items, spans.items[1:], strict=False):
        if start - end < less_than:
            expected |= window(end, start)
    assert points(merged) == expected
    assert merged.merge_gaps(less_than) == merged


@given(SPANS, st.integers(-50, 50))
@LAWS
def test_shift_moves_every_point_and_back(spans: Spans, by: int) -> None:
    assert points(spans.shift(by)) == {point + by for point in points(spans)}
    assert spans.shift(by).shift(-by) == spans
    assert spans.map(lambda n: n + by) == spans.shift(by)
