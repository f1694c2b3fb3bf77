"""Frame probabilities: cached by content, batches equal one by one, silence costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from adapters.simulated import voice
from audio.buffers import Float32
from audio.errors import AudioFileError
from audio.resample import resample
from rig import activity
from rig.activity import Activity, Channel, analyse


def spoken(seconds: float, first: int = 0) -> Float32:
    return resample(voice.talk(seconds, first).samples, 24_000, 16_000)


def channel(name: str, samples: Float32) -> Channel:
    return Channel(name, lambda: samples)


def never() -> Float32:
    pytest.fail("a cached channel was read again")


def same(left: Activity | AudioFileError, right: Activity | AudioFileError) -> bool:
    assert isinstance(left, Activity)
    assert isinstance(right, Activity)
    return left.samples_n == right.samples_n and np.array_equal(left.probabilities,
                                                                right.probabilities)


def test_batches_give_what_single_channels_give(tmp_path: Path) -> None:
    channels = [channel(f"c{i}", spoken(0.5 + 0.37 * i, i)) for i in range(18)]
    together = analyse(channels, tmp_path / "together")
    alone = [analyse([c], tmp_path / "alone")[0] for c in channels]
    assert len(together) == 18
    assert all(same(a, b) for a, b in zip(together, alone, strict=True))


def test_a_known_channel_is_not_read_again(tmp_path: Path) -> None:
    first, = analyse([channel("x", spoken(1.0))], tmp_path)
    again, other = analyse([Channel("x", never), channel("y", spoken(1.0, 2))], tmp_path)
    assert same(first, again)
    assert not same(first, other)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("spoil", [
    lambda p: p.write_bytes(b"PK"),
    lambda p: p.write_bytes(p.read_bytes()[:-30]),
    lambda p: p.write_bytes(p.read_bytes().replace(b"\x3f", b"\x3e", 1)),
    lambda p: np.savez(p, probabilities=np.zeros(3, np.float32), samples_n=np.int64(10**6)),
    lambda p: np.savez(p, probabilities=np.zeros((3, 3), np.float32), samples_n=np.int64(1536)),
    lambda p: np.savez(p, probabilities=np.zeros(32, np.float64), samples_n=np.int64(16000)),
    lambda p: np.savez(p, probabilities=np.array([object()]), samples_n=np.int64(16000)),
    lambda p: np.savez(p, other=np.zeros(3)),
])
def test_a_damaged_cache_counts_for_nothing(spoil: Callable[[Path], None], tmp_path: Path) -> None:
    samples = spoken(1.0)
    first, = analyse([channel("x", samples)], tmp_path)
    path, = tmp_path.iterdir()
    spoil(path)
    again, = analyse([channel("x", samples)], tmp_path)
    assert same(first, again)
    assert same(analyse([Channel("x", never)], tmp_path)[0], first), "it was not mended"


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    found, = analyse([channel("x", spoken(1.0))], tmp_path / "file" / "cache")
    assert same(found, analyse([channel("x", spoken(1.0))], tmp_path / "cache")[0])


def test_digital_silence_is_no_speech_and_asks_no_detector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity, "frame_probabilities_batch", lambda _channels: never())
    found, empty = analyse([channel("z", np.zeros(16_001, np.float32)),
                            channel("e", np.zeros(0, np.float32))], tmp_path)
    assert isinstance(found, Activity)
    assert isinstance(empty, Activity)
    assert (found.samples_n, len(found.probabilities), found.probabilities.any()) == (
        16_001, 32, False)
    assert (empty.samples_n, len(empty.probabilities)) == (0, 0)


def test_one_unusable_channel_leaves_the_others_alone(tmp_path: Path) -> None:
    def broken() -> Float32:
        raise AudioFileError("x.wav: expected an audio file, got none")

    loud = spoken(1.0) * 1e4
    good = channel("good", spoken(1.0))
    found = analyse([good, Channel("broken", broken), channel("loud", loud), good], tmp_path)
    assert str(found[1]) == "x.wav: expected an audio file, got none"
    assert isinstance(found[2], AudioFileError)
    assert "full scale" in str(found[2])
    assert same(found[0], found[3])
