"""MiniCPM-o's worker against a fake made from the source of its code.

The facts: tests/tools/signatures/minicpm_o.toml names the source. Its chunks: a buffer that takes
what is given; the first chunk wants 1,035 ms and is padded on the left, and what the processor
takes of it is a whole number of 10 ms; each later one takes a second.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import signature_table

METHODS = {name: f"minicpm_o:MiniCPMODuplex.{name}"
           for name in ("prepare", "streaming_prefill", "streaming_generate")}
HOP_N = 160
FIRST_N = 16_560 // HOP_N * HOP_N  # 16,480
SECOND = np.linspace(-1, 1, 16_000, dtype=np.float32)


class Encoder:
    """The model below: its audio encoder keeps what it has heard (`audio_past_key_values`) until
    `reset_session`; `prepare` of the duplex does not call that."""

    def __init__(self) -> None:
        self.past: list[np.ndarray] = []

    def reset_session(self, reset_token2wav_cache: bool = True) -> None:
        assert reset_token2wav_cache
        self.past = []


class Duplex:
    """Hears as its source does, says what it is told to, and keeps what it was asked."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers = list(answers)
        self.given_n: list[int] = []
        self.heard: list[np.ndarray] = []
        self.prepared: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.refuses = ""
        self.encoder = Encoder()
        self.model = signature_table.Strict(
            self.encoder, {"reset_session": "minicpm_o:MiniCPMO.reset_session"})
        self.encoded_behind: list[int] = []
        """Chunks that the encoder still had, for each one taken in."""

    def prepare(self, **facts: Any) -> str:
        self.prepared.append(facts)
        self.buffer, self.chunks = np.zeros(0, np.float32), 0
        self.has_voice = bool(facts.get("prompt_wav_path"))
        assert isinstance(facts["ref_audio"], np.ndarray)
        return "prompt"

    def streaming_prefill(self, audio_waveform: np.ndarray) -> dict[str, Any]:
        self.given_n.append(len(audio_waveform))
        self.buffer = np.concatenate([self.buffer, audio_waveform])
        need_n = 16_000
        if not self.chunks:
            need_n = FIRST_N
            self.buffer = np.concatenate(
                [np.zeros(max(0, 16_560 - len(self.buffer)), np.float32), self.buffer])
        if self.refuses or len(self.buffer) < need_n:
            return keys("streaming_prefill", success=False, reason=self.refuses)
        self.heard.append(self.buffer[:need_n])
        self.encoded_behind.append(len(self.encoder.past))
        self.encoder.past.append(self.heard[-1])
        self.buffer = self.buffer[need_n:]
        self.chunks += 1
        return keys("streaming_prefill", success=True, reason="")

    def streaming_generate(self, **settings: Any) -> dict[str, Any]:
        self.asked.append(settings)
        answer = self.answers.pop(0)
        if not answer["is_listen"] and not self.has_voice:
            answer["audio_waveform"] = None
        return answer


def keys(method: str, **known: Any) -> dict[str, Any]:
    """A dictionary with the keys of the source, and no others."""
    return dict.fromkeys(signature_table.known(METHODS[method]).keys) | known


def listens() -> dict[str, Any]:
    """While it listens it gives a second of silence, and calls it audio."""
    return keys("streaming_generate", is_listen=True, text="",
                audio_waveform=np.zeros(24_000, np.float32))


def says(n: int, value: float, text: str = "", last: bool = False) -> dict[str, Any]:
    """Less than a second is padded on the left, but for the end of a turn."""
    sound = np.full(n, value, np.float32)
    if not last and n < 24_000:
        sound = np.concatenate([np.zeros(24_000 - n, np.float32), sound])
    return keys("streaming_generate", is_listen=False, text=text, audio_waveform=sound,
                end_of_turn=last)


@pytest.fixture
def librosa(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording of a quarter of a second, whatever is asked for."""
    def load(path: str, sr: int, mono: bool) -> tuple[np.ndarray, int]:
        assert mono
        return np.ones(sr // 4, np.float32), sr

    made = ModuleType("librosa")
    made.load = signature_table.checked(  # type: ignore[attr-defined]
        load, signature_table.known("librosa:librosa.core.audio.load"))
    monkeypatch.setitem(sys.modules, "librosa", made)


@pytest.fixture
def made(worker_script: Callable[[str], Any], librosa: None) -> Callable[..., tuple[Any, Duplex]]:
    def make(*answers: dict[str, Any], **settings: Any) -> tuple[Any, Duplex]:
        module = worker_script("minicpm_o_worker")
        duplex = Duplex(*answers)
        arguments = [f"--{k.replace('_', '-')}={v}" for k, v in settings.items()]
        model = module.MiniCpm(signature_table.Strict(duplex, METHODS),
                               module.parsed(arguments), {}, "voice.wav")
        model.reset("Be brief.", 7)
        return model, duplex

    return make


def test_the_first_chunk_lasts_1035_ms_and_is_padded_on_the_left(made: Any) -> None:
    """560 samples of silence, then the user without a gap; 80 samples (5 ms) wait for the next."""
    model, duplex = made(*(listens() for _ in range(3)))
    user = np.random.default_rng(3).uniform(-1, 1, 48_000).astype(np.float32)
    for k in range(3):
        model.step(user[k * 16_000 : (k + 1) * 16_000])
    assert duplex.given_n == [16_560, 16_000, 16_000]
    assert [len(h) for h in duplex.heard] == [16_480, 16_000, 16_000]
    np.testing.assert_array_equal(np.concatenate(duplex.heard),
                                  np.concatenate([np.zeros(560, np.float32), user[:-80]]))
    model.reset("", 8)
    duplex.answers.append(listens())
    model.step(SECOND)
    assert duplex.given_n[-1] == 16_560
    assert not duplex.heard[-1][:560].any()


def test_what_it_says_is_never_beside_the_second_that_it_answers(made: Any) -> None:
    """A long answer fills the seconds after it; silence of listening is not put between."""
    model, _ = made(listens(), says(36_000, 0.5, "one"), listens(), says(100, 0.25, last=True))
    out = [model.step(SECOND) for _ in range(4)]
    assert [t for _, t in out] == ["", "one", "", ""]
    assert all(len(s) == 24_000 for s, _ in out)
    heard = np.concatenate([s for s, _ in out])
    expected = np.zeros(96_000, np.float32)
    expected[24_000:60_000] = 0.5
    expected[72_000:72_100] = 0.25
    np.testing.assert_array_equal(heard, expected)


def test_a_short_beginning_is_at_the_end_of_its_second(made: Any) -> None:
    """The source pads it on the left, so that what follows joins on."""
    model, _ = made(says(6_000, 0.5, "well"), says(24_000, 0.25, "then"))
    first, second = model.step(SECOND)[0], model.step(SECOND)[0]
    assert (np.flatnonzero(first)[0], np.count_nonzero(first)) == (18_000, 6_000)
    assert (second == 0.25).all()


def test_a_case_is_not_encoded_behind_the_one_before(made: Any) -> None:
    """The encoder's own past goes on within a case, and ends with it."""
    model, duplex = made(*(listens() for _ in range(5)))
    for _ in range(3):
        model.step(SECOND)
    model.reset("", 1)
    for _ in range(2):
        model.step(SECOND)
    assert duplex.encoded_behind == [0, 1, 2, 0, 1]


def test_reset_forgets_what_was_still_to_be_said(made: Any) -> None:
    model, duplex = made(says(48_000, 0.5))
    model.step(SECOND)
    model.reset("", 1)
    duplex.answers.append(listens())
    assert not model.step(SECOND)[0].any()


def test_settings_of_table_25_persona_and_voice(made: Any) -> None:
    model, duplex = made(listens())
    model.step(SECOND)
    assert duplex.asked == [{"prompt_wav_path": "voice.wav", "max_new_speak_tokens_per_chunk": 20,
                             "decode_mode": "sampling", "temperature": 0.7, "top_k": 20,
                             "top_p": 0.8, "listen_prob_scale": 1.0}]
    (prepared,) = duplex.prepared
    assert prepared["prefix_system_prompt"] == "Streaming Omni Conversation. Be brief."
    assert prepared["prompt_wav_path"] == "voice.wav"
    assert prepared["ref_audio"].shape == (4000,)  # a quarter of a second at 16 kHz
    hello = model.hello()
    assert (hello.input_rate_hz, hello.frame_in_n, hello.frame_out_n) == (16_000, 16_000, 24_000)
    assert hello.settings["voice"] == "assets/HT_ref_audio.wav"


def test_a_chunk_that_is_not_taken_or_never_ends_fails(made: Any) -> None:
    model, duplex = made(says(31 * 24_000, 0.1))
    duplex.refuses = "context full"
    with pytest.raises(RuntimeError, match="streaming_prefill: context full"):
        model.step(SECOND)
    duplex.refuses = ""
    with pytest.raises(RuntimeError, match="more than 30 s of speech wait"):
        model.step(SECOND)


# Loading

@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., list[Any]]:
    """torch, transformers and a hub with these files; what was asked of them, in order."""
    def make(*files: str) -> list[Any]:
        calls: list[Any] = []
        snapshot = tmp_path / "snapshot"
        for name in files:
            (snapshot / name).parent.mkdir(parents=True, exist_ok=True)
            (snapshot / name).write_text("{}")

        def snapshot_download(repo_id: str, **more: Any) -> str:
            calls.append(("snapshot", repo_id, more))
            return str(snapshot)

        class Loaded:
            def eval(self) -> Any:
                return self

            cuda = eval

            def as_duplex(self, **facts: Any) -> Any:
                calls.append(("as_duplex", facts))
                return Duplex()

        def from_pretrained(name: str, **facts: Any) -> Any:
            calls.append(("from_pretrained", name, facts))
            return signature_table.Strict(Loaded(), {"as_duplex": "minicpm_o:MiniCPMO.as_duplex"})

        of_hub = ModuleType("huggingface_hub")
        of_hub.snapshot_download = signature_table.checked(  # type: ignore[attr-defined]
            snapshot_download, signature_table.known(
                "huggingface_hub:huggingface_hub._snapshot_download.snapshot_download"))
        monkeypatch.setitem(sys.modules, "huggingface_hub", of_hub)
        torch = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: True), bfloat16="bf16",
                                __version__="2.8.0", manual_seed=lambda seed: None)
        monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
        monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(  # type: ignore[arg-type]
            AutoModel=SimpleNamespace(from_pretrained=from_pretrained), __version__="4.51.0"))
        return calls

    return make


def test_weights_code_and_voice_are_of_one_folder(
        worker_script: Any, hub: Any, tmp_path: Path) -> None:
    """By the repository's name, processor and tokenizer would be fetched again, at no revision."""
    module = worker_script("minicpm_o_worker")
    calls = hub("config.json", "assets/HT_ref_audio.wav")
    model = module.load(module.parsed(["--revision=abc", "--force-listen=3"]))
    folder = str(tmp_path / "snapshot")
    assert calls == [
        ("snapshot", "openbmb/MiniCPM-o-4_5", {"revision": "abc", "allow_patterns": None}),
        ("from_pretrained", folder, {
            "trust_remote_code": True, "attn_implementation": "sdpa", "torch_dtype": "bf16",
            "use_safetensors": True, "init_vision": False, "init_audio": True, "init_tts": True}),
        ("as_duplex", {"generate_audio": True, "ls_mode": "explicit", "force_listen_count": 3})]
    assert model._voice == f"{folder}/assets/HT_ref_audio.wav"


def test_venus_is_a_folder_of_its_repository(worker_script: Any, hub: Any, tmp_path: Path) -> None:
    module = worker_script("minicpm_o_worker")
    calls = hub("Venus/config.json", "Venus/assets/HT_ref_audio.wav")
    module.load(module.parsed(["--repo=some/venus", "--subfolder=Venus"]))
    assert calls[0] == ("snapshot", "some/venus", {"revision": None,
                                                   "allow_patterns": ["Venus/*"]})
    assert calls[1][1] == str(tmp_path / "snapshot" / "Venus")


def test_without_a_voice_nothing_would_be_heard_so_it_is_not_started(
        worker_script: Any, hub: Any, tmp_path: Path) -> None:
    module = worker_script("minicpm_o_worker")
    calls = hub("config.json")
    with pytest.raises(RuntimeError, match=r"a recording of a voice, got none, and the weights "
                                           r"have no assets/HT_ref_audio\.wav"):
        module.load(module.parsed([]))
    with pytest.raises(RuntimeError, match=r"a recording of a voice, got not_there\.wav"):
        module.load(module.parsed(["--voice=not_there.wav"]))
    with pytest.raises(RuntimeError, match=r"a folder with the model's config\.json"):
        module.load(module.parsed([f"--weights={tmp_path}"]))
    assert not [c for c in calls if c[0] == "from_pretrained"]
