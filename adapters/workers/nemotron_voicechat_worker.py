# /// script
# requires-python = ">=3.12,<3.13"
# dependencies = [
#     "nemo_toolkit[speechlm2] @ git+https://github.com/NVIDIA-NeMo/Speech@1a2bd8d03e1133281e7c51e65ea1bdfab39ffc95",
#     "lhotse==2.0.0a3",
#     "torch==2.10.0",
#     "causal-conv1d==1.6.2.post1",
#     "mamba-ssm==2.3.2.post1",
# ]
#
# [tool.uv]
# no-build-isolation-package = ["causal-conv1d", "mamba-ssm"]
#
# [[tool.uv.dependency-metadata]]
# name = "causal-conv1d"
# version = "1.6.2.post1"
# requires-dist = ["torch", "packaging", "ninja"]
#
# [[tool.uv.dependency-metadata]]
# name = "mamba-ssm"
# version = "2.3.2.post1"
# requires-dist = ["torch", "packaging", "ninja", "einops", "transformers"]
# ///
"""NVIDIA NemotronLabs VoiceChat 11B behind the worker protocol; docs/models/nemotron_voicechat.md.

80 ms in, one step of the model, 80 ms out, through the streaming pipeline of NVIDIA-NeMo/Speech at
the commit above. What is called, and where it was read (all below `nemo/collections/`):

- `speechlm2/inference/factory/s2s_pipeline_builder.py`: `S2SPipelineBuilder.build_pipeline`;
- `speechlm2/inference/model_wrappers/engine_selection.py`: `inference_precision_from_cfg`;
- `speechlm2/inference/pipelines/streaming_s2s_pipeline.py`: `warmup`, `generate_step`,
  `delete_state`, `shutdown`, `special_token_strings`, fields of `GenerateStepOutput`;
- `speechlm2/inference/streaming/framing/s2s_request_options.py`: `S2SRequestOptions`;
- `asr/inference/streaming/framing/request.py`: `Frame`;
- keys and values of the configuration: `conf/s2s_streaming.yaml` and `s2s_streaming_infer.py` in
  `examples/speechlm2/nemo_inference_pipelines` of the repository;
- an empty first frame that only takes in the prompt, an empty last one that only closes:
  `docs/source/speechlm2/streaming_inference.rst`.
"""

from __future__ import annotations

import argparse
import atexit
import importlib.metadata
import json
import os
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from worker_kit.protocol import Float32, Hello
from worker_kit.serve import HopelessError, Model, serve
from worker_kit.speech_models import seed_all
from worker_kit.weights import weights_facts

REVISION = "nemotron_voicechat_worker.1"
INPUT_HZ, OUTPUT_HZ = 16_000, 22_050
FRAME_IN_N, FRAME_OUT_N = 1280, 1764  # 80 ms each
FRAME_S = 0.08
BUFFER_S = 5.6
"""Of user audio that the pipeline keeps; what its own script gives with frames of 80 ms."""
ENGINES = ("native", "vllm_omni")


@dataclass(frozen=True, slots=True)
class Parts:
    """The pipeline and what its frames are made of: classes of the package, or fakes of them."""

    pipeline: Any
    frame: Any
    options: Any
    torch: Any


class NemotronVoiceChat(Model):
    """One stream after the other, each under a number of its own."""

    def __init__(self, parts: Parts, args: argparse.Namespace, settings: dict[str, Any]) -> None:
        self._parts, self._max_len, self._settings = parts, args.max_len, settings
        # Longest first: one may be the beginning of another.
        self._marks = sorted(parts.pipeline.special_token_strings, key=len, reverse=True)
        self._stream = 0
        self._open = False
        self._heard_n = 0

    def hello(self) -> Hello:
        return Hello("nemotron_voicechat", REVISION, INPUT_HZ, OUTPUT_HZ, FRAME_IN_N, FRAME_OUT_N,
                     full_duplex=True, persona_prompt=True, transcript="stream",
                     settings=self._settings)

    def reset(self, system_prompt: str, seed: int) -> None:
        if self._open:
            self._step(self._parts.torch.empty(0), is_last=True)
            self._parts.pipeline.delete_state(self._stream)
        seed_all(seed, self._parts.torch)
        self._stream += 1
        self._heard_n = 0
        self._open = True
        # A frame without sound: the prompt is taken in before the session's clock starts.
        self._step(self._parts.torch.empty(0), is_first=True,
                   options=self._parts.options(system_prompt=system_prompt.strip() or None))

    def step(self, samples: Float32) -> tuple[Float32, str]:
        if self._heard_n == self._max_len:
            raise RuntimeError(f"its context of {self._max_len} frames is full, which is "
                               f"{self._max_len * FRAME_S:g} s; --set max_len")
        said = self._step(self._parts.torch.from_numpy(samples))
        self._heard_n += 1
        # (1, 1, n) from the codec, on its device. How many samples there are is the rig's to judge.
        sound = said.audio.reshape(-1).float().cpu().numpy()
        return np.asarray(sound, np.float32), self._words(said.text)

    def _step(self, samples: Any, **more: Any) -> Any:
        (said,) = self._parts.pipeline.generate_step(
            [self._parts.frame(samples=samples, stream_id=self._stream, **more)])
        return said

    def _words(self, text: str) -> str:
        """Without the marks of turns, which the pipeline leaves in."""
        for mark in self._marks:
            text = text.replace(mark, "")
        return text


def configuration(args: argparse.Namespace, weights: str) -> dict[str, Any]:
    """Of the pipeline, as its `s2s_streaming.yaml` has it, but for what the arguments say."""
    return {
        "s2s": {
            "model_path": weights, "decode_audio": True, "speaker_name": args.voice,
            "llm_engine_type": args.llm_engine, "tts_engine_type": args.tts_engine,
            "device": args.device, "compute_dtype": args.dtype,
            "use_perception_cache": True, "use_perception_cudagraph": True,
            "use_llm_cache": args.use_llm_cache,
            "top_p": args.top_p, "temperature": args.temperature,
            "repetition_penalty": args.repetition_penalty,
            "force_turn_taking": True, "force_turn_taking_threshold": 40,
            "force_turn_taking_pad_window": 25, "inference_user_pad_boost": 0.8,
            # Comes with each stream; what stands here would be given where a case has none.
            "system_prompt": None,
            "matmul_precision": "medium", "allow_tf32": True, "deterministic": args.deterministic},
        "streaming": {
            "input_sample_rate": INPUT_HZ, "output_sample_rate": OUTPUT_HZ, "batch_size": 1,
            "att_context_size": [70, 0], "chunk_size_in_secs": FRAME_S,
            "buffer_size_in_secs": BUFFER_S, "request_type": "frame", "max_len": args.max_len}}


def load(args: argparse.Namespace) -> NemotronVoiceChat:
    if args.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before CUDA is begun
    try:
        import torch
        import transformers
        from huggingface_hub import snapshot_download
        from nemo.collections.asr.inference.streaming.framing.request import Frame
        from nemo.collections.speechlm2.inference import S2SPipelineBuilder, S2SRequestOptions
        from nemo.collections.speechlm2.inference.model_wrappers.engine_selection import (
            inference_precision_from_cfg,
        )
        from omegaconf import OmegaConf
    except ImportError as error:
        raise HopelessError(f"not in this environment: {error}; the released nemo_toolkit (3.0.0) "
                            "does not hold the streaming pipeline, the commit at the top of the "
                            "script does") from error
    if not args.device.startswith("cuda") or not torch.cuda.is_available():
        raise HopelessError(f"--set device={args.device}: the pipeline runs on CUDA alone, and "
                            f"{'a' if torch.cuda.is_available() else 'no'} CUDA device is seen")
    weights = args.weights or str(snapshot_download(args.repo, revision=args.revision or None))
    config = OmegaConf.create(configuration(args, weights))
    scope = ExitStack()
    atexit.register(scope.close)
    # Precision is set for the process, and has to be before any weight is loaded.
    scope.enter_context(inference_precision_from_cfg(config.s2s))
    pipeline = S2SPipelineBuilder.build_pipeline(config)
    scope.callback(pipeline.shutdown)
    pipeline.warmup()
    settings = {
        "torch": torch.__version__, "transformers": transformers.__version__,
        "nemo_commit": source_commit(), "device": args.device, "dtype": args.dtype,
        **weights_facts(weights), "voice": args.voice,
        "llm_engine": args.llm_engine, "tts_engine": args.tts_engine,
        "use_llm_cache": args.use_llm_cache, "temperature": args.temperature, "top_p": args.top_p,
        "repetition_penalty": args.repetition_penalty, "deterministic": args.deterministic,
        "max_len": args.max_len,
        # The engines of vLLM draw in processes of their own, which no seed of this one reaches.
        "seeded": args.llm_engine == args.tts_engine == "native"}
    return NemotronVoiceChat(Parts(pipeline, Frame, S2SRequestOptions, torch), args, settings)


def source_commit() -> str:
    """Of the installed package, where it says so (PEP 610)."""
    try:
        told = importlib.metadata.distribution("nemo_toolkit").read_text("direct_url.json")
        return str(json.loads(told or "")["vcs_info"]["commit_id"])
    except (importlib.metadata.PackageNotFoundError, ValueError, KeyError, TypeError):
        return "unknown"


def truth(text: str) -> bool:
    """`true` or `false`, as the rig writes them."""
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"expected true or false, got {text}")
    return text == "true"


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--repo", default="nvidia/NVIDIA-NemotronLabs-VoiceChat-11B")
    parser.add_argument("--revision", default="")
    parser.add_argument("--weights", default="", help="folder, instead of --repo")
    # DSB-IFEval, table 25: voice Aria, full history without a cache.
    parser.add_argument("--voice", default="Aria")
    parser.add_argument("--use-llm-cache", type=truth, default=False)
    parser.add_argument("--llm-engine", choices=ENGINES, default="native")
    parser.add_argument("--tts-engine", choices=ENGINES, default="native")
    # The table is silent on these. As the release has them (branch nemotron-labs-voicechat, its
    # s2s_streaming.yaml): the best token; the pipeline's own values are 0.3, 0.5 and 1.1.
    parser.add_argument("--dtype", choices=("bfloat16", "float16", "float32"), default="bfloat16")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--repetition-penalty", type=float, default=1.0)
    parser.add_argument("--max-len", type=int, default=8192)
    parser.add_argument("--deterministic", type=truth, default=False)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    chosen = parsed()
    serve(lambda: load(chosen))
