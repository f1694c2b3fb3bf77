"""PersonaPlex's worker against a fake made from the source of its fork of Moshi.

The facts: tests/tools/signatures/personaplex.toml names the source. The language model gives
nothing in its first two steps after a reset; `step_system_prompts` is voice, silence, the tokens of
the persona one a step, silence, and goes over the tokens whatever they are.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
import tarfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import signature_table

CODE = "personaplex:moshi."
STREAMING = {"streaming_forever": f"{CODE}modules.streaming.StreamingModule.streaming_forever",
             "reset_streaming": f"{CODE}modules.streaming.StreamingModule.reset_streaming"}
CODEC = {**STREAMING, "encode": f"{CODE}models.compression.MimiModel.encode",
         "decode": f"{CODE}models.compression.MimiModel.decode"}
MODEL = {**STREAMING, "step": f"{CODE}models.lm.LMGen.step",
         "load_voice_prompt_embeddings": f"{CODE}models.lm.LMGen.load_voice_prompt_embeddings",
         "step_system_prompts": f"{CODE}models.lm.LMGen.step_system_prompts"}
WORDS = {"encode": "sentencepiece:sentencepiece.SentencePieceProcessor.Encode",
         "id_to_piece": "sentencepiece:sentencepiece.SentencePieceProcessor.IdToPiece"}
VOICE_STEPS = 50
SILENCE_STEPS = int(0.5 * 12.5)  # 6 of 80 ms: 480 ms
FRAME = np.zeros(1920, np.float32)


class Tensor:
    """As much of a tensor as the worker asks of one."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    def __getitem__(self, key: Any) -> Any:
        found = self.values[key]
        return Tensor(found) if np.ndim(found) else found

    def to(self, device: Any) -> Tensor:
        return self

    float = cpu = lambda self: self

    def numpy(self) -> np.ndarray:
        return self.values


class Torch:
    def __init__(self) -> None:
        self.seeds: list[int] = []

    def manual_seed(self, seed: int) -> None:
        self.seeds.append(seed)

    def no_grad(self) -> Any:
        return nullcontext()

    def from_numpy(self, samples: np.ndarray) -> Tensor:
        return Tensor(samples)


class Codec:
    sample_rate, frame_rate = 24_000, 12.5

    def __init__(self, calls: list[Any]) -> None:
        self.calls = calls

    def streaming_forever(self, batch_size: int) -> None:
        assert batch_size == 1

    def reset_streaming(self) -> None:
        self.calls.append("codec reset")

    def encode(self, x: Tensor) -> Tensor:
        assert x.values.shape == (1, 1, 1920)
        return Tensor(np.zeros((1, 8, 1), int))

    def decode(self, codes: Tensor) -> Tensor:
        assert codes.values[0, :, 0].tolist() == list(range(1, 9))  # of 16, the model's own
        return Tensor(np.full((1, 1, 1920), 0.5, np.float32))


class Lm:
    def __init__(self, calls: list[Any]) -> None:
        self.calls, self.voice_prompt, self.text_prompt_tokens = calls, None, None
        self.steps = 0
        self.texts: list[int] = []

    def streaming_forever(self, batch_size: int) -> None:
        assert batch_size == 1

    def reset_streaming(self) -> None:
        self.calls.append("model reset")
        self.steps = 0

    def load_voice_prompt_embeddings(self, path: str) -> None:
        self.voice_prompt = path
        self.calls.append(f"voice {path}")

    def step_system_prompts(self, mimi: Any) -> None:
        assert mimi.sample_rate == 24_000
        text = list(self.text_prompt_tokens)  # as the source does: None fails
        self.calls.append(("prompts", text))
        self.steps += VOICE_STEPS + SILENCE_STEPS + len(text) + SILENCE_STEPS

    def step(self, codes: Tensor) -> Tensor | None:
        assert codes.values.shape == (1, 8, 1)
        self.steps += 1
        if self.steps <= 2:
            return None
        tokens = np.arange(17)[None, :, None].copy()
        tokens[0, 0, 0] = self.texts.pop(0) if self.texts else 0
        return Tensor(tokens)


class Words:
    def encode(self, text: str) -> list[str]:
        return text.split()

    def id_to_piece(self, token: int) -> str:
        return {5: "\u2581hi"}[token]


@pytest.fixture
def plex(worker_script: Callable[[str], Any]) -> tuple[Any, Lm, Torch]:
    calls: list[Any] = []
    torch, lm = Torch(), Lm(calls)
    strict = signature_table.Strict
    model = worker_script("personaplex_worker").PersonaPlex(
        torch, strict(Codec(calls), CODEC), strict(lm, MODEL), strict(Words(), WORDS), "cpu",
        "NATF2.pt", {})
    return model, lm, torch


def test_it_is_ready_after_voice_and_persona(plex: Any) -> None:
    """The handshake comes late: all of it is done before the session's clock starts, and the codec
    is fresh when the user's first frame comes."""
    model, lm, torch = plex
    model.reset(" You are Jane. ", 9)
    assert lm.calls == ["codec reset", "model reset", "voice NATF2.pt",
                        ("prompts", ["<system>", "You", "are", "Jane.", "<system>"]),
                        "codec reset"]
    assert torch.seeds == [9]
    assert lm.steps == 50 + 6 + 5 + 6
    said, _ = model.step(FRAME)
    assert (said == 0.5).all()  # nothing is left of the two steps that give nothing


def test_no_persona_is_no_token(plex: Any) -> None:
    """Its own programs set None then, which fails; the voice is not loaded again."""
    model, lm, _ = plex
    model.reset("x", 9)
    del lm.calls[:]
    model.reset(" ", 10)
    assert lm.calls == ["codec reset", "model reset", ("prompts", []), "codec reset"]
    assert (model.step(FRAME)[0] == 0.5).all()


def test_frames(plex: Any, worker_script: Callable[[str], Any]) -> None:
    """Without prompts, as while it warms up: two frames of nothing, then sound and words; tokens 0
    and 3 are none."""
    model, lm, _ = plex
    lm.texts = [3, 5, 0]
    heard = [model.step(FRAME) for _ in range(5)]
    assert [text for _, text in heard] == ["", "", "", " hi", ""]
    assert [float(said[0]) for said, _ in heard] == [0, 0, 0.5, 0.5, 0.5]
    assert all(said.shape == (1920,) for said, _ in heard)
    assert worker_script("personaplex_worker").wrapped("<system> x <system>") == (
        "<system> x <system>")


# Loading

COMMIT = "3" * 40


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """The fork, the hub and torch; what was asked of them."""
    asked: dict[str, Any] = {"downloads": []}
    monkeypatch.setattr(os, "environ", {})
    snapshot = tmp_path / "models--nvidia--personaplex-7b-v1" / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    with tarfile.open(snapshot / "voices.tgz", "w:gz") as archive:
        member = tarfile.TarInfo("voices/NATM1.pt")
        archive.addfile(member, io.BytesIO())

    def hf_hub_download(repo_id: str, filename: str, *, revision: str | None) -> str:
        asked["downloads"].append((repo_id, filename, revision))
        path = snapshot / filename
        if not path.exists():
            path.write_text(filename)
        return str(path)

    def get_mimi(filename: str, device: Any) -> Any:
        asked["mimi"] = (Path(filename).name, device)
        return signature_table.Strict(Codec([]), CODEC)

    def get_moshi_lm(filename: str, *, device: Any) -> Any:
        asked["lm"] = (Path(filename).name, device)
        return SimpleNamespace(eval=lambda: "weights")

    def make(lm_model: Any, **facts: Any) -> Any:
        asked["LMGen"] = (lm_model, facts)
        return signature_table.Strict(Lm([]), MODEL)

    def processor(path: str) -> Any:
        asked["words"] = Path(path).name
        return signature_table.Strict(Words(), WORDS)

    class LMGen:
        step_system_prompts = None

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return signature_table.checked(
                make, signature_table.known(f"{CODE}models.lm.LMGen"))(*args, **kwargs)

    checked, known = signature_table.checked, signature_table.known
    loaders = SimpleNamespace(
        MIMI_NAME="mimi.safetensors", MOSHI_NAME="model.safetensors",
        TEXT_TOKENIZER_NAME="words.model",
        get_mimi=checked(get_mimi, known(f"{CODE}models.loaders.get_mimi")),
        get_moshi_lm=checked(get_moshi_lm, known(f"{CODE}models.loaders.get_moshi_lm")))
    torch = Torch()
    vars(torch).update(device=lambda name: f"device {name}", __version__="2.4.1",
                       load=lambda file, **how: asked.update(load=(file, how)),
                       cuda=SimpleNamespace(is_available=lambda: True))
    for name, content in {
        "moshi.models": {"LMGen": LMGen, "loaders": loaders},
        "sentencepiece": {"SentencePieceProcessor": checked(
            processor, known("sentencepiece:sentencepiece.SentencePieceProcessor.Init"))},
        "huggingface_hub": {"hf_hub_download": checked(hf_hub_download, known(
            "huggingface_hub_0_24:huggingface_hub.file_download.hf_hub_download"))},
    }.items():
        made = ModuleType(name)
        vars(made).update(content)
        monkeypatch.setitem(sys.modules, name, made)
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    asked["torch"] = torch
    return asked


def test_it_is_loaded_as_its_own_offline_program_loads_it(
        worker_script: Callable[[str], Any], package: dict[str, Any], tmp_path: Path) -> None:
    module = worker_script("personaplex_worker")
    model = module.load(module.parsed(["--voice=NATM1", "--revision=abc"]))
    repo = "nvidia/personaplex-7b-v1"
    assert package["downloads"] == [
        (repo, name, "abc")
        for name in ("mimi.safetensors", "words.model", "model.safetensors", "voices.tgz")]
    assert package["mimi"] == ("mimi.safetensors", "device cuda")
    assert package["lm"] == ("model.safetensors", "device cuda")
    weights, facts = package["LMGen"]
    assert weights == "weights"
    assert facts == {
        "audio_silence_frame_cnt": 6, "sample_rate": 24_000, "frame_rate": 12.5,
        "device": "device cuda", "use_sampling": True, "temp": 0.8, "temp_text": 0.8,
        "top_k": 250, "top_k_text": 25}
    model.reset("", 1)
    assert "NO_TORCH_COMPILE" not in os.environ
    snapshot = tmp_path / "models--nvidia--personaplex-7b-v1" / "snapshots" / COMMIT
    assert model._lm.voice_prompt == str(snapshot / "voices" / "NATM1.pt")
    said = model.hello().settings
    assert (said["weights"], said["weights_commit"]) == (repo, COMMIT)
    assert said["voice_sha256"] == hashlib.sha256(b"8 NATM1.pt 0 ").hexdigest()[:16]


def test_nothing_but_tensors_is_taken_out_of_a_voice(
        worker_script: Callable[[str], Any], package: dict[str, Any]) -> None:
    """The package calls `torch.load(path)` alone: a voice saved on a GPU is put where it computes,
    and nothing is unpickled, whoever asks for it."""
    module = worker_script("personaplex_worker")
    module.load(module.parsed(["--voice=NATM1", "--device=cpu"]))
    assert (os.environ["NO_TORCH_COMPILE"], os.environ["NO_CUDA_GRAPH"]) == ("1", "1")
    load = package["torch"].load
    load("voice.pt")
    assert package["load"] == ("voice.pt", {"map_location": "device cpu", "weights_only": True})
    load("voice.pt", "cuda:1", weights_only=False)
    assert package["load"] == ("voice.pt", {"map_location": "cuda:1", "weights_only": True})


def test_a_voice_that_is_none_is_told(
        worker_script: Callable[[str], Any], package: dict[str, Any], tmp_path: Path) -> None:
    module = worker_script("personaplex_worker")
    with pytest.raises(RuntimeError, match="no voice NATX; expected one of NATM1"):
        module.load(module.parsed(["--voice=NATX"]))
    (tmp_path / "voice.wav").write_text("")
    for path in (tmp_path / "voice.wav", tmp_path / "voice.pt"):
        with pytest.raises(RuntimeError, match=r"--set voice: expected a \.pt file with a voice"):
            module.load(module.parsed([f"--voice={path}"]))
    sys.modules["moshi.models"].LMGen = object  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="this is the package moshi of Kyutai"):
        module.load(module.parsed([]))


@pytest.mark.parametrize("name", ["moshi_worker", "personaplex_worker"])
def test_decoding_of_table_25(
        worker_script: Callable[[str], Any], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [name])
    a = worker_script(name).parsed()
    assert (a.temp, a.top_k, a.top_k_text) == (0.8, 250, 25)
    assert a.temp_text == (0.7 if name == "moshi_worker" else 0.8)
