# /// script
# requires-python = ">=3.10,<3.13"
# dependencies = [
#     "moshi-personaplex @ git+https://github.com/NVIDIA/personaplex@3552031af1b1e81d1820acc4754d86bcac4cc6d2#subdirectory=moshi",
# ]
# ///
"""NVIDIA PersonaPlex-7B behind the worker protocol; docs/models/personaplex.md.

A fork of Moshi under the same module name, so in an environment of its own. Before the first frame
it takes in its voice, half a second of silence, its persona and another half second: only then is
the session ready.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from worker_kit.protocol import Float32, Hello
from worker_kit.serve import HopelessError, Model, serve
from worker_kit.speech_models import piece_text, seed_all
from worker_kit.weights import content_sha256, weights_facts

REVISION = "personaplex_worker.2"
FRAME_N = 1920  # 80 ms at 24 kHz
RATE_HZ = 24_000
AUDIO_CODEBOOKS = slice(1, 9)
"""Of 16 codebooks that a step gives, the model's own eight."""
WARM_UP_FRAMES = 4


class PersonaPlex(Model):
    """`mimi`: the codec, both ways; `lm`: the model's `LMGen`; `words`: its pieces of text."""

    def __init__(self, torch: Any, mimi: Any, lm: Any, words: Any, device: Any, voice: str,
                 settings: dict[str, Any]) -> None:
        self._torch, self._mimi, self._lm = torch, mimi, lm
        self._words, self._device, self._voice = words, device, voice
        self._settings = settings
        mimi.streaming_forever(1)
        lm.streaming_forever(1)

    def hello(self) -> Hello:
        return Hello("personaplex", REVISION, RATE_HZ, RATE_HZ, FRAME_N, FRAME_N, full_duplex=True,
                     persona_prompt=True, transcript="stream", settings=self._settings)

    def reset(self, system_prompt: str, seed: int) -> None:
        seed_all(seed, self._torch)
        self._mimi.reset_streaming()
        self._lm.reset_streaming()
        if self._lm.voice_prompt != self._voice:
            self._lm.load_voice_prompt_embeddings(self._voice)
        # Its own programs fail on an empty persona: `step_system_prompts` goes over the tokens,
        # and they set `None`. No tokens are no persona.
        self._lm.text_prompt_tokens = (self._words.encode(wrapped(system_prompt))
                                       if system_prompt.strip() else [])
        with self._torch.no_grad():
            self._lm.step_system_prompts(self._mimi)
        self._mimi.reset_streaming()

    def step(self, samples: Float32) -> tuple[Float32, str]:
        torch = self._torch
        with torch.no_grad():
            heard = torch.from_numpy(samples).to(self._device)[None, None]
            tokens = self._lm.step(self._mimi.encode(heard))
            if tokens is None:
                return np.zeros(FRAME_N, np.float32), ""
            said = self._mimi.decode(tokens[:, AUDIO_CODEBOOKS])
        return (said[0, 0].float().cpu().numpy(),
                piece_text(self._words, int(tokens[0, 0, 0])))


def wrapped(persona: str) -> str:
    """The persona as the model was trained to read it."""
    persona = persona.strip()
    if persona.startswith("<system>") and persona.endswith("<system>"):
        return persona
    return f"<system> {persona} <system>"


def tensors_only(load: Callable[..., Any], device: Any) -> Callable[..., Any]:
    """`torch.load` that takes nothing but tensors out of a file, and puts them on `device`.

    Voices are pickled, and were saved on a GPU.
    """
    def tensors(file: Any, map_location: Any = device, **more: Any) -> Any:
        return load(file, map_location=map_location, **{**more, "weights_only": True})

    return tensors


def load(args: argparse.Namespace) -> PersonaPlex:
    if args.device == "cpu":
        # Compiling takes minutes, and graphs need CUDA.
        os.environ.setdefault("NO_TORCH_COMPILE", "1")
        os.environ.setdefault("NO_CUDA_GRAPH", "1")
    try:
        import sentencepiece
        import torch
        from huggingface_hub import hf_hub_download
        from moshi.models import LMGen, loaders
    except ImportError as error:
        raise HopelessError(f"not in this environment: {error}") from error
    if not hasattr(LMGen, "step_system_prompts"):
        raise HopelessError("this is the package moshi of Kyutai; expected PersonaPlex's, which "
                            "has the same name, in an environment of its own")
    if args.device.startswith("cuda") and not torch.cuda.is_available():
        raise HopelessError("no CUDA device is seen")
    device = torch.device(args.device)
    torch.load = tensors_only(torch.load, device)

    loaded: list[str] = []

    def part(name: str) -> str:
        loaded.append(str(Path(args.weights) / name) if args.weights else
                      str(hf_hub_download(args.repo, name, revision=args.revision or None)))
        return loaded[-1]

    mimi = loaders.get_mimi(part(loaders.MIMI_NAME), device)
    words = sentencepiece.SentencePieceProcessor(part(loaders.TEXT_TOKENIZER_NAME))
    lm = LMGen(loaders.get_moshi_lm(part(loaders.MOSHI_NAME), device=device).eval(),
               audio_silence_frame_cnt=int(0.5 * mimi.frame_rate), sample_rate=mimi.sample_rate,
               device=device, frame_rate=mimi.frame_rate, use_sampling=True, temp=args.temp,
               temp_text=args.temp_text, top_k=args.top_k, top_k_text=args.top_k_text)
    voice = voice_file(args.voice) if os.path.sep in args.voice else voice_path(args, part)
    settings = {"torch": torch.__version__, "device": args.device, "voice": args.voice,
                "voice_sha256": content_sha256([voice]), **weights_facts(*loaded),
                "temp": args.temp, "temp_text": args.temp_text, "top_k": args.top_k,
                "top_k_text": args.top_k_text}
    model = PersonaPlex(torch, mimi, lm, words, device, voice, settings)
    for _ in range(WARM_UP_FRAMES):
        model.step(np.zeros(FRAME_N, np.float32))
    return model


def voice_file(path: str) -> str:
    """A voice of the user's: what the package saved with `save_voice_prompt_embeddings`."""
    if not (path.endswith(".pt") and Path(path).is_file()):
        raise HopelessError(f"--set voice: expected a .pt file with a voice, got {path}")
    return path


def voice_path(args: argparse.Namespace, part: Any) -> str:
    """A voice by its name, out of the archive that comes with the weights."""
    import tarfile

    archive = Path(part("voices.tgz"))
    folder = archive.parent / "voices"
    if not folder.exists():
        with tarfile.open(archive) as voices:
            voices.extractall(archive.parent, filter="data")
    path = folder / f"{args.voice.removesuffix('.pt')}.pt"
    if not path.exists():
        known = ", ".join(sorted(p.stem for p in folder.glob("*.pt")))
        raise HopelessError(f"no voice {args.voice}; expected one of {known or 'none'}")
    return str(path)


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--repo", default="nvidia/personaplex-7b-v1")
    parser.add_argument("--revision", default="")
    parser.add_argument("--weights", default="", help="folder, instead of --repo")
    parser.add_argument("--voice", default="NATF2")
    # DSB-IFEval, table 25.
    parser.add_argument("--temp", type=float, default=0.8)
    parser.add_argument("--temp-text", type=float, default=0.8)
    parser.add_argument("--top-k", type=int, default=250)
    parser.add_argument("--top-k-text", type=int, default=25)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    chosen = parsed()
    serve(lambda: load(chosen))
