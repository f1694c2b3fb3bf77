# /// script
# requires-python = ">=3.10,<3.12"
# dependencies = [
#     "torch==2.8.0",
#     "torchaudio==2.8.0",
#     "transformers==4.51.0",
#     "accelerate==1.12.0",
#     "minicpmo-utils[all]==1.0.6",
#     "setuptools<81",
# ]
# ///
"""MiniCPM-o 4.5 and Realtime-Venus-Audio behind the worker protocol.

docs/models/minicpm_o.md and docs/models/venus.md.

A second at a time: the second that the user has finished is taken in, then the model says a second
or listens. So what it says is heard after the second that it answers, never beside it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from worker_kit.protocol import Float32, Hello
from worker_kit.serve import HopelessError, Model, serve
from worker_kit.speech_models import seed_all
from worker_kit.weights import content_sha256, weights_facts

REVISION = "minicpm_o_worker.3"
INPUT_HZ, OUTPUT_HZ = 16_000, 24_000
FRAME_IN_N, FRAME_OUT_N = INPUT_HZ, OUTPUT_HZ  # one second
FIRST_PAD_N = INPUT_HZ * 35 // 1000
"""The model's first chunk lasts 1,035 ms; what is missing stands before the user's first second."""
VOICE = "assets/HT_ref_audio.wav"
"""The recording of a voice that lies among the weights; the paper's HT_ref."""
MAX_QUEUE_S = 30.0
"""Of speech that is made and not yet heard: more is a model that runs away. Ours."""


class MiniCpm(Model):
    """`duplex`: what `as_duplex` gives, or a fake of it; `voice`: path of the voice's recording."""

    def __init__(self, duplex: Any, args: argparse.Namespace, versions: dict[str, str],
                 voice: str) -> None:
        self._duplex, self._args, self._versions, self._voice = duplex, args, versions, voice
        self._first = True
        self._queue = np.zeros(0, np.float32)

    def hello(self) -> Hello:
        a = self._args
        settings = {
            **self._versions, "subfolder": a.subfolder, "prefix": a.prefix,
            "voice": a.voice or VOICE,
            "max_new_speak_tokens": a.max_new_speak_tokens, "temperature": a.temperature,
            "top_k": a.top_k, "top_p": a.top_p, "force_listen": a.force_listen}
        return Hello("minicpm_o", REVISION, INPUT_HZ, OUTPUT_HZ, FRAME_IN_N, FRAME_OUT_N,
                     full_duplex=True, persona_prompt=True, transcript="stream",
                     settings=settings)

    def reset(self, system_prompt: str, seed: int) -> None:
        seed_all(seed, sys.modules.get("torch"))
        self._first = True
        self._queue = np.zeros(0, np.float32)
        # `prepare` forgets all but what its audio encoder has heard: without this the first seconds
        # of a case would be encoded behind the end of the case before.
        self._duplex.model.reset_session(reset_token2wav_cache=True)
        prompt = f"{self._args.prefix} {system_prompt}".strip()
        self._duplex.prepare(prefix_system_prompt=prompt, ref_audio=reference_voice(self._voice),
                             prompt_wav_path=self._voice)

    def step(self, samples: Float32) -> tuple[Float32, str]:
        if self._first:
            samples = np.concatenate([np.zeros(FIRST_PAD_N, np.float32), samples])
            self._first = False
        taken = self._duplex.streaming_prefill(audio_waveform=samples)
        if not taken.get("success"):
            raise RuntimeError(f"streaming_prefill: {str(taken.get('reason') or 'refused')[:200]}")
        said = self._duplex.streaming_generate(
            prompt_wav_path=self._voice,
            max_new_speak_tokens_per_chunk=self._args.max_new_speak_tokens, decode_mode="sampling",
            temperature=self._args.temperature, top_k=self._args.top_k, top_p=self._args.top_p,
            listen_prob_scale=1.0)
        listens = bool(said.get("is_listen"))
        # While it listens, what it calls audio is a second of silence: it would be heard after
        # what is still to be said.
        sound = None if listens else said.get("audio_waveform")
        if sound is not None:
            self._queue = np.concatenate([self._queue, as_samples(sound)])
        if len(self._queue) > MAX_QUEUE_S * OUTPUT_HZ:
            raise RuntimeError(f"more than {MAX_QUEUE_S:g} s of speech wait to be heard")
        out = np.zeros(FRAME_OUT_N, np.float32)
        now, self._queue = self._queue[:FRAME_OUT_N], self._queue[FRAME_OUT_N:]
        out[: len(now)] = now
        return out, "" if listens else str(said.get("text") or "")


def as_samples(sound: Any) -> Float32:
    """Float32 `(n,)` from whatever holds numbers: a tensor on a GPU, an array."""
    if hasattr(sound, "detach"):
        sound = sound.detach().float().cpu().numpy()
    return np.asarray(sound, dtype=np.float32).reshape(-1)


def reference_voice(path: str) -> Float32:
    """The voice to speak with, float32 at 16 kHz."""
    import librosa

    samples, _ = librosa.load(path, sr=INPUT_HZ, mono=True)
    return np.asarray(samples, dtype=np.float32)


def load(args: argparse.Namespace) -> MiniCpm:
    try:
        import torch
        import transformers
    except ImportError as error:
        raise HopelessError(f"not in this environment: {error}") from error
    if not torch.cuda.is_available():
        raise HopelessError("no CUDA device is seen")
    folder = weights_folder(args)
    voice = voice_file(args.voice, folder)
    model = transformers.AutoModel.from_pretrained(
        str(folder), trust_remote_code=True, attn_implementation="sdpa",
        torch_dtype=torch.bfloat16, use_safetensors=True, init_vision=False, init_audio=True,
        init_tts=True).eval().cuda()
    duplex = model.as_duplex(generate_audio=True, ls_mode="explicit",
                             force_listen_count=args.force_listen)
    return MiniCpm(duplex, args, {
        "torch": torch.__version__, "transformers": transformers.__version__,
        **weights_facts(folder), "voice_sha256": content_sha256([voice])}, str(voice))


def weights_folder(args: argparse.Namespace) -> Path:
    """The weights, their own code and their vocoder as one folder of this machine.

    Loaded by the name of their repository, `as_duplex` would fetch the code of processor and
    tokenizer once more, without the revision and the folder that are asked for, and run it.
    """
    if args.weights:
        folder = Path(args.weights)
    else:
        from huggingface_hub import snapshot_download

        only = [f"{args.subfolder}/*"] if args.subfolder else None
        folder = Path(snapshot_download(args.repo, revision=args.revision or None,
                                        allow_patterns=only)) / args.subfolder
    if not (folder / "config.json").is_file():
        raise HopelessError(f"{folder}: expected a folder with the model's config.json")
    return folder


def voice_file(given: str, folder: Path) -> Path:
    """A recording of the voice. Without one its vocoder is never set up, and nothing is heard."""
    path = Path(given) if given else folder / VOICE
    if not path.is_file():
        raise HopelessError(f"--set voice: expected a recording of a voice, got "
                            f"{given or f'none, and the weights have no {VOICE}'}")
    return path


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repo", default="openbmb/MiniCPM-o-4_5")
    parser.add_argument("--revision", default="")
    parser.add_argument("--weights", default="", help="folder, instead of --repo")
    parser.add_argument("--subfolder", default="")
    parser.add_argument("--voice", default="", help=f"recording of the voice to speak with; "
                        f"empty: {VOICE} of the weights")
    parser.add_argument("--prefix", default="Streaming Omni Conversation.",
                        help="what stands before the persona")
    parser.add_argument("--max-new-speak-tokens", type=int, default=20)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--top-k", type=int, default=20)
    parser.add_argument("--top-p", type=float, default=0.8)
    parser.add_argument("--force-listen", type=int, default=0, help="seconds at the beginning in "
                        "which it may only listen")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    chosen = parsed()
    serve(lambda: load(chosen))
