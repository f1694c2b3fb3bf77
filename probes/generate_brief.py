"""What one conversation has to be, resolved from its suite: what a language model is asked for."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

from probes.spec import Suite
from probes.specmodel import Range
from probes.structure import ProbeStructure

REGISTERS = (
    "18 to 24 years old", "25 to 34 years old", "35 to 44 years old", "45 to 54 years old",
    "55 to 64 years old", "65 to 74 years old", "75 years old or older",
    "from the Northeast of the United States", "from the Midwest of the United States",
    "from the South of the United States", "from the West of the United States",
)
"""One attribute of the speaker, an age band or a census region, chosen by a hash of the
conversation's id (appendix G.1). The bands are ours, the regions those of the US census."""

MAX_DIFFERENT = 20
"""Ours: situations of earlier instances that are told, the nearest ones."""


@dataclass(frozen=True, slots=True)
class Brief:
    """What one conversation has to be. `domains` are several where one recording serves several
    roles; `different_from` are situations of its cell that exist already."""

    conversation_id: str
    structure: ProbeStructure
    domains: tuple[str, ...]
    job_words: tuple[str, ...]
    turn1_target_s: Range
    words_per_second: Range
    register: str
    wants_l4b: bool
    situation: str | None = None
    different_from: tuple[str, ...] = ()


def brief_of(suite: Suite, conversation_id: str, situation: str | None = None) -> Brief:
    """The brief of a conversation that the complete suite has (`Suite.wanted`)."""
    _, label, number = conversation_id.split("-")
    instance = int(number)
    cells = [c for c in suite.cells
             if c.probe == label
             and suite.stream_of(c.role, label, instance) == conversation_id]
    roles = [suite.role(c.role) for c in cells]
    structure = suite.probe_of(roles[0].id, label)
    # Lower instances only: the same request whether or not later ones exist already.
    earlier = (suite.stream_of(roles[0].id, label, i)
               for i in range(max(1, instance - MAX_DIFFERENT), instance))
    return Brief(
        conversation_id, structure, tuple(r.domain for r in roles),
        tuple(dict.fromkeys(w for r in roles for w in r.job_words)), suite.info.turn1_target_s,
        suite.info.words_per_second, register_of(conversation_id),
        wants_l4b=structure.l4b_variant is not None and any(c.safety for c in cells),
        situation=situation,
        different_from=tuple(suite.conversations[i].situation for i in earlier
                             if i in suite.conversations))


def register_of(conversation_id: str) -> str:
    """The speaker's attribute: SHA-256 of the id, modulo the number of attributes."""
    digest = hashlib.sha256(conversation_id.encode()).digest()
    return REGISTERS[int.from_bytes(digest, "big") % len(REGISTERS)]


def word_budget(target_s: Range, words_per_second: Range) -> tuple[int, int]:
    """Fewest and most words of a segment, at the middle of the speaking rates (as the gates do)."""
    rate = sum(words_per_second) / 2
    low = max(1, math.ceil(target_s[0] * rate))
    return low, max(low, math.floor(target_s[1] * rate))
