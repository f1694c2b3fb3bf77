"""Conversations written by a language model: tries, gates, critic (DSB-IFEval, appendix G.1).

Pure but for `ask`, which is given from outside: it sends a request, or takes its answer from a
cache. A conversation is accepted when the suite's gates and the critic pass it; otherwise the next
try is told why, up to four tries, one candidate a try.
"""

from __future__ import annotations

import fnmatch
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import yaml

from audio.errors import InputError
from audio.suggest import nearest
from probes.generate_answer import (
    AnswerRefused,
    Rejection,
    critic_rejections,
    gate_rejections,
    read_conversation,
)
from probes.generate_brief import Brief
from probes.generate_prompt import (
    FALLBACK_FROM,
    TRIES,
    Models,
    critic_body,
    temperature,
    writer_body,
)
from probes.spec import Conversation, Suite

MAX_REQUESTS = 2 * TRIES
"""Of one conversation: every try has a writer and a critic."""
YAML_WIDTH = 92


class Reply(Protocol):
    """What came back: the model's text, and why it ended where that was said."""

    @property
    def content(self) -> str: ...
    @property
    def finish_reason(self) -> str | None: ...


Ask = Callable[[bytes], Reply]
"""Sends the body of a chat request. Raises `AnswerRefused` where the endpoint answered, but with
nothing that can be used: the try is lost. Any other exception ends the run."""


@dataclass(frozen=True, slots=True)
class Try:
    """One try: no rejections means that it was accepted."""

    number: int
    model: str
    temperature: float
    request_sha256: str
    rejections: tuple[Rejection, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one conversation: the accepted text, or nothing after four tries."""

    conversation_id: str
    conversation: Conversation | None
    tries: tuple[Try, ...]


def conversations_of(suite: Suite, cells: Sequence[str], instances: Sequence[int]) -> tuple[
        str, ...]:
    """Ids of the conversations behind cells, in grid order, each once.

    `cells` are patterns over `ROLE-PROBE` (`R1-C1`, `R2-*`); no instance means all. A recording
    that several roles share has one id, `S-C1-1`. Raises `InputError` for a cell or an instance
    that the suite does not have.
    """
    names = {f"{c.role}-{c.probe}": c for c in suite.cells}
    for pattern in cells:
        if not fnmatch.filter(names, pattern):
            raise InputError(f"--cell: expected a cell of {suite.name}, got {pattern!r}"
                             + nearest(pattern, names))
    for instance in instances:
        if not 1 <= instance <= suite.info.instances:
            raise InputError.expected(f"an instance from 1 to {suite.info.instances}",
                                      got=instance, where="--instance")
    wanted = sorted(set(instances)) or range(1, suite.info.instances + 1)
    return tuple(dict.fromkeys(
        suite.stream_of(cell.role, cell.probe, i) for name, cell in names.items()
        if any(fnmatch.fnmatchcase(name, p) for p in cells) for i in wanted))


def write_conversation(suite: Suite, brief: Brief, models: Models, ask: Ask) -> Outcome:
    """Up to four tries at one conversation."""
    tries: list[Try] = []
    for index in range(TRIES):
        told = [r.detail for t in tries for r in t.rejections if r.told]
        body = writer_body(brief, models, index, told)
        conversation: Conversation | None = None
        try:
            conversation = read_conversation(brief, _content(ask(body)))
            rejections = gate_rejections(suite, conversation)
            if not rejections:
                rejections = _criticised(brief, models, conversation, ask)
        except AnswerRefused as refused:
            rejections = (refused.rejection,)
        tries.append(Try(index + 1, models.fallback if index >= FALLBACK_FROM else models.writer,
                         temperature(index), hashlib.sha256(body).hexdigest(), rejections))
        if not rejections:
            return Outcome(brief.conversation_id, conversation, tuple(tries))
    return Outcome(brief.conversation_id, None, tuple(tries))


def _criticised(brief: Brief, models: Models, conversation: Conversation,
                ask: Ask) -> tuple[Rejection, ...]:
    try:
        reply = ask(critic_body(brief, models, conversation))
    except AnswerRefused as refused:
        # Nothing is said against the conversation, so the writer is told nothing.
        raise AnswerRefused(Rejection(f"critic_{refused.rejection.rule}",
                                      refused.rejection.detail, told=False)) from None
    return critic_rejections(reply.content)


def _content(reply: Reply) -> str:
    if reply.finish_reason == "length":
        raise AnswerRefused(Rejection("answer_cut", "the answer was longer than allowed"))
    return reply.content


def rejections_by_rule(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """How often each rule refused something, most frequent first."""
    counts: dict[str, int] = {}
    for rejection in (r for o in outcomes for t in o.tries for r in t.rejections):
        counts[rejection.rule] = counts.get(rejection.rule, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def conversation_yaml(conversation: Conversation, note: str) -> str:
    """A file of `conversations/` with this one conversation; `note` is its first line, a comment.

    Reads back as the same conversation.
    """
    items = conversation.model_dump(exclude_none=True)
    text = yaml.safe_dump({"conversations": [items]}, sort_keys=False, allow_unicode=True,
                          width=YAML_WIDTH)
    comment = "".join(c if c.isprintable() else " " for c in note)
    return f"# {comment}\n{text}"
