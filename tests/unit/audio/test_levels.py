"""Levels of signals whose level is known."""

from __future__ import annotations

import numpy as np
import pytest

from audio.levels import is_clipped, loudest_frame_dbfs

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
