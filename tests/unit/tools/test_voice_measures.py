"""The measures of pitch and formants, on sounds made with known ones."""

import numpy as np
import pytest
from voice_measures import formant_factor, median_pitch_hz, pitch_hz

RATE_HZ = 24_000


def vowel(f0_hz: float, factor: float = 1.0, seconds: float = 1.0) -> np.ndarray:
    """Harmonics under four resonances; vibrato of 2 % lets the harmonics sample the envelope."""
    t = np.arange(int(seconds * RATE_HZ)) / RATE_HZ
    phase = 2 * np.pi * f0_hz * (t + 0.02 * np.sin(2 * np.pi * 3 * t) / (2 * np.pi * 3))
    out = np.zeros(t.size)
    for h in range(1, int(10_000 / f0_hz)):
        s = 2j * np.pi * h * f0_hz
        gain = 1.0 + 0j
        for hz, width_hz in ((600, 80), (1300, 100), (2600, 140), (3700, 200)):
            w, b = 2 * np.pi * hz * factor, 2 * np.pi * width_hz * factor
            gain *= w**2 / (s**2 + b * s + w**2)
        out += abs(gain) * np.cos(h * phase + np.angle(gain))
    return (0.1 * out / np.abs(out).max()).astype(np.float32)


@pytest.mark.parametrize("f0_hz", [85.0, 110.0, 190.0, 240.0, 330.0])
def test_pitch(f0_hz: float) -> None:
    assert median_pitch_hz(vowel(f0_hz), RATE_HZ) == pytest.approx(f0_hz, rel=0.005)


def test_noise_and_silence_have_no_pitch() -> None:
    noise = 0.1 * np.random.default_rng(0).standard_normal(RATE_HZ).astype(np.float32)
    assert (pitch_hz(noise, RATE_HZ) > 0).mean() < 0.02
    half = np.concatenate((vowel(150.0), np.zeros(RATE_HZ, np.float32)))
    assert (pitch_hz(half, RATE_HZ)[102:] == 0).all()


@pytest.mark.parametrize("f0_hz", [110.0, 160.0])
@pytest.mark.parametrize("factor", [0.85, 0.95, 1.0, 1.05, 1.15])
def test_formants_whatever_the_pitch(f0_hz: float, factor: float) -> None:
    found = formant_factor(vowel(f0_hz, factor), vowel(130.0), RATE_HZ)
    assert found == pytest.approx(factor, rel=0.02)
