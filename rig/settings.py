"""Settings from the command line: `key=value` pairs, scoring thresholds, VAD settings."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Sequence

from audio.errors import InputError


def default_jobs() -> int:
    """Processes to use when the user names no number: the cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def key_values(pairs: Sequence[str], option: str) -> dict[str, str]:
    """`["a=1", "b=2"]` to a dict; a pair without `=` or a repeated key is an error."""
    out: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InputError.expected("KEY=VALUE", got=repr(pair), where=option)
        if key in out:
            raise InputError(f"{option}: {key} is given twice")
        out[key] = value
    return out


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or nothing when no known name is close."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
