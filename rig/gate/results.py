"""What became of a gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rig.gate.asked import Gate
from rig.gate.readings import Reading

At = Literal["value", "interval"]
"""What must keep a limit: the figure, or the end of its interval that is nearer to the limit."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a gate. `gate.path` names one figure, also where a drop was asked of a whole
    pool. `drop` is the entry of `rig compare`, first the baseline, for a drop that has pairs."""

    gate: Gate
    met: bool
    reading: Reading
    unit: str
    why: str
    drop: Mapping[str, Any] | None = None


def one_line(text: str) -> str:
    """Text of a file within a line of ours: what is not printable, ends of lines included, is
    spelled out, so that no case id makes a line of its own."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def shown(value: float, beside: float | None = None) -> str:
    """Four digits are enough for a share, one for milliseconds; more where a value would else read
    like another one that it stands `beside`."""
    for digits in range(1 if abs(value) >= 10 else 4, 13):
        text = _digits(value, digits)
        if beside is None or value == beside or text != _digits(beside, digits):
            break
    return text


def _digits(value: float, digits: int) -> str:
    text = f"{value:.{digits}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
