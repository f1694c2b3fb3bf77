"""Recordings as they are met in the wild, and writes that are whole or did not happen."""

from __future__ import annotations

import errno
import hashlib
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from audio import files
from audio.buffers import Float32, float_to_pcm16
from audio.errors import AudioFileError, InputError
from audio.resample import resample
from audio.timebase import convert_n

ROOT = Path(__file__).resolve().parents[3]
CALL = ROOT.parent / "shared" / "data" / "calls" / "auto_repairs_40.wav"
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


# --- Encodings -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("container", "subtype", "tolerance"),
    [
        ("WAV", "PCM_U8", 1 / 128),
        ("WAV", "PCM_16", 1 / 32768),
        ("WAV", "PCM_24", 1 / 2**23),
        ("WAV", "PCM_32", 1e-7),
        ("WAV", "FLOAT", 0),
        ("WAV", "DOUBLE", 0),
        ("WAV", "ULAW", 0.02),
        ("WAV", "ALAW", 0.02),
        ("WAVEX", "PCM_16", 1 / 32768),
        ("WAVEX", "PCM_24", 1 / 2**23),
        ("WAVEX", "FLOAT", 0),
        ("RF64", "PCM_16", 1 / 32768),
        ("RF64", "ULAW", 0.02),
        ("FLAC", "PCM_16", 1 / 32768),
        ("FLAC", "PCM_24", 1 / 2**23),
        ("AU", "ULAW", 0.02),
        ("AIFF", "PCM_16", 1 / 32768),
        ("W64", "PCM_16", 1 / 32768),
    ],
)
def test_encodings(tmp_path: Path, container: str, subtype: str, tolerance: float) -> None:
    path = tmp_path / "sound"
    soundfile.write(path, stereo(), RATE_HZ, format=container, subtype=subtype)
    info = files.probe(path)
    assert (info.rate_hz, info.channels, info.frames_n) == (RATE_HZ, 2, FRAMES)
    assert (info.subtype, info.warnings, info.duration_s) == (subtype, (), 2.0)
    samples, rate_hz = files.read(path)
    assert rate_hz == RATE_HZ
    assert samples.shape == (FRAMES, 2)
    assert samples.dtype == np.float32
    assert np.abs(samples - stereo()).max() <= tolerance


@pytest.mark.parametrize(
    ("container", "subtype"), [("OGG", "VORBIS"), ("OGG", "OPUS"), ("MP3", "MPEG_LAYER_III")]
)
def test_lossy_encodings_keep_the_time_axis(
    tmp_path: Path, container: str, subtype: str
) -> None:
    path = tmp_path / "sound"
    click = np.zeros((FRAMES, 1), dtype=np.float32)
    click[8_000:8_200, 0] = 0.5 * np.sin(np.arange(200) * 0.8)
    soundfile.write(path, click, RATE_HZ, format=container, subtype=subtype)
    info = files.probe(path)
    assert (info.rate_hz, info.frames_n, info.subtype, info.warnings) == (
        RATE_HZ, FRAMES, subtype, ())
    heard = files.read_channel(path, 0)
    lag = int(np.argmax(np.correlate(heard, click[:, 0], "full"))) - (FRAMES - 1)
    assert lag == 0


def test_pcm16_is_exact_and_mu_law_is_the_standard_table(tmp_path: Path) -> None:
    path = put(tmp_path, wav(struct.pack("<4h", -32768, -1, 0, 32767)))
    assert files.read_channel(path, 0).tolist() == [-1.0, -1 / 32768, 0.0, 32767 / 32768]
    # ITU-T G.711: 0x00 is -32124, 0x80 is +32124, 0xFF is 0.
    fmt = struct.pack("<IHHIIHH", 16, 7, 1, 8_000, 8_000, 1, 8)
    body = b"WAVEfmt " + fmt + b"data" + struct.pack("<I", 4) + b"\x00\x80\xff\x7f"
    path = put(tmp_path, b"RIFF" + struct.pack("<I", len(body)) + body)
    assert (files.read_channel(path, 0) * 32768).tolist() == [-32124, 32124, 0, 0]


def test_float_samples_beyond_full_scale_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "loud.wav"
    soundfile.write(path, np.array([0.5, 3.0, -2.5]), RATE_HZ, subtype="FLOAT")
    assert files.read_channel(path, 0).tolist() == [0.5, 3.0, -2.5]


def test_the_rate_is_the_headers(tmp_path: Path) -> None:
    path = put(tmp_path, wav(PCM, rate_hz=16_000))
    assert files.probe(path).duration_s == 1.0
    assert len(files.read_analysis_channel(path, 0)[0]) == FRAMES


def test_the_name_does_not_decide(tmp_path: Path) -> None:
    for name in ("call.raw", "call.mp3", "call", "ein Anruf – ü.txt"):
        assert files.probe(put(tmp_path, wav(PCM), name)).frames_n == FRAMES


# --- Headers that say nothing, or too much ---------------------------------------------------


@pytest.mark.parametrize(
    ("size", "riff"),
    [
        (0, 0),
        (0, 36),
        (0, None),
        (0xFFFFFFFF, 0xFFFFFFFF),
        (0xFFFFFFFF - 36, 0xFFFFFFFF),
        (0x7FFFF000, 0x7FFFF024),
        (0x7FFFFFFF, 0x7FFFFFFF),
        (0x80000000, 0x80000024),
    ],
)
def test_streaming_headers_are_measured_without_a_warning(
    tmp_path: Path, size: int, riff: int | None
) -> None:
    path = put(tmp_path, wav(PCM, size=size, riff=riff, before=LIST))
    info = files.probe(path)
    assert (info.frames_n, info.warnings) == (FRAMES, ())
    assert np.array_equal(files.read_channel(path, 0), files.read_channel(
        put(tmp_path, wav(PCM), "plain.wav"), 0))


def test_streaming_header_of_silence(tmp_path: Path) -> None:
    # Zero bytes must not pass for further chunks of size 0.
    assert files.probe(put(tmp_path, wav(bytes(32_000), size=0, riff=0))).frames_n == FRAMES


def test_streaming_header_with_an_odd_byte(tmp_path: Path) -> None:
    info = files.probe(put(tmp_path, wav(PCM[:10_001], size=0xFFFFFFFF)))
    assert info.frames_n == 5_000
    assert info.warnings == ((files.TRUNCATED, "the last frame has 1 of its 2 bytes"),)


def test_rf64_that_was_never_closed(tmp_path: Path) -> None:
    fmt = struct.pack("<IHHIIHH", 16, 1, 1, RATE_HZ, 2 * RATE_HZ, 2, 16)
    for sizes in ((0, 0, 0), (2**64 - 1, 2**64 - 1, 0)):
        head = b"RF64\xff\xff\xff\xffWAVEds64" + struct.pack("<IQQQI", 28, *sizes, 0)
        path = put(tmp_path, head + b"fmt " + fmt + b"data\xff\xff\xff\xff" + PCM)
        assert (files.probe(path).frames_n, codes(files.probe(path))) == (FRAMES, [])


def test_truncated_file_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = put(tmp_path, wav(PCM)[: 44 + 10_001])
    info = files.probe(path)
    assert info.frames_n == 5_000
    assert info.warnings == (
        (files.TRUNCATED,
         "the header declares 32000 bytes of samples, 10001 are there (5000 frames)"),
    )
    samples, source = files.read_analysis_channel(path, 0)
    assert len(samples) == 10_000
    assert source == info


def test_truncated_after_the_header(tmp_path: Path) -> None:
    info = files.probe(put(tmp_path, wav(PCM)[:44]))
    assert (info.frames_n, codes(info)) == (0, [files.TRUNCATED])


def test_further_chunks_are_not_sound(tmp_path: Path) -> None:
    assert files.probe(put(tmp_path, wav(PCM, after=LIST))).frames_n == FRAMES
    info = files.probe(put(tmp_path, wav(b"", after=LIST)))
    assert (info.frames_n, info.warnings) == (0, ())


@pytest.mark.parametrize(("name", "subtype", "unknown_at"), [
    ("a.aiff", "PCM_16", 42), ("a.aiff", "PCM_24", 42), ("a.aiff", "ULAW", None),
    ("a.au", "PCM_16", 8), ("a.au", "ULAW", 8), ("a.w64", "PCM_16", None),
    ("a.w64", "FLOAT", None)])
def test_other_headers_tell_what_is_missing(
        tmp_path: Path, name: str, subtype: str, unknown_at: int | None) -> None:
    """libsndfile says nothing of a cut AIFF, AU or Wave64: the last turn would pass for whole."""
    path = tmp_path / name
    soundfile.write(path, np.full((1_000, 2), 0.25), 8_000, subtype=subtype)
    whole = path.read_bytes()
    assert (files.probe(path).frames_n, files.probe(path).warnings) == (1_000, ())
    frame_n = 2 * {"PCM_16": 2, "PCM_24": 3, "ULAW": 1, "FLOAT": 4}[subtype]
    path.write_bytes(whole[:len(whole) - 400 * frame_n])
    info = files.probe(path)
    assert info.frames_n == 600
    assert info.warnings == ((files.TRUNCATED, f"the header declares {1_000 * frame_n} bytes of "
                              f"samples, {600 * frame_n} are there (600 frames)"),)
    if unknown_at is not None:
        # A writer into a pipe does not know the size.
        path.write_bytes(whole[:unknown_at] + b"\xff" * 4 + whole[unknown_at + 4:])
        assert (files.probe(path).frames_n, files.probe(path).warnings) == (1_000, ())


def test_a_size_that_wrapped_at_4_gib(tmp_path: Path) -> None:
    path = tmp_path / "long.wav"
    data_bytes = (1 << 32) + 1_000_000
    with path.open("wb") as handle:
        handle.write(wav(b"", size=1_000_000, channels=2))
        handle.seek(44 + data_bytes - 4)
        handle.write(struct.pack("<2h", 16_384, -16_384))
    if path.stat().st_blocks * 512 > 10_000_000:
        pytest.skip("the file system keeps no sparse files")
    info = files.probe(path)
    assert (info.frames_n, info.warnings) == (data_bytes // 4, ())
    last, _ = files.read(path, info.frames_n - 2)
    assert last.tolist() == [[0.0, 0.0], [0.5, -0.5]]


def test_a_swarm_of_empty_chunks_is_given_up(tmp_path: Path) -> None:
    swarm = (b"junk" + bytes(4)) * 20_000
    path = put(tmp_path, wav(PCM, before=swarm))
    with pytest.raises(AudioFileError, match="No 'data' chunk marker"):
        files.probe(path)


# --- Damaged compressed files ----------------------------------------------------------------


def flac(folder: Path) -> bytes:
    soundfile.write(folder / "whole.flac", stereo(), RATE_HZ, subtype="PCM_16")
    return (folder / "whole.flac").read_bytes()


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_truncated_flac(tmp_path: Path, share: float) -> None:
    data = flac(tmp_path)
    whole, _ = files.read(tmp_path / "whole.flac")
    path = put(tmp_path, data[: int(len(data) * share)])
    info = files.probe(path)
    assert codes(info) == [files.TRUNCATED]
    # Whole FLAC blocks of 4096 frames survive, to the last frame.
    assert info.frames_n == int(FRAMES * share) // 4096 * 4096
    samples, _ = files.read(path)
    assert np.array_equal(samples, whole[: info.frames_n])
    for block_n in (1_000, 4_096):
        assert np.array_equal(np.concatenate(list(files.blocks(path, block_n))), samples)
    part, _ = files.read(path, 1_000, info.frames_n)
    assert np.array_equal(part, samples[1_000:])


def with_total(data: bytes, total: int) -> bytes:
    """Replace the 36-bit frame count of a FLAC file's STREAMINFO."""
    facts = int.from_bytes(data[18:26], "big") >> 36 << 36 | total
    return data[:18] + facts.to_bytes(8, "big") + data[26:]


def test_flac_of_unknown_length(tmp_path: Path) -> None:
    info = files.probe(put(tmp_path, with_total(flac(tmp_path), 0)))
    assert (info.frames_n, info.warnings) == (FRAMES, ())


def test_flac_that_claims_more_than_any_disk_holds(tmp_path: Path) -> None:
    path = put(tmp_path, with_total(flac(tmp_path), (1 << 36) - 1))
    info = files.probe(path)
    assert (info.frames_n, codes(info)) == (FRAMES, [files.TRUNCATED])
    assert np.array_equal(files.read(path)[0], files.read(tmp_path / "whole.flac")[0])


def test_flac_damaged_in_the_middle_is_refused_not_shortened(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "long.flac", stereo(80_000), RATE_HZ, subtype="PCM_16")
    data = bytearray((tmp_path / "long.flac").read_bytes())
    data[len(data) // 2 : len(data) // 2 + 40] = bytes(40)
    path = put(tmp_path, bytes(data))
    with pytest.raises(AudioFileError, match=r"expected 80000 frames, got a decoder that fails"):
        files.read(path)


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_truncated_ogg(tmp_path: Path, subtype: str) -> None:
    soundfile.write(tmp_path / "w", stereo(80_000), RATE_HZ, format="OGG", subtype=subtype)
    data = (tmp_path / "w").read_bytes()
    assert files.probe(tmp_path / "w").frames_n == 80_000
    path = put(tmp_path, data[: len(data) // 2])
    info = files.probe(path)
    assert 20_000 < info.frames_n < 50_000
    assert info.warnings == ((files.TRUNCATED, "the Ogg stream has no end mark"),)
    assert len(files.read(path)[0]) == info.frames_n


def test_ogg_cut_between_two_pages(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "w.ogg", stereo(80_000), RATE_HZ)
    data = (tmp_path / "w.ogg").read_bytes()
    path = put(tmp_path, data[: data.rindex(b"OggS")])
    assert files.probe(path).warnings == ((files.TRUNCATED, "the Ogg stream has no end mark"),)


def variable_mp3(folder: Path) -> tuple[bytes, int]:
    """A variable-rate MP3, loud then silent, and the length of its tag frame."""
    sound = np.concatenate([stereo(80_000)[:, 0], np.zeros(160_000, dtype=np.float32)])
    soundfile.write(folder / "vbr.mp3", sound, 16_000, format="MP3", bitrate_mode="VARIABLE")
    data = (folder / "vbr.mp3").read_bytes()
    # A frame of 64 kbit/s at 16 kHz has 288 bytes (ISO/IEC 13818-3: 72 * 64000 / 16000).
    assert data[288:290] == data[:2]
    return data, 288


def test_mp3_without_a_length_tag_is_read_to_its_end(tmp_path: Path) -> None:
    data, tag_bytes = variable_mp3(tmp_path)
    path = put(tmp_path, data[tag_bytes:])
    # What the decoder believes on its own: this is the trap.
    assert soundfile.info(path).frames < 150_000
    info = files.probe(path)
    assert abs(info.frames_n - 240_000) < 3 * 576
    assert info.warnings == ()
    bare, tagged = files.read_channel(path, 0), files.read_channel(tmp_path / "vbr.mp3", 0)
    # Without the tag the encoder's own delay, 576 samples, stays in.
    assert np.abs(bare[576:200_000] - tagged[: 200_000 - 576])[5_000:].max() < 1e-5


def test_mp3_behind_an_id3_tag(tmp_path: Path) -> None:
    data, tag_bytes = variable_mp3(tmp_path)
    id3 = b"ID3\x03\0\0\0\0\x10\0" + bytes(16 * 128)
    assert files.probe(put(tmp_path, id3 + data)).frames_n == 240_000
    bare = files.probe(put(tmp_path, id3 + data[tag_bytes:] + b"TAG" + bytes(125)))
    assert abs(bare.frames_n - 240_000) < 3 * 576
    # Frames inside the tag, say of a picture, are not sound.
    picture = id3[:10] + data[tag_bytes : tag_bytes + 2048]
    disguised = files.probe(put(tmp_path, picture + data[tag_bytes:]))
    assert disguised.frames_n == bare.frames_n


def test_truncated_mp3(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    soundfile.write(tmp_path / "w.mp3", stereo(80_000), RATE_HZ, format="MP3")
    data = (tmp_path / "w.mp3").read_bytes()
    path = put(tmp_path, data[: len(data) // 2])
    info = files.probe(path)
    assert 30_000 < info.frames_n < 42_000
    assert codes(info) == [files.TRUNCATED]
    samples, _ = files.read(path)
    assert len(samples) == info.frames_n
    whole, _ = files.read(tmp_path / "w.mp3")
    assert np.array_equal(samples, whole[: info.frames_n])
    capfd.readouterr()  # the MP3 decoder talks on its own


@pytest.mark.parametrize(
    ("container", "subtype"),
    [("WAV", "PCM_16"), ("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("MP3", "MPEG_LAYER_III"),
     ("WAV", "IMA_ADPCM")],
)
def test_parts_are_parts_of_the_whole(tmp_path: Path, container: str, subtype: str) -> None:
    path = tmp_path / "sound"
    soundfile.write(path, stereo(), RATE_HZ, format=container, subtype=subtype)
    whole, _ = files.read(path)
    for start_n, stop_n in ((0, 10), (5_000, 5_001), (777, 15_000), (15_999, 16_000)):
        assert np.array_equal(files.read(path, start_n, stop_n)[0], whole[start_n:stop_n])
        assert np.array_equal(
            files.read_channel(path, 1, start_n, stop_n), whole[start_n:stop_n, 1])
    for block_n in (1, 997, 16_000, 10**9):
        if block_n > 1 or container == "WAV":
            assert np.array_equal(np.concatenate(list(files.blocks(path, block_n))), whole)


# --- Short, empty, wrong ---------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["wav", "flac"])
@pytest.mark.parametrize("frames", [0, 1])
def test_empty_and_one_sample_files(tmp_path: Path, suffix: str, frames: int) -> None:
    path = tmp_path / f"short.{suffix}"
    write = files.write_wav_pcm16 if suffix == "wav" else files.write_flac_pcm16
    write(path, np.full((frames, 2), 0.5, dtype=np.float32), RATE_HZ)
    info = files.probe(path)
    assert (info.frames_n, info.channels, info.warnings) == (frames, 2, ())
    assert files.read(path)[0].tolist() == [[0.5, 0.5]] * frames
    assert len(list(files.blocks(path, 512))) == frames
    samples, _ = files.read_analysis_channel(path, 1)
    # A single sample is its own mean.
    assert samples.tolist() == [0.0] * (2 * frames)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("text.wav", b"this is no sound " * 50, "expected audio that libsndfile decodes"),
        ("zeros.bin", bytes(5_000), "expected audio that libsndfile decodes"),
        ("samples.raw", bytes(5_000), "expected audio that libsndfile decodes"),
        ("call.m4a", b"\0\0\0\x20ftypM4A \0\0\0\0" + bytes(500), "convert others first"),
        ("nothing.wav", b"", "got an empty file (0 bytes)"),
        ("cut.wav", wav(PCM)[:30], "No 'data' chunk marker"),
        ("riff.wav", b"RIFF", "expected audio that libsndfile decodes"),
        ("none.wav", wav(PCM, channels=0), "Channel count is zero"),
        ("slow.wav", wav(PCM, rate_hz=1), "expected a sample rate of 1000 to 768000 Hz, got 1 Hz"),
        ("fast.wav", wav(PCM, rate_hz=0x7FFFFFFF), "got 2147483647 Hz"),
    ],
)
def test_what_is_no_recording_is_refused_in_one_line(
    tmp_path: Path, name: str, data: bytes, message: str
) -> None:
    path = put(tmp_path, data, name)
    calls: list[Any] = [
        lambda: files.probe(path), lambda: files.read(path), lambda: files.read_channel(path, 0),
        lambda: list(files.blocks(path, 100)), lambda: files.read_analysis_channel(path, 0),
    ]
    for call in calls:
        with pytest.raises(AudioFileError) as caught:
            call()
        text = str(caught.value)
        assert message in text
        assert text.startswith(f"{path}: expected ")
        assert "\n" not in text


def test_missing_folder_pipe_and_bad_names(tmp_path: Path) -> None:
    with pytest.raises(AudioFileError, match="No such file or directory"):
        files.probe(tmp_path / "absent.wav")
    with pytest.raises(AudioFileError, match="got a folder"):
        files.probe(tmp_path)
    with pytest.raises(AudioFileError, match=r"a\\x00b: .* got a bad name"):
        files.probe("a\0b")
    with pytest.raises(AudioFileError, match=r"two\\nlines"):
        files.probe(tmp_path / "two\nlines.wav")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(AudioFileError, match="got a device or pipe"):
        files.probe(tmp_path / "pipe")


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path, wav(PCM))
    refuse(monkeypatch, errno.EACCES)
    with pytest.raises(AudioFileError, match=r"x\.wav: .* got Permission denied"):
        files.probe(path)
    with pytest.raises(InputError, match=r"x\.wav: .* got Permission denied"):
        files.sha256_file(path)


def test_a_disk_error_while_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path, wav(PCM))
    real_open = Path.open

    def failing_open(self: Path, *args: Any, **kwargs: Any) -> Any:
        handle = real_open(self, *args, **kwargs)
        real_read = handle.read

        class Failing:
            def __getattr__(self, name: str) -> Any:
                return getattr(handle, name)

            def __enter__(self) -> Failing:
                return self

            def __exit__(self, *_: object) -> None:
                handle.close()

            def read(self, size: int = -1) -> bytes:
                if handle.tell() > 20_000:
                    raise OSError(errno.EIO, "Input/output error")
                return real_read(size)

        return Failing()

    monkeypatch.setattr(Path, "open", failing_open)
    with pytest.raises(AudioFileError, match="Input/output error"):
        files.read(path)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_is_refused_with_its_position(tmp_path: Path, bad: float) -> None:
    path = tmp_path / "nan.wav"
    samples = stereo(300_000)
    samples[200_123, 1] = bad
    soundfile.write(path, samples, RATE_HZ, subtype="FLOAT")
    place = "expected finite samples, got .* at sample 200123 of channel 1"
    for call in (
        lambda: files.read(path), lambda: files.read_channel(path, 1),
        lambda: list(files.blocks(path, 1_000)), lambda: files.read_analysis_channel(path, 1),
        lambda: files.read(path, 200_000, 200_124),
    ):
        with pytest.raises(AudioFileError, match=place):
            call()
    # What is not asked for does not disturb.
    assert np.array_equal(files.read_channel(path, 0), samples[:, 0])
    assert len(files.read(path, 0, 200_123)[0]) == 200_123


@pytest.mark.parametrize("channel", [2, -1, True, 0.0])
def test_channel_out_of_range(tmp_path: Path, channel: int) -> None:
    path = tmp_path / "call.wav"
    files.write_wav_pcm16(path, stereo(), RATE_HZ)
    message = r"call\.wav: expected a recording with channel .* counted from 0, got 2 channels"
    with pytest.raises(AudioFileError, match=message):
        files.require_channel(files.probe(path), channel)
    with pytest.raises(AudioFileError, match=message):
        files.read_channel(path, channel)
    with pytest.raises(AudioFileError, match=message):
        files.read_analysis_channel(path, channel)


def test_mono_has_no_second_channel(tmp_path: Path) -> None:
    info = files.probe(put(tmp_path, wav(PCM)))
    files.require_channel(info, 0)
    with pytest.raises(AudioFileError, match=r"channel 1, counted from 0, got 1 channel$"):
        files.require_channel(info, 1)


@pytest.mark.parametrize("bounds", [(-1, 5), (6, 5), (0, FRAMES + 1), (FRAMES + 1, None)])
def test_range_out_of_the_recording(tmp_path: Path, bounds: tuple[int, int | None]) -> None:
    path = put(tmp_path, wav(PCM))
    with pytest.raises(AudioFileError, match="expected a range inside the 16000 frames"):
        files.read(path, *bounds)
    with pytest.raises(AudioFileError, match="expected a range inside the 16000 frames"):
        files.read_channel(path, 0, *bounds)


def test_block_length_is_checked(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a block of at least 1 frame, got 0"):
        list(files.blocks(put(tmp_path, wav(PCM)), 0))


# --- The analysis channel --------------------------------------------------------------------


def test_analysis_channel_is_one_channel_without_offset_at_16_khz(tmp_path: Path) -> None:
    path = tmp_path / "call.wav"
    samples = stereo(300_000)
    samples[:, 0] += 0.25
    soundfile.write(path, samples, 44_100, subtype="FLOAT")
    heard, info = files.read_analysis_channel(path, 0)
    assert (info.rate_hz, info.channels, info.frames_n) == (44_100, 2, 300_000)
    assert heard.dtype == np.float32
    assert heard.shape == (convert_n(300_000, 44_100, 16_000),)
    left = samples[:, 0].astype(np.float64)
    whole = resample((left - left.mean()).astype(np.float32), 44_100, 16_000)
    # The mean is summed block by block; the rest is bit for bit the same.
    assert np.abs(heard - whole).max() < 1e-7
    assert abs(float(heard.mean())) < 1e-4


def test_analysis_channel_of_an_offset_alone_is_silent_to_its_ends(tmp_path: Path) -> None:
    path = tmp_path / "dc.wav"
    soundfile.write(path, np.full(20_000, 0.5), RATE_HZ, subtype="FLOAT")
    assert np.abs(files.read_analysis_channel(path, 0)[0]).max() == 0.0


def test_analysis_at_16_khz_is_no_resampling(tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    samples = stereo()[:, 0]
    samples -= samples.mean(dtype=np.float64).astype(np.float32)
    soundfile.write(path, samples, 16_000, subtype="FLOAT")
    assert np.abs(files.read_analysis_channel(path, 0)[0] - samples).max() < 1e-7


def test_analysis_refuses_numbers_that_are_not_on_a_full_scale_of_1(tmp_path: Path) -> None:
    """Where, in the file's own samples; exactly at the limit is still taken."""
    path = tmp_path / "pcm_as_float.wav"
    samples = np.zeros((48_000, 2), dtype=np.float32)
    samples[1_000, 1] = -100.0
    soundfile.write(path, samples, 48_000, subtype="FLOAT")
    assert len(files.read_analysis_channel(path, 1)[0]) == 16_000
    samples[40_000, 1] = np.nextafter(np.float32(-100.0), np.float32(-101.0))
    samples[40_001, 1] = 3e38
    soundfile.write(path, samples, 48_000, subtype="FLOAT")
    assert not files.read_analysis_channel(path, 0)[0].any()
    with pytest.raises(AudioFileError, match=r"pcm_as_float\.wav: expected samples on a full "
                       r"scale of 1, none beyond 100, got -100 at sample 40000 of channel 1 "
                       r"\(PCM numbers stored as floats"):
        files.read_analysis_channel(path, 1)


def test_mu_law_copy_gives_nearly_the_same_analysis(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "pcm.wav", stereo(), RATE_HZ, subtype="PCM_16")
    soundfile.write(tmp_path / "mu.wav", stereo(), RATE_HZ, subtype="ULAW")
    pcm, _ = files.read_analysis_channel(tmp_path / "pcm.wav", 0)
    mu, _ = files.read_analysis_channel(tmp_path / "mu.wav", 0)
    assert len(pcm) == len(mu)
    assert np.corrcoef(pcm, mu)[0, 1] > 0.999


def test_a_long_recording_is_never_held_whole(tmp_path: Path) -> None:
    """Ten minutes of eight channels: 307 MB as float32, one channel at 16 kHz is 38 MB."""
    path = tmp_path / "long.wav"
    frames = 10 * 60 * 16_000
    with path.open("wb") as handle:
        handle.write(wav(b"", size=frames * 16, channels=8, rate_hz=16_000))
        handle.truncate(44 + frames * 16)
    code = (
        "import resource, sys\n"
        "from audio.files import read_analysis_channel\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "samples, _ = read_analysis_channel(sys.argv[1], 3)\n"
        "after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "print(len(samples), (after - before) // 1024)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], cwd=ROOT, capture_output=True, text=True,
        check=True,
    )
    length, grown_mib = map(int, done.stdout.split())
    assert length == frames
    assert grown_mib < 80


@pytest.mark.skipif(not CALL.exists(), reason="the sample call is not beside the repository")
def test_a_real_call() -> None:
    info = files.probe(CALL)
    assert (info.rate_hz, info.channels, info.subtype) == (8_000, 2, "ULAW")
    assert (info.frames_n, info.warnings) == (1_920_000, ())
    left, _ = files.read_analysis_channel(CALL, 0)
    right, _ = files.read_analysis_channel(CALL, 1)
    assert len(left) == len(right) == 3_840_000
    # Two sides, not one: they hardly correlate.
    assert abs(np.corrcoef(left, right)[0, 1]) < 0.1
    raw = files.read_channel(CALL, 0).astype(np.float64)
    whole = resample((raw - raw.mean()).astype(np.float32), 8_000, 16_000)
    assert np.abs(left - whole).max() < 1e-7


@pytest.mark.skipif(not CALL.exists(), reason="the sample call is not beside the repository")
def test_a_real_call_cut_at_60_percent(tmp_path: Path) -> None:
    data = CALL.read_bytes()
    path = put(tmp_path, data[: len(data) * 6 // 10 + 1])
    info = files.probe(path)
    assert codes(info) == [files.TRUNCATED]
    assert info.frames_n == (len(data) * 6 // 10 + 1 - 58) // 2
    uncut = files.read_channel(CALL, 1, 0, info.frames_n)
    assert np.array_equal(files.read_channel(path, 1), uncut)


# --- Writing ---------------------------------------------------------------------------------


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
