"""Sound files as tests need them: any header, two channels that differ, a disk that fails."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audio import files
from audio.buffers import Float32, float_to_pcm16

FRAMES = 16_000
RATE_HZ = 8_000


def stereo(frames: int = FRAMES, seed: int = 1) -> Float32:
    """Two channels that cannot be taken for each other."""
    noise = np.random.default_rng(seed).uniform(-0.1, 0.1, (frames, 2))
    noise[:, 0] += 0.3 * np.sin(2 * np.pi * 440 * np.arange(frames) / RATE_HZ)
    return noise.astype(np.float32)


def wav(
    data: bytes, *, size: int | None = None, riff: int | None = None, channels: int = 1,
    rate_hz: int = RATE_HZ, before: bytes = b"", after: bytes = b"",
) -> bytes:
    """A PCM16 WAVE file with any sizes in its header."""
    align = 2 * channels
    fmt = struct.pack("<IHHIIHH", 16, 1, channels, rate_hz, rate_hz * align, align, 16)
    size = len(data) if size is None else size
    body = b"WAVEfmt " + fmt + before + b"data" + struct.pack("<I", size) + data + after
    return b"RIFF" + struct.pack("<I", len(body) if riff is None else riff) + body


PCM = float_to_pcm16(stereo()[:, 0]).astype("<i2").tobytes()
LIST = b"LIST" + struct.pack("<I", 10) + b"INFOISFT\0\0"


def put(folder: Path, data: bytes, name: str = "x.wav") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def codes(info: files.AudioInfo) -> list[str]:
    return [code for code, _ in info.warnings]


def refuse(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Let every opening of a file fail, whoever runs the tests."""

    def failing(self: Path, *args: Any, **kwargs: Any) -> Any:
        raise OSError(code, os.strerror(code), str(self))

    monkeypatch.setattr(Path, "open", failing)
