"""The energy detector on made signals, whose speech is known."""

from __future__ import annotations

import numpy as np
import pytest
from made_signals import MS, burst, signal

from audio.energy_vad import FRAME_N, energy_spans, levels_of
from audio.errors import InputError
from audio.spans import Spans
from audio.vad import VadSettings

VAD = VadSettings()


def ms(spans: Spans) -> list[tuple[float, float]]:
    return [(a / MS, b / MS) for a, b in spans]


def test_edges_lie_on_frames_of_10_ms() -> None:
    assert ms(energy_spans(signal(1000, burst(500), 1000), VAD)) == [(1000, 1500)]
    (start, end), = ms(energy_spans(signal(1003, burst(500), 1000), VAD))
    assert (start, end) == (1000, 1510)


def test_a_planted_shift_of_50_ms_shows_as_50_ms() -> None:
    assert ms(energy_spans(signal(1050, burst(500), 1000), VAD)) == [(1050, 1550)]


@pytest.mark.parametrize(("gap_ms", "n"), [(290, 1), (300, 2), (310, 2)])
def test_gaps_below_the_merge_gap_are_bridged(gap_ms: int, n: int) -> None:
    assert len(energy_spans(signal(500, burst(400), gap_ms, burst(400), 500), VAD)) == n


@pytest.mark.parametrize(("length_ms", "n"), [(80, 0), (90, 0), (100, 1)])
def test_what_is_not_longer_than_the_minimum_is_dropped(length_ms: int, n: int) -> None:
    assert len(energy_spans(signal(500, burst(length_ms), 500), VAD)) == n


def test_short_pauses_are_bridged_before_short_speech_is_dropped() -> None:
    x = signal(500, burst(60), 80, burst(60), 500)
    assert ms(energy_spans(x, VAD)) == [(500, 700)]
    assert not energy_spans(signal(500, burst(60), 90, burst(60), 500), VAD)


@pytest.mark.parametrize("noise_db", [-60, -45, -35])
def test_steady_noise_is_no_speech(noise_db: float) -> None:
    x = signal(2000, burst(500), 2000)
    x += burst(4500, noise_db, seed=3)
    assert ms(energy_spans(x, VAD)) == [(2000, 2500)]
    assert not energy_spans(burst(6000, noise_db), VAD)


def test_noise_that_sets_in_is_speech_for_at_most_a_second_and_a_half() -> None:
    # Documented: the floor looks 1.5 s to either side.
    x = signal(2000, burst(6000, -50))
    (start, end), = ms(energy_spans(x, VAD))
    assert start == 2000
    assert end == pytest.approx(3500, abs=30)


@pytest.mark.parametrize(("level_db", "heard"), [(-69, True), (-71, False)])
def test_nothing_below_the_least_level_is_speech(level_db: float, heard: bool) -> None:
    n = np.arange(500 * MS)
    tone = (np.sqrt(2) * 10 ** (level_db / 20) * np.sin(2 * np.pi * n / 16)).astype(np.float32)
    assert bool(energy_spans(signal(500, tone, 500), VAD)) is heard


def test_the_margin_is_what_is_asked_for() -> None:
    x = burst(4000, -50)
    x[2000 * MS:2300 * MS] = burst(300, -40)
    assert not energy_spans(x, VAD, margin_db=14)
    # The least of the smoothed noise lies about 1 dB below its mean.
    assert ms(energy_spans(x, VAD, margin_db=8)) == [(2000, 2300)]


@pytest.mark.parametrize("margin_db", [0.9, 40.1, float("nan")])
def test_margins_are_bounded(margin_db: float) -> None:
    with pytest.raises(InputError, match="1 to 40 dB"):
        energy_spans(signal(100), VAD, margin_db=margin_db)


def test_the_borders_of_the_margin_are_allowed() -> None:
    for margin_db in (1.0, 40.0):
        energy_spans(signal(100), VAD, margin_db=margin_db)


def test_what_is_no_audio_is_refused() -> None:
    for bad in (np.zeros((2, 3), np.float32), np.array([np.nan], np.float32)):
        with pytest.raises(InputError, match="finite samples"):
            energy_spans(bad, VAD)


def test_short_and_empty_channels() -> None:
    assert energy_spans(np.zeros(0, np.float32), VAD) == Spans()
    assert len(levels_of(np.zeros(FRAME_N + 1, np.float32)).power) == 2
    x = burst(205)
    assert energy_spans(x, VAD).items in ((), ((0, len(x)),))
