"""Out of a judge's answer: whole numbers within their bounds and a label, or why it is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from probes.generate_answer import AnswerRefused, json_object, shown
from rig.chat_endpoint import ChatAnswer

LABELS: Mapping[str, str] = {
    "directive-wins": "directive-wins", "persona-wins": "persona-wins", "hedged": "balanced",
    "incoherent": "incoherent"}
"""The judge's word and the one that is reported (DSB-IFEval, appendix D.5)."""
NO_LABEL = (None, "n/a")
BOUNDS = {"register": 5, "content": 5, "pas": 100}
"""Highest value of each number; the lowest is 0 (appendix D.4)."""
REASONS = ("role_asks", "heard", "register_reason", "content_reason", "summary")
MAX_REASON_CHARS = 4000
"""Ours: 900 tokens are some 4,000 characters in all."""


class UnusableAnswerError(Exception):
    """The answer is no judgement. `rule` is a short name for the statistics."""

    def __init__(self, rule: str, detail: str) -> None:
        self.rule = rule
        super().__init__(f"{rule}: {detail}")


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a judge said of one case. `label` is that of the Conflict Profile, on L4 only."""

    register: int
    content: int
    pas: int
    label: str | None
    reasons: dict[str, str]


def read_answer(answer: ChatAnswer, *, conflict: bool) -> Judgement:
    """The judgement that an answer holds. Raises `UnusableAnswerError`.

    Refused: anything but one JSON object (a Markdown fence around it is taken off), a key given
    twice, `NaN`, an answer cut by the token limit, a number that is missing, no whole number or out
    of bounds, a label that is not known, missing on a conflict or given without one, a reason that
    is missing, no text or absurdly long. Other keys are passed over.
    """
    value = answer_object(answer)
    numbers = {name: _number(value, name, most) for name, most in BOUNDS.items()}
    return Judgement(**numbers, label=_label(value, conflict),
                     reasons={name: reason_in(value, name) for name in REASONS})


def answer_object(answer: ChatAnswer) -> Mapping[str, Any]:
    """The one JSON object that an answer is. Raises `UnusableAnswerError`."""
    if answer.finish_reason == "length":
        raise UnusableAnswerError("answer_cut", "it ended at the token limit")
    try:
        return json_object(answer.content)
    except AnswerRefused as error:
        raise UnusableAnswerError("answer_json", error.rejection.detail) from None


def _number(value: Mapping[str, Any], name: str, most: int) -> int:
    if name not in value:
        raise UnusableAnswerError("answer_shape", f"expected {name}, got none")
    found = value[name]
    if type(found) is not int:  # true is an int in Python, and no score
        raise UnusableAnswerError("answer_shape", f"{name}: expected a whole number, got "
                                  f"{shown(found)}")
    if not 0 <= found <= most:
        raise UnusableAnswerError("answer_range", f"{name}: expected 0 to {most}, got "
                                  f"{shown(found)}")
    return found


def _label(value: Mapping[str, Any], conflict: bool) -> str | None:
    found = value.get("conflict")
    if not conflict:
        if found not in NO_LABEL:
            raise UnusableAnswerError("answer_label", "conflict: expected null, got "
                                      f"{shown(found)}")
        return None
    if not isinstance(found, str) or found not in LABELS:
        raise UnusableAnswerError("answer_label", f"conflict: expected one of "
                                  f"{', '.join(LABELS)}, got {shown(found)}")
    return LABELS[found]


def reason_in(value: Mapping[str, Any], name: str) -> str:
    """A reason in words. Raises `UnusableAnswerError`."""
    found = value.get(name)
    if not isinstance(found, str):
        raise UnusableAnswerError("answer_shape", f"{name}: expected text, got {shown(found)}")
    if len(found) > MAX_REASON_CHARS:
        raise UnusableAnswerError("answer_long", f"{name}: expected at most {MAX_REASON_CHARS} "
                                  f"characters, got {len(found)}")
    # JSON's escapes can make half a character, which no file can hold.
    return found.encode("utf-8", errors="replace").decode("utf-8")
