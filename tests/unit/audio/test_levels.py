"""Levels of signals whose level is known."""

from __future__ import annotations

import numpy as np
import pytest

from audio.levels import LevelMeter, full_scale, is_clipped, loudest_frame_dbfs

RATE_HZ = 24_000


@pytest.mark.parametrize(("peak", "dbfs"), [(1.0, -3.01), (0.1, -23.01), (0.001, -63.01)])
def test_a_sine_lies_3_db_below_its_peak(peak: float, dbfs: float) -> None:
    sine = (peak * np.sin(2 * np.pi * 500 * np.arange(RATE_HZ) / RATE_HZ)).astype(np.float32)
    quiet = np.zeros(RATE_HZ, np.float32)
    found = loudest_frame_dbfs(np.concatenate((quiet, sine, quiet)), RATE_HZ)
    assert found == pytest.approx(dbfs, abs=0.01)


def test_silence_and_next_to_nothing_have_no_level() -> None:
    assert loudest_frame_dbfs(np.zeros(RATE_HZ, np.float32), RATE_HZ) is None
    assert loudest_frame_dbfs(np.ones(479, np.float32), RATE_HZ) is None
    assert loudest_frame_dbfs(np.ones(480, np.float32), RATE_HZ) == pytest.approx(0.0)


@pytest.mark.parametrize(("stretch", "clipped"), [
    ([1.0] * 4, True), ([-1.0] * 4, True), ([1.0] * 3, False), ([1.0, -1.0] * 4, False),
    ([32767 / 32768] * 4, True), ([32766 / 32768] * 40, False), ([], False)])
def test_clipping_is_four_samples_at_full_scale_in_a_row(
    stretch: list[float], clipped: bool
) -> None:
    for around in ([], [0.0, 0.5]):
        samples = np.array([*around, *stretch, *around], np.float32)
        assert is_clipped(samples) is clipped


@pytest.mark.parametrize("cut_n", [1, 3, 7, 479, 480, 481, 1000])
def test_pieces_say_what_the_whole_says(cut_n: int) -> None:
    """One loud frame from 960 to 1440 and four samples at full scale from 2998 to 3002."""
    samples = np.full(4000, 0.001, np.float32)
    samples[960:1440] = 0.5
    samples[2998:3002] = 1.0
    meter = LevelMeter(RATE_HZ)
    for first in range(0, len(samples), cut_n):
        meter.push(samples[first : first + cut_n])
    assert meter.loudest_dbfs == pytest.approx(-6.02, abs=0.01)
    assert meter.clipped
    samples[3001] = 0.9
    meter = LevelMeter(RATE_HZ)
    for first in range(0, len(samples), cut_n):
        meter.push(samples[first : first + cut_n])
    assert not meter.clipped


def test_full_scale_is_that_of_the_encoding() -> None:
    assert full_scale("PCM_16") == 32767 / 32768
    assert (full_scale("PCM_U8"), full_scale("ULAW")) == (127 / 128, 32124 / 32768)
