# /// script
# requires-python = ">=3.10,<3.11"
# dependencies = [
#     "torch==2.8.0",
#     "transformers==4.53.3",
#     "nemo-toolkit[tts]==2.5.2",
#     "torchcodec==0.8.0",
# ]
# ///
"""F-Actor with NanoCodec behind the worker protocol: experimental; docs/models/f_actor.md.

The released code makes both sides of a dialogue and has no way in for a live user. Here the loop is
the worker's: each 80 ms of the user are encoded and stand in heads 4 to 7 of their step, where the
released code puts what a second copy of the model says; heads 0 to 3 are drawn from the model, as
there. Frame t of either side stands at step t + 2, behind its text. What the model says at a step
depends on the user up to the step before; so its frame t + 1 is ready when the user's frame t has
been heard, and is heard where it stands in the dialogue. Its frame 0 would be heard before anything
could have been answered, and is not.

Facts from MaikeZuefle/f-actor at commit 2efa25d (training/modeling_dsu.py, inference_example.py)
and nemo-toolkit 2.5.2 (AudioCodecModel). Its code is no package: `--code` names a checkout.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from worker_kit.codec_windows import Codes, DecodingWindow, EncodingWindow
from worker_kit.delayed_heads import DelayedHeads, HeldText
from worker_kit.drawing import Logits, drawn
from worker_kit.protocol import Float32, Hello
from worker_kit.serve import HopelessError, Model, serve
from worker_kit.speech_models import seed_all
from worker_kit.weights import SHOWN_N, code_sha256, weights_facts

REVISION = "f_actor_worker.1"
RATE_HZ, FRAME_N = 22_050, 1764  # 80 ms
CODEBOOKS = 4
CODES = 4032
"""Of each codebook; the two ids after them are no sound."""
DELAY_ID, END_ID = CODES, CODES + 1
DELAY = 2
"""Steps by which audio comes after its text: `n_delay_audio_stream`."""
MAX_PROMPT_TOKENS = 4096
"""Where the released code cuts a prompt, and with it the mark at its end."""
VOICE_N = 192


class CapError(RuntimeError):
    """The model's horizon is over."""


class DialogueEndedError(RuntimeError):
    """The model has drawn the mark at the end of a dialogue."""


class Engine(Protocol):
    """The language model, one dialogue at a time."""

    def begin(self, prompt: str, voice: NDArray[np.float64]) -> tuple[Logits, Logits]:
        """Forget everything, take in the prompt: logits of step 0, as `step` gives them."""
        ...

    def step(self, column: Codes, text_id: int) -> tuple[Logits, Logits]:
        """Take in the column `(8,)` and the text of a step: logits of the next one, of the own
        heads `(4, 4034)` and of the text `(1, vocabulary)`."""
        ...


class Codec(Protocol):
    def encode(self, audio: Float32) -> Codes:
        """`(frames * 1764,)` at 22,050 Hz to `(4, frames)`."""
        ...

    def decode(self, codes: Codes) -> Float32:
        """`(4, frames)` to `(frames * 1764,)`."""
        ...


class FActor(Model):
    """`decode`: the text of tokens; `marks`: those that stand for no text."""

    def __init__(self, engine: Engine, codec: Codec, decode: Callable[[list[int]], str],
                 marks: frozenset[int], voice: NDArray[np.float64], args: argparse.Namespace,
                 versions: dict[str, str]) -> None:
        self._engine, self._codec, self._decode, self._marks = engine, codec, decode, marks
        self._voice, self._args, self._versions = voice, args, versions

    def hello(self) -> Hello:
        a = self._args
        return Hello("f_actor", REVISION, RATE_HZ, RATE_HZ, FRAME_N, FRAME_N, full_duplex=True,
                     persona_prompt=True, transcript="stream", settings={
                         **self._versions, **{name: getattr(a, name) for name in (
                             "speaker", "name", "partner", "backchannels", "interruptions",
                             "starts_dialogue", "temperature", "top_k", "top_p", "max_steps",
                             "encode_context", "encode_lookahead", "decode_context",
                             "end_of_dialogue")},
                         "voice_sha256": hashlib.sha256(self._voice.tobytes()).hexdigest()[
                             :SHOWN_N]})

    def reset(self, system_prompt: str, seed: int) -> None:
        a = self._args
        seed_all(seed, sys.modules.get("torch"))
        self._rng = np.random.default_rng(seed)
        self._heads = DelayedHeads(CODEBOOKS, CODEBOOKS, DELAY, DELAY_ID, a.max_steps)
        self._heard = EncodingWindow(self._codec.encode, CODEBOOKS, FRAME_N, a.encode_context,
                                     a.encode_lookahead)
        self._said = DecodingWindow(self._codec.decode, CODEBOOKS, FRAME_N, a.decode_context)
        self._words, self._text = Words(self._decode, self._marks), HeldText(DELAY)
        self._frames_n, self._ended = 0, False
        logits = self._engine.begin(prompt(a, system_prompt), self._voice)
        while self._heads.delayed:
            text_id = self._drawn_text(logits[1])
            self._text.push(self._words(text_id))
            logits = self._engine.step(self._heads.delay_column(), text_id)
        self._take(logits)

    def step(self, samples: Float32) -> tuple[Float32, str]:
        self._frames_n += 1
        out, text = np.zeros(FRAME_N, np.float32), ""
        # One frame in, one out; none while a lookahead is still waited for.
        for partner in self._heard.push(samples).T:
            if self._ended:
                break
            if self._heads.full:
                raise CapError(
                    f"its horizon of {self._heads.max_steps} steps is over after "
                    f"{(self._frames_n - 1) * FRAME_N / RATE_HZ:.2f} s of the session; what comes "
                    "after is not measured (--set max_steps)")
            column = self._heads.audio_column(self._own, np.asarray(partner, np.int64))
            self._take(self._engine.step(column, self._own_text_id))
            out, text = self._sound, self._own_text
        return out, text

    def _take(self, logits: tuple[Logits, Logits]) -> None:
        """Draw the model's own part of the next step, and decode it."""
        audio, text = logits
        audio = np.array(audio, np.float32)
        # After the delay its mark stands for nothing, and the codec cannot decode it.
        audio[:, DELAY_ID] = -np.inf
        if self._args.end_of_dialogue == "never":
            audio[:, END_ID] = -np.inf
        own = drawn(audio, self._args.temperature, self._args.top_k, self._args.top_p, self._rng)
        self._own_text_id = self._drawn_text(text)
        self._own_text = self._text.push(self._words(self._own_text_id))
        if (own == END_ID).any():
            self._end()
            return
        self._own = own
        self._sound = self._said.push(own[:, None])

    def _drawn_text(self, logits: Logits) -> int:
        a = self._args
        return int(drawn(logits, a.temperature, a.top_k, a.top_p, self._rng)[0])

    def _end(self) -> None:
        """The mark of a dialogue's end: the released code stops there."""
        if self._args.end_of_dialogue == "unscored":
            raise DialogueEndedError(
                f"it ended the dialogue at step {self._heads.step}, after "
                f"{self._frames_n * FRAME_N / RATE_HZ:.2f} s of the session "
                "(--set end_of_dialogue says what that is taken for)")
        self._ended = True
        self._sound, self._own_text = np.zeros(FRAME_N, np.float32), ""


def prompt(args: argparse.Namespace, narrative: str) -> str:
    """What stands before a dialogue, as inference_example.py's `prepare_prompt` has it."""
    name = args.name or Path(args.speaker).stem.title()
    return (f"Generate a dialogue between you ({name}) and another speaker ({args.partner}) "
            "based on the given narrative. Follow the specific behavior instructions for you.\n\n"
            f"Narrative:\n{narrative}\n\n"
            f"Your behaviors:\n- backchannels: {args.backchannels}\n"
            f"- interruptions: {args.interruptions}\n"
            f"- starts the dialogue: {args.starts_dialogue}\n\n"
            "Ensure that the dialogue reflects the behaviours of you.\n<|SOS|>")


class Words:
    """Text of the tokens of a stream, one at a time.

    `decode` gives the text of tokens, `marks` are those that stand for no text. A character of
    several tokens comes with its last one. After a mark the first word of an utterance has no space
    of its own.
    """

    MAX_HELD = 4
    """Bytes of a character in UTF-8."""

    def __init__(self, decode: Callable[[list[int]], str], marks: frozenset[int]) -> None:
        self._decode, self._marks = decode, marks
        self._held: list[int] = []
        self._after_mark = False

    def __call__(self, token: int) -> str:
        if token in self._marks:
            self._after_mark, self._held = True, []
            return ""
        self._held.append(token)
        text = self._decode(self._held)
        if text.endswith("\ufffd") and len(self._held) < self.MAX_HELD:
            return ""
        self._held = []
        if self._after_mark and text and not text[0].isspace():
            text = f" {text}"
        self._after_mark = False
        return text


def voice_vector(known: Path, speaker: str) -> NDArray[np.float64]:
    """The vector `(192,)` of a speaker: by name in the file `known`, or a JSON file of its own."""
    path = Path(speaker) if speaker.endswith(".json") else known
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise HopelessError(f"{path}: expected JSON with speaker vectors ({error})") from error
    if path is known:
        if not isinstance(found, dict) or speaker.lower() not in found:
            names = ", ".join(found) if isinstance(found, dict) else "no object"
            raise HopelessError(f"--set speaker: expected one of {names}, or a JSON file, got "
                                f"{speaker!r}")
        found = found[speaker.lower()]
    try:
        vector = np.asarray(found, np.float64)
    except (TypeError, ValueError):
        vector = np.zeros(0)
    if vector.shape != (VOICE_N,) or not np.isfinite(vector).all():
        raise HopelessError(f"{path}: expected {VOICE_N} numbers for {speaker!r}")
    return vector


class RealEngine:
    """The released model, stepped by its own `forward` as its own `generate` does."""

    ADDED = ("speaker_embed_proj.weight", "dsu_head", "audio_embeds.0")
    """What the checkpoint must hold beyond a Llama: the released code makes up what is missing."""

    def __init__(self, torch: Any, model_class: Any, tokenizer: Any, folder: str, config: Any,
                 device: str) -> None:
        self._torch, self._tokenizer = torch, tokenizer
        tokenizer.pad_token = tokenizer.eos_token
        if tokenizer.pad_token_id <= END_ID:
            raise HopelessError(f"{folder}: its token for padding is {tokenizer.pad_token_id}, "
                                f"expected one above {END_ID}, which is no code of audio")
        config.num_dsus = CODEBOOKS
        config.text_stream, config.multi_text_stream = True, False
        config.audio_vocab_size = CODES
        config.use_speaker_embedding, config.calc_loss_on_c1_only = True, False
        model = model_class.from_pretrained(folder, config=config, use_safetensors=True).to(device)
        for key in self.ADDED:
            if not model.checkpoint_has_weights(folder, key):
                raise HopelessError(f"{folder}: no weights {key}, expected those of F-Actor")
        model.pad_token_id = tokenizer.pad_token_id
        model.init_or_load_speaker_embed_proj(model_path=folder)
        model.init_or_load_audio_heads(model_path=folder)
        model.init_or_load_audio_embeds(model_path=folder)
        self._model = model.eval()

    def begin(self, prompt: str, voice: NDArray[np.float64]) -> tuple[Logits, Logits]:
        from transformers import DynamicCache

        torch = self._torch
        inputs = self._tokenizer([prompt], return_tensors="pt")
        if (tokens_n := inputs.input_ids.shape[1]) > MAX_PROMPT_TOKENS:
            raise RuntimeError(f"a prompt of {tokens_n} tokens, expected at most "
                               f"{MAX_PROMPT_TOKENS}")
        self._prompt = inputs.input_ids.to(self._model.device)
        self._mask = inputs.attention_mask.to(self._model.device)
        self._voice, self._cache = [voice], DynamicCache()
        self._columns = torch.zeros((1, 2 * CODEBOOKS, 0), dtype=torch.long)
        self._texts = torch.zeros((1, 1, 0), dtype=torch.long)
        return self._next()

    def step(self, column: Codes, text_id: int) -> tuple[Logits, Logits]:
        torch = self._torch
        self._columns = torch.cat([self._columns, torch.from_numpy(column)[None, :, None]], dim=-1)
        self._texts = torch.cat([self._texts, torch.tensor([[[text_id]]])], dim=-1)
        return self._next()

    def _next(self) -> tuple[Logits, Logits]:
        """The whole dialogue goes in each time; of it `forward` looks at the last column alone,
        and what was before is in the cache."""
        with self._torch.no_grad():
            found = self._model.forward(
                input_ids=self._prompt, attention_mask=self._mask,
                dsu_ids=self._columns.to(self._model.device),
                text_stream_ids=self._texts.to(self._model.device), inference=True,
                need_loss=False, spk_emb=self._voice, past_key_values=self._cache, use_cache=True)
        self._cache = found["past_key_values"]
        audio = found["logits"][0, -1, :CODEBOOKS].float().cpu().numpy()
        return audio, found["ts_logits"][0, -1].float().cpu().numpy()


class RealCodec:
    """NeMo's NanoCodec."""

    def __init__(self, torch: Any, codec: Any) -> None:
        self._torch, self._nemo = torch, codec
        if (codec.sample_rate, codec.samples_per_frame) != (RATE_HZ, FRAME_N):
            raise HopelessError(f"expected a codec at {RATE_HZ} Hz with frames of {FRAME_N} "
                                f"samples, got {codec.sample_rate} and {codec.samples_per_frame}")

    def encode(self, audio: Float32) -> Codes:
        torch, device = self._torch, self._nemo.device
        with torch.no_grad():
            tokens, _ = self._nemo.encode(audio=torch.from_numpy(audio)[None].to(device),
                                           audio_len=torch.tensor([len(audio)], device=device))
        return np.asarray(tokens[0].cpu().numpy(), np.int64)

    def decode(self, codes: Codes) -> Float32:
        torch, device = self._torch, self._nemo.device
        with torch.no_grad():
            audio, _ = self._nemo.decode(
                tokens=torch.from_numpy(codes)[None].to(device),
                tokens_len=torch.tensor([codes.shape[1]], device=device))
        return np.asarray(audio[0].float().cpu().numpy(), np.float32)


def load(args: argparse.Namespace) -> FActor:
    try:
        import nemo
        import torch
        import transformers
        from huggingface_hub import hf_hub_download, snapshot_download
        from nemo.collections.tts.models import AudioCodecModel
        from nemo.core.connectors.save_restore_connector import SaveRestoreConnector
        from transformers import AutoConfig, AutoTokenizer
    except ImportError as error:
        raise HopelessError(f"not in this environment: {error}") from error
    if args.device.startswith("cuda") and not torch.cuda.is_available():
        raise HopelessError("no CUDA device is seen; --set device=cpu runs slower than real time")
    code = Path(args.code) / "training"
    sys.path.insert(0, str(code))
    try:
        from modeling_dsu import DSULlama
        from special_tokens import TEXT_STREAM_TOKENS
    except ImportError as error:
        raise HopelessError(f"--set code: expected a checkout of f-actor, got {args.code!r} "
                            f"({error})") from error

    class NoPickles(SaveRestoreConnector):
        """Of NeMo's archive only tensors are unpickled, so that nothing of it is executed."""

        @staticmethod
        def _load_state_dict_from_disk(model_weights: Any, map_location: Any = None) -> Any:
            return torch.load(model_weights, map_location=map_location or "cpu", weights_only=True)

    voice = voice_vector(code / "example_speakers" / "speaker_embeddings.json", args.speaker)
    folder = args.weights if Path(args.weights).is_dir() else str(
        snapshot_download(args.weights, revision=args.revision or None))
    archive = args.codec if args.codec.endswith(".nemo") else str(
        hf_hub_download(args.codec, f"{args.codec.rpartition('/')[2]}.nemo"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    engine = RealEngine(torch, DSULlama, tokenizer, folder, AutoConfig.from_pretrained(folder),
                        args.device)
    codec = AudioCodecModel.restore_from(archive, map_location=torch.device(args.device),
                                         save_restore_connector=NoPickles()).eval()
    marks = frozenset(tokenizer.convert_tokens_to_ids(list(TEXT_STREAM_TOKENS))) | {
        tokenizer.eos_token_id}
    return FActor(
        engine, RealCodec(torch, codec),
        lambda ids: str(tokenizer.decode(ids, skip_special_tokens=True)), marks, voice, args, {
            "torch": torch.__version__, "transformers": transformers.__version__,
            "nemo": nemo.__version__, "device": args.device, **weights_facts(folder, archive),
            "code_sha256": code_sha256(code)})


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--code", default="", help="checkout of the model's repository")
    parser.add_argument("--weights", default="maikezu/f-actor", help="on the hub, or a folder")
    parser.add_argument("--revision", default="")
    parser.add_argument("--codec", default="nvidia/nemo-nano-codec-22khz-0.6kbps-12.5fps",
                        help="on the hub, or a .nemo file")
    parser.add_argument("--speaker", default="rebeka", help="its voice")
    parser.add_argument("--name", default="", help="its name in the prompt; empty: the speaker's")
    parser.add_argument("--partner", default="Brian", help="the user's name in the prompt")
    parser.add_argument("--backchannels", type=int, default=2)
    parser.add_argument("--interruptions", type=int, default=2)
    parser.add_argument("--starts-dialogue", type=lambda text: text == "true", default=False)
    # DSB-IFEval, table 25.
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--top-k", type=int, default=40)
    parser.add_argument("--top-p", type=float, default=0.9)
    parser.add_argument("--max-steps", type=int, default=1024)
    parser.add_argument("--encode-context", type=int, default=14)
    parser.add_argument("--encode-lookahead", type=int, default=0)
    parser.add_argument("--decode-context", type=int, default=28)
    parser.add_argument("--end-of-dialogue", default="unscored",
                        choices=("unscored", "silence", "never"))
    return parser.parse_args(arguments)


if __name__ == "__main__":
    chosen = parsed()
    serve(lambda: load(chosen))
