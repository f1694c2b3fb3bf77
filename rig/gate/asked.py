"""Gates that a user sets: `NAME=VALUE` on the command line, or a YAML file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from audio.errors import InputError
from audio.suggest import did_you_mean
from probes.yamlfile import parse, read_yaml
from rig.gate.figures import POOL_HEADS, SUFFIXES, Figure
from sweeps.aggregate import LEVELS

Bound = Literal["min", "max", "max_drop"]
Limit = Annotated[float, Field(strict=True, allow_inf_nan=False)]

POOL_DROPS = tuple(head for head in POOL_HEADS if not head.endswith(SUFFIXES[1:]))
"""Names that a drop may have without a level: each level that both runs hold is a gate then."""
MAX_GATES = 1_000
"""Ours: a rate for each of nine actions at seven levels, many times over."""


class GatesFile(BaseModel):
    """The file of `--gates`: limits by the name of a figure."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1]
    min: dict[str, Limit] = {}
    max: dict[str, Limit] = {}
    max_drop: dict[str, Limit] = {}


@dataclass(frozen=True, slots=True)
class Gate:
    """One limit. `where` is what set it, for messages."""

    bound: Bound
    path: str
    limit: float
    where: str

    @property
    def name(self) -> str:
        """As reports list it."""
        return f"{self.bound} {self.path} {self.limit:g}"


def gates_of(options: Mapping[Bound, Sequence[str]], file: Path | None) -> list[Gate]:
    """The gates of the command line, then those of the file.

    Raises `InputError` for what is no `NAME=NUMBER`, for a gate that is set twice, for none at
    all, and for a `min` above its `max`.
    """
    found = [_parsed(bound, text) for bound, texts in options.items() for text in texts]
    if file is not None:
        found += _from_file(file)
    if not found:
        raise InputError("expected at least one gate (--min, --max, --max-drop or --gates), got "
                         "none: nothing would be tested")
    if len(found) > MAX_GATES:
        raise InputError(f"expected at most {MAX_GATES} gates, got {len(found)}")
    seen: dict[tuple[str, str], Gate] = {}
    for gate in found:
        before = seen.setdefault((gate.bound, gate.path), gate)
        if before is not gate:
            raise InputError(f"{gate.where}: expected one limit of {gate.path}, got {gate.limit:g} "
                             f"after {before.limit:g} ({before.where})")
    for (bound, path), gate in seen.items():
        below = seen.get(("max", path))
        if bound == "min" and below is not None and gate.limit > below.limit:
            raise InputError(f"{gate.where}: expected at most {below.limit:g} ({below.where}), got "
                             f"{gate.limit:g}: no value of {path} could meet both")
    return found


def _parsed(bound: Bound, text: str) -> Gate:
    option = f"--{bound.replace('_', '-')}"
    path, equals, value = text.rpartition("=")
    if not equals or not path:
        raise InputError.expected("NAME=NUMBER, as ias_core.L2=0.35", got=repr(text), where=option)
    where = f"{option} {path}"
    try:
        # Python also reads 1_5 as 15, and digits of other scripts; here that is more likely a slip.
        limit = float(value if value.isascii() and "_" not in value else "no number")
    except ValueError as error:
        raise InputError(f"{where}: expected a number, got {value[:40]!r}"
                         f"{_of_percent(value)}") from error
    if not math.isfinite(limit):
        raise InputError.expected("a finite number", got=repr(value), where=where)
    return Gate(bound, path, limit, where)


def _of_percent(value: str) -> str:
    try:
        share = float(value.removesuffix("%")) / 100
    except ValueError:
        return ""
    return f"; did you mean {share:g}?" if value.endswith("%") else ""


def _from_file(path: Path) -> list[Gate]:
    source = read_yaml(path)
    asked = parse(GatesFile, source)
    limits: dict[Bound, dict[str, float]] = {"min": asked.min, "max": asked.max,
                                             "max_drop": asked.max_drop}
    return [Gate(bound, name, limit, f"{path}:{source.line((bound, name))}: {bound} {name}")
            for bound, named in limits.items() for name, limit in named.items()]


def check_gates(gates: Iterable[Gate], figures: Mapping[str, Figure]) -> None:
    """Raise `InputError` for a gate on a figure that does not exist, which names the nearest, or
    with a limit that its unit cannot reach."""
    for gate in gates:
        drop = gate.bound == "max_drop"
        known = [*POOL_DROPS, *(f.path for f in figures.values() if f.droppable)] if drop \
            else list(figures)
        if gate.path not in known:
            raise InputError(f"{gate.where}: {_unknown(gate, figures, known)}")
        _check_limit(gate, "rate" if drop else figures[gate.path].unit)


def _unknown(gate: Gate, figures: Mapping[str, Figure], known: Sequence[str]) -> str:
    if gate.bound != "max_drop" and gate.path in POOL_HEADS:
        return (f"expected a level behind it ({gate.path}.{LEVELS[2]}), got none: rates are never "
                "pooled over levels")
    what = "a rate that two runs can be paired on" if gate.bound == "max_drop" else \
        "a figure of scores.json"
    if gate.path in figures:
        return f"expected {what} ({', '.join(POOL_DROPS)}, by_action.X, by_role.X), got another"
    return (f"expected {what}, got no such name{did_you_mean(gate.path, known)}"
            "; rig gate RUN --list lists all")


def _check_limit(gate: Gate, unit: str) -> None:
    limit = gate.limit
    if unit in ("rate", "share"):
        if not 0.0 <= limit <= 1.0:
            # From 2 on it may be percent; a little over 1 is more likely a slip.
            hint = f"; did you mean {limit / 100:g}?" if 2.0 <= limit <= 100.0 else ""
            raise InputError(f"{gate.where}: expected a share from 0 to 1, got {limit:g}{hint}")
    elif limit < 0:
        raise InputError.expected("at least 0", got=f"{limit:g}", where=gate.where)
    elif unit == "count" and limit != int(limit):
        raise InputError.expected("a whole number: it counts cases", got=f"{limit:g}",
                                  where=gate.where)
