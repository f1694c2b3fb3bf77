"""A judge that is no model: it rates the words of a case by a rule that anybody can apply.

PAS is 4 a word up to 100; register is 5 where the assistant was heard, content its words up to 5;
on a conflict the label goes by the number of words. It reads the request as the prompt says that a
judge should: one JSON document on the last line.
"""

from __future__ import annotations

import json
from typing import Any

from chat_server import Received, Step, completion

LABELS = ("directive-wins", "persona-wins", "hedged", "incoherent")


def case_of(request: Received) -> dict[str, Any]:
    """The case that a request is about."""
    case: dict[str, Any] = json.loads(request.user.splitlines()[-1])
    return case


def rated(words: int, *, conflict: bool) -> dict[str, Any]:
    """What the rule says of so many words."""
    return {
        "role_asks": "r", "heard": f"{words} words", "register": 5 if words else 0,
        "register_reason": "r", "content": min(5, words), "content_reason": "r",
        "pas": min(100, 4 * words), "conflict": LABELS[words % 4] if conflict else None,
        "summary": "by rule"}


def judge(request: Received, _number: int = 0, **changes: object) -> Step:
    """The answer to a request."""
    case = case_of(request)
    words = len(str(case["assistant"].get("said", "")).split())
    return Step(completion({**rated(words, conflict="conflict" in case), **changes}))
