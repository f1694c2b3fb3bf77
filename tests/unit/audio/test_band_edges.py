"""Edges in noise: signals whose beginning and end are known, probabilities of a detector that errs
as the real one does."""

from __future__ import annotations

import numpy as np
import pytest

from audio.band_edges import END_INSIDE_MS, HOP_N, BandEdges, BandPowers
from audio.silero_graph import FRAME_N

RATE_HZ = 16_000
LENGTH_S = 8.0
ONSET_S, OFFSET_S = 3.0, 5.0


def n(seconds: float) -> int:
    return round(seconds * RATE_HZ)


def voice(seconds: float, level_db: float = -20.0) -> np.ndarray:
    """Harmonics of 140 Hz up to 3.4 kHz, falling 6 dB an octave."""
    t = np.arange(n(seconds)) / RATE_HZ
    x = sum(np.sin(2 * np.pi * 140 * k * t + k * k) / k for k in range(1, 25))
    return x * 10 ** (level_db / 20) / np.sqrt(np.mean(x ** 2))


def hiss(seconds: float, level_db: float, low_hz: float, high_hz: float) -> np.ndarray:
    """Band noise, as of a fricative."""
    spectrum = np.fft.rfft(np.random.default_rng(5).standard_normal(n(seconds)))
    hz = np.fft.rfftfreq(n(seconds), 1 / RATE_HZ)
    x = np.fft.irfft(np.where((hz >= low_hz) & (hz < high_hz), spectrum, 0), n(seconds))
    return x * 10 ** (level_db / 20) / np.sqrt(np.mean(x ** 2))


def line(noise_db: float) -> np.ndarray:
    noise = np.random.default_rng(2).standard_normal(n(LENGTH_S))
    return noise * 10 ** (noise_db / 20)


def put(x: np.ndarray, at_s: float, what: np.ndarray) -> np.ndarray:
    x[n(at_s):n(at_s) + len(what)] += what
    return x


def edges(x: np.ndarray, start_s: float, end_s: float, ignored=None):
    """What is found around the edges that a detector gives."""
    frames = n(LENGTH_S) // FRAME_N
    at_s = (np.arange(frames) + 0.5) * FRAME_N / RATE_HZ
    probabilities = ((at_s >= start_s) & (at_s < end_s)).astype(np.float32)
    hidden = None if ignored is None else (at_s >= ignored[0]) & (at_s < ignored[1])
    bands = BandPowers().push(x[:frames * FRAME_N].astype(np.float32))
    found = BandEdges(bands, probabilities, hidden)
    return found.start(n(start_s), 0), found.end(n(end_s), len(x))


@pytest.mark.parametrize("noise_db", [-90, -60, -45, -35])
@pytest.mark.parametrize("late_s", [-0.02, 0.02, 0.36])
def test_edges_are_those_of_the_sound(noise_db, late_s):
    """The voice lies at -20 dB, so the noise 70 to 15 dB under it; the detector's start is up to
    0.36 s late."""
    x = put(line(noise_db), ONSET_S, voice(OFFSET_S - ONSET_S))
    start, end = edges(x, ONSET_S + late_s, OFFSET_S + 0.04)
    assert start.at_n == pytest.approx(n(ONSET_S), abs=n(0.016))
    assert end.at_n == pytest.approx(n(OFFSET_S), abs=n(0.016))
    assert not start.bounded
    assert not end.bounded


def test_a_fricative_under_the_noise_is_heard():
    """A final hiss at 3 kHz as loud as the whole noise: in the whole band it adds 3 dB."""
    x = put(line(-45), ONSET_S, voice(OFFSET_S - ONSET_S))
    put(x, OFFSET_S, hiss(0.1, -45, 2_800, 3_900))
    _, end = edges(x, ONSET_S, OFFSET_S + 0.06)
    assert end.at_n == pytest.approx(n(OFFSET_S + 0.1), abs=n(0.02))


def test_an_edge_lies_no_further_inside_than_the_detector_errs():
    x = put(line(-60), ONSET_S, voice(OFFSET_S - ONSET_S))
    start, end = edges(x, ONSET_S - 0.3, OFFSET_S + 0.3)
    assert end.bounded
    assert end.at_n == n(OFFSET_S + 0.3) - n(END_INSIDE_MS / 1000)
    assert start.bounded
    assert start.at_n == n(ONSET_S - 0.3) + FRAME_N
    _, end = edges(x, ONSET_S, OFFSET_S + END_INSIDE_MS / 1000 - 0.02)
    assert not end.bounded


def test_a_breath_before_the_words_is_none_of_them():
    x = put(line(-75), ONSET_S, voice(OFFSET_S - ONSET_S))
    put(x, ONSET_S - 0.45, hiss(0.36, -50, 500, 3_000))
    start, _ = edges(x, ONSET_S + 0.02, OFFSET_S)
    assert start.at_n == pytest.approx(n(ONSET_S), abs=n(0.016))


def test_what_is_not_this_side_is_passed_over():
    """The other side's voice, as loud, up to the onset."""
    x = put(line(-60), ONSET_S, voice(OFFSET_S - ONSET_S))
    put(x, ONSET_S - 0.4, voice(0.4))
    clear, _ = edges(x, ONSET_S + 0.05, OFFSET_S)
    assert clear.at_n == pytest.approx(n(ONSET_S - 0.4), abs=n(0.016))
    start, _ = edges(x, ONSET_S + 0.05, OFFSET_S, ignored=(ONSET_S - 0.45, ONSET_S))
    assert start.at_n == pytest.approx(n(ONSET_S), abs=n(0.04))


def test_sound_that_goes_on_tells_no_edge():
    x = put(line(-60), ONSET_S - 0.8, voice(OFFSET_S - ONSET_S + 0.8))
    assert edges(x, ONSET_S, OFFSET_S)[0] is None


def test_a_start_is_not_before_the_other_span():
    x = put(line(-60), ONSET_S, voice(OFFSET_S - ONSET_S))
    frames = n(LENGTH_S) // FRAME_N
    bands = BandPowers().push(x[:frames * FRAME_N].astype(np.float32))
    at_s = (np.arange(frames) + 0.5) * FRAME_N / RATE_HZ
    found = BandEdges(bands, ((at_s > 3.3) & (at_s < 5)).astype(np.float32))
    assert found.start(n(3.36), 0).at_n == pytest.approx(n(ONSET_S), abs=n(0.016))
    limited = found.start(n(3.36), n(3.2))
    assert limited is None or limited.at_n >= n(3.2)


def test_without_quiet_nothing_is_known_of_the_noise():
    x = put(line(-60), 0.5, voice(7.2))
    found = BandEdges(BandPowers().push(x[:n(LENGTH_S) // FRAME_N * FRAME_N].astype(np.float32)),
                      np.ones(n(LENGTH_S) // FRAME_N, np.float32))
    assert not found.usable
    assert found.start(n(0.5), 0) is None
    assert found.end(n(7.7), len(x)) is None


@pytest.mark.parametrize("noise_db", [-200, -60])
def test_silence_and_noise_have_no_level_to_compare_with(noise_db):
    x = line(noise_db) if noise_db > -200 else np.zeros(n(LENGTH_S))
    frames = n(LENGTH_S) // FRAME_N
    found = BandEdges(BandPowers().push(x[:frames * FRAME_N].astype(np.float32)),
                      np.zeros(frames, np.float32))
    assert not found.usable


def test_powers_do_not_depend_on_the_pieces():
    x = line(-30).astype(np.float32)[:n(LENGTH_S) // HOP_N * HOP_N]
    whole = BandPowers().push(x)
    pieces = BandPowers()
    parts = [pieces.push(part) for part in np.split(x, [HOP_N, 5 * HOP_N, 5 * HOP_N, 200 * HOP_N])]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert whole.shape == (len(x) // HOP_N, 12)
    with pytest.raises(ValueError, match="whole hops"):
        pieces.push(x[:100])
    with pytest.raises(ValueError, match="4 windows a frame"):
        BandEdges(whole, np.zeros(3, np.float32))


def test_powers_are_decibels_under_full_scale():
    """A sine of amplitude 1 at 1.2 kHz: -3 dB in the band from 1.0 to 1.4 kHz."""
    x = np.sin(2 * np.pi * 1_200 * np.arange(4_096) / RATE_HZ).astype(np.float32)
    bands = BandPowers().push(x)[8:]
    assert (np.abs((bands[:, 3].astype(float) - 255) / 2 + 3.0) <= 0.5).all()
    assert (bands[:, 8:] < 255 - 2 * 40).all()
    assert BandPowers().push(np.zeros(512, np.float32)).max() == 0
