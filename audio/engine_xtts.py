"""XTTS-v2 through the maintained fork coqui-tts, in a process of its own. Unverified.

The published suite was spoken by it (DSB-IFEval, table 29). Its weights could not be had where this
was written: loading and every call were tried on a small XTTS with random weights in the same
layout (tests/slow/test_engine_xtts.py), never on the real one. So nothing is claimed of its sound,
and its gate is the general one.

- The model is a folder of the user's; nothing is fetched. Weights are unpickled as tensors only
  (`weights_only`, PyTorch 2.4 or newer), and never written back, which the package does to
  checkpoints of the first release.
- A voice is a speaker of `speakers_xtts.pth`, or `reference`: a recording, of which 3 to 60 s are
  wanted and the first 30 are used.
- At most 250 characters are given to it at once, its own limit for English
  (`VoiceBpeTokenizer.char_limits`): longer texts are split between sentences; a longer sentence is
  refused, because the package would cut its sound short. Pieces are joined as `audio.sentences`
  says.
- It draws its codes at random: the seed sets that, on one machine and device.
- It adds sounds to short texts (coqui-ai/TTS#3516, idiap/coqui-ai-TTS#514): the quality gate
  compares seconds with characters and looks for sound after the last word.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import cached_property
from importlib import metadata
from pathlib import Path

from audio.buffers import Float32
from audio.engines import ENGINES
from audio.errors import InputError
from audio.files import probe, read_channel
from audio.local_voices import names, read_json, regular_file, sha256_of
from audio.resample import resample
from audio.sentences import SENTENCE_PAUSE_S, join_sentences, pack_sentences
from audio.speech_process import SpeechProcess
from audio.suggest import unknown_name
from audio.timebase import SESSION_RATE_HZ, n_to_s, s_to_n

MAX_CHARS = ENGINES["xtts"].capabilities.max_chars or 250
REFERENCE = "reference"
"""Name of the voice that is made from a recording."""
REFERENCE_RATE_HZ = 22_050
"""What its encoder listens at (`XttsAudioConfig.sample_rate`)."""
REFERENCE_S = (3.0, 60.0)
"""The package asks for more than 3 s; 60 are ours, twice what it uses."""
USED_S = 30.0
PIECE_SEED_STEP = 7_919
"""Ours: pieces of a text draw differently; the next attempts (seed + 1, + 2) draw anew in each."""
DEVICES = ("cpu", "cuda")
_FILES = ("config.json", "model.pth", "vocab.json")
_SPEAKERS = "speakers_xtts.pth"


class XttsEngine:
    """`synthesis.Engine` over coqui-tts."""

    name = "xtts"
    sample_rate_hz = SESSION_RATE_HZ

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.version = metadata.version("coqui-tts")
        self._device = settings.get("device", "") or DEVICES[0]
        if self._device not in DEVICES:
            raise unknown_name("--tts-set device", self._device, DEVICES)
        folder = Path(settings["model"]).expanduser()
        self._files = [regular_file(folder / name, where="--tts-set model (xtts)")
                       for name in _FILES]
        read_json(self._files[0], where="xtts: config.json")
        read_json(self._files[2], where="xtts: vocab.json")
        self._voices = names(settings.get("voices", ""), where="--tts-set voices")
        if REFERENCE in self._voices:
            raise InputError.expected("names of speakers", got=repr(REFERENCE),
                                      where="--tts-set voices")
        if self._voices:
            self._files.append(regular_file(folder / _SPEAKERS, where="--tts-set model (xtts)"))
        reference = settings.get("reference", "")
        self._reference = (regular_file(reference, where="--tts-set reference")
                           if reference else None)
        if self._reference is not None:
            self._voices = (*self._voices, REFERENCE)
        if not self._voices:
            raise InputError.expected("--tts-set voices=A,B or --tts-set reference=FILE",
                                      got="neither", where="speech engine xtts")
        self._process: SpeechProcess | None = None

    def voices(self) -> tuple[str, ...]:
        """The speakers that were named, then `reference` where a recording was given."""
        return self._voices

    def synthesize(self, text: str, voice: str, seed: int) -> Float32:
        """Speak normalised `text`; float32 mono at 24 kHz.

        Raises:
            InputError: unknown voice, a sentence beyond `MAX_CHARS`, files that cannot be used.
            SynthesisError: the process failed, timed out or gave too much.
        """
        if voice not in self._voices:
            raise unknown_name("voice of xtts", voice, self._voices)
        pieces = pack_sentences(text, MAX_CHARS, engine="xtts")
        if self._process is None:
            self._process = SpeechProcess("xtts", "audio.xtts_process", {
                "model": str(self._files[0].parent), "device": self._device,
                "reference": self._reference_samples()}, start_s=600.0, answer_s=600.0)
        parts: list[Float32] = []
        for number, piece in enumerate(pieces):
            samples, rate_hz = self._process.speak({
                "text": piece, "seed": (seed + PIECE_SEED_STEP * number) % 2**31,
                "voice": None if voice == REFERENCE else voice})
            parts.append(resample(samples, rate_hz, SESSION_RATE_HZ))
        return join_sentences(parts, SESSION_RATE_HZ)

    def facts(self) -> dict[str, str]:
        """What the manifest says about the engine: versions and hashes of what it reads."""
        return {
            "name": self.name,
            "version": self.version,
            "torch": metadata.version("torch"),
            "licence": "MPL-2.0; weights: Coqui Public Model License",
            "verified": "no: " + ENGINES[self.name].capabilities.unverified,
            "setting_device": self._device,
            "setting_sentence_pause_s": str(SENTENCE_PAUSE_S),
            **self._hashes,
        }

    @cached_property
    def _hashes(self) -> dict[str, str]:
        hashes = {"setting_model_sha256": sha256_of(self._files)}
        if self._reference is not None:
            hashes["setting_reference_sha256"] = sha256_of([self._reference])
        return hashes

    def _reference_samples(self) -> str | None:
        """The first `USED_S` of the recording at its encoder's rate: base64 of float32."""
        if self._reference is None:
            return None
        where = f"--tts-set reference={self._reference.name}"
        info = probe(self._reference)
        length_s = n_to_s(info.frames_n, info.rate_hz)
        if info.channels != 1 or not REFERENCE_S[0] <= length_s <= REFERENCE_S[1]:
            raise InputError.expected(
                f"one channel of {REFERENCE_S[0]:g} to {REFERENCE_S[1]:g} s",
                got=f"{info.channels} of {length_s:.1f} s", where=where)
        samples = read_channel(self._reference, 0, 0, min(info.frames_n,
                                                          s_to_n(USED_S, info.rate_hz)))
        at_rate = resample(samples, info.rate_hz, REFERENCE_RATE_HZ)
        return base64.b64encode(at_rate.astype("<f4").tobytes()).decode()
