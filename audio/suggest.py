"""What to say of a name that nobody knows: what was meant, and what there is."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from audio.errors import InputError

_SHOWN = 12


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for a name that resembles a known one in any case, else nothing."""
    names = {name.lower(): name for name in sorted(set(known))}
    near = difflib.get_close_matches(given.lower(), names, n=1, cutoff=0.5)
    return f"; did you mean {names[near[0]]!r}?" if near else ""


def nearest(given: str, known: Iterable[str]) -> str:
    """Like `did_you_mean`; where nothing resembles, `; known: ...` with some of the known ones."""
    names = sorted(set(known))
    return did_you_mean(given, names) or f"; known: {_list(names)}"


def unknown_name(kind: str, given: str, known: Iterable[str]) -> InputError:
    """An `InputError` for `given`, with the nearest of `known` and a list of some of them."""
    names = sorted(set(known))
    return InputError(f"{kind}: expected one of {_list(names)}, got {given!r}"
                      f"{did_you_mean(given, names)}")


def _list(names: list[str]) -> str:
    return (", ".join(names[:_SHOWN]) or "none") + (", ..." if len(names) > _SHOWN else "")
