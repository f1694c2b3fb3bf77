"""Sound files and texts as they are written: whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from sound_files import RATE_HZ, put, refuse, stereo

from audio import files
from audio.buffers import float_to_pcm16
from audio.errors import InputError


def leftovers(folder: Path) -> list[str]:
    return [p.name for p in folder.iterdir() if p.name.startswith(files.TEMP_PREFIX)]


def half_write(path: Path, error: Exception) -> None:
    with files.atomic_path(path) as temporary:
        temporary.write_bytes(b"half")
        raise error


def test_atomic_path_replaces_whole_files(tmp_path: Path) -> None:
    path = put(tmp_path, b"old", "x.txt")
    with files.atomic_path(path) as temporary:
        assert temporary.parent == path.parent
        assert temporary.suffix == ".txt"
        assert temporary.name.startswith(files.TEMP_PREFIX)
        temporary.write_bytes(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert leftovers(tmp_path) == []


def test_atomic_path_leaves_the_old_file_when_the_block_fails(tmp_path: Path) -> None:
    path = put(tmp_path, b"old")
    with pytest.raises(KeyError, match="mine"):
        half_write(path, KeyError("mine"))
    assert path.read_bytes() == b"old"
    assert leftovers(tmp_path) == []


def test_a_target_that_cannot_be_written_is_refused_beforehand(tmp_path: Path) -> None:
    old = put(tmp_path, b"old")
    before = sorted(tmp_path.iterdir())
    files.check_targets(old, None, tmp_path / "new.json")
    assert sorted(tmp_path.iterdir()) == before
    assert old.read_bytes() == b"old"
    for path, why in ((tmp_path, "Is a directory"),
                      (tmp_path / "no" / "x.json", "No such file or directory"),
                      (old / "x.json", "Not a directory")):
        with pytest.raises(InputError, match=f"expected a file that can be written, got {why}"):
            files.check_targets(old, path)
    assert sorted(tmp_path.iterdir()) == before


def test_a_full_disk_is_one_line_and_no_half_file(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    message = r"x\.json: expected a file that can be written, got No space left on device$"
    with pytest.raises(InputError, match=message):
        half_write(path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_write_that_really_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_open = Path.open

    def full_open(self: Path, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        target = Path("/dev/full") if mode == "wb" else self
        return real_open(target, mode, *args, **kwargs)

    monkeypatch.setattr(Path, "open", full_open)
    with pytest.raises(InputError, match="No space left on device"):
        files.write_wav_pcm16(tmp_path / "x.wav", stereo(), RATE_HZ)
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_flushed_before_the_rename_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, steps = tmp_path / "x", []
    real_fsync = os.fsync

    def fsync(descriptor: int) -> None:
        is_folder = os.path.samestat(os.fstat(descriptor), tmp_path.stat())
        steps.append(("folder" if is_folder else "file", path.exists()))
        real_fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    files.atomic_write_bytes(path, b"data")
    assert steps == [("file", False), ("folder", True)]
    # What can be made again is whole too, and waits for no disk.
    files.atomic_write_text(path, "other", durable=False)
    assert path.read_text() == "other"
    assert leftovers(tmp_path) == []
    assert len(steps) == 2


def test_missing_folder_and_folder_in_the_way(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent/x: .* got No such file or directory"):
        files.atomic_write_bytes(tmp_path / "absent" / "x", b"")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=r"folder: .* got Is a directory"):
        files.atomic_write_bytes(tmp_path / "folder", b"")
    with pytest.raises(InputError, match=r"^\.: .* got Is a directory$"):
        files.atomic_write_bytes(".", b"")
    with pytest.raises(InputError, match="got "):
        files.atomic_write_bytes("/", b"")
    assert leftovers(tmp_path) == []


def test_read_only_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, errno.EROFS)
    for write in (
        lambda: files.atomic_write_bytes(tmp_path / "x", b""),
        lambda: files.write_wav_pcm16(tmp_path / "x", stereo(10), RATE_HZ),
        lambda: files.write_flac_pcm16(tmp_path / "x", stereo(10), RATE_HZ),
    ):
        with pytest.raises(InputError, match=r"x: .* got Read-only file system"):
            write()


def test_new_files_have_ordinary_permissions(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        files.atomic_write_bytes(tmp_path / "x", b"")
    finally:
        os.umask(old)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o644


def test_text_is_utf_8_with_its_own_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    files.atomic_write_text(path, "zwölf\n½\r\n")
    assert path.read_bytes() == b"zw\xc3\xb6lf\n\xc2\xbd\r\n"
    with pytest.raises(InputError, match=r"text that UTF-8 can hold, got .* at character 2"):
        files.atomic_write_text(path, "ab\ud800")
    assert path.read_bytes().startswith(b"zw")


def test_wav_bytes_are_exactly_these(tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    files.write_wav_pcm16(path, np.array([[0.5, -1.0], [1.0, 0.0]], dtype=np.float32), 24_000)
    assert path.read_bytes() == (
        b"RIFF\x2c\0\0\0WAVEfmt \x10\0\0\0\x01\0\x02\0\xc0\x5d\0\0\x00\x77\x01\0\x04\0\x10\0"
        b"data\x08\0\0\0\x00\x40\x00\x80\xff\x7f\0\0"
    )


@pytest.mark.parametrize("suffix", ["wav", "flac"])
@pytest.mark.parametrize("channels", [1, 2])
def test_written_files_come_back_and_are_identical(
    tmp_path: Path, suffix: str, channels: int
) -> None:
    write = files.write_wav_pcm16 if suffix == "wav" else files.write_flac_pcm16
    samples = stereo(300_000) if channels == 2 else stereo(300_000)[:, 0]
    pcm = float_to_pcm16(samples)
    write(tmp_path / f"a.{suffix}", samples, 24_000)
    write(tmp_path / f"b.{suffix}", samples.copy(), 24_000)
    write(tmp_path / f"c.{suffix}", pcm, 24_000)
    a = (tmp_path / f"a.{suffix}").read_bytes()
    assert a == (tmp_path / f"b.{suffix}").read_bytes() == (tmp_path / f"c.{suffix}").read_bytes()
    back, rate_hz = soundfile.read(tmp_path / f"a.{suffix}", dtype="int16")
    assert rate_hz == 24_000
    assert np.array_equal(back, pcm)
    assert files.probe(tmp_path / f"a.{suffix}").subtype == "PCM_16"


@pytest.mark.parametrize("write", [files.write_wav_pcm16, files.write_flac_pcm16])
def test_wrong_samples_are_not_written(tmp_path: Path, write: Any) -> None:
    path = tmp_path / "x"
    bad = np.zeros(300_000, dtype=np.float32)
    bad[280_000] = np.nan
    with pytest.raises(InputError, match=r"x: expected finite samples to write, got .* 280000"):
        write(path, bad, 24_000)
    with pytest.raises(InputError, match="int16 or float samples, got int32"):
        write(path, np.zeros(3, dtype=np.int32), 24_000)
    with pytest.raises(InputError, match="samples of shape"):
        write(path, np.zeros((3, 0), dtype=np.float32), 24_000)
    for rate_hz in (0, 24_000.0, True):
        with pytest.raises(InputError, match="a sample rate of 1000 to 768000 Hz"):
            write(path, np.zeros(3, dtype=np.float32), rate_hz)
    assert list(tmp_path.iterdir()) == []


def test_limits_of_the_formats(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at most 8 channels and 655350 Hz"):
        files.write_flac_pcm16(tmp_path / "x", np.zeros((3, 9), dtype=np.float32), 24_000)
    endless = np.broadcast_to(np.zeros((1, 2), dtype=np.int16), (1 << 30, 2))
    with pytest.raises(InputError, match="less than 4 GiB of samples"):
        files.write_wav_pcm16(tmp_path / "x", endless, 24_000)


def test_hashes(tmp_path: Path) -> None:
    path = put(tmp_path, b"abc")
    # FIPS 180-2, appendix B.1.
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert files.sha256_file(path) == known
    pcm = np.array([[1, 2], [-1, 300]], dtype=np.int16)
    expected = hashlib.sha256(b"\x01\0\x02\0\xff\xff\x2c\x01").hexdigest()
    assert files.sha256_samples(pcm) == expected
    assert files.sha256_samples(np.asfortranarray(pcm)) == expected
    floats = np.array([0.5], dtype=np.float32)
    assert files.sha256_samples(floats) == hashlib.sha256(b"\0\0\0\x3f").hexdigest()
    with pytest.raises(InputError, match="int16 or float32 samples, got int64"):
        files.sha256_samples(np.array([1]))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="No such file"):
        files.sha256_file(tmp_path / "absent")
