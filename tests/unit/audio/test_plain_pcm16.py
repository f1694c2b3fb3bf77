"""A plain WAV file as a view of its samples, and every other file left to the decoder."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from audio.files import plain_pcm16, write_wav_pcm16

PCM = np.arange(-300, 300, dtype=np.int16).reshape(-1, 2)


@pytest.mark.parametrize("samples", [PCM, PCM[:, :1], PCM[:1]])
def test_the_samples_that_were_written(samples: np.ndarray, tmp_path: Path) -> None:
    write_wav_pcm16(tmp_path / "a.wav", samples, 24_000)
    found = plain_pcm16(tmp_path / "a.wav")
    assert found is not None
    assert found[1] == 24_000
    assert np.array_equal(found[0], samples)
    assert not found[0].flags.writeable


def _patched(at: int, data: bytes) -> Callable[[Path], object]:
    def spoil(path: Path) -> None:
        whole = bytearray(path.read_bytes())
        whole[at:at + len(data)] = data
        path.write_bytes(whole)
    return spoil


@pytest.mark.parametrize("spoil", [
    lambda path: path.unlink(),
    lambda path: path.write_bytes(b""),
    lambda path: path.write_bytes(path.read_bytes()[:44]),
    lambda path: path.write_bytes(path.read_bytes()[:-1]),
    lambda path: path.write_bytes(path.read_bytes()[:-4]),
    lambda path: path.write_bytes(path.read_bytes() + b"LIST"),
    lambda path: soundfile.write(path, PCM, 24_000, format="FLAC"),
    lambda path: soundfile.write(path, PCM, 24_000, format="WAV", subtype="PCM_24"),
    _patched(0, b"RF64"), _patched(20, struct.pack("<H", 3)), _patched(22, struct.pack("<H", 0)),
    _patched(22, struct.pack("<H", 65535)), _patched(24, struct.pack("<I", 0)),
    _patched(24, struct.pack("<I", 0xFFFFFFFF)), _patched(40, struct.pack("<I", 8)),
])
def test_of_any_other_file_there_is_none(spoil: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    write_wav_pcm16(path, PCM, 24_000)
    spoil(path)
    assert plain_pcm16(path) is None
