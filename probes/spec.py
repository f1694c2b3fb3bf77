"""A suite as data: roles, probe structures, the grid, contradictions and conversations.

These models say what the YAML files of a suite may hold; `probes.loader` reads them, and
`probes.gates` judges the prose in them. Times are seconds (`_s`), within turn 2 where they name
an edge. Source of the fields: DSB-IFEval, appendices B and G. `rig schema` writes JSON Schemas of
these models, so whatever can be said of the shape of a file is said here as a type, a bound, a
pattern (`probes.names`) or a rule (`probes.rules`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from probes import names
from probes.manifest import ActionName, LevelName
from probes.roles import Role
from probes.rules import EachOnce, When
from probes.specmodel import (
    Instance,
    Label,
    Line,
    Name,
    Range,
    RoleId,
    SchemaVersion,
    SpecModel,
    ordered,
)
from probes.structure import ProbeStructure, ScoringRule, SegmentSpec, WindowRule

__all__ = [
    "PARAMS_OF_ACTION",
    "Append",
    "Cell",
    "CellParams",
    "Contradiction",
    "ContradictionsFile",
    "Conversation",
    "ConversationsFile",
    "GridFile",
    "Instance",
    "Label",
    "Line",
    "MatchedAudio",
    "Name",
    "Origin",
    "ProbeStructure",
    "ProbesFile",
    "Range",
    "Role",
    "RoleId",
    "RolesFile",
    "SafetyContradiction",
    "ScoringRule",
    "SegmentSpec",
    "SpecModel",
    "Suite",
    "SuiteFile",
    "WindowRule",
]

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
"""Which override a verifier reads (DSB-IFEval, table 18); any other one in a cell is a mistake."""

# --- grid and contradictions -----------------------------------------------------------------


class CellParams(SpecModel):
    """Overrides of verifier thresholds. The bounds are those of `verifiers.thresholds`."""

    max_wait_s: Annotated[float, Field(gt=0.0, le=60.0)] | None = None
    max_latency_ms: Annotated[float, Field(gt=0.0, le=60_000.0)] | None = None
    ceiling_s: Annotated[float, Field(gt=0.0, le=60.0)] | None = None
    max_spans: Annotated[int, Field(ge=1, le=1000)] | None = None
    min_coverage: Annotated[float, Field(gt=0.0, le=1.0)] | None = None


def _params_rule(action: str, reads: frozenset[str]) -> When:
    return When("action", (action,), refuses=tuple(
        f"params.{name}" for name in CellParams.model_fields if name not in reads),
        hint="it reads " + (", ".join(sorted(reads)) or "no parameter"))


class Cell(SpecModel):
    """One role x probe: what is expected, with which overrides, contradicted by what.

    `contradiction` is needed where the suite has level L4a; `safety` marks the cells that have
    L4b cases.
    """

    role: RoleId
    probe: Label
    action: ActionName
    params: CellParams = CellParams()
    contradiction: Name | None = None
    safety: bool = False

    RULES = tuple(_params_rule(*item) for item in PARAMS_OF_ACTION.items())


class Contradiction(SpecModel):
    """A contradiction target: what the directive asks for, in surface variants (five in
    `dsb-ifeval`)."""

    id: Name
    asks_for: str
    variants: Annotated[tuple[Line, ...], Field(min_length=1, max_length=20)]


class SafetyContradiction(SpecModel):
    """The hand-written L4b contradiction of one cell."""

    role: RoleId
    probe: Label
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

    id: Annotated[str, Field(pattern=names.CONVERSATION_ID)]
    situation: Line
    turn1: Line
    turn2: dict[Name, Line]
    target: Line | None = None
    l4b_append: Append | None = None


# --- files -----------------------------------------------------------------------------------


class MatchedAudio(SpecModel):
    """Probes and instances whose user audio is shared by several roles (appendix G.5)."""

    roles: Annotated[tuple[RoleId, ...], Field(min_length=1), EachOnce()]
    probes: Annotated[tuple[Label, ...], Field(min_length=1), EachOnce()]
    instances: Annotated[tuple[Instance, ...], Field(min_length=1), EachOnce()]


class SuiteFile(SpecModel):
    """suite.yaml: what the suite is called and how its grid expands."""

    schema_version: SchemaVersion
    name: Annotated[str, Field(pattern=names.SUITE_NAME, max_length=60)]
    version: Annotated[str, Field(pattern=names.VERSION, max_length=30)]
    title: str
    instances: Instance
    levels: Annotated[tuple[LevelName, ...], Field(min_length=1), EachOnce()]
    l0_instances: Annotated[tuple[Instance, ...], EachOnce()] = (1,)
    matched_audio: MatchedAudio | None = None
    turn1_target_s: Range
    words_per_second: Range

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        ordered(self.turn1_target_s, "turn1_target_s")
        ordered(self.words_per_second, "words_per_second")
        return self


class RolesFile(SpecModel):
    """roles.yaml: who the system under test is asked to be."""

    schema_version: SchemaVersion
    roles: Annotated[tuple[Role, ...], Field(min_length=1)]


class ProbesFile(SpecModel):
    """probes.yaml: how turn 2 is made, and which window each action is scored in."""

    schema_version: SchemaVersion
    probes: Annotated[tuple[ProbeStructure, ...], Field(min_length=1)]


class GridFile(SpecModel):
    """grid.yaml: which role meets which probe, and what should happen."""

    schema_version: SchemaVersion
    cells: Annotated[tuple[Cell, ...], Field(min_length=1)]


class ContradictionsFile(SpecModel):
    """contradictions.yaml: what the prompts of L4a and L4b add; needed by these levels only."""

    schema_version: SchemaVersion
    l4a: tuple[Contradiction, ...] = ()
    l4b: tuple[SafetyContradiction, ...] = ()


class ConversationsFile(SpecModel):
    """conversations/*.yaml: what the user says."""

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
