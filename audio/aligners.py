"""What can align words, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from audio import align as pocketsphinx
from audio.align import AlignedWord
from audio.buffers import Float32
from audio.errors import InputError
from audio.suggest import unknown_name

DEFAULT_ALIGNER = "pocketsphinx"
ALIGNERS = (DEFAULT_ALIGNER, "mms_fa")


class Aligner(Protocol):
    """Finds the words of a text in its speech; conventions of `audio.align`."""

    def align(self, samples: Float32, rate_hz: int, text: str) -> tuple[AlignedWord, ...]:
        """Raises `AlignmentError` where it cannot."""

    def facts(self) -> dict[str, str]:
        """Name, version and what else decides the times, for the manifest."""


class PocketsphinxAligner:
    """The default: offline, in the install."""

    def align(self, samples: Float32, rate_hz: int, text: str) -> tuple[AlignedWord, ...]:
        """`audio.align.align`."""
        return pocketsphinx.align(samples, rate_hz, text)

    def facts(self) -> dict[str, str]:
        """`audio.align.aligner_facts`."""
        return pocketsphinx.aligner_facts()


def aligner(name: str, weights: str | Path | None = None) -> Aligner:
    """The aligner of that name.

    Raises `InputError`: no such aligner, or its file of weights is not named or not there.
    """
    if name not in ALIGNERS:
        raise unknown_name("aligner", name, ALIGNERS)
    if name == DEFAULT_ALIGNER:
        if weights is not None:
            raise InputError.expected("no weights", got=weights, where=f"aligner {name}")
        return PocketsphinxAligner()
    if weights is None:
        raise InputError.expected("--aligner-weights FILE", got="none", where=f"aligner {name}")
    from audio.align_mms import MmsAligner

    return MmsAligner(weights)
