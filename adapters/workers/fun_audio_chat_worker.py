# /// script
# requires-python = ">=3.12,<3.13"
# dependencies = [
#     "torch==2.8.0",
#     "torchaudio==2.8.0",
#     "transformers==4.52.3",
#     "accelerate",
#     "numpy<2",
#     "librosa",
#     "conformer==0.3.2",
#     "diffusers==0.29.0",
#     "gdown==5.1.0",
#     "hydra-core==1.3.2",
#     "HyperPyYAML==1.2.2",
#     "inflect==7.3.1",
#     "lightning==2.2.4",
#     "loguru",
#     "matplotlib==3.7.5",
#     "modelscope",
#     "networkx==3.1",
#     "omegaconf==2.3.0",
#     "onnx==1.16.0",
#     "onnxruntime-gpu==1.18.0",
#     "openai-whisper",
#     "protobuf==4.25",
#     "pyarrow==18.1.0",
#     "pydantic==2.7.0",
#     "pyworld==0.3.4",
#     "rich==13.7.1",
#     "setuptools<81",
#     "silero-vad>=6.2",
#     "soundfile==0.12.1",
#     "wetext==0.0.4",
#     "wget==3.2",
#     "x_transformers",
# ]
# ///
"""Fun-Audio-Chat-8B behind the worker protocol; docs/models/fun_audio_chat.md.

The model works in turns: it is given an utterance whole and answers it whole. When an utterance is
over is decided here, by Silero's VAD, and is part of what is measured. While it speaks it listens
on; nothing that the user says stops it, and an utterance that ends meanwhile is answered after.

Its code is no package: `--code` names a checkout of its repository with its submodule CosyVoice.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from worker_kit.protocol import Float32, Hello
from worker_kit.serve import HopelessError, Model, serve
from worker_kit.speech_models import seed_all
from worker_kit.weights import code_sha256, content_sha256, weights_facts

REVISION = "fun_audio_chat_worker.2"
INPUT_HZ, OUTPUT_HZ = 16_000, 24_000
FRAME_IN_N, FRAME_OUT_N = 1280, 1920  # 80 ms
WINDOW_N = 512  # of the VAD at 16 kHz
TOKENS = range(6561)
"""Of the codec; what else the model gives are marks."""
MAX_TURNS = 8
"""Of the user, the one to be answered with them; older ones are dropped, as its own server does."""
DETOKENIZER = Path("pretrained_models") / "Fun-CosyVoice3-0.5B-2512"
"""Where the model's own code looks for the detokenizer, from the present folder."""
VOICE = "\u4e2d\u6587\u5973"
"""The voice of its own examples, among those of `new_spk2info.pt`."""
MAX_UTTERANCE_N = 60 * INPUT_HZ
"""Longer ones are answered without their beginning. Ours."""


class Endpointer(Protocol):
    """Says of each window where speech began or ended, in samples since `reset`."""

    def __call__(self, window: Float32) -> dict[str, int] | None: ...

    def reset_states(self) -> None: ...


class Engine(Protocol):
    def reply(self, system_prompt: str, turns: list[tuple[Float32, str]],
              heard: Float32) -> tuple[Float32, str]:
        """The answer to `heard` after `turns` (heard, answered): sound at 24 kHz, and text."""
        ...


class FunAudioChat(Model):
    def __init__(self, engine: Engine, endpointer: Endpointer, args: argparse.Namespace,
                 versions: dict[str, str]) -> None:
        self._engine, self._endpointer, self._args = engine, endpointer, args
        self._versions = versions
        self.reset("", 0)

    def hello(self) -> Hello:
        a = self._args
        return Hello("fun_audio_chat", REVISION, INPUT_HZ, OUTPUT_HZ, FRAME_IN_N, FRAME_OUT_N,
                     full_duplex=False, persona_prompt=True, transcript="stream", settings={
                         **self._versions, "endpointer": "silero-vad",
                         "endpoint_silence_ms": a.endpoint_silence_ms,
                         "endpoint_threshold": a.endpoint_threshold, "prefix_ms": a.prefix_ms,
                         "max_new_tokens": a.max_new_tokens})

    def reset(self, system_prompt: str, seed: int) -> None:
        seed_all(seed, sys.modules.get("torch"))
        self._prompt = system_prompt
        self._turns: list[tuple[Float32, str]] = []
        self._endpointer.reset_states()
        self._heard = np.zeros(0, np.float32)
        self._heard_from_n = 0
        self._looked_n = 0
        self._began_n: int | None = None
        self._to_say = np.zeros(0, np.float32)

    def step(self, samples: Float32) -> tuple[Float32, str]:
        self._heard = np.concatenate([self._heard, samples])
        text = ""
        while self._looked_n + WINDOW_N <= self._heard_from_n + len(self._heard):
            at = self._looked_n - self._heard_from_n
            event = self._endpointer(self._heard[at : at + WINDOW_N])
            self._looked_n += WINDOW_N
            if event is not None and "start" in event:
                self._began_n = int(event["start"])
            elif event is not None and "end" in event and self._began_n is not None:
                text += self._answer()
        self._forget()
        out = np.zeros(FRAME_OUT_N, np.float32)
        now, self._to_say = self._to_say[:FRAME_OUT_N], self._to_say[FRAME_OUT_N:]
        out[: len(now)] = now
        return out, text

    def _answer(self) -> str:
        """The utterance is over: from a little before its onset to now."""
        assert self._began_n is not None
        begin_n = self._began_n - self._args.prefix_ms * INPUT_HZ // 1000
        heard = self._heard[max(0, begin_n - self._heard_from_n) :
                            self._looked_n - self._heard_from_n][-MAX_UTTERANCE_N:]
        self._turns = self._turns[-(MAX_TURNS - 1):]
        said, text = self._engine.reply(self._prompt, self._turns, heard)
        self._turns.append((heard, text))
        self._to_say = np.concatenate([self._to_say, np.asarray(said, np.float32).reshape(-1)])
        self._began_n = None
        return text

    def _forget(self) -> None:
        """Keep what an utterance may still need."""
        from_n = self._looked_n if self._began_n is None else self._began_n
        from_n -= self._args.prefix_ms * INPUT_HZ // 1000
        from_n = max(from_n, self._looked_n - MAX_UTTERANCE_N)
        if from_n > self._heard_from_n:
            self._heard = self._heard[from_n - self._heard_from_n :]
            self._heard_from_n = from_n


class RealEngine:
    """The released model and its detokenizer."""

    def __init__(self, args: argparse.Namespace) -> None:
        import torch
        from huggingface_hub import snapshot_download
        from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoProcessor

        code = Path(args.code).resolve()
        # All of it out of one folder: three look-ups of the newest may find three of them.
        weights = str(Path(args.weights).resolve()) if Path(args.weights).exists() else str(
            snapshot_download(args.weights, revision=args.revision or None))
        os.chdir(detokenizer_in(Path.cwd(), code))
        sys.path.insert(0, str(code))
        try:
            from funaudiochat.register import register_funaudiochat
            from utils.constant import (
                AUDIO_TEMPLATE,
                DEFAULT_S2M_GEN_KWARGS,
                DEFAULT_S2M_PROMPT,
                DEFAULT_SP_GEN_KWARGS,
            )
            from utils.cosyvoice_detokenizer import get_audio_detokenizer, token2wav
        except ImportError as error:
            raise HopelessError(f"--set code: expected a checkout of Fun-Audio-Chat with its "
                                f"submodule, got {args.code!r} ({error})") from error
        register_funaudiochat()
        self._torch, self._token2wav = torch, token2wav
        self._template, self._speech_prompt = AUDIO_TEMPLATE, DEFAULT_S2M_PROMPT
        config = AutoConfig.from_pretrained(weights)
        self._processor = AutoProcessor.from_pretrained(weights)
        # What is longer is cut by it at the end, while its places in the prompt stay.
        self._longest_n = int(self._processor.feature_extractor.n_samples)
        self._model = AutoModelForSeq2SeqLM.from_pretrained(
            weights, config=config, torch_dtype=torch.bfloat16, device_map="cuda:0",
            use_safetensors=True).eval()
        # As its own examples: text is decoded greedily (table 25), sound is sampled with the
        # repository's values; without these it would be whatever lies beside the weights.
        self._generation = {**DEFAULT_S2M_GEN_KWARGS, "max_new_tokens": args.max_new_tokens}
        self._model.sp_gen_kwargs.update(DEFAULT_SP_GEN_KWARGS)
        self._model.sp_gen_kwargs.update({"text_greedy": True, "disable_speech": False})
        self._voice = torch.load(code / "utils" / "new_spk2info.pt",
                                 weights_only=True)[VOICE]["embedding"]
        self._codec = get_audio_detokenizer()
        self.facts = {**weights_facts(weights), "code_sha256": code_sha256(code),
                      "detokenizer_sha256": content_sha256([DETOKENIZER])}

    def reply(self, system_prompt: str, turns: list[tuple[Float32, str]],
              heard: Float32) -> tuple[Float32, str]:
        torch = self._torch
        prompt = self._processor.apply_chat_template(
            conversation(f"{self._speech_prompt} {system_prompt}".strip(), self._template,
                         [answered for _, answered in turns]),
            add_generation_prompt=True, tokenize=False)
        sounds = [sound[-self._longest_n :] for sound in (*(h for h, _ in turns), heard)]
        inputs = self._processor(text=prompt, audio=sounds, return_tensors="pt",
                                 return_token_type_ids=False).to(self._model.device)
        with torch.no_grad():
            text_ids, audio_ids = self._model.generate(**inputs, **self._generation)
            text = self._processor.decode(text_ids[0, inputs.input_ids.size(1) :],
                                          skip_special_tokens=True)
            tokens = audio_tokens(audio_ids[0].tolist())
            if not tokens:
                return np.zeros(0, np.float32), text
            sound = self._token2wav(self._codec, tokens, self._voice)
        return sound[0].float().cpu().numpy(), text


def conversation(system: str, template: str, answers: list[str]) -> list[dict[str, str]]:
    """Messages: the user's turns as places for sound, the model's own as text."""
    messages = [{"role": "system", "content": system}]
    for answered in answers:
        messages += [{"role": "user", "content": template},
                     {"role": "assistant", "content": answered}]
    return [*messages, {"role": "user", "content": template}]


def detokenizer_in(*folders: Path) -> Path:
    """The first folder that has the detokenizer's weights.

    The model's code opens them from the present folder; where they are not, it takes that path for
    the name of a download.
    """
    for folder in folders:
        if (folder / DETOKENIZER / "cosyvoice3.yaml").is_file():
            return folder
    raise HopelessError(f"expected {DETOKENIZER}, the weights of the detokenizer, in "
                        f"{' or in '.join(map(str, dict.fromkeys(folders)))}")


def audio_tokens(ids: list[int]) -> list[int]:
    """What of a generation is sound."""
    return [i for i in ids if i in TOKENS]


def load(args: argparse.Namespace) -> FunAudioChat:
    try:
        import silero_vad
        import torch
        import transformers
    except ImportError as error:
        raise HopelessError(f"not in this environment: {error}") from error
    if not torch.cuda.is_available():
        raise HopelessError("no CUDA device is seen")
    endpointer = silero_vad.VADIterator(
        silero_vad.load_silero_vad(onnx=False), threshold=args.endpoint_threshold,
        sampling_rate=INPUT_HZ, min_silence_duration_ms=args.endpoint_silence_ms, speech_pad_ms=0)
    engine = RealEngine(args)
    return FunAudioChat(engine, Windows(torch, endpointer), args, {
        "torch": torch.__version__, "transformers": transformers.__version__, **engine.facts})


class Windows:
    """Silero's iterator, fed with arrays."""

    def __init__(self, torch: Any, iterator: Any) -> None:
        self._torch, self._iterator = torch, iterator

    def __call__(self, window: Float32) -> dict[str, int] | None:
        found: dict[str, int] | None = self._iterator(self._torch.from_numpy(window))
        return found

    def reset_states(self) -> None:
        self._iterator.reset_states()


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--code", default="", help="checkout of the model's repository")
    parser.add_argument("--weights", default="FunAudioLLM/Fun-Audio-Chat-8B")
    parser.add_argument("--revision", default="")
    parser.add_argument("--max-new-tokens", type=int, default=2048)
    parser.add_argument("--endpoint-silence-ms", type=int, default=800)
    parser.add_argument("--endpoint-threshold", type=float, default=0.5)
    parser.add_argument("--prefix-ms", type=int, default=300)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    chosen = parsed()
    serve(lambda: load(chosen))
