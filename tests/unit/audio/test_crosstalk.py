"""Paths of known gain and delay are found; two voices that share nothing have none."""

from __future__ import annotations

import numpy as np
import pytest

from audio.crosstalk import LeakEstimator

RATE_HZ = 16_000


def voice(seconds: float, seed: int) -> np.ndarray:
    """Noise with the spectrum and the rhythm of speech."""
    random = np.random.default_rng(seed)
    n = round(seconds * RATE_HZ)
    spectrum = np.fft.rfft(random.standard_normal(n))
    hz = np.fft.rfftfreq(n, 1 / RATE_HZ)
    coloured = np.fft.irfft(spectrum / (1 + (hz / 500) ** 2) * (hz > 80), n)
    # Two seconds of one, two of the other, with some pauses in them.
    turn = (np.arange(n) // (2 * RATE_HZ) + seed) % 2 == 0
    rhythm = turn & np.repeat(random.random(-(-n // 4_000)) > 0.2, 4_000)[:n]
    return (0.1 * coloured / coloured.std() * rhythm).astype(np.float32)


def estimate(first: np.ndarray, second: np.ndarray, piece_n: int = 163_840) -> LeakEstimator:
    n = len(first) // 2 * 2
    out = LeakEstimator(n)
    for at in range(0, n, piece_n):
        out.push(first[at:min(at + piece_n, n)], second[at:min(at + piece_n, n)])
    out.flush()
    return out


def late(samples: np.ndarray, seconds: float) -> np.ndarray:
    n = round(seconds * RATE_HZ)
    return np.concatenate([np.zeros(n, np.float32), samples[:len(samples) - n]])


@pytest.mark.parametrize("gain_db", [-50, -30, -10])
@pytest.mark.parametrize("delay_s", [0.0, 0.02, 0.15, 0.4, 0.49])
def test_gain_and_delay(gain_db, delay_s):
    source, other = voice(60, 1), voice(60, 2)
    heard = other + late(source, delay_s) * np.float32(10 ** (gain_db / 20))
    found = estimate(source, heard)
    leak = found.leak(0)
    assert leak is not None
    assert leak.gain_db == pytest.approx(gain_db, abs=1.0)
    assert leak.lag_s == pytest.approx(delay_s, abs=0.0003)
    assert all(lag == pytest.approx(delay_s, abs=0.0003) for lag in leak.lags_s)
    assert found.leak(1) is None, "the other way there is none"


def test_two_voices_share_nothing():
    found = estimate(voice(60, 1), voice(60, 2))
    assert found.leak(0) is None
    assert found.leak(1) is None


def test_a_delay_that_moves_is_seen_in_the_quarters():
    source, other = voice(80, 1), voice(80, 2)
    n = len(source) // 4
    heard = other.copy()
    for k in range(4):
        heard[k * n:(k + 1) * n] += 0.1 * late(source, 0.1 + 0.02 * k)[k * n:(k + 1) * n]
    leak = estimate(source, heard).leak(0)
    assert leak is not None
    np.testing.assert_allclose([lag or 0 for lag in leak.lags_s], [0.1, 0.12, 0.14, 0.16],
                               atol=0.001)


@pytest.mark.parametrize("piece_n", [2, 1_000, 100_000])
def test_any_pieces_give_the_same(piece_n):
    source = voice(3, 1)
    heard = voice(3, 2) + late(source, 0.05) * np.float32(0.1)
    whole, cut = estimate(source, heard, len(source)), estimate(source, heard, piece_n)
    assert whole.leak(0) == cut.leak(0)


@pytest.mark.parametrize("n", [0, 2, 100])
def test_nothing_and_silence_have_no_leak(n):
    silent = np.zeros(n, np.float32)
    assert estimate(silent, silent).leak(0) is None
