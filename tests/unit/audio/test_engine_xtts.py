"""XTTS without its weights: settings, limits, and what its process is asked."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audio import engine_xtts
from audio.buffers import Float32
from audio.engine_xtts import XttsEngine
from audio.errors import InputError
from audio.files import write_wav_pcm16


class FakeProcess:
    """Answers every request with a tone of 0.3 s between silences."""

    def __init__(self, engine: str, module: str, setup: Mapping[str, Any], **limits: float
                 ) -> None:
        self.setup = setup
        self.asked: list[Mapping[str, Any]] = []

    def speak(self, request: Mapping[str, Any]) -> tuple[Float32, int]:
        self.asked.append(request)
        tone = 0.3 * np.sin(2 * np.pi * 200 * np.arange(7_200) / 24_000)
        pad = np.zeros(4_800)
        return np.concatenate((pad, tone, pad)).astype(np.float32), 24_000


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    really = metadata.version
    monkeypatch.setattr(engine_xtts.metadata, "version", lambda name: (
        "0.28.0" if name == "coqui-tts" else "2.13.0" if name == "torch" else really(name)))
    monkeypatch.setattr(engine_xtts, "SpeechProcess", FakeProcess)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "xtts"
    folder.mkdir()
    for name in ("config.json", "vocab.json"):
        (folder / name).write_text("{}")
    for name in ("model.pth", "speakers_xtts.pth"):
        (folder / name).write_bytes(name.encode())
    return folder


def recording(path: Path, seconds: float, rate_hz: int = 16_000, channels: int = 1) -> Path:
    samples = 0.5 * np.sin(2 * np.pi * 200 * np.arange(round(seconds * rate_hz)) / rate_hz)
    shaped = samples if channels == 1 else np.stack([samples] * channels, axis=1)
    write_wav_pcm16(path, shaped.astype(np.float32), rate_hz)
    return path


def xtts(model: Path, **settings: str) -> XttsEngine:
    return XttsEngine({"model": str(model), **settings})


def test_what_its_process_is_asked(model: Path) -> None:
    speech = xtts(model, voices="Ana Example, Bob Example", device="cuda")
    assert speech.voices() == ("Ana Example", "Bob Example")
    speech.synthesize("Hi there. How are you?", "Bob Example", 41)
    process: Any = speech._process
    assert process.setup == {"model": str(model), "device": "cuda", "reference": None}
    # within the limit it is one piece, with the melody of one utterance
    assert process.asked == [{"text": "Hi there. How are you?", "seed": 41,
                              "voice": "Bob Example"}]


def test_a_long_text_is_split_between_sentences_and_a_long_sentence_is_refused(
    model: Path
) -> None:
    speech = xtts(model, voices="Ana")
    sentence = "This one has forty characters, with all."  # 40
    samples = speech.synthesize(" ".join([sentence] * 7), "Ana", 2**31 - 1)
    process: Any = speech._process
    assert [len(request["text"]) for request in process.asked] == [245, 40]
    assert len({request["seed"] for request in process.asked}) == 2
    assert all(0 <= request["seed"] < 2**31 for request in process.asked)
    assert samples.size == pytest.approx(24_000 * (2 * 0.31 + 0.35), abs=500)
    limit = "word " * 49 + "fine."
    assert len(limit) == 250
    speech.synthesize(limit, "Ana", 0)
    with pytest.raises(InputError, match=r"xtts: 'aword .*expected sentences of at most 250 "
                                         "characters, got 251"):
        speech.synthesize("a" + limit, "Ana", 0)


def test_a_recording_is_a_voice(model: Path, tmp_path: Path) -> None:
    path = recording(tmp_path / "me.wav", 40)
    speech = xtts(model, reference=str(path))
    assert speech.voices() == ("reference",)
    speech.synthesize("Hi.", "reference", 0)
    process: Any = speech._process
    assert process.asked[0]["voice"] is None
    sent = np.frombuffer(base64.b64decode(process.setup["reference"]), "<f4")
    assert sent.size == 30 * 22_050
    assert np.abs(sent).max() == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(("seconds", "channels", "message"), [
    (2.9, 1, "one channel of 3 to 60 s, got 1 of 2.9 s"),
    (61, 1, "one channel of 3 to 60 s, got 1 of 61.0 s"),
    (10, 2, "one channel of 3 to 60 s, got 2 of 10.0 s"),
])
def test_a_recording_that_is_refused(
    model: Path, tmp_path: Path, seconds: float, channels: int, message: str
) -> None:
    path = recording(tmp_path / "me.wav", seconds, channels=channels)
    with pytest.raises(InputError, match=message):
        xtts(model, reference=str(path)).synthesize("Hi.", "reference", 0)


def test_the_facts_say_that_it_is_unverified_and_change_with_every_file(
    model: Path, tmp_path: Path
) -> None:
    path = recording(tmp_path / "me.wav", 5)
    before = xtts(model, voices="Ana", reference=str(path)).facts()
    assert before["verified"].startswith("no: its weights could not be had")
    for changed in (model / "model.pth", model / "speakers_xtts.pth"):
        changed.write_bytes(b"another")
        after = xtts(model, voices="Ana", reference=str(path)).facts()
        assert {k for k in before if before[k] != after[k]} == {"setting_model_sha256"}
        before = after
    recording(path, 6)
    after = xtts(model, voices="Ana", reference=str(path)).facts()
    assert {k for k in before if before[k] != after[k]} == {"setting_reference_sha256"}


@pytest.mark.parametrize(("settings", "message"), [
    ({}, "voices=A,B or --tts-set reference=FILE, got neither"),
    ({"voices": "reference"}, "expected names of speakers, got 'reference'"),
    ({"voices": "Ana", "device": "tpu"}, "--tts-set device: expected one of cpu, cuda"),
    ({"reference": "/no/such.wav"}, "--tts-set reference: expected a regular file"),
])
def test_settings_that_are_refused(model: Path, settings: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        xtts(model, **settings)


@pytest.mark.parametrize("name", ["config.json", "model.pth", "vocab.json", "speakers_xtts.pth"])
def test_a_folder_without_one_of_the_files(model: Path, name: str) -> None:
    (model / name).unlink()
    with pytest.raises(InputError, match=rf"expected a regular file, got '.*{name}'"):
        xtts(model, voices="Ana")


def test_a_configuration_that_is_none(model: Path) -> None:
    (model / "config.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match=r"xtts: config.json: expected a JSON file"):
        xtts(model, voices="Ana")
