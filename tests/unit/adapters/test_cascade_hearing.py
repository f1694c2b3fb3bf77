"""Whose turn it is, on audio time: Silero's edges, the buffer and its counts."""

from __future__ import annotations

import cascade_testkit as kit
import numpy as np
import pytest

from adapters.cascade.hearing import (
    InputBuffer,
    SpeechStarted,
    SpeechStopped,
    TurnDetector,
    TurnSettings,
)
from audio.buffers import Float32, pcm16_to_float

TEXT = "Good morning, everybody."


def edges(settings: TurnSettings, samples: Float32, n: int = 480, start_n: int = 0) -> list:
    detector = TurnDetector(settings, start_n)
    return [e for at in range(0, len(samples), n) for e in detector.push(samples[at:at + n])]


def audio(before_s: float = 1.0, after_s: float = 1.5) -> Float32:
    return pcm16_to_float(kit.utterance(TEXT, before_s=before_s, after_s=after_s))


def test_a_turn_begins_with_speech_and_ends_after_the_silence_that_was_asked_for() -> None:
    samples = audio()
    started, stopped = edges(TurnSettings(silence_duration_ms=500), samples)
    assert isinstance(started, SpeechStarted)
    assert isinstance(stopped, SpeechStopped)
    # Silero finds edges within its frame of 32 ms and its known bias of tens of ms.
    assert started.at_n == pytest.approx(24_000, abs=0.1 * 24_000)
    speech_ends_n = len(samples) - 36_000
    assert stopped.at_n - 12_000 == pytest.approx(speech_ends_n, abs=0.15 * 24_000)


@pytest.mark.parametrize("silence_ms", [200, 500, 1000])
def test_the_end_moves_with_the_silence_asked_for_and_nothing_else(silence_ms: int) -> None:
    _, short = edges(TurnSettings(silence_duration_ms=200), audio())
    _, stopped = edges(TurnSettings(silence_duration_ms=silence_ms), audio())
    assert stopped.at_n - short.at_n == (silence_ms - 200) * 24


@pytest.mark.parametrize("n", [1, 480, 7_001, 10**6])
def test_how_the_audio_is_cut_changes_nothing(n: int) -> None:
    samples = audio(0.4, 0.8)[: 24_000 if n == 1 else None]
    assert edges(TurnSettings(), samples, n) == edges(TurnSettings(), samples, 333)


def test_positions_count_from_where_the_detector_began() -> None:
    plain, moved = edges(TurnSettings(), audio()), edges(TurnSettings(), audio(), start_n=777)
    assert [e.at_n + 777 for e in plain] == [e.at_n for e in moved]


def test_silence_clicks_and_hum_are_no_turn() -> None:
    clicks = np.zeros(72_000, np.float32)
    clicks[::12_000] = 0.9
    hum = (0.1 * np.sin(np.arange(72_000) * 2 * np.pi * 50 / 24_000)).astype(np.float32)
    for samples in (np.zeros(72_000, np.float32), clicks, hum):
        assert edges(TurnSettings(), samples) == []


def test_a_pause_shorter_than_the_silence_asked_for_ends_nothing() -> None:
    samples = np.concatenate([audio(0.5, 0.6), audio(0.0, 1.5)])
    assert len(edges(TurnSettings(silence_duration_ms=1000), samples)) == 2
    assert len(edges(TurnSettings(silence_duration_ms=300), samples)) == 4


def test_a_higher_threshold_never_begins_earlier() -> None:
    starts = [edges(TurnSettings(threshold=t), audio())[0].at_n for t in (0.2, 0.5, 0.9)]
    assert starts == sorted(starts)


def pcm(*values: int) -> np.ndarray:
    return np.array(values, np.int16)


def test_the_buffer_counts_what_was_written_and_gives_exactly_what_is_held() -> None:
    buffer = InputBuffer()
    buffer.append(pcm(0, 1, 2))
    buffer.append(pcm(3, 4, 5))
    assert (buffer.written_n, buffer.start_n, buffer.held_n) == (6, 0, 6)
    assert buffer.take(1, 4).tolist() == [1, 2, 3]
    assert (buffer.written_n, buffer.start_n, buffer.held_n) == (6, 4, 2)
    # What was taken is gone; what was never written is not invented.
    assert buffer.take(0, 99).tolist() == [4, 5]
    assert (buffer.start_n, buffer.held_n) == (6, 0)
    assert buffer.take(6, 7).tolist() == []


def test_the_buffer_forgets_whole_pieces_alone() -> None:
    buffer = InputBuffer()
    for k in range(5):
        buffer.append(pcm(*[k] * 10))
    buffer.keep_last(25)
    assert (buffer.start_n, buffer.held_n) == (20, 30)
    buffer.clear()
    assert (buffer.start_n, buffer.written_n, buffer.held_n) == (50, 50, 0)


def test_samples_come_back_as_floats() -> None:
    assert InputBuffer().append(pcm(-32768, 0, 16384)).tolist() == [-1.0, 0.0, 0.5]
