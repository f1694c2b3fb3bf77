"""The PCM16 edge: exact values, rounding, saturation, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from audio.buffers import PCM16_SCALE, float_to_pcm16, pcm16_to_float


def test_every_pcm16_value_survives_the_round_trip() -> None:
    pcm = np.arange(-32768, 32768).astype(np.int16)
    floats = pcm16_to_float(pcm)
    assert floats.dtype == np.float32
    assert floats[0] == -1.0
    assert floats[-1] == 32767 / 32768
    assert np.array_equal(float_to_pcm16(floats), pcm)


def test_rounds_half_to_even() -> None:
    steps = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 0.49, 0.51], dtype=np.float32)
    pcm = float_to_pcm16((steps / np.float32(PCM16_SCALE)).astype(np.float32))
    assert pcm.tolist() == [0, 2, 2, 0, -2, 0, 1]


def test_saturates_at_the_rails() -> None:
    loud = np.array([1.0, 1.5, 1e30, -1.0, -1.5, -1e30], dtype=np.float32)
    assert float_to_pcm16(loud).tolist() == [32767] * 3 + [-32768] * 3


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="samples must be finite"):
        float_to_pcm16(np.array([0.0, bad], dtype=np.float32))


@pytest.mark.parametrize("shape", [(0,), (3,), (0, 2), (3, 2)])
def test_shape_is_kept(shape: tuple[int, ...]) -> None:
    floats = np.zeros(shape, dtype=np.float32)
    assert float_to_pcm16(floats).shape == shape
    assert float_to_pcm16(floats).dtype == np.int16
    assert pcm16_to_float(np.zeros(shape, dtype=np.int16)).shape == shape


def test_input_is_left_alone() -> None:
    floats = np.array([0.25, 2.0], dtype=np.float32)
    float_to_pcm16(floats)
    assert floats.tolist() == [0.25, 2.0]
