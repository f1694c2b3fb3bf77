"""Recordings as they are met in the wild: encodings, what is refused, the analysis channel."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from sound_files import FRAMES, PCM, RATE_HZ, codes, put, refuse, stereo, wav

from audio import files
from audio.errors import AudioFileError, InputError
from audio.resample import resample
from audio.timebase import convert_n

ROOT = Path(__file__).resolve().parents[3]
CALL = ROOT.parent / "shared" / "data" / "calls" / "auto_repairs_40.wav"


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
