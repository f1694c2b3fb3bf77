"""M4A through the extra `m4a`; one line that says so without it."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from audio.errors import AudioFileError
from audio.files import blocks, probe, read, read_channel

FTYP = b"\0\0\0\x20ftypM4A \0\0\0\0M4A mp42isom\0\0\0\0"


def write_m4a(path, samples: np.ndarray, rate_hz: int):
    av = pytest.importorskip("av", reason="the extra m4a is not installed")
    with av.open(str(path), "w", format="ipod") as container:
        stream = container.add_stream("aac", rate=rate_hz, layout="stereo")
        stream.bit_rate = 128_000
        for at in range(0, len(samples), 1024):
            frame = av.AudioFrame.from_ndarray(
                np.ascontiguousarray(samples[at:at + 1024].T.astype(np.float32)), format="fltp",
                layout="stereo")
            frame.rate, frame.pts = rate_hz, at
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


@pytest.fixture
def made(tmp_path):
    rate_hz = 16_000
    t = np.arange(3 * rate_hz) / rate_hz
    samples = np.stack([0.4 * np.sin(2 * np.pi * 440 * t) * (t > 1.0),
                        0.3 * np.sin(2 * np.pi * 700 * t) * (t < 2.0)], axis=1)
    return write_m4a(tmp_path / "call.m4a", samples, rate_hz), samples


def test_channels_times_and_level_are_kept(made):
    path, samples = made
    info = probe(path)
    assert (info.rate_hz, info.channels, info.subtype) == (16_000, 2, "AAC")
    assert abs(info.frames_n - len(samples)) <= 1024
    found, rate_hz = read(path)
    assert rate_hz == 16_000
    assert found.shape == (info.frames_n, 2)
    common = min(len(found), len(samples))
    error = found[:common] - samples[:common]
    # the encoder's delay is cut off: a shift of 64 ms would leave an error as large as the sound
    assert np.sqrt(np.mean(np.square(error[2048:-2048]))) < 0.02


def test_any_piece_is_that_piece_of_the_whole(made):
    path, _ = made
    whole, _ = read(path)
    np.testing.assert_array_equal(np.concatenate(list(blocks(path, 777))), whole)
    np.testing.assert_array_equal(read_channel(path, 1, 5_000, 9_001), whole[5_000:9_001, 1])
    assert len(read_channel(path, 0, 10, 10)) == 0


def test_what_is_no_sound_is_one_line(tmp_path):
    pytest.importorskip("av", reason="the extra m4a is not installed")
    path = tmp_path / "broken.m4a"
    path.write_bytes(FTYP + b"\0" * 100)
    with pytest.raises(AudioFileError, match=r"broken\.m4a: expected an .*M4A"):
        probe(path)


def test_without_the_extra_one_line_says_what_to_install(tmp_path, monkeypatch):
    def missing(name: str):
        if name == "av":
            raise ImportError(name)
        return real(name)

    real = importlib.import_module
    path = tmp_path / "call.m4a"
    path.write_bytes(FTYP)
    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(AudioFileError, match=r"call\.m4a: .*\[m4a\].*got M4A"):
        probe(path)
