"""Words for numbers and names."""

from __future__ import annotations

import json
import shlex


def counted(n: int, what: str) -> str:
    """`1 session`, `2 sessions`."""
    return f"{n} {what}{'s' * (n != 1)}"


def printable(text: str, but: str = "") -> str:
    """Text for a terminal: control characters, which could be commands to it, are spelled out,
    `but` these."""
    return "".join(c if c.isprintable() or c in but else ascii(c)[1:-1] for c in text)


def spelt(name: str) -> str:
    """A role, level or flag of a file as a part of a figure's name: as it is, or quoted as in JSON
    where it could be read as another (a dot, as in `by_role."X.L1"` beside `by_role.X.L1`; a
    quote), begins or ends with a blank, is not printable, or is empty."""
    plain = name.isprintable() and name == name.strip() and name and not set(name) & set('."')
    return name if plain else json.dumps(name, ensure_ascii=not name.isprintable())


def pasteable(*words: object) -> str:
    """A command as a shell takes it back: words with blanks or other signs of its own quoted."""
    return shlex.join(str(word) for word in words)
