"""Word times by forced alignment: PocketSphinx and its US English model, offline.

The recogniser is made to hear exactly the words of the text, in order, with optional silence
between them; the frames (10 ms) that it gives each word are its times. Each call has a decoder of
its own that knows only the words of that text, so nothing of an earlier call can leak into it.

Conventions
-----------
- Times are sample indices at the rate of the given audio, inside it, monotone; the count and the
  order of words equal `spoken_text.words(text)`.
- Zeros stand on either side of the audio for the silence model (`PAD_FRAMES`), and are taken off
  again; a word whose frames reach into them begins (ends) at the edge of the audio.
- Silence between words belongs to no word. The model gives quiet endings to silence, 40 ms in the
  median: so where it leaves a gap after a word, the word's end is moved on to where the sound
  fades within 0.25 s (`edges.active_windows`), at most to the next word (docs/synthesis.md has
  the figures).
- A word that is not in the model's dictionary gets a pronunciation by rule and is marked
  `generated`. So is a word of two or more capitals, which the dictionary would read as a word.
- An alignment is structural: there is no score threshold (DSB-IFEval, table 29). A text forced onto
  other speech aligns too. What is checked: every word found, at least 30 ms a phone on average.
"""

from __future__ import annotations

import functools
import importlib.util
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import numpy as np

from audio import edges
from audio.buffers import Float32, float_to_pcm16
from audio.errors import AlignmentError, SynthesisError
from audio.resample import resample
from audio.spoken_text import words
from audio.timebase import ANALYSIS_RATE_HZ

Pronunciation = Literal["dictionary", "generated"]

FRAME_N = ANALYSIS_RATE_HZ // 100
"""Frames of 10 ms: the model's own rate."""
MIN_FRAMES_PER_PHONE = 3
"""A phone is a chain of three states of at least one frame each; less cannot be aligned."""
BEAM = 1e-200
"""Search beam, so wide that nothing is pruned: alignment has one path to find, and with the
recogniser's own 1e-48 the last words of 25 of 46 eSpeak segments were pruned away."""
SILENCE_PROBABILITY = 0.05
"""Of a pause between two words. PocketSphinx's own 0.005 puts some starts inside the silence before
them; from 0.005 to 0.05 the 95th percentile of the start error fell from 54 to 46 ms."""
PAD_FRAMES = 10

MAX_FADING_S = 0.25
"""Sound that goes on for longer than this after a word is something else, and the word's end stays
where the model has it. Ours: the gate's bound on sound after the last word; of the built-in suite's
words up to 0.23 s went to silence."""

_FILLER = ("<", "[", "(", "+")


@dataclass(frozen=True, slots=True)
class AlignedWord:
    """A word and its samples `[start_n, end_n)`."""

    word: str
    start_n: int
    end_n: int
    pronunciation: Pronunciation = "dictionary"
    found_end_n: int | None = None
    """Where the model itself ended it, when `end_n` was moved on."""


def align(samples: Float32, rate_hz: int, text: str) -> tuple[AlignedWord, ...]:
    """Times of the words of `text` in `samples`.

    Args:
        samples: float32 mono `(frames,)`, speech alone, without long silence around it.
        rate_hz: its rate.
        text: normalised text (`spoken_text.normalise`).

    Raises:
        AlignmentError: the text has no words, is longer than the audio can hold, cannot be
            pronounced, or the search did not reach its last word.
    """
    if not _installed():
        raise AlignmentError("alignment: expected pocketsphinx, which has no package for this "
                             "version of Python")
    spoken = words(text)
    if not spoken:
        raise AlignmentError(f"alignment: expected words, got {text!r}")
    said = [_pronunciations(word) for word in spoken]
    frames_needed = sum(
        MIN_FRAMES_PER_PHONE * min(len(phones.split()) for phones in choices)
        for _, choices in said
    )
    at_16k = resample(samples, rate_hz, ANALYSIS_RATE_HZ)
    if at_16k.size < frames_needed * FRAME_N:
        raise AlignmentError(
            f"alignment: expected at least {frames_needed / 100:.2f} s of audio for "
            f"{len(spoken)} words, got {at_16k.size / ANALYSIS_RATE_HZ:.2f} s: {text!r}"
        )
    pad = np.zeros(PAD_FRAMES * FRAME_N, np.float32)
    found = _search(float_to_pcm16(np.concatenate((pad, at_16k, pad))).tobytes(), said)
    if found is None:
        raise AlignmentError(f"alignment: expected {len(spoken)} words, the search lost some: "
                             f"{text!r}")
    times = [(_to_n(first - PAD_FRAMES, rate_hz, samples.size),
              _to_n(past_last - PAD_FRAMES, rate_hz, samples.size)) for first, past_last in found]
    return tuple(
        AlignedWord(word, start_n, end_n, origin, found_n if found_n != end_n else None)
        for word, (origin, _), (start_n, end_n), (_, found_n) in zip(
            spoken, said, to_fading(times, samples, rate_hz), times, strict=True)
    )


def to_fading(times: list[tuple[int, int]], samples: Float32, rate_hz: int
               ) -> Iterator[tuple[int, int]]:
    """The same words, each end before a gap moved on to the first instant without activity, where
    that comes within `MAX_FADING_S`. Raises `AlignmentError` when nothing in it is speech."""
    try:
        quiet = np.flatnonzero(~edges.active_windows(samples, rate_hz))
    except SynthesisError as error:
        raise AlignmentError(f"alignment: {error}") from error
    hop_n = rate_hz * edges.HOP_MS / 1000
    centre = edges.WINDOW_MS / edges.HOP_MS / 2
    next_starts = [start_n for start_n, _ in times[1:]] + [samples.size]
    for (start_n, end_n), next_start_n in zip(times, next_starts, strict=True):
        after = np.searchsorted(quiet, end_n / hop_n - centre)
        fades_n = (samples.size if after == quiet.size
                   else math.floor((int(quiet[after]) + centre) * hop_n))
        moved_n = min(next_start_n, max(end_n, fades_n))
        yield start_n, end_n if moved_n - end_n > MAX_FADING_S * rate_hz else moved_n


@functools.cache
def _installed() -> bool:
    """Whether the aligner is there: it has no wheel for every Python, and is no reason to ask for
    a compiler."""
    return importlib.util.find_spec("pocketsphinx") is not None


def aligner_facts() -> dict[str, str]:
    """What the manifest says about the aligner."""
    if not _installed():
        return {"name": "none", "version": "0", "words": "uniform"}
    return {
        "name": "pocketsphinx",
        "version": metadata.version("pocketsphinx"),
        "model": "en-us",
        "generated_pronunciations": f"hibari-tts {metadata.version('hibari-tts')}",
        "setting_beam": str(BEAM),
        "setting_silence_probability": str(SILENCE_PROBABILITY),
        "setting_pad_frames": str(PAD_FRAMES),
        "ends": f"moved on to {edges.EDGE_BELOW_LEVEL_DB:g} dB below speech",
    }


def _search(
    pcm: bytes, said: list[tuple[Pronunciation, tuple[str, ...]]]
) -> list[tuple[int, int]] | None:
    """Frames `[first, past_last)` of every word with the pad still in; None where some are lost."""
    from pocketsphinx import Decoder

    decoder = Decoder(
        lm=None, dict=None, loglevel="FATAL", beam=BEAM, pbeam=BEAM, wbeam=BEAM,
        silprob=SILENCE_PROBABILITY,
        bestpath=False,  # the second pass over the lattice may leave out the last word
    )
    names: dict[tuple[str, ...], str] = {}
    for _, choices in said:
        if choices in names:
            continue
        names[choices] = name = f"w{len(names)}"
        for i, phones in enumerate(choices):
            decoder.add_word(name if not i else f"{name}({i + 1})", phones, False)
    try:
        decoder.set_align_text(" ".join(names[choices] for _, choices in said))
        decoder.start_utt()
        decoder.process_raw(pcm, full_utt=True)
        decoder.end_utt()
    except RuntimeError as error:
        raise AlignmentError(f"alignment: the recogniser refused the text: {error}") from error
    segments: Any = decoder.seg()
    if segments is None:
        return None
    found = [(s.word.split("(")[0], s.start_frame, s.end_frame + 1)
             for s in segments if not s.word.startswith(_FILLER)]
    if [name for name, _, _ in found] != [names[choices] for _, choices in said]:
        return None
    return [(first, past_last) for _, first, past_last in found]


def _to_n(frame: int, rate_hz: int, size_n: int) -> int:
    """Frame counted from the start of the audio to a sample index, kept inside the audio."""
    return min(size_n, max(0, math.floor(frame * rate_hz / 100 + 0.5)))


def _pronunciations(word: str) -> tuple[Pronunciation, tuple[str, ...]]:
    """Where a word's phones come from, and every way in which it may be said."""
    acronym = len(word) > 1 and word.isupper() and "'" not in word
    known = () if acronym else _dictionary().get(word.lower(), ())
    return ("dictionary", known) if known else ("generated", (_by_rule(word),))


@functools.cache
def _dictionary() -> dict[str, tuple[str, ...]]:
    """The model's dictionary: lower-case word to phone strings, the most usual first."""
    from pocketsphinx import get_model_path

    out: dict[str, tuple[str, ...]] = {}
    path = Path(str(get_model_path("en-us/cmudict-en-us.dict")))
    for line in path.read_text(encoding="utf-8").splitlines():
        word, _, phones = line.partition(" ")
        if phones:
            word = re.sub(r"\(\d+\)$", "", word)
            out[word] = (*out.get(word, ()), phones.strip())
    return out


@functools.cache
def _by_rule(word: str) -> str:
    """Phones of an unknown word: hibari's letter-to-sound net, mapped to the model's phone set."""
    return _to_arpabet(_letter_to_sound()(word, normalize_text=False), word)


@functools.cache
def _letter_to_sound() -> Any:
    from hibari.g2p import G2P

    return G2P()


_DIPHONES = {"ɜɹ": "ER", "əɹ": "ER", "ɚɹ": "ER", "ɜː": "ER", "tʃ": "CH", "dʒ": "JH"}
_PHONES = {
    "A": "EY", "I": "AY", "O": "OW", "Q": "OW", "W": "AW", "Y": "OY", "e": "EY", "o": "OW",
    "a": "AA", "æ": "AE", "ɑ": "AA", "ɒ": "AA", "ɔ": "AO", "ə": "AH", "ɐ": "AH", "ʌ": "AH",
    "ᵊ": "AH", "ɛ": "EH", "ɜ": "ER", "ɚ": "ER", "ɪ": "IH", "ᵻ": "IH", "ɨ": "IH", "i": "IY",
    "ʊ": "UH", "u": "UW", "b": "B", "d": "D", "ð": "DH", "f": "F", "ɡ": "G", "h": "HH",
    "ʤ": "JH", "j": "Y", "k": "K", "l": "L", "m": "M", "n": "N", "ŋ": "NG", "p": "P", "ɹ": "R",
    "r": "R", "s": "S", "ʃ": "SH", "t": "T", "T": "T", "ɾ": "T", "ʔ": "T", "θ": "TH", "v": "V",
    "w": "W", "z": "Z", "ʒ": "ZH", "ʧ": "CH", "x": "K", "ç": "HH",
}
_MARKS = frozenset("ˈˌː .,!?;:'-—…\u0303ʰʲ")


def _to_arpabet(phonemes: str, word: str) -> str:
    """Misaki's phoneme letters (as hibari writes them) to the 39 phones of the model."""
    bare = "".join(c for c in phonemes if c == "ː" or c not in _MARKS)
    out: list[str] = []
    i = 0
    while i < len(bare):
        pair = bare[i:i + 2]
        if pair in _DIPHONES:
            out.append(_DIPHONES[pair])
            i += 2
        elif bare[i] in _PHONES:
            out.append(_PHONES[bare[i]])
            i += 1
        elif bare[i] == "ː":
            i += 1
        else:
            raise AlignmentError(
                f"alignment: no phone of the model for {bare[i]!r} in {phonemes!r} ({word})"
            )
    if not out:
        raise AlignmentError(f"alignment: expected a pronunciation, got none for {word!r}")
    return " ".join(out)
