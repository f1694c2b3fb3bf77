"""Span rules with values worked out by hand, the live detector, and reported field problems."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hibari import Hibari

from audio.analysis import analysis_samples
from audio.buffers import Float32
from audio.errors import InputError
from audio.resample import resample
from audio.silero import FRAME_N, WEIGHTS_SHA256, load_model
from audio.spans import Spans
from audio.vad import (
    StreamingVad,
    VadSettings,
    _Machine,
    intervals_from_probabilities,
    spans_from_probabilities,
    spans_ns,
    speech_spans,
)

RATE_HZ = 16_000
CALLS = Path(__file__).parents[4] / "shared" / "data" / "calls"
EXACT = VadSettings(speech_pad_ms=0, min_speech_ms=0, min_silence_ms=0, merge_gap_s=0)
"""No widening, no minimum: edges are frame edges."""


def probabilities(*runs: tuple[int, float]) -> Float32:
    """Frames from (count, probability) pairs."""
    return np.concatenate([np.full(count, value, np.float32) for count, value in runs])


def found(settings: VadSettings, *runs: tuple[int, float]) -> list[tuple[int, int]]:
    values = probabilities(*runs)
    return intervals_from_probabilities(values, len(values) * FRAME_N, settings)


@pytest.fixture(scope="module")
def words() -> dict[str, Float32]:
    """Single words at 16 kHz."""
    speak = Hibari()
    return {text: resample(np.asarray(speak(text, seed=1), dtype=np.float32), 24_000, RATE_HZ)
            for text in ("Okay.", "Hello.", "Tomorrow.")}


def read_call() -> Float32:
    """Both channels of the sample call, as the detector is given them: (2, n)."""
    soundfile = pytest.importorskip("soundfile")
    path = CALLS / "auto_repairs_40.wav"
    if not path.exists():
        pytest.skip(f"{path.name} is not there")
    samples, rate_hz = soundfile.read(path, dtype="float32")
    return np.stack([analysis_samples(np.ascontiguousarray(samples[:, channel]), rate_hz)
                     for channel in (0, 1)])


# The rules.


def test_defaults_are_those_of_the_paper() -> None:
    settings = VadSettings()
    assert (settings.threshold, settings.min_speech_ms, settings.min_silence_ms,
            settings.speech_pad_ms, settings.merge_gap_s) == (0.5, 90, 90, 30, 0.3)
    assert settings.exit_threshold == 0.35
    assert settings.max_speech_s == math.inf


def test_one_span_is_widened_by_30_ms() -> None:
    assert found(VadSettings(), (10, 0), (10, 0.9), (10, 0)) == [
        (10 * 512 - 480, 20 * 512 + 480)]


def test_widening_stays_inside_the_audio() -> None:
    assert found(VadSettings(), (10, 0.9)) == [(0, 5120)]
    values = probabilities((4, 0.9))
    assert intervals_from_probabilities(values, 2000, VadSettings()) == [(0, 2000)]


def test_the_threshold_itself_is_speech_and_the_exit_threshold_is_no_pause() -> None:
    assert found(EXACT, (2, 0.49), (2, 0.5), (2, 0.351), (2, 0.349)) == [(1024, 3072)]
    lower = VadSettings(threshold=0.5, neg_threshold=0.2, speech_pad_ms=0, min_speech_ms=0,
                        min_silence_ms=0)
    assert found(lower, (2, 0.5), (2, 0.34), (2, 0.19)) == [(0, 2048)]


@pytest.mark.parametrize(("threshold", "exit_threshold"), [(0.8, 0.65), (0.1, 0.01), (0.05, 0.01)])
def test_exit_threshold_of_the_library(threshold: float, exit_threshold: float) -> None:
    assert VadSettings(threshold=threshold).exit_threshold == pytest.approx(exit_threshold)


def test_speech_must_be_longer_than_90_ms() -> None:
    """2 frames are 64 ms, 3 are 96 ms."""
    assert found(VadSettings(), (5, 0), (2, 0.9), (20, 0)) == []
    assert found(VadSettings(), (5, 0), (3, 0.9), (20, 0)) == [(2560 - 480, 4096 + 480)]
    exactly = VadSettings(min_speech_ms=96)
    assert found(exactly, (5, 0), (3, 0.9), (20, 0)) == []


def test_a_pause_ends_speech_after_90_ms() -> None:
    """The fourth silent frame lies 96 ms behind the first; the third only 64 ms."""
    assert len(found(VadSettings(), (5, 0.9), (3, 0), (5, 0.9))) == 1
    assert found(VadSettings(), (5, 0.9), (4, 0), (5, 0.9)) == [
        (0, 2560 + 480), (4608 - 480, 7168)]


def test_a_pause_begins_at_its_first_silent_frame_even_if_unsure_frames_follow() -> None:
    assert found(VadSettings(speech_pad_ms=0), (5, 0.9), (1, 0.1), (6, 0.4), (1, 0.1), (3, 0)) == [
        (0, 2560)]


def test_open_speech_ends_with_the_audio_pause_included() -> None:
    assert found(VadSettings(speech_pad_ms=0), (5, 0.9), (2, 0)) == [(0, 7 * 512)]


def test_pads_that_would_meet_share_the_silence() -> None:
    settings = VadSettings(speech_pad_ms=200, min_silence_ms=0, min_speech_ms=0)
    runs = ((10, 0.0), (5, 0.9), (3, 0.0), (5, 0.9), (20, 0.0))
    assert found(settings, *runs) == [
        (5120 - 3200, 7680 + 768), (9216 - 768, 11776 + 3200)]
    values = probabilities(*runs)
    assert spans_from_probabilities(values, len(values) * 512, settings) == Spans.of(
        [(1920, 14976)])


def test_too_long_speech_is_cut_at_the_frame_when_it_has_no_pause() -> None:
    """2 s less one frame and two pads are 30528 samples; frame 60 is the first beyond."""
    got = found(VadSettings(max_speech_s=2), (100, 0.9))
    assert got == [(0, 60 * 512 + 256), (61 * 512 - 256, 100 * 512)]


def test_too_long_speech_is_cut_at_its_longest_pause() -> None:
    settings = VadSettings(max_speech_s=2, min_silence_ms=1000, speech_pad_ms=0)
    got = found(settings, (10, 0.9), (5, 0), (10, 0.9), (7, 0), (5, 0.9), (6, 0), (60, 0.9))
    # Pauses of 160, 224 and 192 ms; frame 62 exceeds 31488 samples and cuts at the second.
    assert got[0] == (0, 25 * 512)
    assert got[1][0] == 32 * 512


def test_merging_is_strictly_below_300_ms() -> None:
    """4800 samples apart stay two; the spans lie in a whole number of frames, so pad by hand."""
    values = probabilities((5, 0.9), (10, 0), (5, 0.9))
    n = len(values) * FRAME_N
    gap_n = 10 * 512 - 2 * 480
    apart = VadSettings(merge_gap_s=gap_n / RATE_HZ)
    joined = VadSettings(merge_gap_s=(gap_n + 1) / RATE_HZ)
    assert len(spans_ns(values, n, apart)) == 2
    assert len(spans_ns(values, n, joined)) == 1
    assert len(spans_from_probabilities(values, n, joined)) == 2


def test_spans_in_nanoseconds_are_exact_and_shifted() -> None:
    values = probabilities((10, 0), (10, 0.9), (10, 0))
    assert spans_ns(values, 30 * FRAME_N, VadSettings(), offset_ns=-7).items == (
        (4640 * 62_500 - 7, 10720 * 62_500 - 7),)


def test_no_probability_is_no_speech() -> None:
    assert intervals_from_probabilities(np.zeros(0, np.float32), 0, VadSettings()) == []


@pytest.mark.parametrize(("values", "n", "message"), [
    (np.zeros(3, np.float32), 1024, r"shape \(2,\), got shape \(3,\)"),
    (np.zeros((1, 2), np.float32), 1024, r"got shape \(1, 2\)"),
    (np.zeros(0, np.float32), -1, "got shape"),
    (np.array([0, np.nan], np.float32), 1024, r"expected probabilities in \[0, 1\]"),
    (np.array([0, 1.5], np.float32), 1024, r"expected probabilities in \[0, 1\]"),
])
def test_probabilities_that_do_not_fit_are_refused(
    values: Float32, n: int, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        intervals_from_probabilities(values, n, VadSettings())


@pytest.mark.parametrize(("name", "value", "message"), [
    ("threshold", 0, "vad threshold: expected 0 < threshold <= 1, got 0"),
    ("threshold", 1.01, "got 1.01"),
    ("threshold", "0.5", "vad threshold: expected a number, got '0.5'"),
    ("threshold", True, "expected a number, got True"),
    ("min_speech_ms", -1, "vad min_speech_ms: expected a finite min_speech_ms >= 0, got -1"),
    ("min_silence_ms", math.inf, "expected a finite min_silence_ms >= 0, got inf"),
    ("speech_pad_ms", math.nan, "vad speech_pad_ms: expected a number, got nan"),
    ("merge_gap_s", -0.1, "got -0.1"),
    ("neg_threshold", 0.6, r"vad neg_threshold: expected neg_threshold in \[0, 0.5\], got 0.6"),
    ("neg_threshold", -0.1, "got -0.1"),
    ("max_speech_s", 0, "vad max_speech_s: expected max_speech_s > 0, got 0"),
    ("min_speech_ms", None, "expected a number, got None"),
])
def test_settings_out_of_range(name: str, value: float, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        VadSettings(**{name: value})
    assert "\n" not in str(error.value)


def test_keys_name_the_settings() -> None:
    assert VadSettings().key() == "t0.5-nauto-sp90-si90-pad30-gap0.3-maxinf"
    assert VadSettings(min_speech_ms=90.0).key() == VadSettings(min_speech_ms=90).key()
    others = [VadSettings(threshold=0.4), VadSettings(min_speech_ms=91),
              VadSettings(min_silence_ms=91), VadSettings(speech_pad_ms=31),
              VadSettings(merge_gap_s=0.31), VadSettings(neg_threshold=0.3),
              VadSettings(max_speech_s=5), VadSettings()]
    assert len({settings.key() for settings in others}) == len(others)


def test_facts_name_the_weights_and_are_strict_json() -> None:
    facts = json.loads(json.dumps(VadSettings().facts(), allow_nan=False))
    assert facts["weights_sha256"] == WEIGHTS_SHA256
    assert facts["neg_threshold"] == 0.35
    assert facts["max_speech_s"] is None


# Live.


class Scripted:
    """Stands in for the network: gives the listed probabilities, one a frame."""

    def __init__(self, values: Float32) -> None:
        self._values = values
        self._at = 0

    def _advance(self, block: Float32, state: object) -> tuple[Float32, object]:
        count = block.shape[1] // FRAME_N
        self._at += count
        return self._values[self._at - count:self._at, None], state


def live(*runs: tuple[int, float], settings: VadSettings | None = None) -> StreamingVad:
    return StreamingVad(settings or VadSettings(),
                        model=Scripted(probabilities(*runs)))  # type: ignore[arg-type]


def frames(count: int) -> Float32:
    return np.zeros(count * FRAME_N, np.float32)


def test_an_onset_is_given_once_speech_lasts_longer_than_90_ms() -> None:
    vad = live((10, 0), (40, 0.9))
    vad.push(frames(12))
    assert vad.onset_after(0) is None
    assert not vad.speaking
    assert vad.speech_active_at(10 * 512) is None
    assert vad.speech_active_at(9 * 512) is False
    vad.push(frames(1))
    assert vad.onset_after(0) == 10 * 512 - 480
    assert vad.onset_after(10 * 512 - 480) == 10 * 512 - 480
    assert vad.onset_after(10 * 512 - 479) is None
    assert vad.speaking
    assert vad.speech_active_at(10 * 512 - 480) is True
    assert vad.speech_active_at(10 * 512 - 481) is False
    assert vad.speech_active_at(13 * 512) is None
    assert vad.spans_so_far().items == ((4640, 13 * 512),)


def test_a_click_is_no_onset() -> None:
    vad = live((10, 0), (2, 0.9), (30, 0))
    vad.push(frames(42))
    assert vad.onset_after(0) is None
    assert vad.spans_so_far() == Spans()
    assert vad.speech_active_at(10 * 512) is False


def test_speech_again_within_300_ms_is_no_onset() -> None:
    """Pauses of 10 and of 12 frames: 260 and 324 ms apart after widening."""
    vad = live((10, 0.9), (10, 0), (10, 0.9), (12, 0), (10, 0.9), (20, 0))
    vad.push(frames(20))
    assert not vad.speaking
    assert vad.speech_active_at(15 * 512) is None
    vad.push(frames(10))
    assert vad.speech_active_at(15 * 512) is True
    assert vad.onset_after(1) is None
    vad.push(frames(42))
    assert vad.onset_after(1) == 42 * 512 - 480
    assert vad.spans_so_far().items == ((0, 30 * 512 + 480), (42 * 512 - 480, 52 * 512 + 480))


def test_speaking_ends_with_a_long_enough_pause() -> None:
    vad = live((10, 0.9), (20, 0))
    vad.push(frames(13))
    assert vad.speaking
    vad.push(frames(1))
    assert not vad.speaking
    assert vad.spans_so_far().items == ((0, 10 * 512 + 480),)


def test_flush_ends_open_speech_and_settles_everything() -> None:
    vad = live((10, 0.9), (2, 0), (1, 0))
    vad.push(np.zeros(12 * 512 + 100, np.float32))
    assert vad.analysed_n == 12 * 512
    vad.flush()
    vad.flush()
    assert vad.analysed_n == 12 * 512 + 100
    assert vad.spans_so_far().items == ((0, 12 * 512 + 100),)
    assert not vad.speaking
    assert vad.speech_active_at(12 * 512 + 99) is True
    assert vad.speech_active_at(12 * 512 + 100) is None
    assert vad.speech_active_at(-1) is None
    with pytest.raises(InputError, match="expected no samples after the end"):
        vad.push(frames(1))


def test_a_speech_limit_cannot_be_kept_live() -> None:
    with pytest.raises(InputError, match="expected no max_speech_s, got 5"):
        StreamingVad(VadSettings(max_speech_s=5))


def test_live_and_offline_agree_on_a_real_call() -> None:
    """Field problem 11: the first version of many live detectors is off by one window."""
    for channel in read_call()[:, :90 * RATE_HZ]:
        offline = speech_spans(channel, VadSettings())
        vad = StreamingVad(VadSettings())
        onsets: dict[int, int] = {}
        for at in range(0, len(channel), 320):
            vad.push(channel[at:at + 320])
            since = max(onsets, default=-1) + 1
            onset_n = vad.onset_after(since)
            if onset_n is not None:
                onsets[onset_n] = vad.analysed_n
        vad.flush()
        assert vad.spans_so_far() == offline
        assert len(offline) > 3
        for start_n, _ in offline:
            onset_n = min(onsets, key=lambda n: abs(n - start_n))
            assert onset_n == start_n
        # Confirmed a pad, 90 ms and at most two frames after it began, plus pauses too short.
        delays = sorted(known_n - onset_n for onset_n, known_n in onsets.items())
        assert delays[0] >= 480 + 1440
        assert delays[len(delays) // 2] <= 480 + 1440 + 2 * 512


# Reported by people who do this job (reference/field_problems.tsv, rows as numbered).


def test_row_1_a_word_at_the_start_does_not_depend_on_what_ran_before(
    words: dict[str, Float32]
) -> None:
    alone = speech_spans(words["Hello."], VadSettings())
    speech_spans(np.tile(words["Tomorrow."], 3)[:20_000], VadSettings())
    assert speech_spans(words["Hello."], VadSettings()) == alone
    assert len(alone) == 1


@pytest.mark.parametrize("kind", ["zeros", "dither", "offset"])
def test_row_8_digital_silence_is_no_speech(kind: str) -> None:
    n = 60 * RATE_HZ
    samples = {
        "zeros": np.zeros(n, np.float32),
        "dither": np.random.default_rng(8).integers(-1, 2, n).astype(np.float32) / 32768,
        "offset": np.full(n, 0.25, np.float32),
    }[kind]
    assert speech_spans(samples, VadSettings()) == Spans()
    assert speech_spans(samples, VadSettings(threshold=0.3, min_speech_ms=0)) == Spans()


def test_row_9_tones_and_chords_are_no_speech() -> None:
    t = np.arange(20 * RATE_HZ) / RATE_HZ
    ringback = 0.2 * (np.sin(2 * np.pi * 440 * t) + np.sin(2 * np.pi * 480 * t)) * (t % 6 < 2)
    chord = sum(np.sin(2 * np.pi * f * t) for f in (261.6, 329.6, 392.0)) * 0.1 * np.exp(-(t % 1))
    for tone in (ringback, chord):
        assert speech_spans(tone.astype(np.float32), VadSettings()) == Spans()


@pytest.mark.parametrize("gap_ms", [60, 120, 400])
@pytest.mark.parametrize("pad_ms", [100, 200])
def test_row_10_pads_keep_order_and_stay_inside(
    words: dict[str, Float32], gap_ms: int, pad_ms: int
) -> None:
    word = words["Okay."]
    loud = np.flatnonzero(np.abs(word) > 0.02)
    word = word[loud[0]:loud[-1]]
    samples = np.concatenate([word, np.zeros(gap_ms * 16, np.float32), word])
    settings = VadSettings(speech_pad_ms=pad_ms)
    got = intervals_from_probabilities(load_model().frame_probabilities(samples), len(samples),
                                       settings)
    assert got
    assert got[0][0] == 0
    edges = [edge for interval in got for edge in interval]
    assert edges == sorted(edges)
    assert edges[-1] <= len(samples)
    assert sum(end - start for start, end in got) <= len(samples)
    if gap_ms == 400:
        assert len(got) == 2


def test_row_13_the_end_of_a_long_recording_is_analysed(words: dict[str, Float32]) -> None:
    """One word a minute for ten minutes, and a few odd samples; the report had 33 minutes."""
    word = words["Tomorrow."]
    samples = np.zeros(10 * 60 * RATE_HZ + 123, np.float32)
    places = [60 * RATE_HZ * minute + 55 * RATE_HZ for minute in range(10)]
    for place in places:
        samples[place:place + len(word)] = word
    values = load_model().frame_probabilities(samples)
    assert (len(values) - 1) * FRAME_N < len(samples) <= len(values) * FRAME_N
    got = spans_from_probabilities(values, len(samples), VadSettings())
    assert len(got) == 10
    for place, (start, end) in zip(places, got, strict=True):
        assert place - 480 <= start
        assert end <= place + len(word) + RATE_HZ // 2


@pytest.mark.parametrize("n", [0, 1, 160, 496, 511])
def test_row_18_less_than_a_frame_is_no_speech(n: int) -> None:
    samples = (0.1 * np.random.default_rng(18).standard_normal(n)).astype(np.float32)
    assert speech_spans(samples, VadSettings()) == Spans()
    vad = StreamingVad(VadSettings())
    vad.push(samples)
    vad.flush()
    assert vad.spans_so_far() == Spans()
    assert vad.onset_after(0) is None


def test_row_5_short_words_are_found() -> None:
    soundfile = pytest.importorskip("soundfile")
    for name in ("yes", "no", "hello", "thank_you"):
        path = CALLS / "words" / f"{name}.wav"
        if not path.exists():
            pytest.skip("the sample words are not there")
        samples, rate_hz = soundfile.read(path, dtype="float32")
        assert len(speech_spans(analysis_samples(samples, rate_hz), VadSettings())) == 1, name


def test_what_lies_between_crossings_says_what_the_frames_say():
    """Long stretches are taken at once, short pieces frame by frame: the same spans and state."""
    random = np.random.default_rng(1)
    for _ in range(3_000):
        count = int(random.integers(0, 150))
        probabilities = random.choice(np.array([0, 0.2, 0.4, 0.49, 0.5, 0.7, 1], np.float32), count)
        if random.random() < 0.5:
            probabilities = np.repeat(probabilities, random.integers(1, 9, count))
        threshold = float(random.choice([0.3, 0.5, 0.6, 1.0]))
        vad = VadSettings(
            threshold=threshold, min_silence_ms=float(random.choice([0, 32, 90, 300, 1_000])),
            min_speech_ms=float(random.choice([0, 90, 250])),
            neg_threshold=random.choice([None, threshold, 0.4 * threshold]))
        each, runs = _Machine(vad), _Machine(vad)
        cut = int(random.integers(0, len(probabilities) + 1))
        for part in (probabilities[:cut], probabilities[cut:]):
            each._feed_each(part)
            runs._feed_runs(part)
            first, second = ((m.closed, m.open_start_n, m.open_confirmed_end_n, m.now_n)
                             for m in (each, runs))
            assert first == second, (vad, probabilities, cut)
        end_n = FRAME_N * len(probabilities)
        assert each.finish(end_n) == runs.finish(end_n)
