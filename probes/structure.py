"""Probe structures: turn 2 as ordered segments, and the windows of each action as edges of them.

Everything that can be known before audio exists is checked here: that edges name segments, that no
pause lacks its resumption, that no window is empty. Source: DSB-IFEval, tables 15, 16, appendix G.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from audio.suggest import nearest
from probes import names
from probes.manifest import ActionName
from probes.rules import EachOnce, When, problem
from probes.specmodel import Label, Name, Prose, Range, RoleId, Seconds, SpecModel, ordered

Edge = Annotated[str, Field(pattern=names.EDGE, max_length=60)]
_GENERATED = r"turn2|join\d+"
"""Names that the construction gives itself."""


class SegmentSpec(SpecModel):
    """One segment of turn 2: speech with a target duration, or exact silence.

    `target_s` is the wanted spoken length `[low, high]`; `isolated` marks a trigger or check
    phrase that must stand alone; `min_s` is a hard lower bound on the rendered length.
    """

    name: Name
    kind: Literal["speech", "silence"]
    target_s: Range | None = None
    duration_s: Seconds | None = None
    isolated: bool = False
    min_s: Seconds | None = None

    RULES = (When("kind", ("speech",), needs=("target_s",), refuses=("duration_s",)),
             When("kind", ("silence",), needs=("duration_s",), refuses=("target_s", "min_s")))

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.target_s is not None:
            ordered(self.target_s, "target_s")
        if re.fullmatch(_GENERATED, self.name):
            raise problem(("name",), f"{self.name!r} is a name that the construction gives itself")
        return self


class DeliverySpec(SpecModel):
    """When turn 2 is played: after the reply to turn 1, or as a barge-in into it."""

    mode: Literal["take_turn", "barge_in"]
    barge_in_after_s: Annotated[float, Field(ge=0.0, le=60.0)] | None = None

    RULES = (When("mode", ("barge_in",), needs=("barge_in_after_s",)),
             When("mode", ("take_turn",), refuses=("barge_in_after_s",)))


class WindowRule(SpecModel):
    """`[start, end)` as edges of segments."""

    start: Edge
    end: Edge


class ScoringRule(WindowRule):
    """The scored window of a probe under one expected action, and what is reported beside."""

    readback_from: Edge | None = None
    alternates: dict[Name, WindowRule] = Field(default_factory=dict)


class VariantSpec(SpecModel):
    """Turn 2 with segments appended for L4b: an identical prefix, then more speech."""

    append: tuple[SegmentSpec, SegmentSpec]
    premise: Prose
    scoring: ScoringRule


class ProbeStructure(SpecModel):
    """The structure of turn 2 (DSB-IFEval, tables 15 and 16).

    `label` is the second part of a case id. `role` is absent for a structure that any role may
    use. `join_s` is the declared silence between two adjacent speech segments. `target_from`
    names the segments whose words a read-back target may use. `premise` is what a critic checks:
    what must be true for the probe to test anything.
    """

    id: Annotated[str, Field(pattern=names.PROBE_ID, max_length=60)]
    label: Label
    role: RoleId | None = None
    name: str
    event: str
    premise: Prose
    turn1_invites_long_answer: bool = False
    delivery: DeliverySpec
    join_s: Seconds
    segments: Annotated[tuple[SegmentSpec, ...], Field(min_length=1, max_length=64)]
    target_from: Annotated[tuple[Name, ...], EachOnce()] = ()
    scoring: Annotated[dict[ActionName, ScoringRule], Field(min_length=1)]
    l4b_variant: VariantSpec | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        begin = self.label if self.role is None else f"{self.role}_{self.label}"
        if not self.id.startswith(begin):
            raise problem(("id",), f"id must begin with {begin}, got {self.id}")
        _check_segments(self.segments, 0, ("segments",))
        speech = {s.name for s in self.segments if s.kind == "speech"}
        for i, name in enumerate(self.target_from):
            if name not in speech:
                raise problem(("target_from", i), f"{name!r} is no speech segment"
                              + nearest(name, speech))
        for action, rule in self.scoring.items():
            _check_windows(rule, self.segments, ("scoring", action))
        readback = self.scoring.get("READBACK")
        if readback is not None and readback.readback_from is None:
            raise problem(("scoring", "READBACK"), "expected key 'readback_from' (from where on "
                          "words count), got none")
        if readback is not None and not self.target_from:
            raise problem((), "expected key 'target_from' (the segments that hold the target) "
                          "where READBACK is scored, got none")
        if self.l4b_variant is not None:
            specs = (*self.segments, *self.l4b_variant.append)
            _check_segments(specs, len(self.segments), ("l4b_variant", "append"))
            if any(s.kind != "speech" for s in self.l4b_variant.append):
                raise problem(("l4b_variant", "append"), "expected two speech segments")
            _check_windows(self.l4b_variant.scoring, specs, ("l4b_variant", "scoring"))
        return self

    @property
    def speech(self) -> tuple[SegmentSpec, ...]:
        """The speech segments of turn 2, in order, without the L4b variant's."""
        return tuple(s for s in self.segments if s.kind == "speech")


def _check_segments(specs: tuple[SegmentSpec, ...], first: int, at: tuple[str, ...]) -> None:
    """Names differ, and no pause without a resumption (DSB-IFEval, appendix G.1)."""
    for i, spec in enumerate(specs[first:], start=first):
        if spec.name in {s.name for s in specs[:i]}:
            raise problem((*at, i - first, "name"), f"segment {spec.name!r} is defined twice")
        around = specs[i - 1:i] + specs[i + 1:i + 2] if i else ()
        if spec.kind == "silence" and (len(around) < 2 or any(s.kind != "speech" for s in around)):
            raise problem((*at, i - first), f"silence {spec.name} must stand between two speech "
                          "segments")


def _check_windows(rule: ScoringRule, specs: tuple[SegmentSpec, ...],
                   at: tuple[str, ...]) -> None:
    """Edges name segments, and no window is empty whatever the lengths of the speech."""
    order = _order(specs)
    windows: list[tuple[WindowRule, tuple[str, ...]]] = [(rule, at)]
    windows += [(w, (*at, "alternates", name)) for name, w in rule.alternates.items()]
    for window, where in windows:
        start, end = (_edge(getattr(window, side), order, (*where, side))
                      for side in ("start", "end"))
        if end[0] <= start[0] and end[1] <= start[1]:
            raise problem(where, f"expected a start before its end, got {window.start} to "
                          f"{window.end}")
    if rule.readback_from is not None:
        _edge(rule.readback_from, order, (*at, "readback_from"))


def _order(specs: tuple[SegmentSpec, ...]) -> dict[str, int]:
    """Edges of segments as ranks in time; those of a pause coincide with its neighbours'."""
    out: dict[str, int] = {"turn2.start": 0}
    rank = 0
    for i, spec in enumerate(specs):
        if i and spec.kind == specs[i - 1].kind:
            rank += 1  # the declared silence that joins two speech segments
        out[f"{spec.name}.start"] = rank
        rank += 1
        out[f"{spec.name}.end"] = out["turn2.end"] = rank
    return out


def _edge(edge: str, order: Mapping[str, int], at: tuple[str, ...]) -> tuple[int, float]:
    point, _, plus = edge.partition(" + ")
    if point not in order:
        known = {name.split(".")[0] for name in order}
        raise problem(at, f"window edge {edge!r} names no segment"
                      + nearest(point.split(".")[0], known))
    return order[point], float(plus or 0.0)
