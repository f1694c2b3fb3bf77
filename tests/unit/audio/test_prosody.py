"""Pitch and spectrum of sounds whose pitch and spectrum are known."""

from __future__ import annotations

import builtins

import numpy as np
import pytest

from audio import prosody

RATES = (8_000, 24_000)


def voice(rate_hz: int, low_hz: float, high_hz: float, seconds: float = 4.0) -> np.ndarray:
    """A glide, linear in semitones, with harmonics of amplitude 1/k."""
    t = np.arange(round(seconds * rate_hz)) / rate_hz
    phase = 2 * np.pi * np.cumsum(low_hz * (high_hz / low_hz) ** (t / seconds)) / rate_hz
    top = int(rate_hz / 2 / high_hz)
    return (0.2 * sum(np.sin(k * phase) / k for k in range(1, top))).astype(np.float32)


@pytest.mark.parametrize("rate_hz", RATES)
@pytest.mark.parametrize(("low_hz", "high_hz"), [(100, 200), (150, 150), (110, 165)])
def test_the_range_of_a_glide(rate_hz, low_hz, high_hz):
    pytest.importorskip("parselmouth")
    _, hz = prosody.voiced_frames(voice(rate_hz, low_hz, high_hz), rate_hz)
    assert len(hz) == pytest.approx(397, abs=4)
    # Even over the glide: the quartiles lie half its range apart.
    iqr = np.subtract(*np.percentile(prosody.semitones(hz), [75, 25]))
    assert iqr == pytest.approx(6 * np.log2(high_hz / low_hz), abs=0.1)
    assert np.median(hz) == pytest.approx(np.sqrt(low_hz * high_hz), rel=0.01)


def test_what_has_no_pitch():
    pytest.importorskip("parselmouth")
    noise = np.random.default_rng(1).standard_normal(32_000).astype(np.float32)
    for samples in (0.1 * noise, np.zeros(16_000, np.float32), np.zeros(10, np.float32)):
        assert not len(prosody.voiced_frames(samples, 16_000)[1])


def test_without_the_extra(monkeypatch):
    real = builtins.__import__

    def absent(name, *rest, **more):
        if name == "parselmouth":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(prosody.ProsodyError, match=r"\[prosody\]"):
        prosody.voiced_frames(np.zeros(16_000, np.float32), 16_000)


@pytest.mark.parametrize("rate_hz", RATES)
def test_spectra_of_known_shape(rate_hz):
    t = np.arange(rate_hz) / rate_hz
    two = (0.1 * (np.sin(2 * np.pi * 1000 * t) + np.sin(2 * np.pi * 2000 * t))).astype(np.float32)
    middles = np.arange(0.1, 0.9, 0.01)
    spectrum = prosody.voiced_spectrum(two, rate_hz, middles)
    assert prosody.centroid_hz(spectrum, rate_hz) == pytest.approx(1500, abs=5)
    # Amplitudes 1/k: 6.02 dB an octave.
    spectrum = prosody.voiced_spectrum(voice(rate_hz, 100, 100), rate_hz, middles)
    assert prosody.tilt_db_per_octave(spectrum, rate_hz) == pytest.approx(-6.02, abs=0.4)
    flat = prosody.voiced_spectrum(np.eye(1, rate_hz, rate_hz // 2, dtype=np.float32)[0], rate_hz,
                                   np.array([0.5]))
    assert prosody.tilt_db_per_octave(flat, rate_hz) == pytest.approx(0, abs=0.1)


@pytest.mark.parametrize("rate_hz", [8_000, 11_025, 44_100])
def test_the_bins_are_where_they_are_said_to_be(rate_hz):
    t = np.arange(rate_hz) / rate_hz
    # A tone in the middle of a bin, at rates at which 32 ms are an odd number of samples too.
    hz = 40 * rate_hz / prosody.window_n(rate_hz)
    spectrum = prosody.voiced_spectrum(np.sin(2 * np.pi * hz * t).astype(np.float32), rate_hz,
                                       np.arange(0.1, 0.9, 0.01))
    assert np.argmax(spectrum) == 40
    assert prosody.centroid_hz(spectrum, rate_hz) == pytest.approx(hz, rel=1e-4)
    assert prosody.window_n(rate_hz) == pytest.approx(0.032 * rate_hz, abs=1)


def test_silence_has_no_spectrum():
    none = np.zeros(257)
    assert prosody.centroid_hz(none, 16_000) is None
    assert prosody.tilt_db_per_octave(none, 16_000) is None
    assert not prosody.voiced_spectrum(np.ones(100, np.float32), 16_000, np.array([0.001])).any()


def test_one_voice_at_every_rate_is_one_voice():
    """So nothing is resampled: recordings of other rates must not become groups of their own."""
    pytest.importorskip("parselmouth")
    found = []
    for rate_hz in (8_000, 16_000, 24_000, 44_100, 48_000):
        t = np.arange(2 * rate_hz) / rate_hz
        phase = 2 * np.pi * np.cumsum(150 * (1 + 0.1 * np.sin(4 * t))) / rate_hz
        said = 0.2 * sum(np.sin(k * phase) / k for k in range(1, 23)).astype(np.float32)
        middles, _ = prosody.voiced_frames(said, rate_hz)
        spectrum = prosody.voiced_spectrum(said, rate_hz, middles)
        found.append((prosody.tilt_db_per_octave(spectrum, rate_hz),
                      prosody.centroid_hz(spectrum, rate_hz)))
    tilts, centroids = np.array(found).T
    assert np.ptp(tilts) < 0.02
    assert np.ptp(centroids) < 0.002 * centroids.mean()
