"""Background noise as seamless loops of exactly known power, made from a seed.

A loop lasts `LOOP_S` and is heard from a seeded place on, again and again. Its mean power over one
round is exactly 1 (0 dBov), so that a gain sets its level.

    white   the same power at every frequency up to half the rate
    pink    power proportional to 1/f from 20 Hz up (-3 dB an octave)
    car     power proportional to 1/f^2 above 50 Hz, flat from 20 to 50 Hz, nothing below: the slope
            of Brownian noise, near the inside of a driving car. Corner and slope are ours
    hum50   mains of 50 Hz with its harmonics up to the 7th, each at 1/h of the first in amplitude
    hum60   the same at 60 Hz (harmonics: ours)
    babble  several talkers at once, each at the same active speech level (ITU-T P.56); slow swells
            are evened out

The spectral kinds have exactly their spectrum: every line has its fixed power and a random phase,
so that short stretches are Gaussian as a sum of many lines is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.random import PCG64, Generator
from numpy.typing import NDArray

from audio.active_level import active_level
from audio.buffers import Float32
from audio.errors import InputError
from audio.timebase import s_to_n

LOOP_S = 20.0
"""Ours: about the length of a session, so that it is seldom heard twice; 0.05 s of computing."""
LOWEST_HZ = 20.0
CAR_CORNER_HZ = 50.0
HARMONICS_N = 7
TALKERS_N = 8
"""Ours: no single one can be followed. Consonants are masked the most by about eight (Simpson and
Cooke, JASA 118, 2005)."""
EDGE_FADE_S = 0.01
EVEN_S = 3.0
"""Ours: longer than a word, shorter than a session."""

SpectralKind = Literal["white", "pink", "car", "hum50", "hum60"]
SPECTRAL_KINDS: tuple[SpectralKind, ...] = ("white", "pink", "car", "hum50", "hum60")


def generator(seed: int) -> Generator:
    """Random numbers of which only `random` and `integers` may be used: their streams are kept by
    NumPy for a fixed bit generator."""
    return Generator(PCG64(seed))


def spectral_loop(kind: SpectralKind, rate_hz: int, seed: int) -> Float32:
    """One round of a spectral kind at `rate_hz`: float32 `(LOOP_S * rate_hz,)`, mean power 1."""
    n = s_to_n(LOOP_S, rate_hz)
    hz = np.asarray(np.fft.rfftfreq(n, 1 / rate_hz), dtype=np.float64)
    power = _power(kind, hz)
    power[-1] = 0.0  # half the rate: its phase could not be random
    phases = generator(seed).random(len(hz)) * (2 * np.pi)
    return unit_power(np.fft.irfft(np.sqrt(power) * np.exp(1j * phases), n))


def _power(kind: SpectralKind, hz: NDArray[np.float64]) -> NDArray[np.float64]:
    if kind in ("hum50", "hum60"):
        power = np.zeros_like(hz)
        for h in range(1, HARMONICS_N + 1):
            power[int(np.argmin(np.abs(hz - h * float(kind[3:]))))] = 1 / h**2
        return power
    safe = np.maximum(hz, LOWEST_HZ)
    if kind == "white":
        power = np.ones_like(hz)
        power[0] = 0.0
        return power
    shaped = 1 / safe if kind == "pink" else 1 / np.maximum(safe, CAR_CORNER_HZ) ** 2
    return np.where(hz < LOWEST_HZ, 0.0, shaped)


def babble_loop(sources: Sequence[Float32], rate_hz: int, seed: int,
                talkers_n: int = TALKERS_N) -> Float32:
    """`talkers_n` talkers at once: float32 `(LOOP_S * rate_hz,)`, mean power 1.

    `sources`: speech at `rate_hz`, one array a voice, with its pauses, all at the same active level
    (`at_unit_level`). Each talker says sources in an order of his own, from a place of his own on.
    Raises `InputError` when there is none.
    """
    n = s_to_n(LOOP_S, rate_hz)
    voices = [s for s in sources if s.any()]
    if not voices:
        raise InputError.expected("speech of at least one voice", got="none", where="noise=babble")
    rng = generator(seed)
    out = np.zeros(n)
    order: list[int] = []
    for _ in range(talkers_n):
        said_n = -int(rng.integers(0, len(voices[0])))
        while said_n < n:
            if not order:
                order = _shuffled(len(voices), rng)
            voice = voices[order.pop()]
            first, last = max(0, said_n), min(n, said_n + len(voice))
            if first < last:
                piece = voice[first - said_n : last - said_n].astype(np.float64)
                out[first:last] += _faded(piece, rate_hz)
            said_n += len(voice)
    return unit_power(_evened(out, rate_hz))


def _evened(loop: NDArray[np.float64], rate_hz: int) -> NDArray[np.float64]:
    """Without slow swells: the power under a window of `EVEN_S` (Hann, around the loop) is even, so
    that a part of a loop has the level of the whole. Words and syllables keep their shape."""
    n = s_to_n(EVEN_S, rate_hz)
    window = np.zeros(len(loop))
    window[:n] = np.hanning(n)
    window = np.roll(window / window.sum(), -(n // 2))
    power = np.fft.irfft(np.fft.rfft(loop**2) * np.fft.rfft(window), len(loop))
    return np.asarray(loop / np.sqrt(np.maximum(power, 1e-4 * power.max())))


def _shuffled(n: int, rng: Generator) -> list[int]:
    return [int(i) for i in np.argsort(rng.random(n), kind="stable")]


def at_unit_level(samples: Float32, rate_hz: int) -> Float32:
    """At an active speech level of 0 dBov; silence stays silence."""
    level = active_level(samples, rate_hz)
    if level is None:
        return samples
    return (samples * np.float32(10 ** (-level.level_dbov / 20))).astype(np.float32)


def _faded(piece: NDArray[np.float64], rate_hz: int) -> NDArray[np.float64]:
    """Without a click at either end, also where the loop cuts it."""
    n = min(s_to_n(EDGE_FADE_S, rate_hz), len(piece) // 2)
    if n:
        ramp = 0.5 - 0.5 * np.cos(np.pi * (np.arange(n) + 0.5) / n)
        piece[:n] *= ramp
        piece[-n:] *= ramp[::-1]
    return piece


def unit_power(samples: NDArray[np.float64]) -> Float32:
    """Scaled to mean power 1, without its mean. Raises `InputError` for silence."""
    centred = samples - samples.mean()
    power = float(np.square(centred).mean())
    if power <= 1e-14:  # below the quantisation noise of PCM16 (-101 dB)
        raise InputError.expected("sound", got="silence", where="noise")
    return np.asarray(centred / np.sqrt(power), dtype=np.float32)
