"""ITU-T G.711 (11/1988): the 8-bit companding laws of telephony, mu (section 3.2) and A (3.1).

Pure arithmetic on whole numbers, sample by sample: neither law delays anything, and a round trip
moves a sample by at most half a quantisation step. The recommendation quantises 14 bits (mu) and 13
bits (A); PCM16 is brought to that by dropping low bits of the magnitude, as libsndfile does, with
which every one of the 65,536 samples and 256 codes agrees.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from audio.buffers import Float32, Int16, float_to_pcm16, pcm16_to_float

UInt8 = NDArray[np.uint8]
Law = Literal["mu", "a"]

MU_SILENCE = 0xFF
"""The mu-law code of digital silence (positive zero)."""
_MU_BIAS = 33
"""Added to a 14-bit magnitude, so that every segment begins at a power of two (G.711, table 2)."""
_MU_MAX = 8158
"""The largest 14-bit magnitude that is not clipped (8159 is the virtual decision value)."""
_A_MAX = 2047
"""The largest magnitude of A-law in units of 16 (decision value 128 is 4096 in 13 bits)."""
_A_EVEN_BITS = 0x55
"""G.711, 3.1: even bits are inverted on the line."""


def encode_pcm16(pcm: Int16, law: Law = "mu") -> UInt8:
    """PCM16 to codes, in the same shape. Raises `TypeError` for samples of another type."""
    if pcm.dtype != np.int16:
        raise TypeError(f"expected int16 samples, got {pcm.dtype}")
    return _ENCODE[law][pcm.view(np.uint16)]


def decode_pcm16(codes: UInt8, law: Law = "mu") -> Int16:
    """Codes to PCM16, in the same shape. Raises `TypeError` for codes of another type."""
    if codes.dtype != np.uint8:
        raise TypeError(f"expected uint8 codes, got {codes.dtype}")
    return _DECODE[law][codes]


def encode(samples: Float32, law: Law = "mu") -> bytes:
    """Float32 `(n,)` in [-1, 1] to `n` bytes; beyond full scale saturates, as PCM16 does.

    Raises `ValueError` for samples that are not finite.
    """
    return encode_pcm16(float_to_pcm16(samples), law).tobytes()


def decode(data: bytes, law: Law = "mu") -> Float32:
    """`n` bytes to float32 `(n,)` in [-1, 1]; every byte is a code."""
    return pcm16_to_float(decode_pcm16(np.frombuffer(data, dtype=np.uint8), law))


def _every_pcm16() -> NDArray[np.int64]:
    """All samples, in the order of their bit patterns as unsigned numbers."""
    return np.arange(65_536, dtype=np.uint16).view(np.int16).astype(np.int64)


def _log2(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Floor of the binary logarithm of whole numbers from 1 on."""
    return np.frexp(values)[1].astype(np.int64) - 1


def _mu_encode() -> UInt8:
    pcm = _every_pcm16()
    magnitude = np.minimum(np.abs(pcm) >> 2, _MU_MAX) + _MU_BIAS
    segment = _log2(magnitude) - 5
    step = (magnitude >> (segment + 1)) & 0x0F
    sign = np.where(pcm < 0, 0x80, 0)
    codes: UInt8 = (~(sign | segment << 4 | step) & 0xFF).astype(np.uint8)
    return codes


def _mu_decode() -> Int16:
    bits = ~np.arange(256) & 0xFF
    segment, step = bits >> 4 & 0x07, bits & 0x0F
    magnitude = ((2 * step + _MU_BIAS) << segment) - _MU_BIAS
    pcm: Int16 = (4 * np.where(bits & 0x80, -magnitude, magnitude)).astype(np.int16)
    return pcm


def _a_encode() -> UInt8:
    pcm = _every_pcm16()
    magnitude = np.minimum(np.abs(pcm) >> 4, _A_MAX)
    # The two lowest segments are one straight line; from there on each doubles the step.
    segment = np.maximum(_log2(np.maximum(magnitude, 1)) - 3, 0)
    step = (magnitude >> np.maximum(segment - 1, 0)) & 0x0F
    sign = np.where(pcm < 0, 0, 0x80)
    codes: UInt8 = ((sign | segment << 4 | step) ^ _A_EVEN_BITS).astype(np.uint8)
    return codes


def _a_decode() -> Int16:
    bits = np.arange(256) ^ _A_EVEN_BITS
    segment, step = bits >> 4 & 0x07, bits & 0x0F
    magnitude = (2 * (step + np.where(segment > 0, 16, 0)) + 1) << np.maximum(segment - 1, 0)
    pcm: Int16 = (8 * np.where(bits & 0x80, magnitude, -magnitude)).astype(np.int16)
    return pcm


_ENCODE: dict[Law, UInt8] = {"mu": _mu_encode(), "a": _a_encode()}
_DECODE: dict[Law, Int16] = {"mu": _mu_decode(), "a": _a_decode()}
