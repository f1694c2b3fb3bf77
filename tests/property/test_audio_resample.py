"""A stream in any chunks is the whole signal, bit for bit."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from audio.buffers import Float32
from audio.resample import Quality, StreamResampler, resample
from audio.timebase import convert_n

RATES_HZ = st.sampled_from(
    [8_000, 8_001, 11_025, 16_000, 22_050, 24_000, 44_100, 48_000, 96_000]
)
QUALITIES: st.SearchStrategy[Quality] = st.sampled_from(["VHQ", "HQ"])
CHUNKS = st.one_of(
    st.lists(st.integers(0, 3), max_size=60),
    st.lists(st.integers(0, 900), max_size=12),
    st.lists(st.integers(0, 9_000), max_size=3),
)


def noise(frames: int, channels: int) -> Float32:
    shape = (frames,) if channels == 1 else (frames, channels)
    return np.random.default_rng(frames).uniform(-1, 1, shape).astype(np.float32)


@given(RATES_HZ, RATES_HZ, CHUNKS, st.integers(1, 3), QUALITIES)
@settings(max_examples=100, deadline=None)
def test_chunked_is_whole(
    from_hz: int, to_hz: int, chunks: list[int], channels: int, quality: Quality
) -> None:
    signal = noise(sum(chunks), channels)
    stream = StreamResampler(from_hz, to_hz, channels, quality=quality)
    parts, at = [], 0
    for length in chunks:
        parts.append(stream.push(signal[at : at + length]))
        at += length
        given_n = sum(len(part) for part in parts)
        assert stream.held_n == at - given_n * from_hz // to_hz
        assert 0 <= stream.held_n <= at
        # Nothing is given whose instant lies behind the last sample taken.
        assert given_n <= convert_n(at, from_hz, to_hz)
    parts.append(stream.flush())
    chunked = np.concatenate(parts)
    whole = resample(signal, from_hz, to_hz, quality=quality)
    assert whole.shape[0] == convert_n(len(signal), from_hz, to_hz)
    assert chunked.dtype == np.float32
    assert np.array_equal(chunked, whole)
    assert stream.held_n == 0


@given(RATES_HZ, RATES_HZ, st.integers(0, 4_000))
@settings(max_examples=50, deadline=None)
def test_a_channel_is_the_same_alone_and_among_others(
    from_hz: int, to_hz: int, frames: int
) -> None:
    signal = noise(frames, 3)
    together = resample(signal, from_hz, to_hz)
    for channel in range(3):
        assert np.array_equal(together[:, channel], resample(signal[:, channel], from_hz, to_hz))


@given(st.integers(1_000, 200_000), st.integers(1_000, 200_000), st.integers(0, 700))
@settings(max_examples=60, deadline=None)
def test_length_for_any_rates(from_hz: int, to_hz: int, frames: int) -> None:
    out = resample(noise(frames, 1), from_hz, to_hz)
    assert len(out) == convert_n(frames, from_hz, to_hz)
