"""Forced alignment against words whose place is known because they were put there."""

import numpy as np
import pytest

from audio.align import AlignedWord, align, aligner_facts, to_fading
from audio.buffers import Float32
from audio.edges import trim
from audio.engine_hibari import HibariEngine
from audio.errors import AlignmentError
from audio.resample import resample
from audio.spoken_text import normalise, words

RATE_HZ = 24_000
MS = RATE_HZ // 1000


@pytest.fixture(scope="module")
def engine() -> HibariEngine:
    return HibariEngine()


def concatenated(
    engine: HibariEngine, spoken: tuple[str, ...], gap_ms: int
) -> tuple[Float32, list[tuple[int, int]]]:
    """Words rendered apart, cut to their edges, with exact gaps; and where each one lies."""
    gap = np.zeros(gap_ms * MS, np.float32)
    parts: list[Float32] = []
    truth = []
    at = 0
    for word in spoken:
        cut, _ = trim(engine.synthesize(f"{word},", "heart", 1), RATE_HZ)
        truth.append((at, at + cut.size))
        parts += [cut, gap]
        at += cut.size + gap.size
    return np.concatenate(parts[:-1]), truth


@pytest.mark.parametrize("gap_ms", [0, 60, 200])
def test_words_are_found_where_they_were_put(engine: HibariEngine, gap_ms: int) -> None:
    """Stated bounds: half of the starts within 20 ms, all of them within 150 ms; where a pause
    follows, half of the ends within 10 ms (the margin of 5 ms that the cut keeps, and a frame)."""
    spoken = ("my", "mother", "had", "three", "bad", "spells", "last", "Tuesday", "morning",
              "before", "breakfast")
    samples, truth = concatenated(engine, spoken, gap_ms)
    found = align(samples, RATE_HZ, " ".join(spoken))
    assert tuple(w.word for w in found) == spoken
    start_error_ms = np.abs([w.start_n - a for w, (a, _) in zip(found, truth, strict=True)]) / MS
    end_error_ms = np.abs([w.end_n - b for w, (_, b) in zip(found, truth, strict=True)]) / MS
    assert np.median(start_error_ms) <= 20
    assert start_error_ms.max() <= 150
    assert np.median(end_error_ms) <= (10 if gap_ms else 60)
    assert end_error_ms.max() <= 150


@pytest.mark.parametrize(("sound_ms", "next_ms", "end_ms"), [
    (560, 1000, 560),  # fades 60 ms after the model's end: moved there
    (695, 1000, 695),
    (760, 1000, 500),  # goes on too long to be the word's
    (560, 530, 530),  # never into the next word
    (400, 1000, 500),  # never back
])
def test_an_end_is_moved_on_to_where_the_sound_fades(
    sound_ms: int, next_ms: int, end_ms: int
) -> None:
    """The model says that the first word ends at 500 ms, and the second ends with the audio."""
    samples = np.zeros(1500 * MS, np.float32)
    samples[: sound_ms * MS] = 0.1 * np.sin(np.arange(sound_ms * MS) / 12)
    samples[1000 * MS :] = 0.1
    times = [(100 * MS, 500 * MS), (next_ms * MS, 1500 * MS)]
    (start_n, end_n), last = to_fading(times, samples, RATE_HZ)
    assert start_n == 100 * MS
    assert end_n / MS == pytest.approx(end_ms, abs=3)
    assert last == times[1]


def test_silence_is_an_error() -> None:
    with pytest.raises(AlignmentError, match="expected speech"):
        align(np.zeros(RATE_HZ * 3, np.float32), RATE_HZ, "Nobody says this.")


def test_times_are_inside_and_in_order(engine: HibariEngine) -> None:
    text = normalise("Her metoprolol, twenty-five milligrams, is with the CPAP. I can't find it!")
    samples, _ = trim(engine.synthesize(text, "heart", 1), RATE_HZ)
    found = align(samples, RATE_HZ, text)
    assert tuple(w.word for w in found) == words(text)
    flat = [n for w in found for n in (w.start_n, w.end_n)]
    assert flat == sorted(flat)
    assert all(w.end_n - w.start_n >= 30 * MS for w in found)
    assert flat[0] >= 0
    assert flat[-1] <= samples.size
    generated = {w.word for w in found if w.pronunciation == "generated"}
    assert generated == {"metoprolol", "CPAP"}


def test_same_answer_at_16_khz(engine: HibariEngine) -> None:
    """24 kHz input is converted to 16 kHz inside: the frames must be the same ones."""
    text = "She went to the store."
    samples, _ = trim(engine.synthesize(text, "heart", 1), RATE_HZ)
    at_24k = align(samples, RATE_HZ, text)
    at_16k = align(resample(samples, RATE_HZ, 16_000), 16_000, text)
    assert [(w.start_n * 2, w.end_n * 2) for w in at_24k[:-1]] == [
        (w.start_n * 3, w.end_n * 3) for w in at_16k[:-1]]


def test_an_earlier_call_changes_nothing(engine: HibariEngine) -> None:
    first, other = "Is that right?", "A loud one: Gristmill Zorbinski!"
    samples = {t: trim(engine.synthesize(t, "heart", 1), RATE_HZ)[0] for t in (first, other)}
    alone = align(samples[first], RATE_HZ, first)
    align(samples[other] * np.float32(2), RATE_HZ, other)
    assert align(samples[first], RATE_HZ, first) == alone


def test_text_longer_than_the_audio_is_an_error() -> None:
    """Field problem 81: long text on 0.5 s of audio."""
    noise = np.random.default_rng(0).standard_normal(12_000).astype(np.float32) * 0.05
    with pytest.raises(AlignmentError, match=r"at least .* s of audio for 12 words, got 0.50 s"):
        align(noise, RATE_HZ, "this is far too long a text for half a second really.")


def test_repeated_letters_and_words_align(engine: HibariEngine) -> None:
    """Field problem 81: repeats that break CTC aligners."""
    text = "no no no, bookkeeper, five five five."
    samples, _ = trim(engine.synthesize(text, "heart", 1), RATE_HZ)
    assert tuple(w.word for w in align(samples, RATE_HZ, text)) == words(text)


def test_no_words_is_an_error() -> None:
    with pytest.raises(AlignmentError, match="expected words"):
        align(np.zeros(24_000, np.float32), RATE_HZ, "...")


def test_facts_name_what_aligns() -> None:
    facts = aligner_facts()
    assert facts["name"] == "pocketsphinx"
    assert facts["version"] == "5.0.4"


def test_a_word_is_a_value() -> None:
    assert AlignedWord("a", 0, 5) == AlignedWord("a", 0, 5, "dictionary")
