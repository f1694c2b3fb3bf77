"""Word times by torchaudio's MMS_FA: an acoustic model of letters, and a CTC forced alignment.

Extra `mms`; its weights are a file of the user's own (1.2 GB, CC-BY-NC 4.0; nothing is downloaded
here). Written against torchaudio 2.11.1. UNVERIFIED with the real weights, which could not be had:
the alignment itself is tested on small emissions of known answer, and the model's loading with
weights made at random.

Times follow the conventions of `audio.align`. The model gives one answer every 20 ms; a letter's
span is where its probability peaks, so ends before a pause are moved on in the same way.
"""

from __future__ import annotations

import functools
import math
import re
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audio.align import AlignedWord, to_fading
from audio.buffers import Float32
from audio.errors import AlignmentError, InputError
from audio.files import sha256_file
from audio.resample import resample
from audio.spoken_text import words
from audio.timebase import ANALYSIS_RATE_HZ

_OTHER = re.compile(r"[^a-z']")


class MmsAligner:
    """Implements `audio.aligners.Aligner` over a file of weights."""

    def __init__(self, weights: str | Path) -> None:
        self._weights = Path(weights)
        if not self._weights.is_file():
            raise InputError.expected("a file with the weights of torchaudio's MMS_FA (model.pt)",
                                      got="no such file", where=self._weights)

    def align(self, samples: Float32, rate_hz: int, text: str) -> tuple[AlignedWord, ...]:
        """As `audio.align.align`.

        Raises `InputError` when torchaudio is missing or the weights are not those of the model.
        """
        spoken = words(text)
        letters = [_OTHER.sub("", word.lower()) for word in spoken]
        if not spoken or not all(letters):
            raise AlignmentError(f"alignment: expected words of letters, got {text!r}")
        at_16k = resample(samples, rate_hz, ANALYSIS_RATE_HZ)
        emission = _emission(self._weights, at_16k)
        spans = word_frames(emission, letters)
        step = samples.size / emission.shape[0]
        times = [(math.floor(first * step + 0.5), math.floor(past_last * step + 0.5))
                 for first, past_last in spans]
        return tuple(
            AlignedWord(word, start_n, end_n, found_end_n=found_n if found_n != end_n else None)
            for word, (start_n, end_n), (_, found_n) in zip(
                spoken, to_fading(times, samples, rate_hz), times, strict=True))

    def facts(self) -> dict[str, str]:
        """What the manifest says about the aligner; the weights by their hash."""
        return {"name": "mms_fa", "version": metadata.version("torchaudio"),
                "weights_sha256": _sha256(self._weights), "verified": "no: never run with the "
                "real weights"}


def word_frames(emission: NDArray[np.float32], letters: list[str]) -> list[tuple[int, int]]:
    """Frames `[first, past_last)` of every word in `emission`, `(frames, 28)` log-probabilities in
    the order of MMS_FA's labels.

    Raises `AlignmentError` where the frames are too few for the letters.
    """
    torch, bundle = _torchaudio()
    needed = sum(map(len, letters)) + _repeats("".join(letters))
    if len(emission) < needed:
        raise AlignmentError(f"alignment: expected at least {needed} frames for {len(letters)} "
                             f"words, got {len(emission)}")
    spans = bundle.get_aligner()(torch.from_numpy(emission), bundle.get_tokenizer()(letters))
    return [(int(word[0].start), int(word[-1].end)) for word in spans]


def _repeats(letters: str) -> int:
    """Between two equal letters CTC needs a blank."""
    return sum(a == b for a, b in pairwise(letters))


def _emission(weights: Path, at_16k: Float32) -> NDArray[np.float32]:
    torch, _ = _torchaudio()
    model = _model(weights)
    with torch.inference_mode():
        emission, _ = model(torch.from_numpy(np.ascontiguousarray(at_16k))[None])
    return np.asarray(emission[0].numpy(), dtype=np.float32)


@functools.cache
def _model(weights: Path) -> Any:
    _, bundle = _torchaudio()
    # The file is there, so it is read and not fetched; weights_only: no code runs while reading.
    where = {"model_dir": str(weights.parent), "file_name": weights.name, "weights_only": True,
             "map_location": "cpu"}
    try:
        return bundle.get_model(with_star=False, dl_kwargs=where)
    except Exception as error:  # whatever a foreign file makes torch raise
        reason = str(error).split()
        raise InputError.expected("weights of torchaudio's MMS_FA", got=f"{type(error).__name__} "
                                  f"{' '.join(reason)[:200]}", where=weights) from error


@functools.cache
def _torchaudio() -> tuple[Any, Any]:
    try:
        import torch
        from torchaudio.pipelines import MMS_FA
    except (ImportError, OSError) as error:  # OSError: a torchaudio beside another torch
        raise InputError.expected("torch and torchaudio to be installed (extra mms)",
                                  got=str(error).splitlines()[0], where="aligner mms_fa"
                                  ) from error
    return torch, MMS_FA


@functools.cache
def _sha256(path: Path) -> str:
    return sha256_file(path)
