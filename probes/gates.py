"""Gates that block a build: prompts that leak, conversations that do not test what they claim.

Sources: DSB-IFEval, appendix B.6 (leakage) and G.1 (structural hard-reject gates). Everything here
is decided on text; `probes.audiogates` repeats the length gate on rendered audio. What text cannot
show (is the red flag truly urgent, is the step truly wrong) is for a reader with the probe's
`premise`, not for this module.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from audio.errors import InputError
from probes.leakage import (
    JACCARD_LIMIT,
    PERSONA_WORDS,
    content_words,
    imperatives,
    overlap,
    word_count,
)
from probes.spec import Conversation, Origin, Suite
from probes.structure import ProbeStructure, SegmentSpec

DURATION_TOLERANCE = 0.5
"""A speech segment may be 50 % outside its target, no more (appendix G.1)."""
DUPLICATE_MIN_WORDS = 7
"""Ours: a segment of this length that occurs twice was copied; check phrases are shorter."""

ASSISTANT_WORDS = (
    "assistant", "artificial intelligence", "chatbot", "language model", "robot voice",
    "virtual agent", "voice agent",
)
"""Words by which a user would address a machine, in any role. Ours."""
FLOOR_PHRASES = (
    r"interrupt\w*", r"backchannel\w*", r"let me finish", r"let me talk", r"let me speak",
    r"your turn", r"my turn to (?:talk|speak)", r"cut(?:ting)? me off", r"talk(?:ing)? over me",
    r"(?:read|say|repeat) (?:it|that|this|them|those|all that|everything) back",
    r"read back", r"repeat back", r"stop talking", r"keep quiet", r"don't say anything",
    r"wait", r"hold on",
)
"""Turn-taking talk (appendix G.1); the list is ours. Whole words, any case."""
CHECK_PHRASES = (
    r"are you (?:still )?(?:there|listening|with me)", r"you know what i mean",
    r"(?:does|is) that mak(?:e|ing) sense", r"you still there", r"can you hear me",
    r"you follow(?:ing)?(?: me)?",
)
"""Checks for attention. They may stand in an isolated segment only. Ours."""
DANGLING_OPENERS = frozenset({
    "he", "she", "him", "and", "but", "or", "because", "which", "then", "anyway", "also",
    "otherwise", "therefore",
})
"""A first turn that opens with one of these leans on something said before. Ours. `They` is not
among them: people say "they changed her pills" of nobody in particular."""

_ABBREVIATION = re.compile(
    r"\b(?:dr|mr|mrs|prof|mg|mcg|ml|kg|lbs?|hrs?|mins?|approx|vs|etc|e\.g|i\.e|[ap]\.m)\b",
    re.IGNORECASE)
_UNSPEAKABLE = re.compile(r"[^A-Za-z' ,.?!;:\"-]+")
_DIGITS = {"zero": "0", "oh": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5",
           "six": "6", "seven": "7", "eight": "8", "nine": "9"}


@dataclass(frozen=True, slots=True)
class GateFailure:
    """One thing that blocks the build: where, which rule, and the words that break it."""

    file: str
    line: int
    item: str
    rule: str
    words: tuple[str, ...]
    detail: str

    def __str__(self) -> str:
        quoted = ", ".join(repr(w) for w in self.words[:8])
        return (f"{self.file}:{self.line}: {self.item}: {self.rule}: {self.detail}"
                + (f" [{quoted}]" if quoted else ""))


class GateError(InputError):
    """A build was refused. `failures` holds every reason; the message tells the first."""

    def __init__(self, failures: tuple[GateFailure, ...]) -> None:
        self.failures = failures
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        super().__init__(f"{failures[0]}{more}")


def check_suite(suite: Suite, conversations: Iterable[str] | None = None) -> tuple[
        GateFailure, ...]:
    """All gate failures of a suite, in file order of roles, then conversations.

    `conversations` limits the second part to these ids; absent, all that exist are judged.
    """
    chosen = list(suite.conversations) if conversations is None else list(conversations)
    out = list(check_prompts(suite))
    for conversation_id in chosen:
        out += check_conversation(suite, suite.conversations[conversation_id])
    out += _duplicates(suite, chosen)
    return tuple(out)


def check_candidate(suite: Suite, conversation: Conversation) -> tuple[GateFailure, ...]:
    """All gate failures of a conversation that is to join a suite, or to replace its namesake."""
    others = {k: v for k, v in suite.conversations.items() if k != conversation.id}
    joined = replace(suite, conversations={**others, conversation.id: conversation})
    item = f"conversation {conversation.id}."
    return (*check_conversation(joined, conversation),
            *(f for f in _duplicates(joined, list(joined.conversations))
              if f.item.startswith(item)))


def require(failures: Iterable[GateFailure]) -> None:
    """Raise `GateError` when there are failures."""
    found = tuple(failures)
    if found:
        raise GateError(found)


# --- prompts ---------------------------------------------------------------------------------


def check_prompts(suite: Suite) -> Iterator[GateFailure]:
    """V3 imperative lint, V4 lexical overlap and the length of every persona (appendix B.6)."""
    for role in suite.roles:
        item = f"role {role.id}.persona"
        at = suite.origin(item)
        if found := imperatives(role.persona):
            yield _failure(at, item, "persona_imperative", found,
                           "a persona must imply floor management, not state it")
        index = 0.0
        shared: tuple[str, ...] = ()
        if content_words(role.persona) and content_words(role.directive):
            index, shared = overlap(role.persona, role.directive)
        if index >= JACCARD_LIMIT:
            yield _failure(at, item, "persona_overlap", shared, "content-word overlap with the "
                           f"directive must be below {JACCARD_LIMIT}, got {index:.3f}")
        n = word_count(role.persona)
        if role.persona and not PERSONA_WORDS[0] <= n <= PERSONA_WORDS[1]:
            yield _failure(at, item, "persona_length", (), f"expected {PERSONA_WORDS[0]} to "
                           f"{PERSONA_WORDS[1]} words, got {n}")
    for target in suite.contradictions.values():
        if len(set(target.variants)) < len(target.variants):
            item = f"contradiction {target.id}"
            yield _failure(suite.origin(item), item, "variant_repeated", (),
                           "the surface variants must differ")


# --- conversations ---------------------------------------------------------------------------


def check_conversation(suite: Suite, conversation: Conversation) -> Iterator[GateFailure]:
    """The structural gates of appendix G.1 on one conversation's text."""
    role_id, label, _ = conversation.id.split("-")
    matched = suite.info.matched_audio
    owners = [role_id] if role_id != "S" else list(matched.roles if matched else ())
    structure = suite.probe_of(owners[0], label)
    item = f"conversation {conversation.id}"
    texts = _spoken(conversation, structure)

    yield from _check_complete(suite, conversation, structure, item)
    yield from _check_turn1(suite, conversation, item)
    job = [w for owner in owners for w in suite.role(owner).job_words]
    for key, spec, text in texts:
        at = suite.origin(f"{item}.{key}")
        where = f"{item}.{key}"
        if found := _matches((*map(re.escape, job), *ASSISTANT_WORDS), text):
            yield _failure(at, where, "assistant_mentioned", found,
                           "the user must not name the assistant's role or job")
        if found := _matches(FLOOR_PHRASES, text):
            yield _failure(at, where, "turn_taking_mentioned", found,
                           "the user must not talk about turn-taking")
        if not (spec and spec.isolated) and (found := _matches(CHECK_PHRASES, text)):
            yield _failure(at, where, "check_phrase_merged", found,
                           "a check phrase must stand in a segment of its own")
        odd = tuple(_UNSPEAKABLE.findall(text)) + tuple(_ABBREVIATION.findall(text))
        if odd:
            yield _failure(at, where, "not_spoken_form", odd,
                           "digits, symbols and abbreviations must be written as words")
        target_s = spec.target_s if spec else suite.info.turn1_target_s
        if text.strip() and target_s is not None:
            yield from _check_length(suite, at, where, text, target_s)
    yield from _check_isolation(suite, item, texts)
    yield from _check_target(suite, conversation, structure, item)


def _spoken(conversation: Conversation, structure: ProbeStructure) -> list[
        tuple[str, SegmentSpec | None, str]]:
    """Every text that will be spoken, in order: key, segment (absent for turn 1), text."""
    out: list[tuple[str, SegmentSpec | None, str]] = [("turn1", None, conversation.turn1)]
    out += [(f"turn2.{s.name}", s, conversation.turn2.get(s.name, "")) for s in structure.speech]
    if conversation.l4b_append is not None and structure.l4b_variant is not None:
        trigger, continuation = structure.l4b_variant.append
        out.append(("l4b_append.trigger", trigger, conversation.l4b_append.trigger))
        out.append(("l4b_append.continuation", continuation,
                    conversation.l4b_append.continuation))
    return out


def _check_complete(suite: Suite, conversation: Conversation, structure: ProbeStructure,
                    item: str) -> Iterator[GateFailure]:
    """Every speech segment has words; the rule's name says what its absence would break."""
    previous: SegmentSpec | None = None
    spoken: SegmentSpec | None = None
    for spec in structure.segments:
        text = conversation.turn2.get(spec.name, "")
        if spec.kind == "speech" and not word_count(text):
            after_pause = previous is not None and previous.kind == "silence"
            rule = "segment_missing"
            if after_pause:
                rule = ("check_turn_ends_at_pause" if spoken is not None and spoken.isolated
                        else "pause_without_resumption")
            yield _failure(suite.origin(f"{item}.turn2.{spec.name}"), f"{item}.turn2.{spec.name}",
                           rule, (), "expected spoken words, got none")
        previous = spec
        spoken = spec if spec.kind == "speech" else spoken
    if conversation.l4b_append is not None:
        for key in ("trigger", "continuation"):
            if not word_count(getattr(conversation.l4b_append, key)):
                where = f"{item}.l4b_append.{key}"
                yield _failure(suite.origin(where), where, "segment_missing", (),
                               "expected spoken words, got none")


def _check_turn1(suite: Suite, conversation: Conversation, item: str) -> Iterator[GateFailure]:
    """What text can show of self-containment: there is one, it ends, it opens on its own."""
    where = f"{item}.turn1"
    at = suite.origin(where)
    words = re.findall(r"[A-Za-z']+", conversation.turn1)
    if not words:
        yield _failure(at, where, "turn1_not_self_contained", (),
                       "expected spoken words, got none")
        return
    if words[0].lower() in DANGLING_OPENERS:
        yield _failure(at, where, "turn1_not_self_contained", (words[0],),
                       "the opening leans on something said before")
    if conversation.turn1.rstrip().rstrip('"')[-1:] not in ".?!":
        yield _failure(at, where, "turn1_not_self_contained", (words[-1],),
                       "turn 1 must end as a finished utterance (. ? !)")


def _check_length(suite: Suite, at: Origin, where: str, text: str,
                  target_s: tuple[float, float]) -> Iterator[GateFailure]:
    estimate_s = estimated_s(text, suite.info.words_per_second)
    low_s, high_s = allowed_range_s(target_s)
    if not low_s <= estimate_s <= high_s:
        yield _failure(at, where, "duration_off_target", (f"{word_count(text)} words",),
                       f"estimated {estimate_s:.1f} s, allowed {low_s:.1f} to {high_s:.1f} s "
                       f"(target {target_s[0]:g} to {target_s[1]:g} s)")


def estimated_s(text: str, words_per_second: tuple[float, float]) -> float:
    """Spoken length of a text at the middle of the suite's speaking rates, in seconds."""
    return word_count(text) / (sum(words_per_second) / 2)


def allowed_range_s(target_s: tuple[float, float]) -> tuple[float, float]:
    """Shortest and longest length that is not more than 50 % outside its target."""
    return target_s[0] * (1 - DURATION_TOLERANCE), target_s[1] * (1 + DURATION_TOLERANCE)


def _check_isolation(suite: Suite, item: str, texts: list[
        tuple[str, SegmentSpec | None, str]]) -> Iterator[GateFailure]:
    """A trigger's words must not also stand in the segment beside it."""
    turn2 = [(key, spec, text) for key, spec, text in texts if spec is not None]
    for at, (_, spec, text) in enumerate(turn2):
        phrase = " ".join(_words(text))
        if spec is None or not spec.isolated or not phrase:
            continue
        for key, _, beside in turn2[max(at - 1, 0):at] + turn2[at + 1:at + 2]:
            if f" {phrase} " in f" {' '.join(_words(beside))} ":
                yield _failure(suite.origin(f"{item}.{key}"), f"{item}.{key}", "trigger_merged",
                               (phrase,), f"the words of {spec.name} stand here too")


def _check_target(suite: Suite, conversation: Conversation, structure: ProbeStructure,
                  item: str) -> Iterator[GateFailure]:
    if not structure.target_from:
        return
    where = f"{item}.target"
    target = Counter(spoken_tokens(conversation.target or ""))
    if not target:
        yield _failure(suite.origin(where), where, "target_missing", (),
                       "expected the dictated items, got none")
        return
    spoken = Counter(t for name in structure.target_from
                     for t in spoken_tokens(conversation.turn2.get(name, "")))
    if absent := target - spoken:
        yield _failure(suite.origin(where), where, "target_not_spoken", tuple(sorted(absent)),
                       "every token of the target must be spoken in "
                       + ", ".join(structure.target_from))


def spoken_tokens(text: str) -> tuple[str, ...]:
    """Tokens of a read-back: lower case, `[a-z0-9]+`, spelled digits as digits, digit runs split
    (DSB-IFEval, appendix C.5)."""
    out: list[str] = []
    for token in re.findall(r"[a-z0-9]+", text.lower()):
        word = _DIGITS.get(token, token)
        out += list(word) if word.isdigit() else [word]
    return tuple(out)


def _duplicates(suite: Suite, chosen: list[str]) -> Iterator[GateFailure]:
    """The same long sentence in two conversations: a template, not a conversation."""
    first: dict[str, str] = {}
    for conversation_id in chosen:
        conversation = suite.conversations[conversation_id]
        for key, text in [("turn1", conversation.turn1),
                          *((f"turn2.{n}", t) for n, t in conversation.turn2.items())]:
            words = _words(text)
            if len(words) < DUPLICATE_MIN_WORDS:
                continue
            where = f"conversation {conversation_id}.{key}"
            seen = first.setdefault(" ".join(words), where)
            if seen != where:
                yield _failure(suite.origin(where), where, "text_repeated", (" ".join(words[:6]),),
                               f"the same text as {seen}")


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z']+", text.lower())


def _matches(patterns: Iterable[str], text: str) -> tuple[str, ...]:
    joined = "|".join(patterns)
    return tuple(m.group(0) for m in re.finditer(rf"\b(?:{joined})\b", text, re.IGNORECASE))


def _failure(at: Origin, item: str, rule: str, words: tuple[str, ...],
             detail: str) -> GateFailure:
    return GateFailure(at.file, at.line, item, rule, words, detail)
