"""An 8 kHz telephone line as a stream at the rate of the system: band, sampling, codec.

The signal is low-passed, every m-th sample is kept, companded by G.711 (`audio.g711`), and
interpolated back to the rate that it came at, which must be a multiple of 8 kHz.

Filters:

- Before sampling and after it: linear phase, Kaiser window, pass band to 3.4 kHz, 49 dB down
  from 4.6 kHz on (ITU-T G.712 asks for 25 dB there; what folds back from below lies above 3.4 kHz).
  Each delays by 1.25 ms. The delay of both is known (`delay_n`) and made up for by who feeds the
  stream, `audio.conditions`.
- Band 300-3400 (the telephone band of ITU-T G.712 and P.48), an option: minimum phase at 8 kHz,
  flat to 0.5 dB from 300 to 3400 Hz, 24 dB down at 60 Hz and 30 dB at 3.9 kHz, falling evenly in
  Hz (slopes: ours). It disperses as such lines do: what lies near its edges comes later than the
  middle of the band, and the envelope of speech up to `BAND_SHIFT_MS` later.
"""

from __future__ import annotations

import functools
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from audio.buffers import Float32, float_to_pcm16, pcm16_to_float
from audio.errors import InputError
from audio.g711 import decode_pcm16, encode_pcm16

LINE_RATE_HZ = 8_000
PASS_HZ = 3_400
STOP_HZ = 4_600
STOP_DB = 50.0
BAND_HZ = (300, 3_400)
BAND_STOP_HZ = (60, 3_900)
BAND_STOP_DB = (24.0, 30.0)
BAND_TAPS_N = 256
BAND_SHIFT_MS = 1.0
"""How far the peak of the cross-correlation of the envelope of speech with itself behind the band
filter lies from zero at most; measured 0.6, tested."""

Codec = Literal["ulaw", "alaw", "linear"]
CODECS: tuple[Codec, ...] = ("ulaw", "alaw", "linear")
Band = Literal["full", "300-3400"]
BANDS: tuple[Band, ...] = ("full", "300-3400")


class FirStream:
    """A causal FIR filter over a signal that comes in pieces; as many samples out as in."""

    def __init__(self, taps: NDArray[np.float64]) -> None:
        self._taps = taps
        self._past = np.zeros(len(taps) - 1)

    def push(self, samples: NDArray[np.float64]) -> NDArray[np.float64]:
        if not len(samples):
            return np.zeros(0)
        whole = np.concatenate((self._past, samples))
        self._past = whole[len(samples) :]
        return np.convolve(whole, self._taps, "valid")


class LineStream:
    """What goes in comes out `delay_n` samples later, as a telephone hears it.

    Raises `InputError` for a rate that is no multiple of 8 kHz.
    """

    def __init__(self, rate_hz: int, codec: Codec, band: Band = "full") -> None:
        if rate_hz % LINE_RATE_HZ:
            raise InputError.expected("a system whose input rate is a multiple of 8000 Hz",
                                      got=f"{rate_hz} Hz", where="line")
        self._every = rate_hz // LINE_RATE_HZ
        self._codec = codec
        self._n = 0
        taps = low_pass(rate_hz)
        self._before, self._after = FirStream(taps), FirStream(taps * self._every)
        self._band = FirStream(band_pass()) if band != "full" else None
        self.delay_n = 0 if self._every == 1 else len(taps) - 1
        self.clipped_n = 0
        """Samples of the line, at 8 kHz, that were beyond full scale and clipped there."""

    def push(self, samples: Float32) -> Float32:
        """The next piece, float32 `(n,)`; as many samples back."""
        x = samples.astype(np.float64)
        if self._every > 1:
            x = self._before.push(x)
        first = -self._n % self._every
        self._n += len(x)
        kept = x[first :: self._every]
        if self._band is not None:
            kept = self._band.push(kept)
        kept = self._companded(kept)
        if self._every == 1:
            return kept.astype(np.float32)
        sparse = np.zeros(len(x))
        sparse[first :: self._every] = kept
        return self._after.push(sparse).astype(np.float32)

    def _companded(self, samples: NDArray[np.float64]) -> NDArray[np.float64]:
        self.clipped_n += int((np.abs(samples) > 1.0).sum())
        pcm = float_to_pcm16(samples.astype(np.float32))
        if self._codec != "linear":
            law: Literal["mu", "a"] = "mu" if self._codec == "ulaw" else "a"
            pcm = decode_pcm16(encode_pcm16(pcm, law), law)
        return pcm16_to_float(pcm).astype(np.float64)


@functools.cache
def low_pass(rate_hz: int) -> NDArray[np.float64]:
    """Linear phase, unit gain at 0 Hz, an odd number of taps (Kaiser's formulas)."""
    width = 2 * np.pi * (STOP_HZ - PASS_HZ) / rate_hz
    half = int(np.ceil((STOP_DB - 7.95) / (2.285 * width) / 2))
    beta = 0.5842 * (STOP_DB - 21) ** 0.4 + 0.07886 * (STOP_DB - 21)
    n = np.arange(-half, half + 1)
    cut = (PASS_HZ + STOP_HZ) / rate_hz
    taps = cut * np.sinc(cut * n) * np.kaiser(2 * half + 1, beta)
    return np.asarray(taps / taps.sum())


@functools.cache
def band_pass() -> NDArray[np.float64]:
    """Minimum phase, from the wanted magnitude by way of its cepstrum (Oppenheim and Schafer,
    Discrete-Time Signal Processing, 13.5); `BAND_TAPS_N` taps at 8 kHz."""
    n = 16 * BAND_TAPS_N
    hz = np.fft.rfftfreq(n, 1 / LINE_RATE_HZ)
    db = np.interp(hz, [BAND_STOP_HZ[0], BAND_HZ[0], BAND_HZ[1], BAND_STOP_HZ[1]],
                   [-BAND_STOP_DB[0], 0.0, 0.0, -BAND_STOP_DB[1]])
    cepstrum = np.fft.irfft(db * (np.log(10) / 20), n)
    cepstrum[1 : n // 2] *= 2
    cepstrum[n // 2 + 1 :] = 0
    taps = np.fft.irfft(np.exp(np.fft.rfft(cepstrum)), n)[:BAND_TAPS_N]
    fade_n = BAND_TAPS_N // 4
    taps[-fade_n:] *= 0.5 + 0.5 * np.cos(np.pi * (np.arange(fade_n) + 0.5) / fade_n)
    return np.asarray(taps)
