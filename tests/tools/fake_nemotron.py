"""What the worker of Nemotron VoiceChat imports, as much of it as it asks for, without a model.

Made from NVIDIA-NeMo/Speech at commit 1a2bd8d (files: the docstring of the worker): names, order
and kinds of parameters, when a stream may be begun and closed, what a frame without sound does,
which marks are left in the text, when a context is full. `install` puts it where imports look; a
worker's process does so by a `sitecustomize` beside it (`put_beside`).

The speech is a ramp that says which stream, seed and frame it is of; `Torch.manual_seed` alone
decides the seed. A prompt that begins with `break ` says what goes wrong, from the sixth frame on.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

OUT_N = 1764
MARKS = {"<s>", "</s>", "<SPECIAL_12>", "<SPECIAL_1>", "<SPECIAL_1>x"}
WORDS = ("<s>", " Hel", "lo", " you", "", "'", "re", "<SPECIAL_1>x", ".", "</s>", "")
"""Of a stream's frames, as `predicted_text_strs` would give them: padding is nothing."""
FIRST_BAD = 5


class Tensor:
    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values, np.float32)
        self.shape = self.values.shape

    def numel(self) -> int:
        return int(self.values.size)

    def reshape(self, *shape: int) -> Tensor:
        return Tensor(self.values.reshape(*shape))

    float = cpu = lambda self: self

    def numpy(self) -> np.ndarray:
        return self.values


seeds: list[int] = []


def manual_seed(seed: int) -> None:
    seeds.append(seed)


@dataclass(frozen=True, slots=True)
class Frame:
    samples: Tensor
    stream_id: int
    is_first: bool = False
    is_last: bool = False
    length: int = -1
    vad_segments: Tensor | None = None
    options: Any = None


@dataclass(frozen=True, slots=True)
class S2SRequestOptions:
    system_prompt: str | None = None
    top_p: float | None = None
    temperature: float | None = None
    repetition_penalty: float | None = None


@dataclass
class GenerateStepOutput:
    stream_id: int
    audio: Tensor
    text: str = ""
    asr_text: str = ""
    function_text: str = ""


class Pipeline:
    """One stream at a time: `streaming.batch_size` is 1."""

    def __init__(self, cfg: Any) -> None:
        self.cfg = cfg
        self.special_token_strings = set(MARKS)
        self.warm = 0
        self.contexts: dict[int, tuple[str | None, int, int]] = {}
        self.outputs: set[int] = set()

    def warmup(self, system_prompt: str | None = None, num_chunks: int | None = None) -> None:
        self.warm += 1

    def shutdown(self) -> None:
        sys.stderr.write("shut down\n")

    def delete_state(self, stream_id: int) -> None:
        self.outputs.discard(stream_id)

    def generate_step(self, frames: list[Frame]) -> list[GenerateStepOutput]:
        (frame,) = frames
        key = frame.stream_id
        if frame.is_first:
            if key in self.outputs or key in self.contexts:
                raise RuntimeError(f"Stream {key} is already active.")
            if self.contexts or self.outputs:  # the real one would keep it, sound and all
                raise RuntimeError("an earlier stream was not closed and forgotten")
            if not self.warm or not seeds:
                raise RuntimeError("neither warm nor seeded")
            prompt = frame.options.system_prompt
            if prompt is not None and not prompt.strip():
                prompt = None
            prompt = self.cfg.s2s.system_prompt if prompt is None else prompt
            self.contexts[key] = (prompt, seeds[-1], 0)
            self.outputs.add(key)
        if not frame.samples.numel():
            if frame.is_last:
                self.contexts.pop(key, None)
            return [GenerateStepOutput(key, Tensor(np.zeros((1, 0))))]
        if key not in self.outputs:
            raise RuntimeError(f"No state initialized for stream {key}.")
        assert frame.samples.shape == (1280,)
        prompt, seed, k = self.contexts[key]
        if k >= self.cfg.streaming.max_len:
            raise IndexError(f"index {k} is out of bounds for dimension 1")
        self.contexts[key] = (prompt, seed, k + 1)
        return [GenerateStepOutput(key, said(prompt, seed, k, frame), spoken(prompt, k))]


def said(prompt: str | None, seed: int, k: int, frame: Frame) -> Tensor:
    """`(1, 1, 1764)`: a thousandth a frame, a millionth a sample; its last sample is the loudest
    of the user's, its first two say seed and length of the prompt."""
    n = OUT_N
    if prompt and prompt.startswith("break ") and k >= FIRST_BAD:
        kind = prompt.removeprefix("break ")
        if kind == "raise":
            raise RuntimeError("CUDA out of memory")
        if kind == "nan":
            return Tensor(np.full((1, 1, n), np.nan))
        n = {"short": n - 1, "long": n + 1, "none": 0, "two": 2 * n}[kind]
    sound = k * 1e-3 + np.arange(n) * 1e-7
    if n:
        sound[:2] = seed * 1e-3, len(prompt or "") * 1e-3
        sound[-1] = np.abs(frame.samples.values).max()
    return Tensor(sound[None, None])


def spoken(prompt: str | None, k: int) -> str:
    return WORDS[k] if k < len(WORDS) else ""


def cuda_is_there() -> bool:
    return True


def namespaces(value: Any) -> Any:
    if isinstance(value, dict):
        return SimpleNamespace(**{key: namespaces(v) for key, v in value.items()})
    return value


entered: list[Any] = []


@contextmanager
def inference_precision_from_cfg(model_cfg: Any) -> Any:
    entered.append(model_cfg)
    yield
    sys.stderr.write("precision restored\n")


def build_pipeline(cfg: Any) -> Pipeline:
    if entered != [cfg.s2s]:
        raise RuntimeError("This process is not configured the way cfg.s2s asks")
    if cfg.s2s.speaker_name != "Aria":
        raise ValueError(f"Unknown speaker_name {cfg.s2s.speaker_name!r}. Registered speakers: "
                         "['Aria']")
    return Pipeline(cfg)


def snapshot_download(repo_id: str, *, revision: str | None = None) -> str:
    return f"/hub/models--{repo_id.replace('/', '--')}/snapshots/{(revision or '5').ljust(40, '0')}"


def install() -> None:
    """Put all of it into `sys.modules`."""
    inference = "nemo.collections.speechlm2.inference"
    held: dict[str, dict[str, Any]] = {
        "torch": {"__version__": "2.10.0", "manual_seed": manual_seed, "from_numpy": Tensor,
                  "empty": lambda n: Tensor(np.zeros(n)),
                  "cuda": SimpleNamespace(is_available=cuda_is_there)},
        "transformers": {"__version__": "5.12.1"},
        "omegaconf": {"OmegaConf": SimpleNamespace(create=namespaces)},
        "huggingface_hub": {"snapshot_download": snapshot_download},
        "nemo.collections.asr.inference.streaming.framing.request": {"Frame": Frame},
        inference: {"S2SRequestOptions": S2SRequestOptions,
                    "S2SPipelineBuilder": SimpleNamespace(build_pipeline=build_pipeline)},
        f"{inference}.model_wrappers.engine_selection": {
            "inference_precision_from_cfg": inference_precision_from_cfg},
    }
    for name, values in held.items():
        parts = name.split(".")
        for depth in range(1, len(parts) + 1):
            path = ".".join(parts[:depth])
            module = sys.modules.setdefault(path, ModuleType(path))
            module.__path__ = []
        vars(sys.modules[name]).update(values)


def put_beside(folder: Path) -> str:
    """A folder for `PYTHONPATH` in which every Python begins with `install`."""
    (folder / "sitecustomize.py").write_text(
        f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import fake_nemotron\nfake_nemotron.install()\n")
    return str(folder)
