# /// script
# requires-python = ">=3.10,<3.13"
# dependencies = ["moshi==0.2.13"]
# ///
"""Moshi (kyutai-labs) behind the worker protocol; docs/workers.md.

Frame by frame as the package's own server does it: encode 80 ms of the user, one step of the
language model, decode 80 ms of the model. Moshi reads no system prompt.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
from worker_kit.protocol import Float32, Hello
from worker_kit.serve import HopelessError, Model, serve
from worker_kit.speech_models import piece_text, seed_all
from worker_kit.weights import weights_facts

REVISION = "moshi_worker.2"
FRAME_N = 1920  # 80 ms at 24 kHz, 12.5 frames a second
RATE_HZ = 24_000
WARM_UP_FRAMES = 4  # as the package's server


class Moshi(Model):
    def __init__(self, args: argparse.Namespace) -> None:
        if args.device == "cpu":
            # Compiling takes minutes, and graphs need CUDA.
            os.environ.setdefault("NO_TORCH_COMPILE", "1")
            os.environ.setdefault("NO_CUDA_GRAPH", "1")
        try:
            import torch
            from moshi import __version__
            from moshi.models import LMGen
        except ImportError as error:
            raise HopelessError(f"moshi is not installed in this environment: {error}") from error
        if args.device.startswith("cuda") and not torch.cuda.is_available():
            raise HopelessError("no CUDA device is seen; --set device=cpu runs slower than real "
                                "time")
        self._torch, self._device = torch, torch.device(args.device)
        info = checkpoint(args)
        self._mimi = info.get_mimi(device=self._device)
        self._words = info.get_text_tokenizer()
        dtype = torch.bfloat16 if self._device.type == "cuda" else torch.float32
        self._lm = LMGen(info.get_moshi(device=self._device, dtype=dtype), use_sampling=True,
                         temp=args.temp, temp_text=args.temp_text, top_k=args.top_k,
                         top_k_text=args.top_k_text)
        self._settings = {
            "moshi": __version__, "torch": torch.__version__, "device": args.device,
            **weights_facts(*(path for path in (info.moshi_weights, info.mimi_weights,
                                                info.tokenizer, info.lora_weights) if path)),
            "temp": args.temp, "temp_text": args.temp_text, "top_k": args.top_k,
            "top_k_text": args.top_k_text}
        if (self._mimi.sample_rate, self._mimi.frame_rate) != (RATE_HZ, RATE_HZ / FRAME_N):
            raise HopelessError(f"expected Mimi at {RATE_HZ} Hz and 12.5 frames a second, got "
                                f"{self._mimi.sample_rate} Hz and {self._mimi.frame_rate}")
        self._mimi.streaming_forever(1)
        self._lm.streaming_forever(1)
        for _ in range(WARM_UP_FRAMES):
            self.step(np.zeros(FRAME_N, np.float32))

    def hello(self) -> Hello:
        return Hello("moshi", REVISION, RATE_HZ, RATE_HZ, FRAME_N, FRAME_N, full_duplex=True,
                     persona_prompt=False, transcript="stream", settings=self._settings)

    def reset(self, system_prompt: str, seed: int) -> None:
        seed_all(seed, self._torch)
        self._mimi.reset_streaming()
        self._lm.reset_streaming()

    def step(self, samples: Float32) -> tuple[Float32, str]:
        torch = self._torch
        with torch.no_grad():
            heard = torch.from_numpy(samples).to(self._device)[None, None]
            # The package's server resets Mimi after its first frame, which then has a left padding
            # twice; here every frame is heard where it is.
            tokens = self._lm.step(self._mimi.encode(heard))
            if tokens is None:  # the delay of the first step
                return np.zeros(FRAME_N, np.float32), ""
            said = self._mimi.decode(tokens[:, 1:])[0, 0].float().cpu().numpy()
        return said, piece_text(self._words, int(tokens[0, 0, 0]))


def checkpoint(args: argparse.Namespace) -> Any:
    """From a folder of this machine, or from the hub."""
    from moshi.models.loaders import CheckpointInfo

    if not args.weights:
        return CheckpointInfo.from_hf_repo(args.repo, revision=args.revision or None)
    import json

    folder = Path(args.weights)
    try:
        config = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError) as error:
        raise HopelessError(f"{folder}: expected a folder with the config.json of a Moshi "
                            f"checkpoint ({error})") from error

    def named(key: str, default: str) -> Path:
        path = folder / str(config.get(key, default))
        # Whatever else a checkpoint may be, it is not unpickled.
        if path.suffix == ".pt" or not path.exists():
            raise HopelessError(f"{path}: expected a file of the checkpoint")
        return path

    mimi_config = folder / str(config.get("mimi_config_name", "mimi.json"))
    return CheckpointInfo.from_hf_repo(
        "local", moshi_weights=named("moshi_name", "model.safetensors"),
        mimi_weights=named("mimi_name", "tokenizer-e351c8d8-checkpoint125.safetensors"),
        tokenizer=named("tokenizer_name", "tokenizer_spm_32k_3.model"),
        config_path=folder / "config.json",
        mimi_config_path=mimi_config if mimi_config.exists() else None)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--repo", default="kyutai/moshiko-pytorch-bf16")
    parser.add_argument("--revision", default="")
    parser.add_argument("--weights", default="", help="folder of a checkpoint, instead of --repo")
    # DSB-IFEval, table 25.
    parser.add_argument("--temp", type=float, default=0.8)
    parser.add_argument("--temp-text", type=float, default=0.7)
    parser.add_argument("--top-k", type=int, default=250)
    parser.add_argument("--top-k-text", type=int, default=25)
    return parser.parse_args()


if __name__ == "__main__":
    arguments = parsed()
    serve(lambda: Moshi(arguments))
