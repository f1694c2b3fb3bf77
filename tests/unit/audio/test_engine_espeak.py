"""eSpeak NG in its own process: the same bytes, bounds on time and length, faults named."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from audio import engine_espeak
from audio.engine_espeak import ACCENTS, RATE_HZ, EspeakEngine
from audio.errors import InputError, SynthesisError


@pytest.fixture(scope="module")
def engine() -> EspeakEngine:
    return EspeakEngine()


def test_form_and_same_bytes_again(engine: EspeakEngine) -> None:
    text = "I told him, sit down, and then he left. No, wait, what?"
    one = engine.synthesize(text, "en-us", 1)
    assert one.dtype == np.float32
    assert one.ndim == 1
    assert 2 < one.size / RATE_HZ < 6
    assert 0.1 < np.abs(one).max() <= 1.0
    engine.synthesize("Something else entirely.", "en-us+f3", 5)
    for seed in (1, 2):
        np.testing.assert_array_equal(engine.synthesize(text, "en-us", seed), one)


def test_a_spelled_a_is_the_letter(engine: EspeakEngine) -> None:
    said = engine.synthesize("M A R Y.", "en-us", 0)
    np.testing.assert_array_equal(said, engine.synthesize("M eh R Y.", "en-us", 0))
    assert not np.array_equal(said, engine.synthesize("M a R Y.", "en-us", 0))


def test_every_accent_speaks_and_differs(engine: EspeakEngine) -> None:
    spoken = {voice: engine.synthesize("Hello there.", voice, 0).tobytes()
              for voice in (*ACCENTS, "en-us+m3", "en-us+f2")}
    assert len(set(spoken.values())) == len(spoken) == 10


def test_voices(engine: EspeakEngine) -> None:
    voices = engine.voices()
    assert len(voices) == len(set(voices)) == 8 * 14
    assert voices[0] == "en-us"


def test_unknown_voice_is_named_with_the_nearest(engine: EspeakEngine) -> None:
    with pytest.raises(InputError, match=r"got 'en-us\+m9'; did you mean 'en-us\+m"):
        engine.synthesize("Hi.", "en-us+m9", 0)


def test_too_much_speech_is_stopped(
    engine: EspeakEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field problem 80: runaway output is cut by a cap, not by patience."""
    monkeypatch.setattr(engine_espeak, "MAX_S", 0.5)
    with pytest.raises(SynthesisError, match=r"speech passed 0.5 s for 'Hello"):
        engine.synthesize("Hello there my friend, how are you today?", "en-us", 0)


def test_no_answer_in_time(engine: EspeakEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_espeak, "TIMEOUT_S", 1e-4)
    with pytest.raises(SynthesisError, match=r"no answer in 0\.0001 s"):
        engine.synthesize("Hello.", "en-us", 0)


@pytest.mark.parametrize(("body", "message"), [
    ("raise SystemExit('broken library')", "ended with 1 .*broken library"),
    ("print('')", "expected a JSON answer, got b''"),
    ("print('{}')", "expected a JSON answer"),
    ("print('[]')", "expected a JSON answer"),
    ("import os; os.kill(os.getpid(), 9)", "ended with -9"),
    ("print('{\"rate_hz\": 22050, \"frames\": 9, \"version\": \"1\"}')", "9 frames, got"),
    ("print('{\"rate_hz\": 16000, \"frames\": 0, \"version\": \"1\"}')", "22050 Hz .*got 16000"),
])
def test_a_broken_process_is_an_error(
    engine: EspeakEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str, message: str
) -> None:
    (tmp_path / "espeak_process.py").write_text(body)
    monkeypatch.setattr(engine_espeak, "__file__", str(tmp_path / "engine_espeak.py"))
    with pytest.raises(SynthesisError, match=message):
        engine.synthesize("Hello.", "en-us", 0)


def test_a_folder_named_audio_where_the_user_stands_is_not_imported(tmp_path: Path) -> None:
    trap = tmp_path / "audio"
    trap.mkdir()
    (trap / "__init__.py").write_text("raise SystemExit('wrong audio')")
    (tmp_path / "json.py").write_text("raise SystemExit('wrong json')")
    code = ("from audio.engine_espeak import EspeakEngine as E;"
            "print(E().synthesize('Hi.', 'en-us', 0).size)")
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True,
                          text=True, check=True)
    assert int(done.stdout) > RATE_HZ // 10


def test_the_library_is_not_loaded_into_this_process(engine: EspeakEngine) -> None:
    engine.synthesize("Hello.", "en-us", 0)
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("this system does not list the libraries of a process")
    assert "libespeak" not in maps.read_text()


def test_facts(engine: EspeakEngine) -> None:
    facts = engine.facts()
    assert facts["name"] == "espeak"
    assert facts["version"] == "0.2.4"
    assert facts["library"].startswith("eSpeak NG 1.52")
    assert len(facts["library_sha256"]) == 64
