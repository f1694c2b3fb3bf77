"""Laws of speech detection: chunked is whole, batches are rows, nothing certain is taken back."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from audio.buffers import Float32
from audio.silero import FRAME_N, StreamingProbabilities, load_model
from audio.spans import Spans
from audio.vad import (
    StreamingVad,
    VadSettings,
    intervals_from_probabilities,
    spans_from_probabilities,
    spans_ns,
)

CHUNKS = st.one_of(
    st.lists(st.integers(0, 700), max_size=20),
    st.lists(st.integers(0, 9_000), max_size=5),
    st.lists(st.integers(30_000, 70_000), max_size=2),
)
RUNS = st.lists(
    st.tuples(st.integers(1, 30), st.sampled_from([0.0, 0.2, 0.4, 0.49, 0.5, 0.7, 1.0])),
    max_size=25,
)
SETTINGS = st.builds(
    VadSettings,
    threshold=st.sampled_from([0.3, 0.5, 0.8]),
    min_speech_ms=st.sampled_from([0, 32, 90, 250, 33.3]),
    min_silence_ms=st.sampled_from([0, 90, 500, 1000]),
    speech_pad_ms=st.sampled_from([0, 30, 200, 17.77]),
    merge_gap_s=st.sampled_from([0, 0.05, 0.3, 1.0]),
)


def burst_noise(n: int, seed: int) -> Float32:
    """Noise of changing level, so that every frame differs."""
    random = np.random.default_rng(seed)
    level = np.repeat(random.choice([0, 0.001, 0.1, 0.5], n // 1000 + 1), 1000)[:n]
    return (level * random.standard_normal(n)).astype(np.float32)


def frames_of(runs: list[tuple[int, float]]) -> Float32:
    return np.array([value for count, value in runs for _ in range(count)], np.float32)


class Scripted:
    """Stands in for the network: gives the listed probabilities, one a frame."""

    def __init__(self, values: Float32) -> None:
        self._values = values
        self._at = 0

    def _advance(self, block: Float32, state: object) -> tuple[Float32, object]:
        count = block.shape[1] // FRAME_N
        self._at += count
        return self._values[self._at - count:self._at, None], state


@given(CHUNKS, st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_probabilities_of_chunks_are_those_of_the_whole(chunks: list[int], seed: int) -> None:
    signal = burst_noise(sum(chunks), seed)
    stream = StreamingProbabilities()
    parts, at = [], 0
    for length in chunks:
        parts.append(stream.push(signal[at:at + length]))
        at += length
        assert sum(len(part) for part in parts) == at // FRAME_N
    parts.append(stream.flush())
    np.testing.assert_array_equal(np.concatenate(parts), load_model().frame_probabilities(signal))


@given(st.lists(st.integers(0, 30_000), max_size=20), st.integers(0, 5))
@settings(max_examples=20, deadline=None)
def test_a_batch_is_its_rows(lengths: list[int], seed: int) -> None:
    model = load_model()
    channels = [burst_noise(n, seed + i) for i, n in enumerate(lengths)]
    for channel, got in zip(channels, model.frame_probabilities_batch(channels), strict=True):
        np.testing.assert_array_equal(got, model.frame_probabilities(channel))


@given(RUNS, st.integers(0, FRAME_N - 1), SETTINGS, st.sampled_from([math.inf, 5.0, 2.0, 0.01]))
@settings(max_examples=100, deadline=None)
def test_intervals_are_ordered_and_inside(
    runs: list[tuple[int, float]], short_n: int, vad: VadSettings, max_speech_s: float
) -> None:
    values = frames_of(runs)
    n = max(0, len(values) * FRAME_N - short_n)
    limited = VadSettings(vad.threshold, vad.min_speech_ms, vad.min_silence_ms, vad.speech_pad_ms,
                          vad.merge_gap_s, None, max_speech_s)
    got = intervals_from_probabilities(values, n, limited)
    edges = [edge for interval in got for edge in interval]
    assert edges == sorted(edges)
    assert all(start < end for start, end in got)
    assert not edges or (edges[0] >= 0 and edges[-1] <= n)


@given(RUNS, SETTINGS, st.integers(-10**12, 10**12))
@settings(max_examples=50, deadline=None)
def test_an_offset_shifts_and_changes_nothing_else(
    runs: list[tuple[int, float]], vad: VadSettings, offset_ns: int
) -> None:
    values = frames_of(runs)
    n = len(values) * FRAME_N
    assert spans_ns(values, n, vad, offset_ns) == spans_ns(values, n, vad).shift(offset_ns)


@given(RUNS, st.integers(0, FRAME_N - 1), SETTINGS, st.integers(1, 40))
@settings(max_examples=100, deadline=None)
def test_live_answers_are_final_and_end_as_the_offline_spans(
    runs: list[tuple[int, float]], short_n: int, vad: VadSettings, step: int
) -> None:
    values = frames_of(runs)
    n = max(0, len(values) * FRAME_N - short_n)
    offline = spans_from_probabilities(values, n, vad).merge_gaps(round(vad.merge_gap_s * 16_000))
    live = StreamingVad(vad, model=Scripted(values))  # type: ignore[arg-type]
    points = range(0, n, 331)
    for at in range(0, n, step * FRAME_N):
        live.push(np.zeros(min(step * FRAME_N, n - at), np.float32))
        known = live.spans_so_far()
        for point in points:
            active = live.speech_active_at(point)
            assert active is None or active == (offline.at(point) is not None)
            onset_n = live.onset_after(point)
            expected = next((start for start, _ in offline if start >= point), None)
            assert onset_n is None or onset_n == expected
        assert [start for start, _ in known] == [start for start, _ in offline][:len(known)]
        assert known.subtract(offline) == Spans()
        # Nothing stays unknown for long: a merge gap, a pad, and the longest unconfirmed speech.
        settled_n = (live.analysed_n - 16 * (vad.min_speech_ms + vad.min_silence_ms
                                             + 2 * vad.speech_pad_ms)
                     - 16_000 * vad.merge_gap_s - 4 * FRAME_N)
        if all(value in (0.0, 1.0) for _, value in runs):
            assert all(live.speech_active_at(p) is not None for p in points if p < settled_n)
    live.flush()
    assert live.spans_so_far() == offline
    assert all(live.speech_active_at(p) == (offline.at(p) is not None) for p in points)
