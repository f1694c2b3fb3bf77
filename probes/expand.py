"""From a suite to its cases: conversation x role x level (DSB-IFEval, appendices B.4 and G.4).

Nothing here knows audio: a planned case has its prompt, action, parameters and delivery; windows
are added when the audio has been rendered.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from audio.errors import InputError
from audio.suggest import nearest
from audio.timebase import SESSION_RATE_HZ, s_to_n
from probes.manifest import ActionName, Delivery, LevelName, Params
from probes.roles import Role
from probes.spec import Append, Cell, Conversation, Suite
from probes.specmodel import Range
from probes.structure import ProbeStructure, ScoringRule, SegmentSpec

LEVELS: tuple[LevelName, ...] = ("L0", "L1", "L2", "L3", "L4a", "L4b")
N_VARIANTS = 5
"""Surface variants of an L4a contradiction in `dsb-ifeval` (appendix B.4)."""


@dataclass(frozen=True, slots=True)
class PlannedSegment:
    """One segment of a turn before rendering: text to speak, or a number of zero samples."""

    kind: str
    name: str
    text: str | None = None
    silence_n: int = 0
    target_s: Range | None = None
    min_s: float | None = None


@dataclass(frozen=True, slots=True)
class PlannedStream:
    """The user's side of one conversation. `base_id` decides voice and seeds, so that the L4b
    variant of a stream sounds the same up to where it goes on."""

    stream_id: str
    base_id: str
    turn1: tuple[PlannedSegment, ...]
    turn2: tuple[PlannedSegment, ...]


@dataclass(frozen=True, slots=True)
class PlannedCase:
    """One case before its audio exists. `contradiction` names the L4 target, if any."""

    case_id: str
    conversation_id: str
    stream_id: str
    role: str
    probe: str
    probe_id: str
    instance: int
    level: LevelName
    expected_action: ActionName
    system_prompt: str
    params: Params
    delivery: Delivery
    rule: ScoringRule
    target_text: str | None = None
    contradiction: str | None = None


# --- cases -----------------------------------------------------------------------------------


def expand(suite: Suite) -> tuple[PlannedCase, ...]:
    """All cases of the conversations that exist, in grid order: cell, instance, level.

    The complete `dsb-ifeval` gives 1,038. A conversation that lacks the text of its L4b variant
    gives no L4b case.
    """
    out: list[PlannedCase] = []
    for cell in suite.cells:
        for instance in range(1, suite.info.instances + 1):
            stream_id = suite.stream_of(cell.role, cell.probe, instance)
            conversation = suite.conversations.get(stream_id)
            if conversation is None:
                continue
            for level in suite.info.levels:
                if level == "L0" and instance not in suite.info.l0_instances:
                    continue
                case = _case(suite, cell, conversation, stream_id, instance, level)
                if case is not None:
                    out.append(case)
    return tuple(out)


def _case(suite: Suite, cell: Cell, conversation: Conversation, stream_id: str, instance: int,
          level: LevelName) -> PlannedCase | None:
    role = suite.role(cell.role)
    structure = suite.probe_of(cell.role, cell.probe)
    rule = structure.scoring[cell.action]
    contradiction: str | None = None
    line: str | None = None
    if level == "L4a":
        contradiction = cell.contradiction
        assert contradiction is not None  # the loader checks it
        variants = suite.contradictions[contradiction].variants
        line = variants[variant_index(suite.roles.index(role), structure.id, instance,
                                      len(variants))]
    elif level == "L4b":
        if not cell.safety:
            return None
        contradiction = f"safety_{cell.role}_{cell.probe}"
        line = suite.safety[cell.role, cell.probe].text
        if structure.l4b_variant is not None:
            if conversation.l4b_append is None:
                return None
            stream_id = variant_id(stream_id)
            rule = structure.l4b_variant.scoring
    base = f"{cell.role}-{cell.probe}-{instance}"
    return PlannedCase(
        case_id=f"{base}-{level}", conversation_id=base, stream_id=stream_id, role=cell.role,
        probe=cell.probe, probe_id=structure.id, instance=instance, level=level,
        expected_action=cell.action, system_prompt=system_prompt(role, level, line),
        params=Params(**cell.params.model_dump()),
        delivery=Delivery(**structure.delivery.model_dump()), rule=rule,
        target_text=conversation.target, contradiction=contradiction)


def system_prompt(role: Role, level: LevelName, contradiction: str | None = None) -> str:
    """The conditioning of a level; parts are joined by a blank line (appendix B.4)."""
    if level == "L0":
        return ""
    if level == "L1":
        return role.directive
    if level == "L2":
        return role.persona
    if level == "L3":
        return f"{role.persona}\n\n{role.directive}"
    if contradiction is None:
        raise ValueError(f"{level} needs a contradiction")
    return f"{role.persona}\n\n{contradiction}"


def variant_index(role_index: int, probe: str, instance: int, n: int = N_VARIANTS) -> int:
    """Which of `n` surface variants an L4a case uses: `(role_index + sum(ord) + instance) mod n`.

    `role_index` counts from 0, `instance` from 1; `probe` is the full probe id (`C1`..`C4` where
    it is shared).
    """
    return (role_index + sum(ord(c) for c in probe) + instance) % n


# --- streams ---------------------------------------------------------------------------------


def variant_id(stream_id: str) -> str:
    """Id of the stream that goes on where `stream_id` ends, for L4b."""
    return f"{stream_id}-L4b"


def base_stream_id(stream_id: str) -> str:
    """Id of the stream that a variant begins with; of a base stream its own."""
    return stream_id.removesuffix("-L4b")


def conversation_ids(suite: Suite, cases: Iterable[PlannedCase]) -> tuple[str, ...]:
    """Ids of the conversations that some cases are made of, each once: what the gates judge before
    `plan_streams` needs every text."""
    return tuple(dict.fromkeys(suite.stream_of(c.role, c.probe, c.instance) for c in cases))


def plan_streams(suite: Suite, cases: Iterable[PlannedCase]) -> tuple[PlannedStream, ...]:
    """The distinct streams that some cases need, in order of first use."""
    out: dict[str, PlannedStream] = {}
    for case in cases:
        if case.stream_id in out:
            continue
        base_id = suite.stream_of(case.role, case.probe, case.instance)
        out[case.stream_id] = plan_stream(
            suite.probe_of(case.role, case.probe), suite.conversations[base_id],
            suite.info.turn1_target_s, variant=case.stream_id != base_id)
    return tuple(out.values())


def plan_stream(structure: ProbeStructure, conversation: Conversation, turn1_target_s: Range, *,
                variant: bool = False) -> PlannedStream:
    """Lay the segments of one conversation out. Adjacent speech is joined by declared silence.

    With `variant` the L4b segments follow. Raises `InputError` when a text is missing.
    """
    specs: list[tuple[SegmentSpec, str | None]] = [
        (s, conversation.turn2.get(s.name)) for s in structure.segments]
    if variant:
        append: Append | None = conversation.l4b_append
        if structure.l4b_variant is None or append is None:
            raise InputError.expected("an L4b variant", got="none", where=conversation.id)
        specs += zip(structure.l4b_variant.append, (append.trigger, append.continuation),
                     strict=True)
    turn2: list[PlannedSegment] = []
    joins = 0
    for spec, text in specs:
        if spec.kind == "silence":
            assert spec.duration_s is not None  # SegmentSpec checks it
            turn2.append(PlannedSegment("silence", spec.name,
                                        silence_n=s_to_n(spec.duration_s, SESSION_RATE_HZ)))
            continue
        if not text:
            raise InputError.expected(f"text for segment {spec.name}", got="none",
                                      where=conversation.id)
        if turn2 and turn2[-1].kind == "speech":
            joins += 1
            turn2.append(PlannedSegment("silence", f"join{joins}",
                                        silence_n=s_to_n(structure.join_s, SESSION_RATE_HZ)))
        turn2.append(PlannedSegment("speech", spec.name, text, target_s=spec.target_s,
                                    min_s=spec.min_s))
    turn1 = PlannedSegment("speech", "turn1", conversation.turn1, target_s=turn1_target_s)
    stream_id = variant_id(conversation.id) if variant else conversation.id
    return PlannedStream(stream_id, conversation.id, (turn1,), tuple(turn2))


# --- selection -------------------------------------------------------------------------------


class Selectable(Protocol):
    """What `select` looks at: a planned case or a case of a built suite."""

    @property
    def case_id(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def probe(self) -> str: ...
    @property
    def probe_id(self) -> str: ...
    @property
    def instance(self) -> int: ...
    @property
    def level(self) -> LevelName: ...
    @property
    def expected_action(self) -> ActionName: ...


S = TypeVar("S", bound=Selectable)

_FIELDS: dict[str, Callable[[Selectable], tuple[str, ...]]] = {
    "role": lambda c: (c.role,),
    "probe": lambda c: (c.probe, c.probe_id),
    "level": lambda c: (c.level,),
    "action": lambda c: (c.expected_action,),
    "instance": lambda c: (str(c.instance),),
    "case": lambda c: (c.case_id,),
}


def select(cases: Sequence[S], levels: Iterable[str] = (),
           filter_expr: str | None = None) -> tuple[S, ...]:
    """The cases that match, in their order; possibly none.

    `filter_expr` is `FIELD=VALUE[|VALUE...][,FIELD=...]`: terms are joined by *and*, values by
    *or*. Fields: `role`, `probe` (short label or full id), `level`, `action`, `instance`, `case`
    (a shell pattern: `*`, `?`, `[...]`). Raises `InputError` for an unknown field or a value that
    no case has, with the nearest one.
    """
    wanted = [("level", tuple(levels))] if (levels := tuple(levels)) else []
    wanted += _parse(filter_expr) if filter_expr is not None else []
    chosen = tuple(cases)
    for name, values in wanted:
        of = _FIELDS[name]
        known = {k for c in cases for k in of(c)}
        for value in values:
            if not any(_fits(name, value, k) for k in known):
                raise InputError(f"--filter/--level: no case with {name}={value}"
                                 + nearest(value, _shorten(name, known)))
        chosen = tuple(c for c in chosen
                       if any(_fits(name, v, k) for v in values for k in of(c)))
    return chosen


def _parse(expr: str) -> list[tuple[str, tuple[str, ...]]]:
    out: list[tuple[str, tuple[str, ...]]] = []
    for term in expr.split(","):
        match = re.fullmatch(r"\s*([^=\s]+)\s*=\s*(\S+)\s*", term)
        if match is None:
            raise InputError.expected("field=value or field=value|value, terms separated by "
                                      "commas", got=repr(term), where="--filter")
        name, values = match[1], tuple(match[2].split("|"))
        if name not in _FIELDS:
            raise InputError(f"--filter: unknown field {name!r}" + nearest(name, _FIELDS))
        if not all(values):
            raise InputError.expected("a value on both sides of |", got=repr(term),
                                      where="--filter")
        if any(name == seen for seen, _ in out):
            raise InputError.expected(f"field {name} once (use | for several values)",
                                      got=repr(expr), where="--filter")
        out.append((name, values))
    return out


def _fits(name: str, wanted: str, value: str) -> bool:
    return fnmatch.fnmatchcase(value, wanted) if name == "case" else value == wanted


def _shorten(name: str, known: set[str]) -> set[str]:
    """Suggestions stay readable: case ids only by role and probe."""
    return {k.rsplit("-", 2)[0] + "-*" for k in known} if name == "case" else known
