"""The voices of the default engine: the one that its package brings, and others made of it.

A table of pitch and formants (`voice_transform.Shift`), every row of it measured on rendered speech
(docs/voices.md, bench/measure_voices.py). Two voices are at least one step apart in one of the two:
1.2 semitones of pitch, or 6.8 % of formants.

Deep voices have long vocal tracts and high ones short: the corners that no speaker has (lowest
pitch with highest formants, and the other way round) are left out. Names are numbers in the order
of the table and say nothing of age or sex, which were not measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from audio.voice_transform import TRANSFORM_VERSION, Shift

BASE = "heart"
"""The voice in hibari's package; it is spoken exactly as the package speaks it."""
PITCH_STEP = 1.2
"""Semitones. Ours: one is asked for, and a median over speech is good to a tenth."""
FORMANT_STEP = 1.068
"""Ours: 5 % are asked for, and formants are measured to about one per cent."""

_ROWS: tuple[tuple[int, range], ...] = (
    (-8, range(-3, 1)), (-7, range(-3, 1)), (-6, range(-3, 1)),
    (-5, range(-3, 2)), (-4, range(-3, 2)), (-3, range(-3, 2)), (-2, range(-3, 2)),
    (-1, range(-3, 2)), (0, range(-3, 3)), (1, range(-2, 3)), (2, range(-2, 3)), (3, range(-2, 3)),
)
"""Steps of pitch from `BASE`, and the steps of formants that go with it."""


def _table() -> Iterator[tuple[str, Shift]]:
    number = 0
    for pitch, tracts in _ROWS:
        for tract in tracts:
            if (pitch, tract) != (0, 0):
                number += 1
                yield (f"h{number:02}",
                       Shift(round(pitch * PITCH_STEP, 3), round(FORMANT_STEP**tract, 3)))


BANK: Mapping[str, Shift] = MappingProxyType(dict(_table()))
"""Name of a made voice: what makes it of `BASE`."""

VOICES: tuple[str, ...] = (BASE, *BANK)
"""In a fixed order: which conversation gets which voice depends on it and on the count."""

BANK_VERSION = f"1.{TRANSFORM_VERSION}"
"""Raised (first number) with every change of the table; part of cache and construction keys."""
