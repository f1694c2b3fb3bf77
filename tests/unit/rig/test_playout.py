"""The playout model against hand-computed placements."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audio.timebase import n_to_ns
from rig.playout import Arrival, Interruption, Placement, heard_spans_ns, place, render

MS = 1_000_000
RATE = 1000  # one sample a millisecond: positions can be read off


def placed(arrivals, interruptions=(), policy="hold", rate=RATE):
    return [(p.start_ns // MS, p.source_n, p.n)
            for p in place(arrivals, interruptions, policy, rate)]


def test_a_burst_is_heard_one_chunk_after_the_other():
    burst = [Arrival(100 * MS, 50), Arrival(101 * MS, 50), Arrival(102 * MS, 50)]
    assert placed(burst) == [(100, 0, 50), (150, 50, 50), (200, 100, 50)]


def test_a_late_chunk_is_heard_on_arrival():
    assert placed([Arrival(0, 10), Arrival(30 * MS, 10)]) == [(0, 0, 10), (30, 10, 10)]


def test_flush_cuts_the_chunk_being_heard_and_drops_the_queue():
    burst = [Arrival(0, 100, "r1"), Arrival(0, 100, "r1"), Arrival(0, 100, "r1")]
    stop = [Interruption(150 * MS)]
    assert placed(burst, stop, "flush") == [(0, 0, 100), (100, 100, 50)]
    assert placed(burst, stop, "hold") == [(0, 0, 100), (100, 100, 100), (200, 200, 100)]


def test_late_deltas_of_an_interrupted_response_are_dropped_and_the_next_one_is_heard():
    arrivals = [Arrival(0, 100, "r1"), Arrival(60 * MS, 100, "r1"), Arrival(80 * MS, 30, "r2")]
    assert placed(arrivals, [Interruption(50 * MS, "r1")], "flush") == [(0, 0, 50), (80, 200, 30)]


def test_an_interruption_without_an_id_voids_the_responses_not_yet_heard_to_the_end():
    arrivals = [Arrival(0, 100, "r1"), Arrival(60 * MS, 40, "r1")]
    assert placed(arrivals, [Interruption(50 * MS)], "flush") == [(0, 0, 50)]


def test_an_interruption_after_everything_was_heard_changes_nothing():
    arrivals = [Arrival(0, 20, "r1")]
    assert placed(arrivals, [Interruption(50 * MS)], "flush") == [(0, 0, 20)]


def test_positions_do_not_drift_at_a_rate_that_does_not_divide_a_second():
    arrivals = [Arrival(0, 441) for _ in range(10_000)]
    last = place(arrivals, (), "hold", 22_050)[-1]
    assert last.start_ns == n_to_ns(9_999 * 441, 22_050) == 199_980_000_000


def test_render_places_samples_and_cuts_at_the_end_of_the_track():
    source = np.arange(1, 7, dtype=np.float32)
    placements = [Placement(2 * MS, 0, 3, 0), Placement(6 * MS, 3, 3, 1)]
    assert render(placements, source, RATE, RATE, 8).tolist() == [0, 0, 1, 2, 3, 0, 4, 5]


def test_render_resamples_a_run_as_a_whole():
    """Chunk edges leave no mark: 20 ms chunks of a tone equal the tone in one piece."""
    tone = np.sin(2 * np.pi * 440 * np.arange(16_000) / 16_000).astype(np.float32)
    chunks = [Arrival(n_to_ns(k * 320, 16_000), 320) for k in range(50)]
    whole = [Arrival(0, 16_000)]
    a = render(place(chunks, (), "hold", 16_000), tone, 16_000, 24_000, 24_000)
    b = render(place(whole, (), "hold", 16_000), tone, 16_000, 24_000, 24_000)
    assert np.array_equal(a, b)


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 80)), max_size=20),
       st.lists(st.integers(0, 2000), max_size=4))
def test_nothing_is_heard_early_twice_or_after_a_flush_point(chunks, stops):
    t = 0
    arrivals = []
    for gap, n in chunks:
        t += gap
        arrivals.append(Arrival(t * MS, n))
    interruptions = [Interruption(s * MS) for s in stops]
    for policy in ("hold", "flush"):
        out = place(arrivals, interruptions, policy, RATE)
        sources = [i for p in out for i in range(p.source_n, p.source_n + p.n)]
        assert len(sources) == len(set(sources))
        for before, after in itertools.pairwise(out):
            assert after.start_ns >= before.start_ns + before.n * MS
        if policy == "hold":
            assert len(sources) == sum(n for _, n in chunks)
        arrived = [a.t_ns for a in arrivals for _ in range(a.n)]
        for p in out:
            assert p.start_ns >= arrived[p.source_n]


def test_heard_spans():
    spans = heard_spans_ns(place([Arrival(0, 10), Arrival(0, 10), Arrival(50 * MS, 5)], (), "hold",
                                 RATE), RATE)
    assert spans.items == ((0, 20 * MS), (50 * MS, 55 * MS))


@pytest.mark.parametrize("n", [0, 1])
def test_empty_chunks_leave_no_placement(n):
    assert len(place([Arrival(0, n)], (), "hold", RATE)) == n


def test_a_peer_that_clears_at_every_chunk_costs_no_more_than_the_chunks():
    """Of each chunk of 10 ms, cleared after 1 ms, one is heard."""
    n = 20_000
    arrivals = [Arrival(k * MS, 10) for k in range(n)]
    stops = [Interruption((k + 1) * MS) for k in range(n)]
    assert placed(arrivals, stops, "flush") == [(k, 10 * k, 1) for k in range(n)]
