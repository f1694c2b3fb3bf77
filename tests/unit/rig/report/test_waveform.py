"""Waves and curves against values known beforehand."""

from __future__ import annotations

import base64
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from rig.report import waveform


def _peaks(wave: dict[str, Any]) -> list[list[int]]:
    return np.frombuffer(base64.b64decode(wave["peaks"]), dtype=np.int8).reshape(-1, 2).tolist()


def test_least_and_greatest_of_every_stretch() -> None:
    left = np.array([0, 0.5, -0.25, 0, 0, 0, 0, 1.0], dtype=np.float32)
    right = np.array([0, 0, 0, 0, -1.0, 2.0, 0.001, -0.001], dtype=np.float32)
    user, model = waveform.waves([np.stack((left, right), axis=1)], 2, 8, 4)
    # 0.25 * 127 = 31.75: away from zero; 2.0 lies beyond full scale; nothing small becomes 0.
    assert _peaks(user) == [[-32, 64], [0, 127]]
    assert _peaks(model) == [[0, 0], [-127, 127]]
    assert (user["rate_hz"], user["loudest"], model["loudest"]) == (2.0, 1.0, 2.0)


def test_the_last_stretch_may_be_shorter() -> None:
    wave, = waveform.waves([np.array([[0.1], [0.1], [0.1], [-0.5]], dtype=np.float32)], 1, 8, 3)
    assert _peaks(wave) == [[12, 13], [-64, -63]]


def test_of_nothing_there_is_no_stretch() -> None:
    wave, = waveform.waves([], 1, 8, 3)
    assert _peaks(wave) == []
    assert wave["loudest"] == 0.0


def test_pieces_and_pcm16_give_what_the_whole_gives() -> None:
    pcm = np.random.default_rng(1).integers(-32768, 32768, (1001, 2)).astype(np.int16)
    whole = waveform.waves([pcm], 2, 8000, 80)
    assert waveform.waves([pcm[:7], pcm[7:500], pcm[500:]], 2, 8000, 80) == whole
    assert waveform.waves([pcm.astype(np.float32) / 32768], 2, 8000, 80) == whole


@pytest.mark.parametrize(("seconds", "rate_hz", "n"), [
    (40, 24_000, 240), (600, 24_000, 240), (7200, 24_000, 2880), (0, 24_000, 240), (1, 50, 1)])
def test_stretches_are_10_ms_and_60_000_at_most(seconds: int, rate_hz: int, n: int) -> None:
    assert waveform.bucket_n(seconds * rate_hz, rate_hz) == n


def test_two_hours_are_never_held_whole() -> None:
    frames_n, rate_hz = 7200 * 24_000, 24_000
    block = np.zeros((1 << 16, 2), dtype=np.int16)

    def pieces() -> Iterator[np.ndarray[Any, np.dtype[np.int16]]]:
        for at_n in range(0, frames_n, len(block)):
            yield block[:frames_n - at_n]

    tracemalloc.start()
    user, _ = waveform.waves(pieces(), 2, rate_hz, waveform.bucket_n(frames_n, rate_hz))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(_peaks(user)) == 60_000
    assert most < 20e6  # the recording has 691 MB


def test_a_curve_in_255_steps() -> None:
    found = waveform.curve(np.array([0, 0.5, 1, 1.5, -1], dtype=np.float32), 31.25)
    assert list(base64.b64decode(found["values"])) == [0, 128, 255, 255, 0]
    assert found["rate_hz"] == 31.25


def test_of_a_long_curve_the_greatest_of_each_stretch_is_kept() -> None:
    values = np.zeros(2 * waveform.MOST + 1, dtype=np.float32)
    values[4] = 1
    found = waveform.curve(values, 30.0)
    kept = list(base64.b64decode(found["values"]))
    assert found["rate_hz"] == 10.0
    assert kept[:3] == [0, 255, 0]
    assert len(kept) == 40_001
