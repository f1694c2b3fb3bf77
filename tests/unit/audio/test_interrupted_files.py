"""Ctrl-C while a sound file is read or written: libsndfile asks for bytes from within, and what is
raised there is lost."""

from __future__ import annotations

import io
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from audio import files, recording

SAMPLES = np.random.default_rng(2).integers(-9_000, 9_000, (500_000, 2), dtype=np.int16)


@pytest.fixture(autouse=True)
def heeded() -> Iterator[None]:
    """Where tests run in the background SIGINT is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("suffix", ["wav", "flac"])
@pytest.mark.parametrize("at", [0, 1, 2, 5, 7])
def test_an_interrupt_while_a_file_is_read_is_no_damage_of_it(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, at: int) -> None:
    path = tmp_path / f"x.{suffix}"
    (files.write_wav_pcm16 if suffix == "wav" else files.write_flac_pcm16)(path, SAMPLES, 24_000)
    whole = recording._Window.readinto
    calls = 0

    def interrupted(self: Any, buffer: memoryview) -> int:
        nonlocal calls
        calls += 1
        if calls == at + 1:
            signal.raise_signal(signal.SIGINT)
        return whole(self, buffer)

    monkeypatch.setattr(recording._Window, "readinto", interrupted)
    with pytest.raises(KeyboardInterrupt):
        files.read(path)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    samples, _ = files.read(path)
    assert np.array_equal(np.round(samples * 32768).astype(np.int16), SAMPLES)


def test_an_interrupt_while_a_file_is_written_leaves_none(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(io.BytesIO):
        def write(self, data: Any) -> int:
            signal.raise_signal(signal.SIGINT)
            return super().write(data)

    monkeypatch.setattr(files, "io", SimpleNamespace(BytesIO=Interrupted))
    with pytest.raises(KeyboardInterrupt):
        files.write_flac_pcm16(tmp_path / "x.flac", SAMPLES, 24_000)
    assert list(tmp_path.iterdir()) == []
