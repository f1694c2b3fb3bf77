"""Refined edges of made signals, whose true edges are known to the sample."""

from __future__ import annotations

import numpy as np
import pytest
from made_signals import MS, burst, signal

from audio.edge_refine import refined
from audio.spans import Spans

WITHIN_N = round(2.6 * MS)
"""Half a window of 5 ms."""


def spans(*edges_ms: tuple[float, float]) -> Spans:
    return Spans(tuple((round(a * MS), round(b * MS)) for a, b in edges_ms))


@pytest.mark.parametrize(("start_off_ms", "end_off_ms"), [
    (0, 0), (-50, 50), (50, -50), (-240, 240), (200, -200), (-30, 90), (96, 19)])
@pytest.mark.parametrize("gain_db", [0, -40])
def test_edges_are_found_again_wherever_the_detector_put_them(
    start_off_ms: int, end_off_ms: int, gain_db: float
) -> None:
    x = signal(1000, burst(800, -20 + gain_db), 1000)
    (start_n, end_n), = refined(x, spans((1000 + start_off_ms, 1800 + end_off_ms)))
    assert abs(start_n - 1000 * MS) <= WITHIN_N
    assert abs(end_n - 1800 * MS) <= WITHIN_N


def test_a_planted_shift_of_50_ms_shows_as_50_ms() -> None:
    at = [refined(signal(1000 + shift, burst(800), 1000), spans((1010, 1880))).items[0]
          for shift in (0, 50)]
    assert at[1][0] - at[0][0] == pytest.approx(50 * MS, abs=MS)
    assert at[1][1] - at[0][1] == pytest.approx(50 * MS, abs=MS)


def test_each_end_is_moved_alone() -> None:
    x = signal(1000, burst(800), 1000)
    found = spans((970, 1880))
    start, end = found.items[0]
    assert refined(x, found, offset=False).items[0][1] == end
    assert refined(x, found, onset=False).items[0][0] == start
    assert refined(x, found, onset=False, offset=False) == found
    assert refined(x, Spans()) == Spans()


def test_sound_that_goes_on_beyond_the_reach_moves_nothing() -> None:
    x = signal(500, burst(2000), 500)
    assert refined(x, spans((1000, 2000))) == spans((1000, 2000))


def test_sound_that_begins_with_the_recording_begins_there() -> None:
    (start_n, _), = refined(signal(burst(800), 500), spans((20, 850)))
    assert start_n <= WITHIN_N


def test_silence_inside_a_span_moves_nothing() -> None:
    assert refined(signal(2000), spans((500, 900))) == spans((500, 900))


def test_quiet_sound_before_speech_counts_down_to_35_db_below_it() -> None:
    for below_db, moved_ms in ((33, 100), (37, 0)):
        x = signal(1000, burst(100, -20 - below_db), burst(700), 1000)
        (start_n, _), = refined(x, spans((1080, 1850)))
        assert abs(start_n - (1100 - moved_ms) * MS) <= 2 * WITHIN_N, below_db


def test_a_click_is_no_start() -> None:
    x = signal(1000, burst(800), 1000)
    x[900 * MS] = 0.9
    (start_n, _), = refined(x, spans((970, 1850)))
    assert abs(start_n - 1000 * MS) <= WITHIN_N


@pytest.mark.parametrize("snr_db", [30, 20, 10])
def test_noise_around_speech_is_not_speech(snr_db: float) -> None:
    x = signal(1000, burst(800), 1000)
    x += burst(2800, -20 - snr_db, seed=7)
    (start_n, end_n), = refined(x, spans((950, 1880)))
    assert abs(start_n - 1000 * MS) <= 5 * MS
    assert abs(end_n - 1800 * MS) <= 5 * MS


def test_neighbours_stay_apart_and_in_order() -> None:
    x = signal(500, burst(400), 310, burst(400), 500)
    found = refined(x, spans((480, 1000), (1180, 1700)))
    (a, b), (c, d) = found.items
    for got, true_ms in zip((a, b, c, d), (500, 900, 1210, 1610), strict=True):
        assert abs(got - true_ms * MS) <= WITHIN_N


def test_it_does_not_depend_on_what_lies_far_away() -> None:
    quiet, loud = signal(1000, burst(800, -50), 1000), signal(burst(800, -5), 1000)
    x = np.concatenate((quiet, loud))
    (start_n, end_n), _ = refined(x, spans((970, 1870), (2800, 3650)))
    assert abs(start_n - 1000 * MS) <= WITHIN_N
    assert abs(end_n - 1800 * MS) <= WITHIN_N
