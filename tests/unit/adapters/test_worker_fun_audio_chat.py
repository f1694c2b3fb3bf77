"""Fun-Audio-Chat's worker: its turns, and its calls against fakes made from the source.

The facts: tests/tools/signatures/fun_audio_chat.toml names the source.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import signature_table

TRANSFORMERS = "transformers_4_52:transformers."
PROCESSOR = "fun_audio_chat:funaudiochat.processing_funaudiochat.FunAudioChatProcessor."


class AtTimes:
    """An endpointer that finds what it is told, by the window's end in samples."""

    def __init__(self, events: dict[int, dict[str, int]]) -> None:
        self.events, self.n, self.resets = events, 0, 0

    def __call__(self, window: np.ndarray) -> dict[str, int] | None:
        assert window.shape == (512,)
        self.n += 512
        return self.events.get(self.n)

    def reset_states(self) -> None:
        self.n, self.resets = 0, self.resets + 1


class Answers:
    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str], np.ndarray]] = []

    def reply(self, prompt: str, turns: list[tuple[np.ndarray, str]],
              heard: np.ndarray) -> tuple[np.ndarray, str]:
        self.asked.append((prompt, [t for _, t in turns], heard))
        return np.full(3000, 0.1 * len(self.asked), np.float32), f"answer {len(self.asked)}"


@pytest.fixture
def chat(worker_script: Callable[[str], Any]) -> Callable[..., tuple[Any, Answers, AtTimes]]:
    def make(events: dict[int, dict[str, int]]) -> tuple[Any, Answers, AtTimes]:
        module = worker_script("fun_audio_chat_worker")
        answers, times = Answers(), AtTimes(events)
        model = module.FunAudioChat(answers, times, module.parsed([]), {})
        model.reset("Be brief.", 1)
        return model, answers, times

    return make


def hear(model: Any, seconds: float) -> tuple[np.ndarray, list[tuple[int, str]]]:
    """The user says a ramp, so that each sample says where it is."""
    ramp = (np.arange(round(seconds * 16_000)) / 1e6).astype(np.float32)
    said, texts = [], []
    for k in range(len(ramp) // 1280):
        sound, text = model.step(ramp[k * 1280 : (k + 1) * 1280])
        said.append(sound)
        texts += [(k, text)] if text else []
    return np.concatenate(said), texts


def test_an_utterance_is_answered_when_it_is_over(chat: Any) -> None:
    """Speech from 1 s, found to be over with the window that ends at 2.56 s: frame 31 is the one in
    which the answer begins; the model was given 0.7 to 2.56 s."""
    model, answers, _ = chat({16_384: {"start": 16_000}, 40_960: {"end": 28_000}})
    said, texts = hear(model, 4.0)
    assert texts == [(31, "answer 1")]
    ((prompt, before, heard),) = answers.asked
    assert (prompt, before) == ("Be brief.", [])
    assert round(float(heard[0]) * 1e6) == 11_200
    assert len(heard) == 40_960 - 11_200
    begin = 31 * 1920
    assert (said[begin : begin + 3000] == np.float32(0.1)).all()
    assert not said[:begin].any()
    assert not said[begin + 3000 :].any()


def test_it_speaks_on_and_answers_what_was_said_meanwhile_after(chat: Any) -> None:
    model, answers, times = chat({
        5120: {"start": 4096}, 20_480: {"end": 9000},
        20_992: {"start": 20_600}, 23_040: {"end": 22_600}})
    said, texts = hear(model, 3.0)
    assert texts == [(15, "answer 1"), (17, "answer 2")]
    assert answers.asked[1][1] == ["answer 1"]
    loud = np.flatnonzero(said)
    assert loud[0] == 15 * 1920
    np.testing.assert_array_equal(np.unique(said), np.float32([0, 0.1, 0.2]))
    assert (said[15 * 1920 : 15 * 1920 + 3000] == np.float32(0.1)).all()
    model.reset("Again.", 2)
    assert times.resets >= 2
    hear(model, 2.0)
    assert answers.asked[2][:2] == ("Again.", [])


def test_eight_turns_are_remembered_the_present_one_with_them(chat: Any) -> None:
    """As its own server keeps them (MAX_HISTORY_TURNS)."""
    events: dict[int, dict[str, int]] = {}
    for k in range(10):
        events[512 * (10 * k + 2)] = {"start": 512 * (10 * k + 1)}
        events[512 * (10 * k + 6)] = {"end": 512 * (10 * k + 5)}
    model, answers, _ = chat(events)
    hear(model, 512 * 100 / 16_000)
    assert [len(before) for _, before, _ in answers.asked] == [0, 1, 2, 3, 4, 5, 6, 7, 7, 7]
    assert answers.asked[9][1] == [f"answer {k}" for k in range(3, 10)]


def test_a_minute_is_kept_at_most_and_marks_are_no_sound(chat: Any, worker_script: Any) -> None:
    model, answers, _ = chat({1024: {"start": 600}, 512 * 2200: {"end": 512 * 2190}})
    hear(model, 71.0)
    assert len(answers.asked[0][2]) == 60 * 16_000
    assert round(float(answers.asked[0][2][-1]) * 1e6) == 512 * 2200 - 1
    assert worker_script("fun_audio_chat_worker").audio_tokens(
        [-1, 0, 6560, 6561, 7]) == [0, 6560, 7]


# Its code

class Tensor:
    """As much of a tensor as the worker asks of one."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    def __getitem__(self, key: Any) -> Tensor:
        return Tensor(self.values[key])

    def size(self, dim: int) -> int:
        return self.values.shape[dim]

    def tolist(self) -> list[Any]:
        return self.values.tolist()

    float = cpu = lambda self: self

    def numpy(self) -> np.ndarray:
        return self.values


class Theirs:
    """The model's code: prompt of four ids, answers `text_ids` and `audio_ids` of any length."""

    def __init__(self) -> None:
        self.calls: dict[str, Any] = {}
        self.sp_gen_kwargs = {"text_greedy": False, "only_crq_sampling": True,
                              "disable_speech": False, "force_text_abos": False}
        self.device = "cuda:0"
        self.feature_extractor = SimpleNamespace(n_samples=30 * 16_000)

    def eval(self) -> Any:
        return signature_table.Strict(self, {
            "generate": f"{TRANSFORMERS}generation.utils.GenerationMixin.generate"})

    def generate(self, input_ids: Tensor, **how: Any) -> tuple[Tensor, Tensor]:
        self.calls["generate"] = how
        text = np.concatenate([input_ids.values, [[71, 72]]], axis=1)
        return Tensor(text), Tensor([[5, 6561, 6560, 9]])

    def apply_chat_template(self, messages: Any, **how: Any) -> str:
        self.calls["messages"], self.calls["template"] = messages, how
        return "prompt"

    def decode(self, ids: Tensor, skip_special_tokens: bool) -> str:
        assert skip_special_tokens
        return " ".join(map(str, ids.tolist()))

    def __call__(self, **given: Any) -> Any:
        self.calls["processor"] = given
        batch = Batch(input_ids=Tensor(np.zeros((1, 4), int)))
        return signature_table.Strict(batch, {
            "to": f"{TRANSFORMERS}feature_extraction_utils.BatchFeature.to"})


class Batch(dict):  # type: ignore[type-arg]
    @property
    def input_ids(self) -> Tensor:
        return self["input_ids"]

    def to(self, device: str) -> Batch:
        assert device == "cuda:0"
        return self


COMMIT = "4" * 40


@pytest.fixture
def engine(worker_script: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch,
           tmp_path: Path) -> Callable[..., tuple[Any, Theirs]]:
    """The worker's engine over a checkout's modules, as its source names them."""
    def make(detokenizer_in: str = "code") -> tuple[Any, Theirs]:
        module = worker_script("fun_audio_chat_worker")
        theirs = Theirs()
        weights = tmp_path / detokenizer_in / module.DETOKENIZER
        weights.mkdir(parents=True)
        (weights / "cosyvoice3.yaml").write_text("")
        (tmp_path / "code").mkdir(exist_ok=True)
        (tmp_path / "here").mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / "here")

        def token2wav(codec: Any, tokens: list[int], embedding: Any) -> Tensor:
            theirs.calls["token2wav"] = (codec, tokens, embedding)
            return Tensor(np.full((1, 960 * len(tokens)), 0.5, np.float32))

        def get_audio_detokenizer() -> str:
            theirs.calls["cwd"] = Path.cwd()
            return "codec"

        snapshot = (tmp_path / "models--some--weights" / "snapshots" / COMMIT)
        snapshot.mkdir(parents=True, exist_ok=True)

        def snapshot_download(repo_id: str, *, revision: str | None) -> str:
            theirs.calls["snapshot"] = (repo_id, revision)
            return str(snapshot)

        def from_pretrained(name: str, **how: Any) -> Any:
            theirs.calls["from_pretrained"] = (name, how)
            return theirs

        for name, content in {
            "funaudiochat.register": {"register_funaudiochat": lambda: None},
            "utils.constant": {
                "AUDIO_TEMPLATE": "<audio>", "DEFAULT_S2M_PROMPT": "Speak.",
                "DEFAULT_S2M_GEN_KWARGS": {"do_sample": True, "temperature": 0.8, "top_k": 0,
                                           "max_new_tokens": 512},
                "DEFAULT_SP_GEN_KWARGS": {"text_greedy": False, "force_text_abos": True}},
            "utils.cosyvoice_detokenizer": {
                "get_audio_detokenizer": get_audio_detokenizer,
                "token2wav": signature_table.checked(
                    token2wav, signature_table.known(
                        "fun_audio_chat:utils.cosyvoice_detokenizer.token2wav"))},
            "huggingface_hub": {"snapshot_download": signature_table.checked(
                snapshot_download, signature_table.known(
                    "huggingface_hub:huggingface_hub._snapshot_download.snapshot_download"))},
            "transformers": {
                "AutoConfig": SimpleNamespace(from_pretrained=lambda name: "config"),
                "AutoProcessor": SimpleNamespace(
                    from_pretrained=lambda name: signature_table.Strict(theirs, {
                        "apply_chat_template":
                        f"{TRANSFORMERS}processing_utils.ProcessorMixin.apply_chat_template",
                        "__call__": f"{PROCESSOR}__call__", "decode": f"{PROCESSOR}decode"})),
                "AutoModelForSeq2SeqLM": SimpleNamespace(from_pretrained=from_pretrained)},
            "torch": {"no_grad": nullcontext, "bfloat16": "bf16",
                      "load": lambda path, weights_only: {module.VOICE: {
                          "embedding": f"{Path(path).name} {weights_only}"}}},
        }.items():
            made = ModuleType(name)
            vars(made).update(content)
            monkeypatch.setitem(sys.modules, name, made)
        monkeypatch.setattr(sys, "path", list(sys.path))
        args = module.parsed([f"--code={tmp_path / 'code'}", "--weights=some/weights"])
        return module.RealEngine(args), theirs

    return make


def test_its_calls_are_those_of_its_own_example(engine: Any, tmp_path: Path) -> None:
    """examples/infer_s2s.py: text greedy, sound sampled with the repository's own values; of an
    answer the ids after the prompt are text, and of the audio ids those below 6,561 are sound."""
    real, theirs = engine()
    heard, before = np.zeros(1600, np.float32), np.ones(800, np.float32)
    said, text = real.reply("You are Jane.", [(before, "hello")], heard)
    assert theirs.calls["messages"] == [
        {"role": "system", "content": "Speak. You are Jane."},
        {"role": "user", "content": "<audio>"}, {"role": "assistant", "content": "hello"},
        {"role": "user", "content": "<audio>"}]
    assert theirs.calls["template"] == {"add_generation_prompt": True, "tokenize": False}
    given = theirs.calls["processor"]
    assert (given["text"], given["return_tensors"]) == ("prompt", "pt")
    for sound, expected in zip(given["audio"], [before, heard], strict=True):
        np.testing.assert_array_equal(sound, expected)
    assert theirs.calls["generate"] == {"do_sample": True, "temperature": 0.8, "top_k": 0,
                                        "max_new_tokens": 2048}
    assert theirs.sp_gen_kwargs == {"text_greedy": True, "only_crq_sampling": True,
                                    "disable_speech": False, "force_text_abos": True}
    assert theirs.calls["token2wav"] == ("codec", [5, 6560, 9], "new_spk2info.pt True")
    assert theirs.calls["snapshot"] == ("some/weights", None)
    assert (real.facts["weights"], real.facts["weights_commit"]) == ("some/weights", COMMIT)
    assert {"code_sha256", "detokenizer_sha256"} < set(real.facts)
    snapshot = tmp_path / "models--some--weights" / "snapshots" / COMMIT
    assert theirs.calls["from_pretrained"] == (str(snapshot), {
        "config": "config", "torch_dtype": "bf16", "device_map": "cuda:0",
        "use_safetensors": True})
    assert text == "71 72"
    assert len(said) == 3 * 960  # 40 ms a token, at 24 kHz
    real.reply(" ", [], heard)
    assert theirs.calls["messages"][0]["content"] == "Speak."
    assert theirs.calls["cwd"] == tmp_path / "code"


def test_an_utterance_is_cut_at_its_beginning_to_what_the_extractor_takes(engine: Any) -> None:
    """30 s here, Whisper's default: the extractor itself would cut the end."""
    real, theirs = engine()
    ramp = np.arange(31 * 16_000, dtype=np.float32)
    real.reply("", [(ramp, "hello")], ramp[:100])
    before, heard = theirs.calls["processor"]["audio"]
    assert (before[0], len(before), len(heard)) == (16_000, 30 * 16_000, 100)


def test_the_detokenizer_is_looked_for_here_and_in_the_checkout(
        engine: Any, tmp_path: Path) -> None:
    _, theirs = engine("here")
    assert theirs.calls["cwd"] == tmp_path / "here"


def test_without_the_detokenizer_it_is_not_started(engine: Any) -> None:
    with pytest.raises(RuntimeError, match=r"expected pretrained_models/Fun-CosyVoice3-0\.5B-2512, "
                                           r"the weights of the detokenizer, in .*here or in "):
        engine("elsewhere")


def test_the_endpointer_is_made_as_sileros_package_wants_it(
        worker_script: Callable[[str], Any]) -> None:
    module = worker_script("fun_audio_chat_worker")
    heard: list[Any] = []
    iterator = signature_table.Strict(
        lambda x: heard.append(x) or {"start": 512},
        {"__call__": "silero_vad:silero_vad.utils_vad.VADIterator.__call__"})
    torch = SimpleNamespace(from_numpy=lambda window: ("tensor", window))
    windows = module.Windows(torch, iterator)
    assert windows(np.zeros(512, np.float32)) == {"start": 512}
    assert heard[0][0] == "tensor"
