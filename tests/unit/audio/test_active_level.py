"""Active speech level against what a signal is made of."""

from __future__ import annotations

import numpy as np
import pytest

from adapters.simulated import voice
from audio.active_level import active_level, rms_dbov
from audio.buffers import Float32

RATE = 16_000


def noise(seconds: float) -> Float32:
    rng = np.random.default_rng(1)
    return (0.1 * rng.standard_normal(round(seconds * RATE))).astype(np.float32)


def silence(seconds: float) -> Float32:
    return np.zeros(round(seconds * RATE), dtype=np.float32)


def level(samples: Float32) -> float:
    found = active_level(samples, RATE)
    assert found is not None
    return found.level_dbov


def test_without_pauses_it_is_the_power_of_the_whole() -> None:
    found = active_level(noise(5), RATE)
    assert found is not None
    # -20 dBov: a standard deviation of 0.1.
    assert found.level_dbov == pytest.approx(-20.0, abs=0.05)
    assert found.activity == pytest.approx(1.0, abs=0.01)


def test_pauses_do_not_count_but_for_the_hangover() -> None:
    """One second in four: 0.2 s of hangover and the decay of the envelope are active besides."""
    bursts = np.concatenate([part for _ in range(5) for part in (noise(1), silence(3))])
    found = active_level(bursts, RATE)
    assert found is not None
    rms = rms_dbov(bursts)
    assert rms is not None
    assert rms == pytest.approx(-26.0, abs=0.1)
    assert 0.30 < found.activity < 0.36
    # Energy over active time: 10 log10(1 / 1.2) to 10 log10(1 / 1.44) below the level of a burst.
    assert -21.6 < found.level_dbov < -20.8
    assert found.level_dbov == pytest.approx(rms - 10 * np.log10(found.activity), abs=1e-9)


def test_pauses_within_the_hangover_count_whole() -> None:
    """50 ms on, 100 ms off: never inactive."""
    bursts = np.concatenate([part for _ in range(40) for part in (noise(0.05), silence(0.1))])
    assert level(bursts) == pytest.approx(rms_dbov(bursts), abs=0.1)


def test_more_silence_around_speech_changes_nothing() -> None:
    speech = voice.talk(4.0).samples
    alone = active_level(speech, 24_000)
    pause = np.zeros(5 * 24_000, dtype=np.float32)
    among = active_level(np.concatenate((pause, speech, pause)), 24_000)
    assert alone is not None
    assert among is not None
    assert among.level_dbov == pytest.approx(alone.level_dbov, abs=0.35)


@pytest.mark.parametrize("gain_db", [-40.0, -7.3, -0.1, 3.0])
def test_a_gain_moves_it_by_itself(gain_db: float) -> None:
    speech = voice.talk(3.0).samples
    louder = (speech * np.float32(10 ** (gain_db / 20))).astype(np.float32)
    assert level(louder) - level(speech) == pytest.approx(gain_db, abs=1e-3)


def test_the_rate_hardly_matters() -> None:
    from audio.resample import resample

    speech = voice.talk(4.0).samples
    found = [active_level(resample(speech, 24_000, r), r) for r in (8_000, 16_000, 24_000)]
    levels = [f.level_dbov for f in found if f is not None]
    assert len(levels) == 3
    # What lies above 4 kHz is missing at 8 kHz.
    assert max(levels) - min(levels) < 0.3


def test_a_smoothed_impulse_is_the_recursion_of_p56() -> None:
    from audio import active_level as module

    x = np.abs(np.random.default_rng(2).standard_normal(1_000))
    g = float(np.exp(-1 / (RATE * 0.03)))
    y, expected = 0.0, []
    for value in x:
        y = g * y + (1 - g) * value
        expected.append(y)
    np.testing.assert_allclose(module._smoothed(x, RATE), expected, rtol=1e-12)


def by_the_sample(samples: Float32) -> float:
    """P.56 as it is written, sample by sample, with the thresholds where we put them."""
    x = samples.astype(np.float64)
    scale = 10 ** (-26 / 20) / np.sqrt(np.mean(x**2))
    g = float(np.exp(-1 / (RATE * 0.03)))
    hangover_n = round(0.2 * RATE)
    thresholds = [2.0**-k for k in range(15, 0, -1)]
    active = [0] * 15
    since = [hangover_n] * 15
    p = q = 0.0
    for value in np.abs(x) * scale:
        p = g * p + (1 - g) * value
        q = g * q + (1 - g) * p
        for j, threshold in enumerate(thresholds):
            if q >= threshold:
                active[j] += 1
                since[j] = 0
            elif since[j] < hangover_n:
                active[j] += 1
                since[j] += 1
            else:
                break
    energy = float(np.sum((x * scale) ** 2))
    last = None
    for threshold, n in zip(thresholds, active, strict=True):
        level, below = 10 * np.log10(energy / n), 20 * np.log10(threshold)
        if level - below <= 15.9:
            assert last is not None
            part = (last[1] - 15.9) / (last[1] - (level - below))
            return float(last[0] + part * (level - last[0]) - 20 * np.log10(scale))
        last = level, level - below
    raise AssertionError("never within the margin")


def test_it_is_p56_by_the_sample() -> None:
    speech = voice.talk(1.2).samples[::2]
    sound = np.concatenate((speech[:6_000], silence(0.9), speech[6_000:], silence(0.6)))
    assert level(sound) == pytest.approx(by_the_sample(sound), abs=1e-6)


def test_digital_silence_has_none() -> None:
    assert active_level(silence(1), RATE) is None
    assert rms_dbov(silence(1)) is None
    assert rms_dbov(silence(0)) is None
