"""A rendered segment: what it promises, what the gate refuses, what is the same everywhere."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from audio import synthesis
from audio.buffers import Float32, float_to_pcm16, pcm16_to_float
from audio.edges import MARGIN_MS, measure_edges, trim
from audio.engine_hibari import HibariEngine
from audio.engines import ENGINES
from audio.errors import AlignmentError, InputError, SynthesisError
from audio.resample import resample
from audio.synthesis import (
    DEFAULT_ENGINE,
    Gate,
    construction_key,
    engine,
    engine_names,
    render_segment,
)

RATE_HZ = 24_000
TEXT = "I can't find her, and the gate code is four one five."


@pytest.fixture(scope="module")
def hibari() -> HibariEngine:
    return HibariEngine()


@pytest.fixture(scope="module")
def clean(hibari: HibariEngine) -> Callable[[str], Float32]:
    spoken: dict[str, Float32] = {}

    def speak(text: str) -> Float32:
        if text not in spoken:
            spoken[text] = hibari.synthesize(text, "heart", 0)
        return spoken[text]

    return speak


@dataclass
class Faulty:
    """An engine that spoils what it speaks as long as the seed is below `good_from`."""

    speak: Callable[[str], Float32]
    spoil: Callable[[Float32], Float32]
    good_from: int = 1_000_000
    seeds: list[int] = field(default_factory=list)
    name: str = "faulty"
    version: str = "1"
    sample_rate_hz: int = RATE_HZ

    def voices(self) -> tuple[str, ...]:
        return ("only",)

    def synthesize(self, text: str, voice: str, seed: int) -> Float32:
        self.seeds.append(seed)
        samples = self.speak(text).copy()
        if seed < self.good_from:
            samples = self.spoil(samples)
        samples[-1] = seed * 1e-6  # so that no two seeds give the same bytes
        return samples

    def facts(self) -> dict[str, str]:
        return {"name": self.name, "version": self.version}


def noise(seconds: float, gain: float) -> Float32:
    rng = np.random.default_rng(0)
    return (gain * rng.standard_normal(round(seconds * RATE_HZ))).astype(np.float32)


def with_tail(seconds: float, gain: float) -> Callable[[Float32], Float32]:
    """Sound after the speech, as some engines add it to short texts (field problem 78)."""
    def spoil(samples: Float32) -> Float32:
        end_n = measure_edges(samples, RATE_HZ).end_n
        return np.concatenate((samples[:end_n], noise(seconds, gain), samples[end_n:]))
    return spoil


def with_head(samples: Float32) -> Float32:
    start_n = measure_edges(samples, RATE_HZ).start_n
    return np.concatenate((noise(0.5, 0.02), samples[start_n:]))


def with_pause(samples: Float32) -> Float32:
    half = samples.size // 2
    return np.concatenate((samples[:half], np.zeros(round(1.2 * RATE_HZ), np.float32),
                           samples[half:]))


def cut_short(samples: Float32) -> Float32:
    found = measure_edges(samples, RATE_HZ)
    return samples[:found.start_n + (found.end_n - found.start_n) // 2]


def clipped(samples: Float32) -> Float32:
    return np.clip(samples * 6, -1, 1).astype(np.float32)


def not_finite(samples: Float32) -> Float32:
    samples[1000] = np.nan
    return samples


# -- what a segment promises --------------------------------------------------------------------


def test_a_segment(hibari: HibariEngine) -> None:
    segment = render_segment(TEXT, hibari, "heart", 3)
    assert segment.alignment == "forced"
    assert segment.attempts == 1
    assert segment.seed == 3
    assert " ".join(w.word for w in segment.words) == (
        "I can't find her and the gate code is four one five")
    assert segment.samples.dtype == np.float32
    # on the PCM16 grid: what is stored is what is played
    np.testing.assert_array_equal(
        pcm16_to_float(float_to_pcm16(segment.samples)), segment.samples)
    assert segment.seconds_per_char == pytest.approx(
        segment.samples.size / RATE_HZ / len(TEXT), rel=1e-9)
    assert 0.03 < segment.seconds_per_char < 0.1


@pytest.mark.parametrize("text", ["Five.", "She said yes,", "uh,", "Who lives in the house?"])
def test_edges_are_at_most_10_ms_outside_speech(hibari: HibariEngine, text: str) -> None:
    samples = render_segment(text, hibari, "heart", 0).samples
    found = measure_edges(samples, RATE_HZ)
    assert found.start_n <= 0.010 * RATE_HZ
    assert samples.size - found.end_n <= 0.010 * RATE_HZ
    assert MARGIN_MS <= 10


def test_an_engine_at_another_rate_is_converted(clean: Callable[[str], Float32]) -> None:
    fake = Faulty(lambda text: resample(clean(text), RATE_HZ, 22_050), lambda x: x, good_from=0,
                  sample_rate_hz=22_050)
    direct = render_segment(TEXT, Faulty(clean, lambda x: x, good_from=0), "only", 0)
    converted = render_segment(TEXT, fake, "only", 0)
    assert converted.samples.size == pytest.approx(direct.samples.size, abs=48)
    for one, other in zip(direct.words, converted.words, strict=True):
        assert other.start_n == pytest.approx(one.start_n, abs=0.04 * RATE_HZ)


def test_same_bytes_in_another_process_and_after_other_segments(hibari: HibariEngine) -> None:
    def digest() -> str:
        segment = render_segment(TEXT, hibari, "heart", 5)
        words = json.dumps([(w.word, w.start_n, w.end_n) for w in segment.words])
        return hashlib.sha256(segment.samples.tobytes() + words.encode()).hexdigest()

    first = digest()
    render_segment("Something else!", hibari, "heart", 1)
    assert digest() == first
    code = f"""
import hashlib, json
from audio.synthesis import engine, render_segment
e = engine("hibari")
render_segment("An earlier one, with a strange word, Zorbinski.", e, "heart", 9)
s = render_segment({TEXT!r}, e, "heart", 5)
w = json.dumps([(w.word, w.start_n, w.end_n) for w in s.words])
print(hashlib.sha256(s.samples.tobytes() + w.encode()).hexdigest())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == first


@pytest.mark.parametrize("text", ["call 911", ""])
def test_text_that_is_not_spoken_never_reaches_the_engine(
    clean: Callable[[str], Float32], text: str
) -> None:
    fake = Faulty(clean, lambda x: x)
    with pytest.raises(InputError):
        render_segment(text, fake, "only", 0)
    assert fake.seeds == []


@pytest.mark.parametrize("text", ["uh-huh, uh-huh", "ha ha ha ha", "a", "I.", "mm-hm", "Oh!"])
def test_short_clean_texts_pass(hibari: HibariEngine, text: str) -> None:
    segment = render_segment(text, hibari, "heart", 1)
    assert segment.alignment == "forced"
    assert segment.attempts == 1


# -- the gate -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("spoil", "message"), [
    (with_tail(3.0, 0.02), "sound after the last word|s for"),
    (with_tail(0.5, 0.02), "sound after the last word"),
    (with_head, "sound before the first word"),
    (with_pause, r"no silence over 1.0 s inside, got 1\.\d+ s"),
    (cut_short, r"expected 1.86 to 5.75 s for 53 characters, got 1\.\d+ s"),
    (clipped, "below full scale, got clipping"),
    (not_finite, "finite"),
    (lambda x: np.zeros_like(x), "expected speech"),
    (lambda x: np.stack((x, x), axis=1), "mono"),
], ids=["3 s tail", "0.5 s tail", "head", "pause", "cut", "clipped", "nan", "silent", "stereo"])
def test_a_spoilt_rendering_is_made_again_and_then_refused(
    clean: Callable[[str], Float32], spoil: Callable[[Float32], Float32], message: str
) -> None:
    fake = Faulty(clean, spoil)
    with pytest.raises(SynthesisError, match=message) as caught:
        render_segment(TEXT, fake, "only", 10)
    assert TEXT in str(caught.value)
    assert "3 attempt" in str(caught.value)
    assert fake.seeds == [10, 11, 12]

    third_is_good = Faulty(clean, spoil, good_from=12)
    segment = render_segment(TEXT, third_is_good, "only", 10)
    assert (segment.attempts, segment.seed, segment.alignment) == (3, 12, "forced")


@pytest.mark.parametrize("text", ["hola,", "mm-hm,", "okay,"])
def test_noise_after_a_short_text_is_refused(clean: Callable[[str], Float32], text: str) -> None:
    """Field problem 78: seconds a character, whether or not the text can be aligned."""
    with pytest.raises(SynthesisError, match="s for"):
        render_segment(text, Faulty(clean, with_tail(3.0, 0.05)), "only", 0)


def test_an_engine_without_another_rendering_is_asked_twice_only(
    clean: Callable[[str], Float32]
) -> None:
    class Same(Faulty):
        def synthesize(self, text: str, voice: str, seed: int) -> Float32:
            self.seeds.append(seed)
            return self.spoil(self.speak(text).copy())

    fake = Same(clean, with_pause)
    with pytest.raises(SynthesisError, match=r"passed in 1 attempt.*silence over"):
        render_segment(TEXT, fake, "only", 0)
    assert fake.seeds == [0, 1]


def test_an_engine_that_fails_is_asked_again(clean: Callable[[str], Float32]) -> None:
    def fail(_: Float32) -> Float32:
        raise SynthesisError("no answer")

    assert render_segment(TEXT, Faulty(clean, fail, good_from=2), "only", 0).attempts == 3
    with pytest.raises(SynthesisError, match="no answer"):
        render_segment(TEXT, Faulty(clean, fail), "only", 0)


def test_bounds_of_seconds_a_character_are_exact(clean: Callable[[str], Float32]) -> None:
    fake = Faulty(clean, lambda x: x)
    length_s = render_segment(TEXT, fake, "only", 0).samples.size / RATE_HZ
    per_char = length_s / len(TEXT)
    render_segment(TEXT, fake, "only", 0, gate=Gate(min_s_per_char=per_char * 0.999))
    render_segment(TEXT, fake, "only", 0, gate=Gate(max_s_per_char=per_char * 1.001,
                                                    max_extra_s=0))
    for refused in (Gate(min_s_per_char=per_char * 1.001),
                    Gate(max_s_per_char=per_char * 0.999, max_extra_s=0)):
        with pytest.raises(SynthesisError, match="s for 53 characters"):
            render_segment(TEXT, fake, "only", 0, gate=refused)


# -- alignment that fails -----------------------------------------------------------------------


def test_failed_alignment_is_tried_again_and_then_marked(
    clean: Callable[[str], Float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> tuple[object, ...]:
        raise AlignmentError("lost")

    monkeypatch.setattr(synthesis, "align", fail)
    fake = Faulty(clean, lambda x: x)
    segment = render_segment("See the banana.", fake, "only", 4)
    assert segment.alignment == "uniform"
    assert fake.seeds == [4, 5, 6]
    assert segment.attempts == 3
    assert segment.seed == 4
    # 3 + 3 + 6 letters over the whole segment
    size_n = segment.samples.size
    assert [(w.word, w.start_n, w.end_n) for w in segment.words] == [
        ("See", 0, round(size_n * 3 / 12)),
        ("the", round(size_n * 3 / 12), round(size_n * 6 / 12)),
        ("banana", round(size_n * 6 / 12), size_n),
    ]


def test_failed_alignment_never_hides_stray_sound(
    clean: Callable[[str], Float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One rendering with a tail fails to align, the next shows the tail: nothing is returned."""
    really = synthesis.align
    calls: list[int] = []

    def first_fails(samples: Float32, rate_hz: int, text: str) -> object:
        calls.append(1)
        if len(calls) == 1:
            raise AlignmentError("lost")
        return really(samples, rate_hz, text)

    monkeypatch.setattr(synthesis, "align", first_fails)
    with pytest.raises(SynthesisError, match="after the last word"):
        render_segment(TEXT, Faulty(clean, with_tail(0.5, 0.02)), "only", 0)


def test_speech_that_nobody_would_hear_is_refused(clean: Callable[[str], Float32]) -> None:
    with pytest.raises(SynthesisError, match=r"expected speech at -45 dBFS or louder, got -6\d"):
        render_segment(TEXT, Faulty(clean, lambda x: 0.01 * x), "only", 0)


def test_a_trail_in_two_pieces_is_stray_sound(clean: Callable[[str], Float32]) -> None:
    """Each piece is short enough to be a fading; what the model itself called the end counts."""
    def trail(x: Float32) -> Float32:
        rng = np.random.default_rng(2)
        noise = [rng.normal(0, 0.02, round(s * 24_000)).astype(np.float32) for s in (0.19, 0.19)]
        gap = np.zeros(round(0.05 * 24_000), np.float32)
        return np.concatenate((trim(x, 24_000)[0], gap, noise[0], gap, noise[1]))

    with pytest.raises(SynthesisError, match="after the last word"):
        render_segment(TEXT, Faulty(clean, trail), "only", 0)


def test_attempts_must_be_positive(clean: Callable[[str], Float32]) -> None:
    with pytest.raises(InputError, match="at least 1 attempt, got 0"):
        render_segment(TEXT, Faulty(clean, lambda x: x), "only", 0, max_attempts=0)


# -- engines by name, construction --------------------------------------------------------------


def test_engines_by_name() -> None:
    assert DEFAULT_ENGINE in engine_names()
    for name in ("hibari", "espeak"):
        assert name in engine_names()
        found = engine(name)
        assert found.name == name
        assert found.voices()


def test_unknown_engine_is_named_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"expected one of endpoint, espeak, .*got 'espek'; "
                                         r"did you mean 'espeak'\?"):
        engine("espek")


def test_engine_whose_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENGINES, "hibari", replace(ENGINES["hibari"], module="audio.no_such"))
    with pytest.raises(InputError, match="speech engine hibari: expected its package"):
        engine("hibari")


def test_nothing_heavy_is_imported_before_speaking() -> None:
    code = ("import sys, audio.synthesis as s; s.engine('hibari'); s.engine('espeak');"
            "print([m for m in ('hibari', 'onnxruntime', 'pocketsphinx', 'espeakng_loader')"
            " if m in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


PINNED = "f1782c5c14f5b15974f154cebc47e9728b47c1c99a9c1e302d7945df0c027156"


def construction_hash(**changes: object) -> str:
    given: dict[str, object] = {"text": "Hello \u2014 there", "engine_name": "hibari",
                                "engine_version": "0.2.1", "voice": "heart", "seed": 7}
    key = construction_key(**{**given, **changes})  # type: ignore[arg-type]
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()


def test_construction_hash_is_the_same_on_every_machine() -> None:
    """Pinned. It changes only with a setting that shapes the sound; then say so in the log."""
    assert construction_hash() == PINNED
    assert construction_hash(text="Hello, there.") == PINNED  # normalised alike


@pytest.mark.parametrize("change", [
    {"text": "Hello there"}, {"engine_name": "espeak"}, {"engine_version": "0.2.2"},
    {"voice": "emma"}, {"seed": 8}, {"max_attempts": 2}, {"gate": Gate(max_tail_s=0.3)},
])
def test_construction_hash_changes_with_everything_that_shapes_the_sound(
    change: dict[str, object]
) -> None:
    assert construction_hash(**change) != PINNED
