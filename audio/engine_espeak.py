"""eSpeak NG: the second engine. Formant speech, many voices, a process an utterance.

Needs only the package espeakng-loader (eSpeak NG 1.52 with its data). The library runs in
`audio/espeak_process.py`: see there why. It is called by its file, with the interpreter's safe
path on, so that a folder of the user's named `audio` is never imported instead.

A voice is `ACCENT` or `ACCENT+VARIANT`. The seed is ignored: eSpeak NG knows one rendering of a
text, so a rendering that the quality gate refuses is refused at once.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np

from audio.buffers import Float32, pcm16_to_float
from audio.errors import SynthesisError
from audio.spoken_text import mark_letter_a
from audio.suggest import unknown_name

RATE_HZ = 22_050
ACCENTS = (
    "en-us", "en-us-nyc", "en", "en-029", "en-gb-scotland", "en-gb-x-gbclan", "en-gb-x-gbcwmd",
    "en-gb-x-rp",
)
"""Every English voice of the package that reads Latin script, by the names that it answers to
(it refuses `en-gb`; British English is `en`)."""
VARIANTS = ("m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "f1", "f2", "f3", "f4", "f5")
"""Its plain male and female variants; the characters (robots, whispers, ...) are left out."""
TIMEOUT_S = 30.0
"""Ours: a process takes about 0.05 s for a segment; on a loaded machine some seconds."""
MAX_S = 120.0
"""Speech is stopped beyond this: 600 characters take about 35 s."""
GAIN_DB = -1.0
"""Applied to every utterance alike. The library limits its peaks just below full scale, and the
conversion to 24 kHz then passed it in 4 of the 729 segments of the suite. Its own volume setting is
no way out: at 100 peaks are lower, and whisper base misheard 78 words of 348 instead of 58."""
_LETTER_A = "eh"
"""It reads a spelled "M A R Y" as "em, uh, ar, why". "eh" it says as the letter A in every accent
(with the vowel of "grade"); "ay" it says as the letter I."""


class EspeakEngine:
    """`synthesis.Engine` over eSpeak NG."""

    name = "espeak"
    sample_rate_hz = RATE_HZ

    def __init__(self) -> None:
        self.version = metadata.version("espeakng-loader")

    def voices(self) -> tuple[str, ...]:
        """Eight accents, each plain and in thirteen variants."""
        return tuple(
            accent if variant is None else f"{accent}+{variant}"
            for accent in ACCENTS
            for variant in (None, *VARIANTS)
        )

    def synthesize(self, text: str, voice: str, seed: int) -> Float32:
        """Speak normalised `text`; float32 mono at 22.05 kHz. `seed` is ignored.

        Raises:
            InputError: unknown voice.
            SynthesisError: the process failed, timed out or gave too much.
        """
        del seed
        if voice not in self.voices():
            raise unknown_name("voice of espeak", voice, self.voices())
        pcm, _ = _speak(mark_letter_a(text, _LETTER_A), voice)
        return (pcm16_to_float(pcm) * np.float32(10 ** (GAIN_DB / 20))).astype(np.float32)

    def facts(self) -> dict[str, str]:
        """What the manifest says about the engine: versions and the hash of the library."""
        import espeakng_loader

        _, version = _speak("a", ACCENTS[0])
        library = Path(espeakng_loader.get_library_path())
        return {
            "name": self.name,
            "version": self.version,
            "library": f"eSpeak NG {version}",
            "library_sha256": hashlib.sha256(library.read_bytes()).hexdigest(),
            "setting_gain_db": str(GAIN_DB),
            "licence": "GPL-3.0-or-later, in a process of its own",
        }


def _speak(text: str, voice: str) -> tuple[np.ndarray[tuple[int], np.dtype[np.int16]], str]:
    """PCM16 of one utterance, and the library's version."""
    script = Path(__file__).with_name("espeak_process.py")
    request = json.dumps({"text": text, "voice": voice, "max_s": MAX_S}).encode()
    try:
        done = subprocess.run(
            [sys.executable, "-P", str(script)],
            input=request, capture_output=True, timeout=TIMEOUT_S, check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SynthesisError(f"espeak: no answer in {TIMEOUT_S} s for {text!r}") from error
    head, newline, pcm = done.stdout.partition(b"\n")
    if done.returncode != 0 or not newline:
        detail = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise SynthesisError(
            f"espeak: the process ended with {done.returncode} ({' '.join(detail)}) for {text!r}"
        )
    try:
        answer = json.loads(head)
        if "error" in answer:
            raise SynthesisError(f"espeak: {answer['error']} for {text!r}")
        rate_hz, frames, version = answer["rate_hz"], answer["frames"], str(answer["version"])
    except (ValueError, KeyError, TypeError) as error:
        raise SynthesisError(f"espeak: expected a JSON answer, got {head[:80]!r}") from error
    if rate_hz != RATE_HZ or len(pcm) != 2 * frames:
        raise SynthesisError(
            f"espeak: expected {RATE_HZ} Hz and {frames} frames, "
            f"got {rate_hz} Hz and {len(pcm)} bytes"
        )
    return np.frombuffer(pcm, "<i2").astype(np.int16), version
