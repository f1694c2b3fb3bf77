"""The voices of the default engine: apart by table and as measured; the trained one untouched."""

import math
from itertools import combinations

import numpy as np
import pytest
from voice_measures import formant_factor, median_pitch_hz, pitch_hz

from audio.engine_hibari import RATE_HZ, SENTENCE_PAUSE_S, HibariEngine
from audio.synthesis import construction_key, render_segment
from audio.voice_bank import BANK, BASE, VOICES

TEXT = "The house number is four one five, on Willow Creek Road, past the old mill."
FEW = ("h01", "h04", "h31", "h57")
"""The corners of the table and one near the middle."""
LEAST_SEMITONES, LEAST_FORMANTS = 1.0, math.log(1.05)


@pytest.fixture(scope="module")
def engine() -> HibariEngine:
    return HibariEngine()


@pytest.fixture(scope="module")
def heart(engine: HibariEngine) -> np.ndarray:
    return engine.synthesize(TEXT, BASE, 7)


def apart(a: tuple[float, float], b: tuple[float, float]) -> bool:
    """Whether two (semitones, formant factor) are two voices."""
    return (abs(a[0] - b[0]) >= LEAST_SEMITONES
            or abs(math.log(a[1] / b[1])) >= LEAST_FORMANTS)


def test_at_least_56_voices_that_differ_by_table() -> None:
    table = {BASE: (0.0, 1.0)} | {n: (s.semitones, s.formants) for n, s in BANK.items()}
    assert tuple(table) == VOICES
    assert len(set(VOICES)) == len(VOICES) >= 56
    assert all(apart(table[a], table[b]) for a, b in combinations(VOICES, 2))


@pytest.mark.parametrize("voice", FEW)
def test_pitch_and_formants_as_measured(
    engine: HibariEngine, heart: np.ndarray, voice: str
) -> None:
    samples = engine.synthesize(TEXT, voice, 7)
    semitones = 12 * math.log2(median_pitch_hz(samples, RATE_HZ) / median_pitch_hz(heart, RATE_HZ))
    assert semitones == pytest.approx(BANK[voice].semitones, abs=0.25)
    assert formant_factor(samples, heart, RATE_HZ) == pytest.approx(BANK[voice].formants, rel=0.02)


@pytest.mark.parametrize("voice", FEW)
def test_timing_level_and_voicing_are_those_of_the_base(
    engine: HibariEngine, heart: np.ndarray, voice: str
) -> None:
    samples = engine.synthesize(TEXT, voice, 7)
    assert samples.shape == heart.shape
    assert samples.dtype == np.float32
    assert np.abs(samples).max() < 1.0
    level_db = 10 * math.log10(float(np.mean(samples**2) / np.mean(heart**2)))
    assert abs(level_db) < 3.0
    new, old = pitch_hz(samples, RATE_HZ) > 0, pitch_hz(heart, RATE_HZ) > 0
    # at least 30 ms from every voiced frame: fricatives, closures, silence
    unvoiced = np.convolve(old, np.ones(7), "same") == 0
    assert unvoiced.sum() > 20
    assert (new & unvoiced).sum() <= 0.05 * unvoiced.sum()
    assert (new & old).sum() > 0.9 * old.sum()


@pytest.mark.parametrize("seed", [1, 7])
def test_the_trained_voice_is_as_its_package_speaks_it(engine: HibariEngine, seed: int) -> None:
    model = engine._model(BASE)
    raw = model.from_ids(model.ids(model.g2p("Hello there.", normalize_text=False)),
                         rng=np.random.default_rng(seed))
    samples = engine.synthesize("Hello there.", BASE, seed)
    at = int(np.flatnonzero(np.abs(samples) > 0.02)[0])
    np.testing.assert_array_equal(samples[at:at + 8000], raw[at:at + 8000])


def test_same_bytes_again_and_after_other_voices(engine: HibariEngine) -> None:
    first = engine.synthesize(TEXT, "h20", 7)
    engine.synthesize("Something else entirely!", "h41", 3)
    np.testing.assert_array_equal(HibariEngine().synthesize(TEXT, "h20", 7), first)
    assert not np.array_equal(engine.synthesize(TEXT, "h20", 8), first)


def test_pauses_between_sentences_stay_exact(engine: HibariEngine) -> None:
    samples = engine.synthesize("I went home. She stayed there.", "h10", 1)
    zero = np.concatenate(([False], samples == 0, [False])).astype(np.int8)
    runs = np.flatnonzero(np.diff(zero)).reshape(-1, 2)
    lengths = runs[:, 1] - runs[:, 0]
    assert [n for n in lengths if n > 1000] == [round(SENTENCE_PAUSE_S * RATE_HZ)]


@pytest.mark.parametrize("text", ["the,", "if,", "uh,", "Okay."])
@pytest.mark.parametrize("voice", FEW)
def test_short_texts(engine: HibariEngine, voice: str, text: str) -> None:
    segment = render_segment(text, engine, voice, 1)
    assert segment.alignment == "forced"
    assert segment.samples.size / RATE_HZ < 0.6


def test_the_table_is_part_of_what_a_suite_is_made_from(engine: HibariEngine) -> None:
    assert engine.facts()["setting_voice_bank"] == "1.1"
    keys = [construction_key(TEXT, "hibari", "0.2.1", voice, 1) for voice in VOICES]
    assert len({key["voice"] for key in keys}) == len(VOICES)


@pytest.mark.slow
def test_every_pair_of_voices_differs_as_measured(
    engine: HibariEngine, heart: np.ndarray
) -> None:
    base_hz = median_pitch_hz(heart, RATE_HZ)
    found = {}
    for voice in VOICES:
        samples = engine.synthesize(TEXT, voice, 7)
        found[voice] = (12 * math.log2(median_pitch_hz(samples, RATE_HZ) / base_hz),
                        formant_factor(samples, heart, RATE_HZ))
        assert render_segment(TEXT, engine, voice, 7).alignment == "forced"
    close = [(a, b) for a, b in combinations(VOICES, 2) if not apart(found[a], found[b])]
    assert close == []
