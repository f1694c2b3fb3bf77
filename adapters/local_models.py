"""Local models that the rig knows how to start, each behind a worker's script: docs/workers.md.

Each has a page, docs/models/NAME.md.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from adapters.base import Capabilities
from adapters.spec import AdapterSpec, Setting
from adapters.worker import PROCESS_SETTINGS, WorkerAdapter
from audio.errors import InputError

FOLDER = Path(__file__).parent / "workers"


@dataclass(frozen=True, slots=True)
class OwnPath:
    """A file or folder of the user's that a setting names, looked for by the doctor.

    `holds`: what must lie below it; `marked_by`: a value without it is no path, but a name that
    only the model knows.
    """

    what: str
    holds: str = ""
    marked_by: str = ""
    needed: bool = False


@dataclass(frozen=True, slots=True)
class Needs:
    """What a model needs of a machine; sources on its page, `None` where nobody says."""

    gpu_gb: float | None
    download_gb: float | None
    repositories: tuple[str, ...]
    python_from: tuple[int, int]
    python_below: tuple[int, int]
    gated: bool = False
    """Its weights want a token (HF_TOKEN) and an agreement on the hub."""
    modules: tuple[str, ...] = ()
    """What its environment must be able to import."""
    paths: Mapping[str, OwnPath] = field(default_factory=dict)
    """By the name of the setting."""

    @property
    def python(self) -> str:
        return (f"from {'.'.join(map(str, self.python_from))}, below "
                f"{'.'.join(map(str, self.python_below))}")


@dataclass(frozen=True, slots=True)
class LocalModel:
    """One model: its script takes each of `settings` as `--name value`."""

    name: str
    summary: str
    script: str
    capabilities: Capabilities
    settings: tuple[Setting, ...]
    needs: Needs
    unverified: str | None
    experimental: bool = False
    """Off by default: it is run with `--set experimental=yes` alone."""

    @property
    def path(self) -> Path:
        return FOLDER / self.script

    @property
    def page(self) -> str:
        """Its commands, memory, speed, traps: a path in this repository."""
        return f"docs/models/{self.name}.md"

    def command(self, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """How the script is started. Raises `InputError` where no interpreter is known."""
        arguments: list[str] = []
        for setting in self.settings:
            value = settings[setting.name]
            text = str(value).lower() if isinstance(value, bool) else f"{value}"
            # One word, so that a value that begins with a dash is none of the script's options.
            arguments.append(f"--{setting.name.replace('_', '-')}={text}")
        return (*interpreter(self.name, settings["python"]), str(self.path), *arguments)

    def spec(self) -> AdapterSpec:
        return AdapterSpec(self.name, self.summary, self.capabilities, self._build,
                           (*((_EXPERIMENTAL,) if self.experimental else ()), _PYTHON,
                            *self.settings, *PROCESS_SETTINGS), own_process=True,
                           unverified=self.unverified)

    def _build(self, settings: dict[str, Any]) -> WorkerAdapter:
        if self.experimental and not settings["experimental"]:
            raise InputError(f"--adapter {self.name}: {self.unverified}; expected --set "
                             "experimental=yes")
        return WorkerAdapter(self.name, self.command(settings), self.capabilities, settings,
                             f"+{self.script.removesuffix('.py')}.{self.code_sha256()[:12]}")

    def code_sha256(self) -> str:
        """Of the script and of the kit that it stands on: all of our code in its process."""
        digest = sha256()
        for path in (self.path, *sorted((FOLDER / "worker_kit").glob("*.py"))):
            code = path.read_bytes()
            digest.update(f"{path.name} {len(code)}\n".encode() + code)
        return digest.hexdigest()


_PYTHON = Setting("python", "str", "", "interpreter of the worker's environment; empty: uv makes "
                  "one from the script's own list of packages")


_EXPERIMENTAL = Setting("experimental", "bool", False, "run it although nobody has shown that what "
                        "it measures is the model")


def interpreter(name: str, python: str) -> tuple[str, ...]:
    """The beginning of the command: a given interpreter, or uv."""
    if python:
        found = shutil.which(python)
        if found is None:
            raise InputError.expected("an interpreter", got=python,
                                      where=f"--set python (adapter {name})")
        return (found,)
    uv = shutil.which("uv")
    if uv is None:
        raise InputError(f"--adapter {name}: expected uv, which makes the environment, or --set "
                         f"python=PATH of one that has it; see: rig worker {name} --doctor")
    return uv, "run", "--script"


_NO_WEIGHTS = "its weights have not run here"
# Decoding: DSB-IFEval, table 25.
_DEVICE = Setting("device", "str", "cuda", "where it computes: cuda, cuda:1, cpu")
_REVISION = Setting("revision", "str", "", "commit of the weights on the hub; empty: the newest, "
                    "and the run says which that was")
_WEIGHTS = Setting("weights", "str", "", "folder with the weights, instead of the hub")

MOSHI_MODEL = LocalModel(
    "moshi", "Kyutai Moshi, frame by frame through its own package; reads no persona",
    "moshi_worker.py",
    Capabilities(full_duplex=True, persona_prompt=False, transcript="stream"),
    (_DEVICE,
     Setting("repo", "str", "kyutai/moshiko-pytorch-bf16", "weights on the hub"),
     _REVISION, _WEIGHTS,
     Setting("temp", "float", 0.8, "temperature of audio", 0.0, 5.0),
     Setting("temp_text", "float", 0.7, "temperature of text", 0.0, 5.0),
     Setting("top_k", "int", 250, "best tokens of audio sampled from", 1, 2048),
     Setting("top_k_text", "int", 25, "best tokens of text sampled from", 1, 32_000)),
    Needs(gpu_gb=24.0, download_gb=16.0, repositories=("kyutai/moshiko-pytorch-bf16",),
          python_from=(3, 10), python_below=(3, 13), modules=("moshi", "torch")),
    unverified="its own package has run here with small random weights; the released weights have "
    "not",
)

PERSONAPLEX_MODEL = LocalModel(
    "personaplex", "NVIDIA PersonaPlex-7B, frame by frame through its fork of Moshi",
    "personaplex_worker.py",
    Capabilities(full_duplex=True, persona_prompt=True, transcript="stream"),
    (_DEVICE,
     Setting("repo", "str", "nvidia/personaplex-7b-v1", "weights on the hub"),
     _REVISION, _WEIGHTS,
     Setting("voice", "str", "NATF2", "its voice: NATF0-3, NATM0-3, VARF0-4, VARM0-4, or the path "
             "of a .pt file"),
     Setting("temp", "float", 0.8, "temperature of audio", 0.0, 5.0),
     Setting("temp_text", "float", 0.8, "temperature of text", 0.0, 5.0),
     Setting("top_k", "int", 250, "best tokens of audio sampled from", 1, 2048),
     Setting("top_k_text", "int", 25, "best tokens of text sampled from", 1, 32_000)),
    Needs(gpu_gb=24.0, download_gb=17.0, repositories=("nvidia/personaplex-7b-v1",),
          python_from=(3, 10), python_below=(3, 13), gated=True, modules=("moshi", "torch"),
          paths={"voice": OwnPath("a .pt file with a voice", marked_by=os.path.sep)}),
    unverified=f"{_NO_WEIGHTS}: every call fits the signatures of its source (3552031), "
    "which has run once with small random ones; its steps were held against a fake made from it",
)


def _minicpm(name: str, summary: str, repo: str, subfolder: str, known: str) -> LocalModel:
    return LocalModel(
        name, summary, "minicpm_o_worker.py",
        Capabilities(full_duplex=True, persona_prompt=True, input_rate_hz=16_000,
                     transcript="stream"),
        (Setting("repo", "str", repo, "weights on the hub"), _REVISION, _WEIGHTS,
         Setting("subfolder", "str", subfolder, "where in the repository the weights are"),
         Setting("voice", "str", "", "recording of the voice to speak with; empty: "
                 "HT_ref_audio.wav among the weights"),
         Setting("prefix", "str", "Streaming Omni Conversation.", "what stands before the persona"),
         Setting("max_new_speak_tokens", "int", 20, "tokens of speech a second at most", 1, 1000),
         Setting("temperature", "float", 0.7, "temperature", 0.0, 5.0),
         Setting("top_k", "int", 20, "best tokens sampled from", 1, 100_000),
         Setting("top_p", "float", 0.8, "share of probability sampled from", 0.0, 1.0),
         Setting("force_listen", "int", 0, "seconds at the beginning in which it may only listen",
                 0, 60)),
        Needs(gpu_gb=28.0, download_gb=None, repositories=(repo,), python_from=(3, 10),
              python_below=(3, 12), modules=("torch", "transformers", "librosa", "stepaudio2"),
              paths={"voice": OwnPath("a recording of a voice")}),
        unverified=f"{_NO_WEIGHTS}: {known}",
    )


MINICPM_O_MODEL = _minicpm("minicpm_o", "MiniCPM-o 4.5, a second at a time",
                           "openbmb/MiniCPM-o-4_5", "", "every call fits a third party's copy "
                           "of its code, its chunks were held against a fake made from it")
VENUS_MODEL = _minicpm("venus", "Realtime-Venus-Audio 9B, a MiniCPM-o, a second at a time",
                       "inclusionAI/Realtime-Venus", "Realtime-Venus-Audio", "its own code was "
                       "not seen; every call fits MiniCPM-o's, which it is made from")

FUN_AUDIO_CHAT_MODEL = LocalModel(
    "fun_audio_chat", "Fun-Audio-Chat-8B: works in turns, which Silero's VAD ends for it",
    "fun_audio_chat_worker.py",
    Capabilities(full_duplex=False, persona_prompt=True, input_rate_hz=16_000, transcript="stream"),
    (Setting("code", "str", "", "checkout of the model's repository, with its submodule"),
     Setting("weights", "str", "FunAudioLLM/Fun-Audio-Chat-8B", "weights: on the hub, or a folder"),
     _REVISION,
     Setting("max_new_tokens", "int", 2048, "tokens of an answer at most", 1, 100_000),
     # As the server VAD that the paper gives GPT-Realtime: it names none for this model.
     Setting("endpoint_silence_ms", "int", 800, "silence that ends an utterance", 100, 5000),
     Setting("endpoint_threshold", "float", 0.5, "speech probability of the endpointer", 0.05,
             0.95),
     Setting("prefix_ms", "int", 300, "what the model is given of the time before an onset", 0,
             2000)),
    Needs(gpu_gb=24.0, download_gb=None, repositories=("FunAudioLLM/Fun-Audio-Chat-8B",),
          python_from=(3, 12), python_below=(3, 13), modules=(
              "torch", "torchaudio", "transformers", "silero_vad", "hyperpyyaml", "whisper"),
          paths={"code": OwnPath("a checkout of Fun-Audio-Chat", "funaudiochat/register.py",
                                 needed=True)}),
    unverified=f"{_NO_WEIGHTS}: every call fits the signatures of its source (8ba984b), "
    "whose model has run once with small random ones; its turns were held against a fake",
)

NEMOTRON_VOICECHAT_MODEL = LocalModel(
    "nemotron_voicechat", "NVIDIA NemotronLabs VoiceChat 11B, frame by frame through NeMo's "
    "streaming pipeline",
    "nemotron_voicechat_worker.py",
    Capabilities(full_duplex=True, persona_prompt=True, input_rate_hz=16_000,
                 output_rate_hz=22_050, transcript="stream"),
    (Setting("device", "str", "cuda", "where it computes: cuda, cuda:1; nothing else will do"),
     Setting("repo", "str", "nvidia/NVIDIA-NemotronLabs-VoiceChat-11B", "weights on the hub"),
     _REVISION, _WEIGHTS,
     Setting("voice", "str", "Aria", "a voice that its checkpoint holds; the released one has "
             "Aria alone"),
     Setting("llm_engine", "str", "native", "what computes its language model",
             choices=("native", "vllm_omni")),
     Setting("tts_engine", "str", "native", "what computes its voice",
             choices=("native", "vllm_omni")),
     Setting("use_llm_cache", "bool", False, "keep what was computed for earlier frames: faster; "
             "native alone, wants transformers 5.13"),
     Setting("dtype", "str", "bfloat16", "precision that it computes in",
             choices=("bfloat16", "float16", "float32")),
     # Table 25 names no sampling: as its maker released it.
     Setting("temperature", "float", 0.0, "temperature of text; 0: the best token", 0.0, 5.0),
     Setting("top_p", "float", 1.0, "share of probability sampled from", 0.01, 1.0),
     Setting("repetition_penalty", "float", 1.0, "penalty of tokens already said", 0.1, 5.0),
     Setting("max_len", "int", 8192, "frames of a session at most, 80 ms each", 100, 100_000),
     Setting("deterministic", "bool", False, "algorithms that repeat exactly: slower; native "
             "alone")),
    Needs(gpu_gb=80.0, download_gb=44.4,
          repositories=("nvidia/NVIDIA-NemotronLabs-VoiceChat-11B",), python_from=(3, 12),
          python_below=(3, 13),
          modules=("torch", "transformers", "nemo.collections.speechlm2.inference")),
    unverified=f"{_NO_WEIGHTS}: its calls were held against its source, its steps against a fake",
)

F_ACTOR_MODEL = LocalModel(
    "f_actor", "F-Actor with NanoCodec, frame by frame in a loop of ours",
    "f_actor_worker.py",
    Capabilities(full_duplex=True, persona_prompt=True, input_rate_hz=22_050,
                 output_rate_hz=22_050, transcript="stream"),
    (_DEVICE,
     Setting("code", "str", "", "checkout of the model's repository"),
     Setting("weights", "str", "maikezu/f-actor", "weights: on the hub, or a folder"),
     _REVISION,
     Setting("codec", "str", "nvidia/nemo-nano-codec-22khz-0.6kbps-12.5fps",
             "NanoCodec: on the hub, or a .nemo file"),
     Setting("speaker", "str", "rebeka", "its voice: rebeka, gweneth, brian, tom, or a JSON file "
             "with 192 numbers"),
     Setting("name", "str", "", "its name in the prompt; empty: the speaker's"),
     Setting("partner", "str", "Brian", "the user's name in the prompt"),
     # The numbers of the released example. There the speaker's script says who begins; here the
     # user does.
     Setting("backchannels", "int", 2, "how many it is asked for in the prompt", 0, 40),
     Setting("interruptions", "int", 2, "how many it is asked for in the prompt", 0, 20),
     Setting("starts_dialogue", "bool", False, "whether the prompt says that it begins"),
     Setting("temperature", "float", 1.0, "temperature; 0: the best token", 0.0, 5.0),
     Setting("top_k", "int", 40, "best tokens sampled from; 0: all", 0, 200_000),
     Setting("top_p", "float", 0.9, "share of probability sampled from", 0.01, 1.0),
     Setting("max_steps", "int", 1024, "steps of a dialogue at most, 80 ms each; then the session "
             "ends unscored", 3, 100_000),
     # What NanoCodec's layers look at, to whole frames.
     Setting("encode_context", "int", 14, "frames before each of the user's that its codes are "
             "made from", 0, 1000),
     Setting("encode_lookahead", "int", 0, "frames after each of the user's that are waited for "
             "before it is encoded; each is 80 ms of latency", 0, 100),
     Setting("decode_context", "int", 28, "frames that are decoded again before each of its own",
             0, 1000),
     Setting("end_of_dialogue", "str", "unscored", "what its own end of the dialogue is: the "
             "session ends unscored; silence from there on; the mark is never drawn",
             choices=("unscored", "silence", "never"))),
    Needs(gpu_gb=None, download_gb=None, repositories=(
        "maikezu/f-actor", "nvidia/nemo-nano-codec-22khz-0.6kbps-12.5fps"),
          python_from=(3, 10), python_below=(3, 11), modules=("torch", "transformers",
                                                               "nemo.collections.tts.models"),
          paths={"code": OwnPath("a checkout of f-actor", "training/modeling_dsu.py", needed=True),
                 "codec": OwnPath("a .nemo file", marked_by=".nemo"),
                 "speaker": OwnPath("a JSON file with 192 numbers", marked_by=".json")}),
    unverified="experimental, off by default: its released code has no way in for a live user, the "
    f"loop is ours and nobody has shown that the model can be met so; {_NO_WEIGHTS}: the loop was "
    "held against the released code with small random weights",
    experimental=True,
)

MODELS: Mapping[str, LocalModel] = {model.name: model for model in (
    MOSHI_MODEL, PERSONAPLEX_MODEL, MINICPM_O_MODEL, VENUS_MODEL, FUN_AUDIO_CHAT_MODEL,
    NEMOTRON_VOICECHAT_MODEL, F_ACTOR_MODEL)}
MOSHI = MOSHI_MODEL.spec()
PERSONAPLEX = PERSONAPLEX_MODEL.spec()
MINICPM_O = MINICPM_O_MODEL.spec()
VENUS = VENUS_MODEL.spec()
FUN_AUDIO_CHAT = FUN_AUDIO_CHAT_MODEL.spec()
NEMOTRON_VOICECHAT = NEMOTRON_VOICECHAT_MODEL.spec()
F_ACTOR = F_ACTOR_MODEL.spec()
