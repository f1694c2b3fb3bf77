"""Errors of edges against drawings whose answer is known."""

from __future__ import annotations

import pytest

from audio.spans import Spans
from sweeps.edge_bias import edge_errors, summary

MS = 1_000_000


def spans(*edges_ms: tuple[int, int]) -> Spans:
    return Spans(tuple((a * MS, b * MS) for a, b in edges_ms))


TRUE = spans((1000, 2000), (3000, 4000))


def test_a_planted_shift_of_50_ms_shows_as_50_ms_at_each_end() -> None:
    found = edge_errors(TRUE, TRUE.shift(50 * MS))
    assert found.onset_ns == found.offset_ns == (50 * MS, 50 * MS)
    assert (found.missed_n, found.joined_n, found.split_n, found.spurious_n) == (0, 0, 0, 0)
    assert summary(found.onset_ns) == {"n": 2, "without": 0, "p5_ms": 50.0, "p50_ms": 50.0,
                                       "p95_ms": 50.0, "p95_abs_ms": 50.0, "max_abs_ms": 50.0}


def test_ends_are_apart() -> None:
    found = edge_errors(TRUE, spans((990, 2075), (2983, 4091)))
    assert found.onset_ns == (-10 * MS, -17 * MS)
    assert found.offset_ns == (75 * MS, 91 * MS)


def test_what_is_missed_has_no_error() -> None:
    found = edge_errors(TRUE, spans((2000, 3000), (4000, 4100)))
    assert found.onset_ns == found.offset_ns == (None, None)
    assert (found.missed_n, found.spurious_n) == (2, 2)


def test_what_is_detected_as_one_has_outer_edges_alone() -> None:
    found = edge_errors(spans((1000, 2000), (3000, 4000), (5000, 6000)),
                        spans((990, 4010), (5020, 6030)))
    assert found.onset_ns == (-10 * MS, None, 20 * MS)
    assert found.offset_ns == (None, 10 * MS, 30 * MS)
    assert (found.joined_n, found.split_n, found.missed_n, found.spurious_n) == (1, 0, 0, 0)


def test_a_middle_one_of_three_has_no_edge() -> None:
    found = edge_errors(spans((1000, 2000), (3000, 4000), (5000, 6000)), spans((1000, 6000)))
    assert found.onset_ns == (0, None, None)
    assert found.offset_ns == (None, None, 0)
    assert found.joined_n == 2


def test_a_missed_one_between_is_not_joined() -> None:
    found = edge_errors(spans((1000, 2000), (3000, 4000), (5000, 6000)),
                        spans((1000, 2000), (5000, 6000)))
    assert found.onset_ns == (0, None, 0)
    assert (found.missed_n, found.joined_n) == (1, 0)


def test_pieces_count_as_one_split_and_give_outer_edges() -> None:
    found = edge_errors(spans((1000, 2000)), spans((1010, 1200), (1400, 1500), (1800, 1990)))
    assert (found.onset_ns, found.offset_ns) == ((10 * MS,), (-10 * MS,))
    assert found.split_n == 1


def test_touching_is_not_overlap() -> None:
    found = edge_errors(spans((1000, 2000)), spans((500, 1000), (2000, 2500)))
    assert (found.missed_n, found.spurious_n) == (1, 2)


def test_percentiles_by_hand() -> None:
    # -10, 0, 10, 20, 30 ms: p5 lies a fifth of the way from the first to the second.
    found = summary([30 * MS, -10 * MS, None, 0, 20 * MS, 10 * MS])
    assert (found["n"], found["without"]) == (5, 1)
    assert found["p5_ms"] == pytest.approx(-8.0)
    assert found["p50_ms"] == pytest.approx(10.0)
    assert found["p95_ms"] == pytest.approx(28.0)
    two = summary([-30 * MS, 1 * MS])
    assert two["p95_abs_ms"] == pytest.approx(28.55)
    assert two["max_abs_ms"] == 30.0


def test_nothing_has_no_figures() -> None:
    assert summary([None]) == {"n": 0, "without": 1, "p5_ms": None, "p50_ms": None,
                               "p95_ms": None, "p95_abs_ms": None, "max_abs_ms": None}
    assert edge_errors(Spans(), spans((0, 10))).spurious_n == 1
