"""Headers that say something else than what is there: what is read is whole, or its lack is told.

The whole file of each kind has 1,000 frames of two channels, 16 bits.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import soundfile

from audio import files
from audio.errors import AudioFileError

N = 1_000
RATE_HZ = 8_000
SAMPLES = (np.arange(2 * N).reshape(N, 2) - N) / 2 ** 12
WAVE64_DATA = bytes.fromhex("64617461f3acd3118cd100c04f8edb8a")
KINDS = ("wav", "aiff", "au", "w64", "caf")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("whole")
    out = {}
    for kind in KINDS:
        soundfile.write(folder / f"a.{kind}", SAMPLES, RATE_HZ, subtype="PCM_16")
        out[kind] = (folder / f"a.{kind}").read_bytes()
    return out


def changed(data: bytes, mark: bytes, skip: int, form: str, value: int) -> bytes:
    """`value` put `skip` bytes behind the first `mark`."""
    at = data.index(mark) + skip
    return data[:at] + struct.pack(form, value) + data[at + struct.calcsize(form):]


def read(folder: Path, kind: str, data: bytes) -> tuple[int, list[str]]:
    """Frames and warnings; what is read is the beginning of the whole, sample for sample."""
    path = folder / f"x.{kind}"
    path.write_bytes(data)
    info = files.probe(path)
    samples, _ = files.read(path)
    assert len(samples) == info.frames_n
    assert all(code == files.TRUNCATED and "\n" not in text for code, text in info.warnings)
    return info.frames_n, [text for _, text in info.warnings]


def refusal(folder: Path, kind: str, data: bytes) -> str:
    path = folder / f"x.{kind}"
    path.write_bytes(data)
    with pytest.raises(AudioFileError) as refused:
        files.probe(path)
    assert "\n" not in str(refused.value)
    return str(refused.value).removeprefix(f"{path}: ")


def read_or_none(folder: Path, kind: str, data: bytes) -> tuple[int, list[str]] | None:
    """`None` where it is refused, in one line."""
    try:
        return read(folder, kind, data)
    except AudioFileError:
        refusal(folder, kind, data)
        return None


@pytest.mark.parametrize("offset", [1, 2, 4, 400, 3_999, 4_000, 4_001, 10**6, 2**31, 2**32 - 1])
def test_an_aiff_that_skips_samples_tells_it(
        whole: dict[str, bytes], tmp_path: Path, offset: int) -> None:
    """SSND has an offset before its samples; COMM says how many there are."""
    frames_n, said = read(tmp_path, "aiff", changed(whole["aiff"], b"SSND", 8, ">I", offset))
    assert frames_n == max(0, N - -(-offset // 4))
    assert said == [f"the header declares {N} frames, {frames_n} are read"]


@pytest.mark.parametrize(("length", "frames_n", "said"), [
    *((n, N, "the header declares 0 bytes of samples, 4000 are read (1000 frames)")
      for n in (0, 4, 7)),
    *((n, (n - 8) // 4, f"the header declares 1000 frames, {(n - 8) // 4} are read")
      for n in (8, 9, 12, 100, 2_008, 4_004, 4_007)),
    (4_009, N, "the header declares 4001 bytes of samples, 4000 are there (1000 frames)")])
def test_an_aiff_with_another_length(whole: dict[str, bytes], tmp_path: Path, length: int,
                                     frames_n: int, said: str) -> None:
    assert read(tmp_path, "aiff", changed(whole["aiff"], b"SSND", 4, ">I", length)) == (
        frames_n, [said])


@pytest.mark.parametrize("frames", [1, 2, 400, 500, 998, 999, 1_001, 2_000, 10**6, 2**28])
def test_an_aiff_with_another_number_of_frames(whole: dict[str, bytes], tmp_path: Path,
                                               frames: int) -> None:
    assert read(tmp_path, "aiff", changed(whole["aiff"], b"COMM", 10, ">I", frames)) == (
        N, [f"the header declares {frames} frames, 1000 are read"])


@pytest.mark.parametrize("length", [0, 1, 8, 16, 23, 24, 25, 100, 2_024, 4_023])
def test_a_wave64_that_declares_less_than_is_read(whole: dict[str, bytes], tmp_path: Path,
                                                  length: int) -> None:
    """libsndfile reads it to its end, whatever the length of the data chunk; its own 24 bytes are
    counted in it."""
    assert read(tmp_path, "w64", changed(whole["w64"], WAVE64_DATA, 16, "<Q", length)) == (
        N, [f"the header declares {max(0, length - 24)} bytes of samples, 4000 are read "
            "(1000 frames)"])


@pytest.mark.parametrize("declared", [4_001, 2**40, 2**50, 2**61, 2**62 - 100])
def test_a_length_that_no_disk_holds_is_a_cut_file(whole: dict[str, bytes], tmp_path: Path,
                                                   declared: int) -> None:
    soundfile.write(tmp_path / "a.wav", SAMPLES, RATE_HZ, subtype="PCM_16", format="RF64")
    rf64 = (tmp_path / "a.wav").read_bytes()
    told = (N, [f"the header declares {declared} bytes of samples, 4000 are there (1000 frames)"])
    w64 = changed(whole["w64"], WAVE64_DATA, 16, "<Q", declared + 24)
    assert read(tmp_path, "w64", w64) == told
    assert read(tmp_path, "wav", changed(rf64, b"ds64", 16, "<Q", declared)) == told


@pytest.mark.parametrize("declared", [1, 2, 4, 100, 400, 2_000, 3_900, 3_990, 3_992, 3_996])
def test_a_wav_that_declares_too_few_bytes(whole: dict[str, bytes], tmp_path: Path,
                                           declared: int) -> None:
    frames_n = declared // 4
    assert read(tmp_path, "wav", changed(whole["wav"], b"data", 4, "<I", declared)) == (frames_n, [
        f"the header declares {declared} bytes of samples ({frames_n} frames); {4_000 - declared} "
        "more lie behind them that are no chunk and are not read"])


@pytest.mark.parametrize("declared", [0, 1, 2, 4, 100, 400, 2_000, 3_900, 3_996, 3_999])
def test_an_au_that_declares_too_few_bytes(whole: dict[str, bytes], tmp_path: Path,
                                           declared: int) -> None:
    """It has no chunks: whatever lies behind is not read."""
    frames_n = declared // 4
    assert read(tmp_path, "au", changed(whole["au"], b".snd", 8, ">I", declared)) == (frames_n, [
        f"the header declares {declared} bytes of samples ({frames_n} frames); {4_000 - declared} "
        "more lie behind them that are no chunk and are not read"])


@pytest.mark.parametrize("size", [0x7F000000, 2**31 - 1, 2**31, 2**32 - 2])
def test_an_au_of_unknown_length_that_the_decoder_takes_for_empty(
        whole: dict[str, bytes], tmp_path: Path, size: int) -> None:
    frames_n, said = read(tmp_path, "au", changed(whole["au"], b".snd", 8, ">I", size))
    assert said == ([] if frames_n == N else
                    [f"4000 bytes of samples are there, {4 * frames_n} are read ({frames_n} "
                     "frames)"])


CAF_AT = 4_080
"""Where libsndfile puts the data chunk: 12 bytes, a count of edits (4), the samples."""


@pytest.mark.parametrize("left", [0, 1, 4, 5, 100, 1_999, 2_000, 3_600, 3_996, 3_999])
def test_a_cut_caf_is_read_as_far_as_it_goes(whole: dict[str, bytes], tmp_path: Path,
                                             left: int) -> None:
    said = (f"the header declares 4000 bytes of samples, {left} are there "
            f"({left // 4} frames)")
    assert read(tmp_path, "caf", whole["caf"][:CAF_AT + 16 + left]) == (left // 4, [said])


@pytest.mark.parametrize("declared", [4_001, 4_004, 5_000, 9_000, 2**16, 10**6, 2**31, 2**32, 2**40,
                                      2**61])
def test_a_caf_that_declares_more_than_the_file_has(whole: dict[str, bytes], tmp_path: Path,
                                                    declared: int) -> None:
    """libsndfile refuses it, where the file as a whole is shorter than that."""
    assert read(tmp_path, "caf", changed(whole["caf"], b"data", 4, ">Q", declared + 4)) == (N, [
        f"the header declares {declared} bytes of samples, 4000 are there (1000 frames)"])


@pytest.mark.parametrize("declared", [0, 1, 4, 100, 400, 2_000, 3_900, 3_992, 3_996, 3_999])
def test_a_caf_that_declares_too_few_bytes(whole: dict[str, bytes], tmp_path: Path,
                                           declared: int) -> None:
    frames_n = declared // 4
    assert read(tmp_path, "caf", changed(whole["caf"], b"data", 4, ">Q", declared + 4)) == (
        frames_n, [f"the header declares {declared} bytes of samples ({frames_n} frames); "
                   f"{4_000 - declared} more lie behind them that are no chunk and are not read"])


def test_a_caf_that_was_not_closed_is_measured(whole: dict[str, bytes], tmp_path: Path) -> None:
    """A length of -1: to the end of the file. It claims nothing, so there is nothing to tell."""
    assert read(tmp_path, "caf", changed(whole["caf"], b"data", 4, ">q", -1)) == (N, [])
    samples, _ = files.read(tmp_path / "x.caf")
    assert np.array_equal(samples, SAMPLES.astype(np.float32))


@pytest.mark.parametrize("left", [4, 8, 12, 20, 52, 60, 1_000, CAF_AT, CAF_AT + 4, CAF_AT + 11])
def test_a_caf_without_its_samples_is_refused_for_that(whole: dict[str, bytes], tmp_path: Path,
                                                       left: int) -> None:
    assert refusal(tmp_path, "caf", whole["caf"][:left]) == (
        f"expected a recording, got a CAF that ends after {left} bytes, before its samples")


@pytest.mark.parametrize("length", [0, 1, 3, 2**63, 2**64 - 2])
def test_a_caf_with_a_length_that_cannot_be(whole: dict[str, bytes], tmp_path: Path,
                                            length: int) -> None:
    assert refusal(tmp_path, "caf", changed(whole["caf"], b"data", 4, ">Q", length)) == (
        f"expected a recording, got a CAF whose data chunk has {length} bytes")


@pytest.mark.parametrize("behind", [
    b"", b"\0", b"LIST" + struct.pack("<I", 4) + b"INFO", b"LIST" + struct.pack("<I", 400) + b"IN",
    b"id3 " + struct.pack("<I", 3) + b"ID3\0", b"id3 " + struct.pack("<I", 3) + b"ID3",
    b"bext" + struct.pack("<I", 2) + b"xx" + b"junk" + struct.pack("<I", 0),
    b"ID3\x03\0\0\0\0\0\0", b"TAG" + bytes(125), b"Xtra" + struct.pack("<I", 5) + b"12345",
    b"\0\0", bytes(512), bytes(4096), b"APETAGEX" + bytes(24), b"LYRICSBEGIN"])
def test_what_is_known_to_stand_behind_samples_is_normal(whole: dict[str, bytes], tmp_path: Path,
                                                         behind: bytes) -> None:
    assert read(tmp_path, "wav", whole["wav"] + behind) == (N, [])


@pytest.mark.parametrize(("kind", "subtype", "channels"), [
    ("caf", "PCM_24", 1), ("caf", "PCM_S8", 1), ("caf", "ULAW", 1), ("caf", "ALAW", 3),
    ("caf", "ALAC_16", 1), ("caf", "ALAC_16", 2), ("aiff", "PCM_24", 1), ("aiff", "PCM_S8", 3),
    ("wav", "PCM_24", 1), ("w64", "PCM_24", 1), ("au", "ULAW", 1)])
@pytest.mark.parametrize("frames_n", [1_001, 16_001])
def test_an_odd_length_is_whole(tmp_path: Path, kind: str, subtype: str, channels: int,
                                frames_n: int) -> None:
    """libsndfile pads it to an even one, and in AIFF counts the padding."""
    samples = np.random.default_rng(0).standard_normal((frames_n, channels)) * 0.1
    soundfile.write(tmp_path / f"a.{kind}", samples, RATE_HZ, subtype=subtype)
    assert read(tmp_path, kind, (tmp_path / f"a.{kind}").read_bytes()) == (frames_n, [])


@pytest.mark.parametrize("behind", [
    bytes(4097), bytes(511) + b"\1", b"\x01\x02" * 300, b"\xff" * 7, b"LIS",
    b"abcd" + struct.pack("<I", 99),
    b"data", b"\x80abc" + bytes(4), bytes(range(200)), b"zzzz" + struct.pack("<I", 1) + b"12345"])
def test_what_is_no_chunk_behind_the_samples_is_told(whole: dict[str, bytes], tmp_path: Path,
                                                     behind: bytes) -> None:
    assert read(tmp_path, "wav", whole["wav"] + behind) == (N, [
        f"the header declares 4000 bytes of samples (1000 frames); {len(behind)} more lie behind "
        "them that are no chunk and are not read"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_cut_anywhere_is_never_silently_shorter(whole: dict[str, bytes], tmp_path: Path,
                                                       kind: str) -> None:
    data = whole[kind]
    assert read(tmp_path, kind, data) == (N, [])
    for at in np.random.default_rng(7).integers(1, len(data), 60):
        found = read_or_none(tmp_path, kind, data[:at])
        if found is not None:
            assert found[0] < N
            assert len(found[1]) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_length_never_hides_samples(whole: dict[str, bytes], tmp_path: Path,
                                            kind: str) -> None:
    """Any length in place of the declared one: all is read, or it is told."""
    data = whole[kind]
    random = np.random.default_rng(11)
    lengths = {"wav": b"data", "aiff": b"SSND", "au": b".snd", "w64": WAVE64_DATA, "caf": b"data"}
    skip = {"wav": 4, "aiff": 4, "au": 8, "w64": 16, "caf": 8}[kind]
    form = "<I" if kind in ("wav", "w64") else ">I"
    for value in [*random.integers(0, 8_000, 40), *random.integers(0, 2**32, 20)]:
        found = read_or_none(tmp_path, kind, changed(data, lengths[kind], skip, form, int(value)))
        assert found is None or found[0] == N or len(found[1]) == 1, value
