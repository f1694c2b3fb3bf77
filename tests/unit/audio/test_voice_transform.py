"""The transform on frames made by hand, where the right answer is known."""

import dataclasses

import numpy as np
import pytest

from audio.voice_transform import (
    BEND,
    BIN_HZ,
    UNVOICED_HZ,
    Frames,
    Shift,
    between_harmonics,
    source_bins,
    transform,
)

BINS, COUNT = 601, 6
FORMANTS_HZ = (500.0, 1500.0, 2500.0)


def hill(scale: float = 1.0) -> np.ndarray:
    """A smooth log envelope with three formants, `(601,)`."""
    hz = np.arange(BINS) * BIN_HZ
    return sum((3.0 * np.exp(-(((hz - f * scale) / (250.0 * scale)) ** 2)) for f in FORMANTS_HZ),
               np.full(BINS, -4.0))


def frames(f0_hz: float = 200.0) -> Frames:
    envelope = np.repeat(hill()[:, None], COUNT, axis=1).astype(np.float32)
    pitch = np.full(COUNT, f0_hz, np.float32)
    pitch[-2:] = -1.5  # as the network writes unvoiced frames
    zero = np.zeros_like(envelope)
    return Frames(envelope, zero, envelope - 3, envelope - 2, zero + 0.5, pitch)


def pulses(f0_hz: float = 200.0) -> np.ndarray:
    """A source with its power at the harmonics, as wide as the window makes them."""
    step = f0_hz / BIN_HZ
    away = np.abs(np.arange(BINS) - np.maximum(1, np.round(np.arange(BINS) / step)) * step)
    line = np.where(away < 0.75, 1.0, np.where(away < 1.75, 0.5, 5e-3))
    return np.repeat(line[:, None], COUNT, axis=1).astype(np.complex64)


@pytest.mark.parametrize("factor", [0.8, 0.936, 1.0, 1.068, 1.2])
def test_the_map_is_the_factor_below_the_bend_and_keeps_the_band(factor: float) -> None:
    at = source_bins(BINS, factor)
    assert at[0] == 0
    assert at[-1] == BINS - 1
    assert (np.diff(at) > 0).all()
    below = np.arange(int(BEND * 600 * min(1.0, factor)))
    np.testing.assert_allclose(at[below], below / factor, rtol=1e-12)
    assert 8000 * min(1, factor) < below[-1] * BIN_HZ + 400  # all that tells vowels apart


def test_pitch_moves_alone() -> None:
    new = transform(frames(), pulses(), Shift(-7.0, 1.0))
    voiced = frames().f0_hz > UNVOICED_HZ
    np.testing.assert_allclose(new.f0_hz[voiced], 200.0 * 2 ** (-7 / 12), rtol=1e-6)
    np.testing.assert_array_equal(new.f0_hz[~voiced], frames().f0_hz[~voiced])
    # the envelope where the old pitch had harmonics, less what keeps the level
    at = np.arange(10, 550, 10)
    np.testing.assert_allclose(new.harmonic[at, 0], hill()[at] - 0.5 * 7 / 12 * np.log(2),
                               atol=0.25)
    np.testing.assert_array_equal(new.noise, frames().noise)
    np.testing.assert_array_equal(new.free, frames().free)


@pytest.mark.parametrize("factor", [0.821, 1.141])
def test_formants_move_alone(factor: float) -> None:
    new = transform(frames(100.0), pulses(100.0), Shift(0.0, factor))
    np.testing.assert_array_equal(new.f0_hz, frames(100.0).f0_hz)
    below = slice(10, 350)
    for part, offset in ((new.harmonic, 0.0), (new.noise, -3.0), (new.free, -2.0)):
        np.testing.assert_allclose(part[below, 1], hill(factor)[below] + offset, atol=0.3)
    np.testing.assert_array_equal(new.phase, frames().phase)


def test_a_deep_pitch_stays_voiced() -> None:
    new = transform(frames(50.0), pulses(50.0), Shift(-12.0, 1.0))
    assert ((new.f0_hz > UNVOICED_HZ) == (frames(50.0).f0_hz > UNVOICED_HZ)).all()


def test_what_the_filter_says_between_harmonics_does_not_sound() -> None:
    """The network's filter is wild where the source has nothing: at another pitch it would howl."""
    plain = frames()
    wild = plain.harmonic.copy()
    wild[14::10] += 4.0
    spoilt = dataclasses.replace(plain, harmonic=wild)
    clean, _ = between_harmonics(plain, pulses())
    found, _ = between_harmonics(spoilt, pulses())
    assert np.abs(found - clean).max() < 0.1


def test_the_filter_goes_on_level_below_the_pitch() -> None:
    found, _ = between_harmonics(frames(), pulses())
    np.testing.assert_allclose(found[:10, 0], found[10, 0], atol=1e-6)


def test_no_voiced_frame_at_all() -> None:
    silent = dataclasses.replace(frames(), f0_hz=np.full(COUNT, -1.0, np.float32))
    new = transform(silent, np.zeros((BINS, COUNT), np.complex64), Shift(-5.0, 0.9))
    assert all(np.isfinite(getattr(new, f.name)).all() for f in dataclasses.fields(new))
    np.testing.assert_array_equal(new.f0_hz, silent.f0_hz)


@pytest.mark.parametrize("bad", [(-12.1, 1.0), (6.1, 1.0), (0.0, 0.7), (0.0, 1.3),
                                 (float("nan"), 1.0), (0.0, float("nan"))])
def test_what_no_voice_is(bad: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="expected"):
        Shift(*bad)
