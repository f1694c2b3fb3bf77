"""Headers that say nothing or too much, and compressed files that are damaged."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import soundfile
from sound_files import FRAMES, LIST, PCM, RATE_HZ, codes, put, stereo, wav

from audio import files
from audio.errors import AudioFileError

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
