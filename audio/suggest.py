"""The one message for a name that nobody knows: what was meant, and what there is."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from audio.errors import InputError

_SHOWN = 12


def unknown_name(kind: str, given: str, known: Iterable[str]) -> InputError:
    """An `InputError` for `given`, with the nearest of `known` and a list of some of them."""
    names = sorted(known)
    near = difflib.get_close_matches(given, names, n=1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    listed = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    return InputError(f"{kind}: expected one of {listed}, got {given!r}{meant}")
