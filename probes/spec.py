"""A suite as data: roles, probe structures, the grid, contradictions and conversations.

These models say what the YAML files of a suite may hold; `probes.loader` reads them, and
`probes.gates` judges the prose in them. Times are seconds (`_s`), within turn 2 where they name
an edge. Source of the fields: seed 002, appendices B and G.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from probes.manifest import ActionName, Delivery, LevelName, Params

Seconds = Annotated[float, Field(gt=0.0, le=60.0)]
Range = tuple[Seconds, Seconds]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=40)]
RoleId = Annotated[str, Field(pattern=r"^R[1-9]$")]
Prose = Annotated[str, Field(min_length=1, max_length=2000)]
Line = Annotated[str, Field(max_length=600)]

PARAMS_OF_ACTION: Mapping[str, frozenset[str]] = {
    "LISTEN": frozenset(),
    "TAKE_TURN": frozenset({"max_wait_s"}),
    "BACKCHANNEL": frozenset({"ceiling_s", "max_spans"}),
    "YIELD": frozenset({"max_latency_ms"}),
    "INTERRUPT": frozenset({"max_latency_ms"}),
    "READBACK": frozenset({"min_coverage"}),
    "NO_BACKCHANNEL": frozenset(),
    "ACCEPT_OVERLAP": frozenset(),
    "CONTINUE": frozenset({"max_latency_ms"}),
}
"""Which override a verifier reads (seed 002, table 18); any other one in a cell is a mistake."""

EDGE_PATTERN = r"^[a-z][a-z0-9_]*\.(start|end)( \+ \d+(\.\d+)?)?$"
"""A window edge: `SEGMENT.start`, `SEGMENT.end`, `turn2.start`, `turn2.end`, ` + seconds`."""
Edge = Annotated[str, Field(pattern=EDGE_PATTERN, max_length=60)]


class SpecModel(BaseModel):
    """Base of everything read from a suite: unknown keys and loose types are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


# --- roles -----------------------------------------------------------------------------------


class InterruptPolicy(SpecModel):
    """When the role takes the floor inside the user's turn (seed 002, tables 2 and 14)."""

    mode: Literal["on_trigger", "never", "freely"]
    trigger: str | None = None
    max_latency_ms: float | None = None
    max_overlap_ms: float | None = None
    per_minute: tuple[float, float] | None = None


class BackchannelPolicy(SpecModel):
    """Listening sounds: how many, how long."""

    style: Literal["minimal", "warm", "terse", "none", "moderate", "brisk", "heavy"]
    max_duration_s: float | None = None
    per_minute: tuple[float, float] | None = None
    count: int | None = None


class SilencePolicy(SpecModel):
    """How long the role leaves silence. Minimum waits are policy text, never verifier data."""

    tolerance: Literal["none", "very_low", "low", "high", "very_high", "clause_bounded"]
    max_wait_s: float | None = None
    min_wait_s: float | None = None


class ReadbackPolicy(SpecModel):
    """What the role says back."""

    mode: Literal["mandatory", "never"]
    items: tuple[str, ...] = ()


class BargeInPolicy(SpecModel):
    """What the role does when the user talks over it."""

    mode: Literal["yield", "continue", "accept_overlap"]
    detail: str
    max_latency_ms: float | None = None


class RolePolicy(SpecModel):
    """The role's floor behaviour as numbers (seed 002, table 14; barge-in also table 2)."""

    interrupt: InterruptPolicy
    backchannel: BackchannelPolicy
    silence: SilencePolicy
    readback: ReadbackPolicy
    barge_in: BargeInPolicy


class Role(SpecModel):
    """An assistant role: `persona` is the L2 prompt, `directive` the L1 prompt.

    `job_words` are words by which a user would give the assistant's job away; none may occur in
    user speech of this role.
    """

    id: RoleId
    name: str
    domain: str
    persona: Prose
    directive: Prose
    policy: RolePolicy
    job_words: tuple[str, ...]


# --- probe structures ------------------------------------------------------------------------


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

    @model_validator(mode="after")
    def _consistent(self) -> SegmentSpec:
        if self.kind == "speech":
            if self.target_s is None or self.duration_s is not None:
                raise ValueError("a speech segment has target_s and no duration_s")
            if self.target_s[0] > self.target_s[1]:
                raise ValueError("target_s is [low, high] with low <= high")
        elif self.duration_s is None or self.target_s is not None or self.min_s is not None:
            raise ValueError("a silence segment has duration_s, no target_s and no min_s")
        return self


class WindowRule(SpecModel):
    """`[start, end)` as edges of segments."""

    start: Edge
    end: Edge


class ScoringRule(WindowRule):
    """The scored window of a probe under one expected action, and what is reported beside."""

    readback_from: Edge | None = None
    alternates: dict[Name, WindowRule] = {}


class VariantSpec(SpecModel):
    """Turn 2 with segments appended for L4b: an identical prefix, then more speech."""

    append: tuple[SegmentSpec, ...]
    premise: Prose
    scoring: ScoringRule


class ProbeStructure(SpecModel):
    """The structure of turn 2 (seed 002, tables 15 and 16).

    `role` is absent for the shared probes. `join_s` is the declared silence between two adjacent
    speech segments. `target_from` names the segments whose words a read-back target may use.
    `premise` is what a critic checks: what must be true for the probe to test anything.
    """

    id: Annotated[str, Field(pattern=r"^[A-Z0-9]+(_[A-Za-z0-9]+)*$", max_length=60)]
    label: Literal["C1", "C2", "C3", "C4", "A", "B"]
    role: RoleId | None = None
    name: str
    event: str
    premise: Prose
    turn1_invites_long_answer: bool = False
    delivery: Delivery
    join_s: Seconds
    segments: Annotated[tuple[SegmentSpec, ...], Field(min_length=1)]
    target_from: tuple[Name, ...] = ()
    scoring: dict[ActionName, ScoringRule]
    l4b_variant: VariantSpec | None = None

    @model_validator(mode="after")
    def _consistent(self) -> ProbeStructure:
        specs = self.segments + (self.l4b_variant.append if self.l4b_variant else ())
        names = [s.name for s in specs]
        if len(set(names)) != len(names):
            raise ValueError(f"segment names must differ, got {', '.join(names)}")
        self._check_pauses(specs)
        if (self.label in ("A", "B")) != (self.role is not None):
            raise ValueError("A and B belong to a role, C1 to C4 to none")
        if self.role is not None and not self.id.startswith(f"{self.role}_{self.label}"):
            raise ValueError(f"id must begin with {self.role}_{self.label}, got {self.id}")
        if (self.delivery.mode == "barge_in") != (self.delivery.barge_in_after_s is not None):
            raise ValueError("barge_in_after_s belongs to delivery mode barge_in, and only there")
        after_s = self.delivery.barge_in_after_s
        if after_s is not None and not 0 <= after_s <= 60:
            raise ValueError(f"barge_in_after_s must lie in 0 to 60, got {after_s}")
        speech = {s.name for s in self.segments if s.kind == "speech"}
        if unknown := set(self.target_from) - speech:
            raise ValueError(f"target_from must name speech segments, got {sorted(unknown)}")
        for rule in self.scoring.values():
            _check_edges(rule, {s.name for s in self.segments})
        if self.l4b_variant is not None:
            _check_edges(self.l4b_variant.scoring, set(names))
        return self

    @staticmethod
    def _check_pauses(specs: tuple[SegmentSpec, ...]) -> None:
        """Seed 002, appendix G.1: no internal pause without a resumption."""
        for at, spec in enumerate(specs):
            if spec.kind != "silence":
                continue
            around = specs[at - 1:at] + specs[at + 1:at + 2] if at else ()
            if len(around) < 2 or any(s.kind != "speech" for s in around):
                raise ValueError(f"silence {spec.name} must stand between two speech segments")

    @property
    def speech(self) -> tuple[SegmentSpec, ...]:
        """The speech segments of turn 2, in order, without the L4b variant's."""
        return tuple(s for s in self.segments if s.kind == "speech")


def _check_edges(rule: ScoringRule, names: set[str]) -> None:
    known = names | {"turn2"}
    edges = [rule.start, rule.end]
    edges += [rule.readback_from] if rule.readback_from is not None else []
    edges += [e for w in rule.alternates.values() for e in (w.start, w.end)]
    for edge in edges:
        if edge.split(".")[0] not in known:
            raise ValueError(f"window edge {edge!r} names no segment of {sorted(known)}")


# --- grid and contradictions -----------------------------------------------------------------


class Cell(SpecModel):
    """One role x probe: what is expected, with which overrides, contradicted by what.

    `safety` marks the six cells that have L4b cases.
    """

    role: RoleId
    probe: Literal["C1", "C2", "C3", "C4", "A", "B"]
    action: ActionName
    params: Params = Params()
    contradiction: Name
    safety: bool = False

    @model_validator(mode="after")
    def _params_fit(self) -> Cell:
        given = {k for k, v in self.params.model_dump().items() if v is not None}
        if extra := given - PARAMS_OF_ACTION[self.action]:
            raise ValueError(f"{self.action} reads no {', '.join(sorted(extra))}")
        for key in given:
            value = getattr(self.params, key)
            if not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{key} must be positive and finite, got {value}")
        return self


class Contradiction(SpecModel):
    """A contradiction target: what the directive asks for, in five surface variants."""

    id: Name
    asks_for: str
    variants: tuple[Line, Line, Line, Line, Line]


class SafetyContradiction(SpecModel):
    """The hand-written L4b contradiction of one cell."""

    role: RoleId
    probe: Literal["C1", "C2", "C3", "C4", "A", "B"]
    asks_for: str
    text: Line


# --- conversations ---------------------------------------------------------------------------


class Append(SpecModel):
    """Texts of the segments that the L4b variant adds."""

    trigger: Line
    continuation: Line


class Conversation(SpecModel):
    """The user's side of one conversation: turn 1, and the speech segments of turn 2 by name.

    `situation` is for people and never spoken. `target` holds the dictated items, nothing else.
    Empty texts are legal here and refused by the gates, which can say why.
    """

    id: Annotated[str, Field(pattern=r"^(R[1-9]|S)-(C[1-4]|A|B)-[1-9]$")]
    situation: Line
    turn1: Line
    turn2: dict[Name, Line]
    target: Line | None = None
    l4b_append: Append | None = None


# --- files -----------------------------------------------------------------------------------


class MatchedAudio(SpecModel):
    """Probes and instances whose user audio is shared by several roles (appendix G.5)."""

    roles: tuple[RoleId, ...]
    probes: tuple[Literal["C1", "C2", "C3", "C4"], ...]
    instances: tuple[int, ...]


class SuiteFile(SpecModel):
    """suite.yaml: what the suite is called and how its grid expands."""

    schema_version: Literal[1]
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$", max_length=60)]
    version: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+$")]
    title: str
    instances: Annotated[int, Field(ge=1, le=9)]
    levels: Annotated[tuple[LevelName, ...], Field(min_length=1)]
    l0_instances: tuple[int, ...]
    matched_audio: MatchedAudio | None = None
    turn1_target_s: Range
    words_per_second: Range

    @model_validator(mode="after")
    def _levels_once(self) -> SuiteFile:
        if len(set(self.levels)) != len(self.levels):
            raise ValueError("each level stands once")
        return self


class RolesFile(SpecModel):
    schema_version: Literal[1]
    roles: Annotated[tuple[Role, ...], Field(min_length=1)]


class ProbesFile(SpecModel):
    schema_version: Literal[1]
    probes: Annotated[tuple[ProbeStructure, ...], Field(min_length=1)]


class GridFile(SpecModel):
    schema_version: Literal[1]
    cells: Annotated[tuple[Cell, ...], Field(min_length=1)]


class ContradictionsFile(SpecModel):
    schema_version: Literal[1]
    l4a: tuple[Contradiction, ...]
    l4b: tuple[SafetyContradiction, ...]


class ConversationsFile(SpecModel):
    conversations: tuple[Conversation, ...]


# --- in memory -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an item was written: for messages only."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Suite:
    """A loaded suite. References between its parts are resolved; the prose is not judged yet.

    `origins` maps an item, for instance `conversation R1-A-1.turn2.lead` or `role R1.persona`, to
    the line on which it stands.
    """

    path: Path
    info: SuiteFile
    roles: tuple[Role, ...]
    probes: tuple[ProbeStructure, ...]
    cells: tuple[Cell, ...]
    contradictions: Mapping[str, Contradiction]
    safety: Mapping[tuple[str, str], SafetyContradiction]
    conversations: Mapping[str, Conversation]
    origins: Mapping[str, Origin] = field(repr=False)

    @property
    def name(self) -> str:
        return self.info.name

    def role(self, role_id: str) -> Role:
        return next(r for r in self.roles if r.id == role_id)

    def probe_of(self, role_id: str, label: str) -> ProbeStructure:
        """The structure behind a cell: shared by label, or the role's own A or B."""
        return next(p for p in self.probes if p.label == label and p.role in (None, role_id))

    def origin(self, item: str) -> Origin:
        """The line of an item, or of the nearest thing that holds it."""
        at = item
        while at not in self.origins and "." in at:
            at = at.rsplit(".", 1)[0]
        return self.origins.get(at, Origin(str(self.path), 1))

    def stream_of(self, role_id: str, label: str, instance: int) -> str:
        """Id of the conversation text, and so of the audio, behind a cell's instance."""
        matched = self.info.matched_audio
        if (matched is not None and role_id in matched.roles and label in matched.probes
                and instance in matched.instances):
            return f"S-{label}-{instance}"
        return f"{role_id}-{label}-{instance}"

    def wanted(self) -> tuple[str, ...]:
        """Ids of all conversations that the complete suite has, in grid order, each once."""
        found: dict[str, None] = {}
        for cell in self.cells:
            for instance in range(1, self.info.instances + 1):
                found.setdefault(self.stream_of(cell.role, cell.probe, instance))
        return tuple(found)

    def missing(self) -> tuple[str, ...]:
        """What a complete suite would have and this one lacks: conversation ids, and
        `ID.l4b_append` where a conversation lacks the text of its L4b variant."""
        lacking = [c for c in self.wanted() if c not in self.conversations]
        for cell in self.cells:
            if not cell.safety or self.probe_of(cell.role, cell.probe).l4b_variant is None:
                continue
            for instance in range(1, self.info.instances + 1):
                at = self.stream_of(cell.role, cell.probe, instance)
                found = self.conversations.get(at)
                if found is not None and found.l4b_append is None:
                    lacking.append(f"{at}.l4b_append")
        return tuple(lacking)
