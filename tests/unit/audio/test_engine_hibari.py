"""The built-in engine: what is said, what is cut, what is refused, and the same bytes again."""

import hashlib
import subprocess
import sys

import numpy as np
import pytest

from audio import edges
from audio.engine_hibari import RATE_HZ, SENTENCE_PAUSE_S, HibariEngine
from audio.errors import InputError, SynthesisError
from audio.voice_bank import VOICES

TEXT = "Hello there, this is a test."


@pytest.fixture(scope="module")
def engine() -> HibariEngine:
    return HibariEngine()


def sha256(array: np.ndarray) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()


def test_form(engine: HibariEngine) -> None:
    samples = engine.synthesize(TEXT, "heart", 1)
    assert samples.dtype == np.float32
    assert samples.ndim == 1
    assert 1.5 < samples.size / RATE_HZ < 3.5
    assert 0.05 < np.abs(samples).max() < 1.0
    assert engine.voices() == VOICES
    assert engine.sample_rate_hz == 24_000


def test_same_bytes_again_and_after_other_utterances(engine: HibariEngine) -> None:
    first = engine.synthesize(TEXT, "heart", 7)
    engine.synthesize("Something else entirely!", "heart", 3)
    np.testing.assert_array_equal(engine.synthesize(TEXT, "heart", 7), first)
    np.testing.assert_array_equal(HibariEngine().synthesize(TEXT, "heart", 7), first)


def test_same_bytes_in_another_process(engine: HibariEngine) -> None:
    code = (
        "import hashlib; from audio.engine_hibari import HibariEngine as H; e = H();"
        "e.synthesize('One before.', 'heart', 1);"
        f"print(hashlib.sha256(e.synthesize({TEXT!r}, 'heart', 7).tobytes()).hexdigest())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == sha256(engine.synthesize(TEXT, "heart", 7))


def test_seed_changes_the_noise_and_not_the_timing(engine: HibariEngine) -> None:
    one, two = (engine.synthesize(TEXT, "heart", seed) for seed in (1, 2))
    assert one.size == two.size
    assert not np.array_equal(one, two)
    assert (edges.measure_edges(one, RATE_HZ).start_n
            == pytest.approx(edges.measure_edges(two, RATE_HZ).start_n, abs=5 * 24))


@pytest.mark.parametrize(("text", "spoken"), [
    ("Oh no.", "ˈO nˈO."),  # the package's normaliser would make it "number"
    ("M A R Y", "ˈɛm ˈA ˈɑɹ wˈI"),
    ("I saw a cat.", "ˌI sˈɔ ɐ kˈæt."),
])
def test_what_is_said(
    engine: HibariEngine, monkeypatch: pytest.MonkeyPatch, text: str, spoken: str
) -> None:
    model = engine._model("heart")
    said: list[list[int]] = []
    speak = model.from_ids
    monkeypatch.setattr(
        model, "from_ids", lambda ids, rng: (said.append(ids), speak(ids, rng=rng))[1]
    )
    engine.synthesize(text, "heart", 1)
    assert said == [model.ids(spoken)]


def test_sentences_are_joined_by_exact_silence_of_known_length(engine: HibariEngine) -> None:
    samples = engine.synthesize("I went home. She stayed there. Why?", "heart", 1)
    zero = np.concatenate(([False], samples == 0, [False])).astype(np.int8)
    runs = np.flatnonzero(np.diff(zero)).reshape(-1, 2)
    lengths = runs[:, 1] - runs[:, 0]
    pause_n = round(SENTENCE_PAUSE_S * RATE_HZ)
    assert [n for n in lengths if n > 1000] == [pause_n, pause_n]
    longest_s = edges.measure_edges(samples, RATE_HZ).longest_pause_n / RATE_HZ
    assert longest_s < 0.5  # ordinary turn detectors do not answer inside the text


@pytest.mark.parametrize("text", ["the,", "if,", "uh,"])
def test_noise_after_very_short_texts_is_gone(engine: HibariEngine, text: str) -> None:
    """Field problem 78. The raw model puts a burst at the end of these (a hundred ms after)."""
    model = engine._model("heart")
    raw = model.from_phonemes(model.g2p(text, normalize_text=False), seed=1)
    assert edges.measure_edges(raw, RATE_HZ).end_n > raw.size - 20 * 24
    samples = engine.synthesize(text, "heart", 1)
    found = edges.measure_edges(samples, RATE_HZ)
    assert found.longest_pause_n < 40 * 24
    assert (found.end_n - found.start_n) / RATE_HZ < 0.4


def test_speech_that_runs_into_the_end_is_refused(
    engine: HibariEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = engine._model("heart")
    speak = model.from_ids
    monkeypatch.setattr(model, "from_ids", lambda ids, rng: speak(ids, rng=rng)[:24_000])
    with pytest.raises(SynthesisError, match="runs into the end"):
        engine.synthesize("This is a rather long sentence to say.", "heart", 1)


def test_sentence_too_long_for_the_model(engine: HibariEngine) -> None:
    with pytest.raises(InputError, match=r"at most 400 phonemes, got \d+"):
        engine.synthesize("and so on " * 58 + ".", "heart", 1)


def test_unknown_sign_is_refused(engine: HibariEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    model = engine._model("heart")
    monkeypatch.setattr(model, "_g2p", lambda text, normalize_text: "hə\u2603")
    with pytest.raises(SynthesisError, match="unknown: '\u2603'"):
        engine.synthesize("Hello.", "heart", 1)


def test_unknown_voice_is_named_with_the_nearest(engine: HibariEngine) -> None:
    with pytest.raises(InputError, match="got 'hart'; did you mean 'heart'"):
        engine.synthesize("Hi.", "hart", 1)


def test_a_voice_that_would_have_to_be_downloaded_is_refused(
    engine: HibariEngine, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIBARI_HOME", str(tmp_path))
    with pytest.raises(InputError, match=r"on this machine \(heart, h01 to h57\), got emma"):
        engine.synthesize("Hi.", "emma", 1)
    assert list(tmp_path.iterdir()) == []


def test_facts(engine: HibariEngine) -> None:
    facts = engine.facts()
    assert facts["name"] == "hibari"
    assert facts["version"] == "0.2.1"
    assert facts["weights_sha256"] == (
        "5f70741d4e900f4e85d0037498736cc1b3e1b9a63a13546a5da1e63abf4fccd8"
    )
    assert facts["fft"].split()[0] == "numpy"


@pytest.mark.parametrize("voice", ["heart", "h20"])
def test_an_installed_scipy_changes_no_byte(engine: HibariEngine, voice: str) -> None:
    """scipy comes with the test tools: a suite built before and after must be the same suite."""
    here = engine.synthesize("The gate code is four one five.", voice, 7)
    code = ("import sys, hashlib; sys.modules['scipy'] = None; sys.modules['scipy.fft'] = None\n"
            "from audio.engine_hibari import HibariEngine\n"
            f"x = HibariEngine().synthesize('The gate code is four one five.', '{voice}', 7)\n"
            "print(hashlib.sha256(x.tobytes()).hexdigest())")
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                           check=True).stdout.strip()
    assert there == hashlib.sha256(here.tobytes()).hexdigest()
