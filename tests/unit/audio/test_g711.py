"""The companding laws against libsndfile, on every sample and every code, and the recommendation's
own values."""

from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile

from audio import g711

LAWS = {"mu": "ULAW", "a": "ALAW"}
EVERY_SAMPLE = np.arange(-32_768, 32_768).astype(np.int16)
EVERY_CODE = np.arange(256, dtype=np.uint8)


def au(data: bytes, law: str) -> bytes:
    """Codes as a file (Sun AU, encoding 1 is mu-law and 27 A-law)."""
    words = (24, len(data), {"mu": 1, "a": 27}[law], 8_000, 1)
    return b".snd" + b"".join(w.to_bytes(4, "big") for w in words) + data


@pytest.mark.parametrize("law", LAWS)
def test_every_sample_is_encoded_as_libsndfile_does(law: str) -> None:
    file = io.BytesIO()
    soundfile.write(file, EVERY_SAMPLE, 8_000, format="AU", subtype=LAWS[law])
    raw = file.getvalue()
    codes = raw[int.from_bytes(raw[4:8], "big"):]
    assert len(codes) == 65_536
    assert g711.encode_pcm16(EVERY_SAMPLE, law).tobytes() == codes
    assert g711.encode(EVERY_SAMPLE.astype(np.float32) / np.float32(32_768), law) == codes


@pytest.mark.parametrize("law", LAWS)
def test_every_code_is_decoded_as_libsndfile_does(law: str) -> None:
    read, _ = soundfile.read(io.BytesIO(au(EVERY_CODE.tobytes(), law)), dtype="int16")
    assert len(read) == 256
    np.testing.assert_array_equal(g711.decode_pcm16(EVERY_CODE, law), read)
    np.testing.assert_array_equal(
        g711.decode(EVERY_CODE.tobytes(), law), read.astype(np.float32) / np.float32(32_768))


def test_the_values_of_the_recommendation() -> None:
    # Table 2a: 8031 is the largest output of mu-law in 14 bits; table 1a: 4032 that of A-law in 13.
    assert g711.decode_pcm16(np.uint8([0x80, 0x00, 0xFF, 0x7F])).tolist() == [
        4 * 8031, -4 * 8031, 0, 0]
    assert g711.decode_pcm16(np.uint8([0xAA, 0x2A, 0xD5, 0x55]), "a").tolist() == [
        8 * 4032, -8 * 4032, 8, -8]
    assert g711.encode_pcm16(np.zeros(3, np.int16)).tolist() == [g711.MU_SILENCE] * 3


@pytest.mark.parametrize(("law", "codes", "below_db"), [
    ("mu", "1e0b0b1e9e8b8b9e", 3.17), ("a", "34212134b4a1a1b4", 3.14)])
def test_the_digital_milliwatt_has_the_level_of_the_recommendation(
    law: str, codes: str, below_db: float,
) -> None:
    """A sine of 1 kHz at 0 dBm0, given in codes; full load is +3.17 (mu) and +3.14 (A)."""
    sine = g711.decode_pcm16(np.frombuffer(bytes.fromhex(codes), np.uint8), law).astype(float)
    bins = np.abs(np.fft.fft(sine))[:5]
    assert max(bins[[0, 2, 3, 4]]) < 0.02 * bins[1]
    full = {"mu": 4 * 8159, "a": 8 * 4096}[law]
    assert 20 * np.log10(full / (bins[1] / 4)) == pytest.approx(below_db, abs=0.05)


@pytest.mark.parametrize("law", LAWS)
def test_a_code_that_was_decoded_is_encoded_as_itself(law: str) -> None:
    again = g711.encode_pcm16(g711.decode_pcm16(EVERY_CODE, law), law)
    kept = EVERY_CODE.copy()
    if law == "mu":
        kept[0x7F] = 0xFF  # negative zero: PCM has one zero alone
    np.testing.assert_array_equal(again, kept)


def test_silence_is_exact_and_full_scale_saturates() -> None:
    assert g711.decode(g711.encode(np.zeros(160, np.float32))).tolist() == [0.0] * 160
    assert g711.encode(np.float32([2.0, -2.0])) == g711.encode(np.float32([1.0, -1.0]))


def test_other_types_are_refused() -> None:
    with pytest.raises(TypeError, match="expected int16 samples, got int32"):
        g711.encode_pcm16(np.zeros(1, np.int32))
    with pytest.raises(TypeError, match="expected uint8 codes, got int8"):
        g711.decode_pcm16(np.zeros(1, np.int8))
    with pytest.raises(ValueError, match="finite"):
        g711.encode(np.float32([np.nan]))
