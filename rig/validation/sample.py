"""What a study draws: items with what a page shows of them and what the key says of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from audio.buffers import Float32, float_to_pcm16
from audio.resample import resample
from audio.timebase import SESSION_RATE_HZ
from rig.report.clip import flac_base64
from rig.validation.drawing import Drawn, T
from rig.validation.key import KeyItem, Source, StratumFacts, strata_facts

CLIP_RATE_HZ = 16_000
"""What the detector hears is 16 kHz (DSB-IFEval, C.1), so a clip holds all that a verdict rests on,
at two thirds of the size."""


@dataclass(frozen=True, slots=True)
class Clip:
    """Audio of an item: FLAC without tags, in base64. Marks are seconds within it."""

    base64: str
    length_s: float
    channels: tuple[str, ...]
    marks: tuple[float, float] | None = None

    def facts(self) -> dict[str, Any]:
        """For the page, without the sound."""
        return {"length_s": round(self.length_s, 3), "channels": self.channels,
                "marks": None if self.marks is None else [round(m, 3) for m in self.marks]}


@dataclass(frozen=True, slots=True)
class Item:
    """One item. `blocks` are what the page shows, in order: `{"kind": "text", "title", "text"}`,
    `{"kind": "turns", "title", "parts"}` (see `annotate.js`). Nothing in them names the system,
    the level, the verdict or the target."""

    key: KeyItem
    blocks: tuple[dict[str, Any], ...]
    clip: Clip | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """What a study drew. `items` are in the order of the key."""

    items: tuple[Item, ...]
    sources: tuple[Source, ...]
    strata: tuple[StratumFacts, ...]
    notes: tuple[str, ...]
    judges: tuple[str, ...] = ()


@dataclass(slots=True)
class Notebook:
    """Gathers what must be said of a draw: strata, and every shortfall in words."""

    strata: list[StratumFacts] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, of: str, drawn: Drawn[T], total: int) -> None:
        """Note what one draw gave."""
        self.strata += strata_facts(of, drawn.strata)
        short = [f for f in drawn.strata if f.short]
        self.notes += [f"{of}: {f.name}: {f.drawn} of {f.wanted} wanted, {f.available} available"
                       for f in short]
        if short and drawn.filled_up:
            self.notes.append(f"{of}: {drawn.filled_up} others drawn in place of what was short")
        if len(drawn.chosen) < total:
            self.notes.append(f"{of}: {len(drawn.chosen)} of {total} items; there are no more")


def clip_of(channels: Sequence[Float32], names: Sequence[str],
            marks: tuple[float, float] | None = None) -> Clip:
    """A clip of tracks at the session's rate, equally long, each a channel."""
    samples = np.stack([resample(c, SESSION_RATE_HZ, CLIP_RATE_HZ) for c in channels], axis=1)
    return Clip(flac_base64(float_to_pcm16(samples), CLIP_RATE_HZ), len(samples) / CLIP_RATE_HZ,
                tuple(names), marks)


def text_block(title: str, text: str) -> dict[str, Any]:
    return {"kind": "text", "title": title, "text": text}


def turns_block(title: str, parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """`parts`: `{"said": text}`, `{"pause_s": seconds}`, `{"mark": "from"|"to", "text"}`,
    `{"note": text}`."""
    return {"kind": "turns", "title": title, "parts": list(parts)}


def spoken_parts(turn: Sequence[str | float]) -> list[dict[str, Any]]:
    """Texts and pauses in seconds as parts."""
    return [{"said": p} if isinstance(p, str) else {"pause_s": round(p, 2)} for p in turn]
