"""hibari-tts: the built-in engine. One natural US English voice, its weights in the wheel, and the
voices of `voice_bank` made of it inside its own synthesis.

What is done differently from `Hibari.__call__`, and why:

- Its text normaliser is not used. Texts come in spoken form, and it reads "no." as "number".
- The letter name A is marked. It reads a spelled "M A R Y" as "em, uh, ar, why".
- Sentences are joined with `SENTENCE_PAUSE_S` of exact silence. Left alone, each sentence brings
  0.3 s before and 0.45 s after it, together 0.7 to 0.8 s: a pause that nobody designed, at which a
  system that ends turns after 0.5 s would rightly answer.
- A burst of noise after the speech, up to the last sample, is cut off. The model ends some very
  short texts with one ("the,", "uh,"), and it always ends with silence otherwise.
- A character that the model has no sign for is an error; `Hibari.ids` drops it silently.

The seed feeds the noise part of the sound alone: durations and pitch are the same for every seed.
hibari would take scipy's FFT where scipy happens to be installed, and other samples with it; it is
held to numpy's, so that installing test tools changes no byte. Bytes still depend on the versions
of onnxruntime and numpy (`facts`) and on the processor, so they are promised on one machine only.
"""

from __future__ import annotations

import hashlib
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from audio.buffers import Float32
from audio.edges import MARGIN_MS, drop_end_noise, measure_edges, trim
from audio.errors import InputError, SynthesisError
from audio.sentences import SENTENCE_PAUSE_S
from audio.spoken_text import mark_letter_a
from audio.suggest import unknown_name
from audio.timebase import s_to_n
from audio.voice_bank import BANK, BANK_VERSION, BASE, VOICES
from audio.voice_transform import Frames, Shift, transform

RATE_HZ = 24_000
MAX_PHONEMES = 400
"""hibari's own limit for what its model is given at once (`hibari.tts.MAX_PHONEMES`)."""

_LETTER_A = "[A](/ˈA/)"
"""Its inline notation for the phonemes of a word."""


def _rfft(x: Any, axis: int) -> Any:
    return np.fft.rfft(x, axis=axis).astype(np.complex64)


def _irfft(x: Any, n: int, axis: int) -> Any:
    return np.fft.irfft(x, n=n, axis=axis).astype(np.float32)


class HibariEngine:
    """`synthesis.Engine` over the package hibari-tts."""

    name = "hibari"
    sample_rate_hz = RATE_HZ

    def __init__(self) -> None:
        self.version = metadata.version("hibari-tts")
        self._loaded: dict[str, Any] = {}

    def voices(self) -> tuple[str, ...]:
        """The voices that the install brings along. Others of hibari can be named once their
        files lie in its cache; nothing is downloaded here."""
        return VOICES

    def synthesize(self, text: str, voice: str, seed: int) -> Float32:
        """Speak normalised `text`; float32 mono at 24 kHz with silence around it.

        Raises:
            InputError: unknown voice, a voice that is not on this machine, a sentence that is too
                long for the model.
            SynthesisError: nothing to say, a sign the model does not know, speech cut off.
        """
        shift = BANK.get(voice)
        model = self._model(voice if shift is None else BASE)
        rng = np.random.default_rng(seed)
        parts = [
            self._sentence(model, sentence, rng, shift)
            for sentence in model.split_sentences(mark_letter_a(text, _LETTER_A))
        ]
        if not parts:
            raise SynthesisError(f"hibari: expected speech, got none for {text!r}")
        return _join(parts)

    def facts(self) -> dict[str, str]:
        """What the manifest says about the engine: versions and the hash of its weights."""
        from hibari.voices import voice_path

        weights = Path(voice_path(BASE, download_missing=False))
        return {
            "name": self.name,
            "version": self.version,
            "weights_sha256": hashlib.sha256(weights.read_bytes()).hexdigest(),
            "onnxruntime": metadata.version("onnxruntime"),
            "fft": f"numpy {metadata.version('numpy')}",
            "licence": "Apache-2.0",
            "setting_sentence_pause_s": str(SENTENCE_PAUSE_S),
            "setting_voice_bank": BANK_VERSION,
        }

    def _model(self, voice: str) -> Any:
        if voice not in self._loaded:
            from hibari import Hibari, dsp
            from hibari.voices import VOICES as TRAINED
            from hibari.voices import voice_path

            if voice not in TRAINED:
                raise unknown_name("voice of hibari", voice, (*TRAINED, *BANK))
            try:
                voice_path(voice, download_missing=False)
            except FileNotFoundError as error:
                raise InputError.expected(
                    f"a voice that is on this machine ({BASE}, {min(BANK)} to {max(BANK)})",
                    got=f"{voice}, whose file {error} is missing", where="hibari",
                ) from error
            # Looked up by name at every call, so this holds from here on.
            dsp.rfft, dsp.irfft = _rfft, _irfft
            self._loaded[voice] = Hibari(voice=voice, threads=1)
        return self._loaded[voice]

    def _sentence(
        self, model: Any, sentence: str, rng: np.random.Generator, shift: Shift | None
    ) -> Float32:
        phonemes: str = model.g2p(sentence, normalize_text=False)
        unknown = sorted(set(phonemes) - set(model.vocab))
        if not phonemes or unknown:
            raise SynthesisError(
                f"hibari: expected phonemes of the model, got {phonemes!r} "
                f"(unknown: {''.join(unknown)!r}) for {sentence!r}"
            )
        if len(phonemes) > MAX_PHONEMES:
            raise InputError.expected(
                f"sentences of at most {MAX_PHONEMES} phonemes", got=len(phonemes),
                where=f"hibari: {sentence[:60]!r}",
            )
        ids = model.ids(phonemes)
        samples: Float32 = (model.from_ids(ids, rng=rng) if shift is None else
                            _shifted(model, ids, rng, shift))
        samples = drop_end_noise(samples, RATE_HZ)
        edges = measure_edges(samples, RATE_HZ)
        if samples.size - edges.end_n < s_to_n(MARGIN_MS / 1000, RATE_HZ):
            raise SynthesisError(f"hibari: speech runs into the end of the audio: {sentence!r}")
        return samples


def _shifted(model: Any, ids: list[int], rng: np.random.Generator, shift: Shift) -> Float32:
    """`Hibari.from_ids` with the network's frames transformed before they are made sound."""
    from hibari import dsp

    given = model.sess.run(None, {"ids": np.asarray([ids], np.int64),
                                  "speed": np.ones(1, np.float32)})
    frames = Frames(*(array[0] for array in given))
    pulses = dsp.stft(dsp.pulses(frames.f0_hz), frames.harmonic.shape[1])
    new = transform(frames, pulses, shift)
    samples: Float32 = dsp.synth(new.harmonic, new.turn, new.noise, new.free, new.phase,
                                 new.f0_hz, rng)
    return samples


def _join(parts: list[Float32]) -> Float32:
    """Sentences in order, their inner silence replaced by `SENTENCE_PAUSE_S` of zeros."""
    pause = np.zeros(s_to_n(SENTENCE_PAUSE_S, RATE_HZ), np.float32)
    out: list[Float32] = []
    for i, part in enumerate(parts):
        trimmed, start_n = trim(part, RATE_HZ)
        head = part[:start_n] if i == 0 else pause
        tail = part[start_n + trimmed.size:] if i == len(parts) - 1 else trimmed[:0]
        out += [head, trimmed, tail]
    return np.concatenate(out)
