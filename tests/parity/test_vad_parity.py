"""Ours against the official silero-vad package: same weights, same bits, same spans.

Needs the extra `parity`. The official models see every file once, inside the official
`get_speech_timestamps`; for the rest of the settings the recorded probabilities are played back to
that same function. What is compared is counted and printed.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hibari import Hibari

from audio.analysis import analysis_samples
from audio.buffers import Float32
from audio.resample import resample
from audio.silero import WEIGHTS_SHA256, load_model
from audio.vad import VadSettings, intervals_from_probabilities

pytestmark = [
    pytest.mark.parity,
    # The official package loads its JIT model that way.
    pytest.mark.filterwarnings("ignore:`torch.jit.load` is:DeprecationWarning"),
]

CALLS = Path(__file__).parents[3] / "shared" / "data" / "calls"
RATE_HZ = 16_000

GRID = [
    {"threshold": threshold, "min_speech_ms": min_speech_ms, "min_silence_ms": min_silence_ms,
     "speech_pad_ms": speech_pad_ms, "max_speech_s": max_speech_s}
    for threshold, min_speech_ms, min_silence_ms, speech_pad_ms, max_speech_s in itertools.product(
        (0.3, 0.5, 0.8), (0, 90, 250), (0, 90, 500, 1000), (0, 30, 200), (2, 5, math.inf))
]
"""324 settings. The paper's and the library's own are among them."""
NEG_THRESHOLDS = [
    {"threshold": 0.5, "neg_threshold": neg_threshold, "min_speech_ms": 90, "min_silence_ms": 90}
    for neg_threshold in (0.0, 0.05, 0.2, 0.5)
]


class Corpus:
    """Named signals at 16 kHz, all from fixed seeds and the sample recordings."""

    def __init__(self) -> None:
        self.files: dict[str, Float32] = {}
        speak = Hibari()
        random = np.random.default_rng(20_260)

        def say(text: str, speed: float = 1.0, rate_hz: int = 24_000) -> Float32:
            spoken = np.asarray(speak(text, speed=speed, seed=11), dtype=np.float32)
            return resample(spoken, rate_hz, RATE_HZ)

        def noise(n: int) -> Float32:
            return random.standard_normal(n).astype(np.float32)

        def add(name: str, samples: Float32) -> None:
            self.files[name] = np.ascontiguousarray(samples, dtype=np.float32)

        text = ("Thanks for calling. I can see two open slots, one on Tuesday at nine, and one on "
                "Friday afternoon. Which of them would suit you better?")
        plain = say(text)
        add("speech", plain)
        add("speech fast", say(text, speed=1.6))
        add("speech slow", say(text, speed=0.7))
        add("speech high", say(text, rate_hz=19_000))
        add("speech low", say(text, rate_hz=29_000))
        telephone = resample(plain, RATE_HZ, 8_000)
        companded = np.sign(telephone) * np.log1p(255 * np.abs(telephone)) / np.log(256)
        coded = np.rint(companded * 127) / 127
        add("speech telephone", resample(
            (np.sign(coded) * np.expm1(np.abs(coded) * np.log(256)) / 255).astype(np.float32),
            8_000, RATE_HZ))
        power = float(np.mean(plain**2))
        for snr_db in (20, 10, 5, 0, -5):
            level = np.sqrt(power / 10 ** (snr_db / 10))
            add(f"speech at {snr_db} dB SNR", plain + level * noise(len(plain)))
        add("speech clipped", np.clip(20 * plain, -1, 1))
        add("speech over full scale", 6 * plain)
        add("speech -60 dB", 1e-3 * plain)
        add("speech -80 dB", 1e-4 * plain)
        add("speech with offset", plain + 0.3)
        add("speech reversed", plain[::-1])
        add("babble", sum((np.roll(plain, k * 17_001) for k in range(4)), np.zeros_like(plain)) / 4)
        add("speech cut after 0.1 s", plain[8_000:9_600])
        add("speech of 511 samples", plain[9_000:9_511])
        add("speech of 513 samples", plain[9_000:9_513])
        words = [say(word) for word in ("Yes.", "No.", "Okay.", "Right.", "Maybe later.")]
        pieces: list[Float32] = []
        for k, gap_ms in enumerate(itertools.chain(range(40, 800, 20), (1200, 2500, 4000))):
            pieces += [words[k % 5], 1e-4 * noise(gap_ms * 16)]
        add("many pauses", np.concatenate(pieces))
        add("long monologue", np.tile(plain, 5))
        t = np.arange(10 * RATE_HZ) / RATE_HZ
        add("silence", np.zeros(10 * RATE_HZ))
        add("offset", np.full(5 * RATE_HZ, 0.25))
        add("dither", random.integers(-1, 2, 10 * RATE_HZ) / 32768)
        add("white noise", 0.1 * noise(10 * RATE_HZ))
        add("brown noise", 0.01 * np.cumsum(noise(10 * RATE_HZ)) % 1 - 0.5)
        add("modulated noise", 0.2 * noise(len(t)) * (np.sin(2 * np.pi * 4 * t) > 0))
        add("tone", 0.3 * np.sin(2 * np.pi * 440 * t))
        add("ringback", 0.2 * (np.sin(2 * np.pi * 440 * t) + np.sin(2 * np.pi * 480 * t)))
        add("sweep", 0.3 * np.sin(2 * np.pi * (100 + 190 * t) * t))
        add("voiced buzz", 0.3 * ((120 * t) % 1 - 0.5) * (t % 0.6 < 0.4))
        clicks = np.zeros(5 * RATE_HZ)
        clicks[::4_321] = 0.9
        add("clicks", clicks)
        for n in (0, 1, 300, 512):
            add(f"noise of {n} samples", 0.1 * noise(n))
        self._recordings()

    def _recordings(self) -> None:
        soundfile = pytest.importorskip("soundfile")
        for path in sorted(CALLS.rglob("*.wav")):
            samples, rate_hz = soundfile.read(path, dtype="float32", always_2d=True)
            for channel in range(samples.shape[1]):
                self.files[f"{path.stem} channel {channel}"] = analysis_samples(
                    np.ascontiguousarray(samples[:, channel]), rate_hz)


class Recorded:
    """Wraps an official model and keeps what it says; or plays that back."""

    def __init__(self, model: Any = None, values: list[float] | None = None) -> None:
        self._model = model
        self._played: Iterator[float] = iter(values or [])
        self.values: list[float] = []

    def reset_states(self) -> None:
        if self._model is not None:
            self._model.reset_states()

    def __call__(self, chunk: Any, rate_hz: int) -> Any:
        if self._model is None:
            self._value = next(self._played)
            return self
        answer = self._model(chunk, rate_hz)
        self.values.append(answer.item())
        return answer

    def item(self) -> float:
        return self._value


def official_intervals(
    official: Any, samples: Any, model: Any, **settings: Any
) -> list[tuple[int, int]]:
    names = {"min_speech_ms": "min_speech_duration_ms", "min_silence_ms": "min_silence_duration_ms",
             "max_speech_s": "max_speech_duration_s"}
    stamps = official.get_speech_timestamps(
        samples, model, **{names.get(name, name): value for name, value in settings.items()})
    return [(stamp["start"], stamp["end"]) for stamp in stamps]


@pytest.fixture(scope="module")
def torch() -> Any:
    """Imported here, so that collecting the tests does not load it."""
    module = pytest.importorskip("torch", reason="the parity extra is not installed")
    module.set_num_threads(1)
    return module


@pytest.fixture(scope="module")
def official(torch: Any) -> Any:
    return pytest.importorskip("silero_vad", reason="the parity extra is not installed")


@pytest.fixture(scope="module")
def corpus() -> dict[str, Float32]:
    return Corpus().files


@pytest.fixture(scope="module")
def recorded(
    corpus: dict[str, Float32], torch: Any, official: Any
) -> dict[str, dict[str, list[float]]]:
    """What each official model says of each file, in one live pass with the paper's settings."""
    out: dict[str, dict[str, list[float]]] = {}
    for kind, model in (("onnx", official.load_silero_vad(onnx=True)),
                        ("jit", official.load_silero_vad())):
        out[kind] = {}
        for name, samples in corpus.items():
            recorder = Recorded(model)
            live = official_intervals(official, torch.from_numpy(samples), recorder,
                                      min_speech_ms=90, min_silence_ms=90)
            ours = intervals_from_probabilities(
                load_model().frame_probabilities(samples), len(samples), VadSettings())
            assert ours == live, (kind, name)
            out[kind][name] = recorder.values
    return out


def test_weights_are_byte_identical_to_those_of_the_official_package(official: Any) -> None:
    path = Path(official.__file__).parent / "data" / "silero_vad.onnx"
    assert hashlib.sha256(path.read_bytes()).hexdigest() == WEIGHTS_SHA256


def test_probabilities_are_those_of_the_official_onnx_path(
    corpus: dict[str, Float32], recorded: dict[str, dict[str, list[float]]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = load_model()
    batched = dict(zip(corpus, model.frame_probabilities_batch(list(corpus.values())), strict=True))
    frames = 0
    furthest = 0.0
    for name, samples in corpus.items():
        ours = model.frame_probabilities(samples)
        theirs = np.array(recorded["onnx"][name])
        np.testing.assert_array_equal(ours.astype(np.float64), theirs, err_msg=name)
        np.testing.assert_array_equal(batched[name], ours, err_msg=name)
        jit = np.array(recorded["jit"][name])
        furthest = max([furthest, *np.abs(jit - theirs).tolist()])
        frames += len(ours)
    assert len(corpus) >= 30
    assert furthest < 1e-4
    with capsys.disabled():
        print(f"\n[parity] route {model.route}: {frames} probabilities of {len(corpus)} files equal"
              f" the official ONNX path bit for bit; JIT is at most {furthest:.2g} away")


def test_probabilities_are_those_of_the_official_sequence_path(
    corpus: dict[str, Float32], official: Any
) -> None:
    if not hasattr(official, "SileroVADSequence"):
        pytest.skip("this version of silero-vad has no sequence path")
    sequence = official.load_silero_vad(sequence=True)
    for name, samples in corpus.items():
        np.testing.assert_array_equal(
            load_model().frame_probabilities(samples), sequence.audio_forward(samples),
            err_msg=name)


def test_spans_are_those_of_get_speech_timestamps(
    corpus: dict[str, Float32], recorded: dict[str, dict[str, list[float]]],
    torch: Any, official: Any, capsys: pytest.CaptureFixture[str],
) -> None:
    compared = {"onnx": 0, "jit": 0}
    spans = 0
    for kind, by_file in recorded.items():
        for name, values in by_file.items():
            samples = corpus[name]
            # The grid in full for short files, every seventh setting for minutes of audio.
            grid = GRID if len(samples) < 40 * RATE_HZ else GRID[::7]
            ours = load_model().frame_probabilities(samples)
            empty = torch.zeros(1).expand(len(samples))
            for setting in itertools.chain(grid, NEG_THRESHOLDS):
                theirs = official_intervals(official, empty, Recorded(values=values), **setting)
                got = intervals_from_probabilities(ours, len(samples), VadSettings(**setting))
                assert got == theirs, (kind, name, setting)
                compared[kind] += 1
                spans += len(got)
    assert spans > 10_000
    with capsys.disabled():
        print(f"\n[parity] {len(corpus)} files, {len(GRID) + len(NEG_THRESHOLDS)} settings: "
              f"{compared['onnx']} lists equal with the official ONNX model, {compared['jit']} with"
              f" the JIT model, {spans} spans in all, none differs by a sample")
