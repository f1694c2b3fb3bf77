"""`rig generate` on disk: which conversations are wanted, which exist, where new ones are written.

The output folder is a suite: the spec files of the given one, byte for byte, and one file a
conversation. It may be the given suite itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from audio.errors import InputError
from audio.files import atomic_write_bytes, atomic_write_text
from probes.gates import check_prompts, require
from probes.generate import Outcome, Reply, conversation_yaml, conversations_of, write_conversation
from probes.generate_answer import AnswerRefused, Rejection
from probes.generate_brief import brief_of
from probes.generate_prompt import Models
from probes.loader import load_suite
from probes.spec import Conversation, Suite
from probes.yamlfile import show
from rig.chat_endpoint import ChatAnswerError, ChatEndpoint, ChatEndpointError

SPEC_FILES = ("suite.yaml", "roles.yaml", "probes.yaml", "grid.yaml", "contradictions.yaml",
              "judge.yaml")
CACHE_FOLDER = ".cache"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done. `suite` holds every conversation that a new one may not repeat."""

    suite: Suite
    out: Path
    todo: tuple[str, ...]
    kept: tuple[str, ...]
    force: bool


@dataclass(frozen=True, slots=True)
class Generated:
    """What came of a plan. `endpoint_error` says why the run ended early; `not_tried` could not be
    begun or finished because of it."""

    outcomes: tuple[Outcome, ...]
    not_tried: tuple[str, ...] = ()
    endpoint_error: str | None = None
    files: dict[str, Path] = field(default_factory=dict)

    @property
    def failed(self) -> tuple[Outcome, ...]:
        return tuple(o for o in self.outcomes if o.conversation is None)


def plan(suite_name: str, cells: Sequence[str], instances: Sequence[int], out: Path, *,
         force: bool = False) -> Plan:
    """Check suite, cells and output folder; nothing is written.

    Raises `InputError` for what is wrong with one of them, `GateError` for a suite whose own
    prompts break a gate.
    """
    suite = load_suite(suite_name)
    require(check_prompts(suite))
    wanted = conversations_of(suite, cells, instances)
    there = _existing(suite, out)
    kept = () if force else tuple(i for i in wanted if there is not None
                                  and i in there.conversations)
    todo = tuple(i for i in wanted if i not in kept)
    known = {k: v for k, v in suite.conversations.items() if k not in todo}
    if there is not None:
        for conversation_id in todo:
            _require_own_file(there, conversation_id)
        known |= {k: v for k, v in there.conversations.items() if k not in todo}
    return Plan(replace(suite, conversations=known), out, todo, kept, force)


def generate(work: Plan, models: Models, endpoint: ChatEndpoint, *, situation: str | None = None,
             progress: Callable[[int, str], None] = lambda _done, _label: None) -> Generated:
    """Make the conversations of a plan, one after the other; each is written when it is accepted.

    An endpoint that cannot be used ends the run; what was made by then stays.
    """
    suite = work.suite
    outcomes: list[Outcome] = []
    files: dict[str, Path] = {}
    error: str | None = None
    for number, conversation_id in enumerate(work.todo):
        brief = brief_of(suite, conversation_id, situation)
        try:
            outcome = write_conversation(suite, brief, models, lambda b: _ask(endpoint, b))
        except ChatEndpointError as failure:
            error = str(failure)
            break
        outcomes.append(outcome)
        if outcome.conversation is not None:
            files[conversation_id] = _write(work, outcome.conversation, _note(outcome, models))
            suite = replace(suite, conversations={**suite.conversations,
                                                  conversation_id: outcome.conversation})
        progress(number + 1, conversation_id)
    _verify(work.out, outcomes)
    return Generated(tuple(outcomes), work.todo[len(outcomes):], error, files)


def _ask(endpoint: ChatEndpoint, body: bytes) -> Reply:
    try:
        return endpoint.ask(body)
    except ChatAnswerError as error:
        raise AnswerRefused(Rejection(error.rule, str(error), told=False)) from None


def _existing(suite: Suite, out: Path) -> Suite | None:
    """The suite in the output folder; `None` where there is none yet."""
    if not out.exists():
        return None
    if not out.is_dir():
        raise InputError.expected("a folder", got="a file", where=f"--out {show(out)}")
    names = [p.name for p in out.iterdir() if p.name != CACHE_FOLDER]
    here = [n for n in SPEC_FILES if n in names]
    if names and not here:
        raise InputError.expected("a new or empty folder, or one of this suite",
                                  got=f"one with {sorted(names)[0]}", where=f"--out {show(out)}")
    for name in here:
        theirs = suite.path / name
        if not theirs.is_file() or theirs.read_bytes() != (out / name).read_bytes():
            raise InputError(f"{show(out / name)}: expected the {name} of {suite.name} unchanged, "
                             "got another; give a new folder, or that suite itself")
    if all((out / n).is_file() for n in _spec_files(suite)):
        return load_suite(out)
    if any((out / "conversations").glob("*.yaml")):
        lacking = next(n for n in _spec_files(suite) if n not in here)
        raise InputError.expected(f"a suite folder with {lacking}", got="none",
                                  where=f"--out {show(out)}")
    return None


def _spec_files(suite: Suite) -> list[str]:
    return [n for n in SPEC_FILES if (suite.path / n).is_file()]


def _require_own_file(there: Suite, conversation_id: str) -> None:
    """Only a file with this conversation alone may be replaced."""
    item = f"conversation {conversation_id}"
    if conversation_id not in there.conversations:
        return
    at = there.origin(item)
    own = show(there.path / "conversations" / f"{conversation_id}.yaml")
    others = [c for c in there.conversations
              if c != conversation_id and there.origin(f"conversation {c}").file == at.file]
    if at.file != own or others:
        raise InputError.expected(
            f"{conversation_id} in a file of its own, which --force could replace",
            got="it in a file with others" if others else "it in another file", where=at)


def _write(work: Plan, conversation: Conversation, note: str) -> Path:
    inner = work.out / "conversations"
    inner.mkdir(parents=True, exist_ok=True)
    for name in _spec_files(work.suite):
        if not (work.out / name).exists():
            atomic_write_bytes(work.out / name, (work.suite.path / name).read_bytes())
    path = inner / f"{conversation.id}.yaml"
    if path.exists() and not work.force:
        raise InputError.expected("no such file yet (--force replaces it)", got="one",
                                  where=show(path))
    atomic_write_text(path, conversation_yaml(conversation, note))
    return path


def _note(outcome: Outcome, models: Models) -> str:
    last = outcome.tries[-1]
    return (f"Written by {last.model} at try {last.number}, temperature {last.temperature:g}; "
            f"passed by the gates and by {models.critic}. Request {last.request_sha256}")


def _verify(out: Path, outcomes: Sequence[Outcome]) -> None:
    """Read everything back as `rig build` will."""
    made = {o.conversation_id: o.conversation for o in outcomes if o.conversation is not None}
    if not made:
        return
    read = load_suite(out).conversations
    for conversation_id, conversation in made.items():
        if read.get(conversation_id) != conversation:
            raise InputError.expected("the conversation that was written", got="another",
                                      where=show(out / "conversations" / f"{conversation_id}.yaml"))
