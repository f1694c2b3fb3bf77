"""Helpers of these tests: a complete synthetic suite, and an engine that speaks in tones."""

from __future__ import annotations

import functools
import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from audio.buffers import float_to_pcm16, pcm16_to_float
from audio.errors import SynthesisError
from probes.loader import load_suite
from probes.spec import Suite

_WORDS = (
    "apple barn candle door engine forest garden harbor island jacket kettle ladder meadow needle "
    "orchard pencil quarry river saddle timber umbrella valley window yellow basket copper dinner"
)
VOCABULARY = _WORDS.split()


@functools.cache
def load_builtin() -> Suite:
    return load_suite("dsb-ifeval")


def sentence(key: str, n_words: int, end: str = ".") -> str:
    """Words that depend on `key` alone."""
    digest = hashlib.sha256(key.encode()).digest()
    words = [VOCABULARY[digest[i % 32] % len(VOCABULARY)] for i in range(n_words)]
    return " ".join(words).capitalize() + end


def synthetic_conversations(suite: Suite) -> list[dict[str, Any]]:
    """One conversation for everything that the complete suite wants, every text on target."""
    out = []
    for conversation_id in suite.wanted():
        owner, label, _ = conversation_id.split("-")
        structure = suite.probe_of("R1" if owner == "S" else owner, label)
        turn2 = {s.name: sentence(conversation_id + s.name,
                                  round(sum(s.target_s) / 2 * 2.75)) for s in structure.speech}
        item: dict[str, Any] = {"id": conversation_id, "situation": "made up",
                                "turn1": sentence(conversation_id + "turn1", 20), "turn2": turn2}
        if structure.target_from:
            item["target"] = " ".join(turn2[n].rstrip(".") for n in structure.target_from)
        if structure.l4b_variant is not None:
            item["l4b_append"] = {"trigger": sentence(conversation_id + "t", 7),
                                  "continuation": sentence(conversation_id + "c", 16)}
        out.append(item)
    return out


def write_suite(folder: Path, conversations: list[dict[str, Any]] | None = None, *,
                keep: Sequence[str] | None = None) -> Path:
    """The built-in spec files with other conversations: synthetic ones, or those given."""
    builtin = load_builtin()
    folder.mkdir(parents=True, exist_ok=True)
    for path in builtin.path.glob("*.yaml"):
        shutil.copy(path, folder / path.name)
    items = synthetic_conversations(builtin) if conversations is None else conversations
    if keep is not None:
        items = [c for c in items if c["id"] in keep]
    (folder / "conversations").mkdir(exist_ok=True)
    text = yaml.safe_dump({"conversations": items}, sort_keys=False, width=10_000)
    (folder / "conversations" / "all.yaml").write_text(text, encoding="utf-8")
    return folder


@dataclass(frozen=True)
class FakeWord:
    word: str
    start_n: int
    end_n: int


@dataclass(frozen=True)
class FakeRendered:
    samples: Any
    words: tuple[FakeWord, ...]
    alignment: str = "uniform"


@dataclass(frozen=True)
class ToneEngine:
    """Speaks each word as a tone of exactly 8,800 samples (2.727 words a second).

    `pad_n` zero samples surround the speech, as an engine that does not trim would leave them.
    """

    pad_n: int = 0
    fail_on: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    voices: tuple[str, ...] = ("low", "mid", "high")

    @property
    def engine(self) -> dict[str, str]:
        return {"name": "tone", "version": "1", **self.settings}

    @property
    def aligner(self) -> dict[str, str]:
        return {"name": "exact", "version": "1"}

    def render(self, text: str, voice: str, seed: int) -> FakeRendered:
        if self.fail_on is not None and self.fail_on in text:
            raise SynthesisError("tone engine: expected to speak, got a broken reed")
        words = text.split()
        pitch_hz = {"low": 150.0, "mid": 220.0, "high": 330.0}[voice] + seed % 16
        n = 8_800 * len(words)
        tone = 0.3 * np.sin(2 * np.pi * pitch_hz * np.arange(n) / 24_000)
        padded = np.concatenate([np.zeros(self.pad_n), tone, np.zeros(self.pad_n)])
        samples = pcm16_to_float(float_to_pcm16(padded.astype(np.float32)))
        marks = tuple(FakeWord(w, self.pad_n + 8_800 * i, self.pad_n + 8_800 * (i + 1))
                      for i, w in enumerate(words))
        return FakeRendered(samples, marks)
