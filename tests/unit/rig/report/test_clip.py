"""The sound in a page: as long as the recording, sample for sample in its place."""

from __future__ import annotations

import base64
import io

import numpy as np
import soundfile

from rig.report.clip import flac_base64


def _decoded(text: str) -> tuple[np.ndarray, int]:
    return soundfile.read(io.BytesIO(base64.b64decode(text)), dtype="int16")


def test_equal_in_length_and_place_and_off_by_half_a_step_at_most() -> None:
    pcm = np.random.default_rng(2).integers(-32768, 32768, (5003, 2)).astype(np.int16)
    pcm[0] = [32767, -32768]
    found, rate_hz = _decoded(flac_base64(pcm, 24_000))
    assert (found.shape, rate_hz) == (pcm.shape, 24_000)
    assert np.abs(found.astype(int) - pcm).max() <= 15  # the rail alone; else 8
    assert np.abs(found.astype(int) - pcm)[np.abs(pcm) < 32760].max() == 8
    assert not (found % 16).any()


def test_silence_stays_silence_and_a_click_stays_in_its_sample() -> None:
    pcm = np.zeros((24_000, 2), dtype=np.int16)
    pcm[12_345, 1] = 16_000
    found, _ = _decoded(flac_base64(pcm, 24_000))
    assert np.argwhere(found).tolist() == [[12_345, 1]]
