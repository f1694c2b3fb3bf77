"""Spans: known right answers and refusals. The laws are in the property tests."""

from __future__ import annotations

import numpy as np
import pytest

from audio.spans import Spans


def of(*intervals: tuple[int, int]) -> Spans:
    return Spans.of(intervals)


def test_of_sorts_joins_and_drops_empty_ones() -> None:
    assert of((5, 7), (0, 2), (2, 3), (9, 9), (6, 8)).items == ((0, 3), (5, 8))
    assert of((0, 10), (2, 3)).items == ((0, 10),)
    assert of().items == ()
    assert of((-5, -2)).items == ((-5, -2),)


def test_of_takes_numpy_integers_and_gives_plain_ones() -> None:
    spans = Spans.of([(np.int64(1), np.int32(3))])
    assert [type(edge) for edge in spans.items[0]] == [int, int]


def test_floats_are_refused() -> None:
    with pytest.raises(TypeError):
        Spans.of([(0.5, 2.9)])  # type: ignore[list-item]


def test_reversed_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\[3, 1\) is reversed"):
        of((3, 1))
    with pytest.raises(ValueError, match=r"\[2, 2\) is empty or reversed"):
        Spans(((2, 2),))


@pytest.mark.parametrize("items", [((0, 2), (2, 3)), ((0, 2), (1, 3)), ((4, 5), (0, 1))])
def test_raw_items_must_be_sorted_and_apart(items: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(ValueError, match="touches or precedes"):
        Spans(items)


def test_total_len_bool_iter() -> None:
    spans = of((0, 3), (10, 11))
    assert spans.total == 4
    assert len(spans) == 2
    assert list(spans) == [(0, 3), (10, 11)]
    assert spans
    assert not Spans()
    assert Spans().total == 0


def test_union_intersect_subtract() -> None:
    a, b = of((0, 10), (20, 30)), of((5, 22), (29, 40))
    assert a.union(b).items == ((0, 40),)
    assert a.intersect(b).items == ((5, 10), (20, 22), (29, 30))
    assert a.subtract(b).items == ((0, 5), (22, 29))
    assert b.subtract(a).items == ((10, 20), (30, 40))
    assert a.subtract(Spans()) == a
    assert Spans().subtract(a) == Spans()


def test_gaps() -> None:
    spans = of((2, 4), (6, 8))
    assert spans.gaps(0, 10).items == ((0, 2), (4, 6), (8, 10))
    assert spans.gaps(3, 7).items == ((4, 6),)
    assert spans.gaps(2, 4).items == ()
    assert Spans().gaps(-1, 1).items == ((-1, 1),)
    assert spans.gaps(5, 5).items == ()
    assert spans.gaps(9, 1).items == ()


def test_clip_cuts_and_touching_does_not() -> None:
    spans = of((0, 10), (20, 30))
    assert spans.clip(5, 25).items == ((5, 10), (20, 25))
    assert spans.touching(5, 21).items == ((0, 10), (20, 30))
    # Half-open on both sides: an edge alone is no shared point.
    assert spans.clip(10, 20).items == ()
    assert spans.touching(10, 20).items == ()
    assert spans.touching(9, 20).items == ((0, 10),)
    # An empty window shares no point, even inside a span.
    assert spans.touching(5, 5).items == ()
    assert spans.clip(5, 5).items == ()


def test_starting_in_looks_at_the_onset_alone() -> None:
    spans = of((0, 10), (20, 30))
    assert spans.starting_in(0, 20).items == ((0, 10),)
    assert spans.starting_in(1, 21).items == ((20, 30),)
    assert spans.starting_in(1, 20).items == ()


def test_at_is_half_open() -> None:
    spans = of((0, 10))
    assert spans.at(0) == (0, 10)
    assert spans.at(9) == (0, 10)
    assert spans.at(10) is None
    assert spans.at(-1) is None


def test_merge_gaps_is_strict() -> None:
    spans = of((0, 10), (13, 20), (24, 30))
    assert spans.merge_gaps(3).items == ((0, 10), (13, 20), (24, 30))
    assert spans.merge_gaps(4).items == ((0, 20), (24, 30))
    assert spans.merge_gaps(5).items == ((0, 30),)
    assert spans.merge_gaps(0) == spans


def test_shift_map_and_to_ns() -> None:
    assert of((0, 3), (5, 6)).shift(-4).items == ((-4, -1), (1, 2))
    assert of((0, 16_000)).to_ns(16_000).items == ((0, 1_000_000_000),)
    assert of((1, 2)).to_ns(24_000).items == ((41_667, 83_333),)
    # Edges that meet after rounding join; what becomes empty is dropped.
    assert of((0, 5), (7, 11)).map(lambda n: n // 5).items == ((0, 2),)
    assert of((0, 1)).map(lambda n: n // 5).items == ()


def test_immutable_and_comparable() -> None:
    spans = of((0, 1))
    assert spans == Spans(((0, 1),))
    assert hash(spans) == hash(Spans(((0, 1),)))
    with pytest.raises(AttributeError):
        spans.items = ()  # type: ignore[misc]
