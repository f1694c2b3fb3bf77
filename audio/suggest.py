"""What to say of a name that nobody knows: what was meant, and what there is."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from audio.errors import InputError

_SHOWN = 12
_ALIKE, _ENDING_ALIKE, _BEGINNING_ALIKE = 0.65, 0.58, 0.5
"""Shares of letters in common that make a name near: any; one that ends as it does, as `NUMBER`
for `ORDER_NUMBR`; one that begins so, as `R1` for `R9` or `openai_realtime` for `openai`. So `nope`
is no `peer` (0.5), and `agent` no `eager` (0.6). Ours."""


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for a name that resembles a known one in any case, else nothing."""
    names = {name.lower(): name for name in sorted(set(known))}
    typed = given.lower()
    near = (difflib.get_close_matches(typed, names, n=1, cutoff=_ALIKE)
            or difflib.get_close_matches(typed, [n for n in names if n[-1:] == typed[-1:]], n=1,
                                         cutoff=_ENDING_ALIKE)
            or difflib.get_close_matches(typed, [n for n in names if n[:1] == typed[:1]], n=1,
                                         cutoff=_BEGINNING_ALIKE))
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
