"""The key of a sample: which opaque item is which case, and what the instrument said of it.

It is written apart from the pages and never given to annotators. Item ids are a keyed hash (HMAC
with SHA-256, RFC 2104) under a secret that only the key holds: without it nobody can try case names
until one fits. Under the same secret stand the orders of pages and their ids.
"""

from __future__ import annotations

import hashlib
import hmac
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from audio.errors import InputError
from audio.files import atomic_write_text
from rig.store import read_model
from rig.validation.drawing import Filled
from rig.validation.studies import FIELDS, Study

ID_HEX = 16
"""64 bits: two of 10,000 items agree by chance once in 10^11 samples."""
SECRET_BYTES = 32

Label = Literal["directive-wins", "persona-wins", "balanced", "incoherent"]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class JudgeSaid(_Model):
    """One judge's answer on an item of H3."""

    pas: int = Field(ge=0, le=100)
    register_fit: int = Field(ge=0, le=5)
    content_fit: int = Field(ge=0, le=5)
    conflict: Label | None


class KeyItem(_Model):
    """One item. `None` where a study does not have it."""

    item_id: str
    case_id: str
    trial: int | None = None
    system: str | None = None
    """Name of the run on the command line's list."""
    stream: str
    role: str
    probe: str
    instance: int
    level: str | None = None
    action: str
    """The benchmark's target (H1), the action that was scored (others)."""
    fields: tuple[str, ...]
    verdict: Literal["pass", "fail"] | None = None
    margin: float | None = None
    """Signed distance to the deciding bound (`verifiers.margins`)."""
    margin_unit: str | None = None
    near: bool | None = None
    """Whether the margin is small (`rig.validation.h2`); `None` where the action has no threshold
    or the distance is not known."""
    transcript: Literal["native", "recognised", "none"] | None = None
    judges: dict[str, JudgeSaid] = {}


class KeyPage(_Model):
    """One annotator's page: its id, its file, and its items in the order shown."""

    page_id: str
    annotator: str
    file: str
    sha256: str
    order: tuple[str, ...]


class Source(_Model):
    """What was sampled: a run or a suite."""

    name: str
    suite: str
    suite_version: str
    construction_sha256: str | None = None
    adapter: str | None = None
    playout: str | None = None


class StratumFacts(_Model):
    """What a stratum wanted, what there was, what it got. `of` is what it is a part of."""

    of: str
    stratum: str
    wanted: int
    available: int
    drawn: int


class Key(_Model):
    """The file."""

    schema_version: Literal[1] = 1
    study: Study
    seed: int
    secret: str = Field(pattern=r"^[0-9a-f]{64}$")
    sources: tuple[Source, ...]
    judges: tuple[str, ...] = ()
    strata: tuple[StratumFacts, ...]
    notes: tuple[str, ...]
    """Shortfalls and what was left out, in words."""
    pages: tuple[KeyPage, ...]
    items: tuple[KeyItem, ...]

    @model_validator(mode="after")
    def _consistent(self) -> Key:
        ids = {item.item_id for item in self.items}
        if len(ids) < len(self.items):
            raise ValueError("item ids: expected each once")
        for page in self.pages:
            if set(page.order) != ids or len(page.order) != len(ids):
                raise ValueError(f"page {page.page_id}: expected every item once")
        for names in ([p.page_id for p in self.pages], [p.annotator for p in self.pages]):
            if len(set(names)) < len(names):
                raise ValueError("pages: expected each id and each annotator once")
        for item in self.items:
            if self.study == "h2" and item.verdict is None:
                raise ValueError(f"item {item.item_id}: expected a verdict")
            if set(item.judges) != set(self.judges):
                raise ValueError(f"item {item.item_id}: expected the judges of the key")
            if not set(item.fields) <= {field.name for field in FIELDS[self.study]}:
                raise ValueError(f"item {item.item_id}: expected fields of {self.study}")
        return self


def opaque(secret: str, *parts: object) -> str:
    """The keyed hash of what names something: `ID_HEX` hex digits."""
    text = "\0".join(str(p) for p in parts)
    return hmac.new(bytes.fromhex(secret), text.encode(), hashlib.sha256).hexdigest()[:ID_HEX]


def order_for(secret: str, annotator: str, item_ids: Sequence[str]) -> tuple[str, ...]:
    """Items in the order of one annotator: by a keyed hash of annotator and item.

    The order of the key tells of verdicts and systems (it is that of the draw), so an order that
    could be undone without the secret, by a seed that is known for instance, would give them away.
    """
    return tuple(sorted(item_ids, key=lambda item: (opaque(secret, "order", annotator, item),
                                                    item)))


def seeded(seed: int, *purpose: str) -> random.Random:
    """A generator of its own for each purpose (a string seeds by SHA-512, on every platform). For
    draws; what is shown to annotators is ordered by the secret (`order_for`)."""
    return random.Random("\0".join((str(seed), *purpose)))


def strata_facts(of: str, filled: Sequence[Filled]) -> tuple[StratumFacts, ...]:
    return tuple(StratumFacts(of=of, stratum=f.name, wanted=f.wanted, available=f.available,
                              drawn=f.drawn) for f in filled)


def read_key(path: Path) -> Key:
    """Raises `InputError` for anything but a key."""
    return read_model(path, Key, "a key of `rig sample`")


def write_key(path: Path, key: Key) -> None:
    """Write the file whole."""
    atomic_write_text(path, key.model_dump_json(indent=1) + "\n")


def require_same(before: Key, now: Key, where: Path) -> None:
    """Raise `InputError` unless two draws gave the same items."""
    if (before.study, before.items) != (now.study, now.items):
        raise InputError.expected("the items of this key, drawn again from the same sources with "
                                  "the same options", got=f"others ({len(now.items)} of "
                                  f"{now.study}, {len(before.items)} of {before.study} in the key)",
                                  where=where)
