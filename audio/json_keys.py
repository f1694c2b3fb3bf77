"""JSON that people, programs or models wrote: a key that comes twice in one object is refused.

A JSON reader takes the last one without a word, and which was meant nobody knows.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

MOST_SHOWN = 60
"""Characters of a key that a message shows."""


class KeyTwiceError(ValueError):
    """One object has a key more than once; the text says which."""

    def __init__(self, key: str) -> None:
        super().__init__(f"expected the key {key[:MOST_SHOWN]!r} once, got it again")


def loads_once(text: str, *, parse_constant: Callable[[str], Any] | None = None) -> Any:
    """`json.loads`; raises `KeyTwiceError`, which is a `ValueError` as well, for a key twice."""
    return json.loads(text, object_pairs_hook=_once, parse_constant=parse_constant)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise KeyTwiceError(key)
        found[key] = value
    return found
