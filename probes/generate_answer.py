"""Out of a model's answer: a conversation, or the reasons why it is none. Trusts nothing.

Answers are bounded, strictly typed JSON objects. Where an answer is refused, each reason has a
rule (for the statistics) and words that the next try can be told.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError

from audio.json_keys import loads_once
from probes.gates import check_candidate
from probes.generate_brief import Brief
from probes.spec import Append, Conversation, Suite
from probes.specmodel import Line, SpecModel

MAX_CHARS = 20_000
"""Ours: 1,500 tokens are some 6,000 characters."""
MAX_REASONS = 8
"""Ours: reasons of a critic that are kept."""
MAX_DETAIL_CHARS = 200
"""Ours: of any model's wording that is shown or told."""

_FENCE = "```"
_QUOTES = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"'})
_M = TypeVar("_M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Rejection:
    """One reason why a try was refused. `told` is false where the writer is not at fault."""

    rule: str
    detail: str
    told: bool = True

    def __str__(self) -> str:
        return f"{self.rule}: {self.detail}"


class AnswerRefused(Exception):
    """An answer that cannot be used."""

    def __init__(self, rejection: Rejection) -> None:
        self.rejection = rejection
        super().__init__(str(rejection))


class _Draft(SpecModel):
    situation: Annotated[str, Field(min_length=1, max_length=600)]
    turn1: Line
    turn2: dict[str, Line]
    target: Line | None = None
    l4b_append: Append | None = None


class _Verdict(SpecModel):
    verdict: Literal["pass", "fail"]
    reasons: Annotated[tuple[str, ...], Field(max_length=100)] = ()


def read_conversation(brief: Brief, content: str) -> Conversation:
    """The conversation that an answer holds; white space and typographic quotes are made plain.

    The gates have not judged it yet. Raises `AnswerRefused`.
    """
    draft = _model(_Draft, json_object(content))
    names = [s.name for s in brief.structure.speech]
    if missing := [n for n in names if n not in draft.turn2]:
        raise _shape(f"turn2 lacks {', '.join(missing)}")
    if extra := [n for n in draft.turn2 if n not in names]:
        raise _shape(f"turn2 has no piece {shown(extra[0])}; its pieces are {', '.join(names)}")
    if draft.target is not None and not brief.structure.target_from:
        raise _shape("no target is wanted")
    if (draft.l4b_append is not None) != brief.wants_l4b:
        raise _shape("l4b_append with trigger and continuation is missing" if brief.wants_l4b
                     else "no l4b_append is wanted")
    situation = plain(draft.situation)
    if not situation or not situation.isprintable():
        raise _shape("situation must be one line of printable text")
    target = None if draft.target is None else plain(draft.target)
    if target is not None and not (target.isascii() and target.isprintable()):
        raise _shape("target must be plain ASCII words")
    append = draft.l4b_append
    return Conversation(
        id=brief.conversation_id, situation=situation, turn1=plain(draft.turn1),
        turn2={n: plain(draft.turn2[n]) for n in names},
        target=target,
        l4b_append=None if append is None else Append(trigger=plain(append.trigger),
                                                      continuation=plain(append.continuation)))


def gate_rejections(suite: Suite, conversation: Conversation) -> tuple[Rejection, ...]:
    """What the suite's own gates have against a conversation (`probes.gates`)."""
    prefix = f"conversation {conversation.id}."
    out = []
    for failure in check_candidate(suite, conversation):
        words = f" [{', '.join(failure.words[:8])}]" if failure.words else ""
        out.append(Rejection(failure.rule, _short(
            f"{failure.item.removeprefix(prefix)}: {failure.detail}{words}")))
    return tuple(out)


def critic_rejections(content: str) -> tuple[Rejection, ...]:
    """Why the critic refuses a conversation; empty when it passes. Raises `AnswerRefused` for an
    answer that is no verdict, of which the writer is not told."""
    try:
        verdict = _model(_Verdict, json_object(content))
    except AnswerRefused as error:
        raise AnswerRefused(Rejection("critic_unreadable", error.rejection.detail,
                                      told=False)) from None
    if verdict.verdict == "pass":
        return ()
    reasons = [_short(r) for r in verdict.reasons if r.strip()][:MAX_REASONS]
    return tuple(Rejection("critic", r) for r in reasons or ["no reason was given"])


def json_object(content: str) -> dict[str, Any]:
    """The one JSON object of an answer, also out of a Markdown fence. Raises `AnswerRefused` for
    anything before or after it, a key given twice, a number that JSON does not know."""
    if len(content) > MAX_CHARS:
        raise AnswerRefused(Rejection("answer_json", f"expected at most {MAX_CHARS} characters, "
                                      f"got {len(content)}"))
    text = _unfenced(content.strip(" \t\r\n\ufeff"))
    try:
        value = loads_once(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise AnswerRefused(Rejection("answer_json", _short(
            f"expected one JSON object and nothing else: {error}"))) from None
    if not isinstance(value, dict):
        raise AnswerRefused(Rejection("answer_json", "expected one JSON object, got "
                                      f"{type(value).__name__}"))
    return value


def _unfenced(text: str) -> str:
    """The inside of a Markdown fence that begins and ends the text; else the text."""
    first, newline, rest = text.partition("\n")
    language = first.removeprefix(_FENCE).strip()
    if (not newline or not first.startswith(_FENCE) or not rest.endswith(_FENCE)
            or not (language.isalnum() or not language)):
        return text
    return rest.removesuffix(_FENCE)


def plain(text: str) -> str:
    """One line: runs of white space are one blank, typographic quotes are ASCII."""
    return " ".join(text.translate(_QUOTES).split())


def shown(value: object) -> str:
    """A model's own wording in a message: quoted, escaped and short."""
    return repr(value)[:60]


def _short(text: str) -> str:
    """One printable line of a bounded length."""
    line = "".join(c if c.isprintable() else " " for c in " ".join(text.split()))
    return line if len(line) <= MAX_DETAIL_CHARS else line[:MAX_DETAIL_CHARS - 3] + "..."


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _shape(detail: str) -> AnswerRefused:
    return AnswerRefused(Rejection("answer_shape", _short(detail)))


def _model(kind: type[_M], value: dict[str, Any]) -> _M:
    try:
        # A JSON array is a list in Python; strict models want the tuple that they declare.
        return kind.model_validate_json(json.dumps(value))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    at = ".".join(str(p) for p in first["loc"])
    if first["type"] == "extra_forbidden":
        raise _shape(f"unknown key {shown(at)}")
    raise _shape(f"{shown(at)}: {first['msg']}")
