"""Refuses to start when another distribution claims one of our import names.

The six top-level names are common words. A foreign `audio` or `probes` package on the path would
be imported half the time and give wrong numbers, so the command line stops instead. Nothing of
ours is imported while looking: a foreign `audio` must be found before it is loaded by mistake.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

OUR_NAMES = ("adapters", "audio", "probes", "rig", "sweeps", "verifiers")
OUR_DISTRIBUTION = "duplexrig"
OUR_FOLDER = Path(__file__).resolve().parent.parent


def name_conflict(claims: Mapping[str, Sequence[str]] | None = None) -> str | None:
    """The one-line message about the first conflict, or None when the six names are ours alone.

    `claims` maps import names to distributions, as `packages_distributions()` gives them; without
    it the installed distributions are asked, and then where each name would be imported from.
    """
    found = metadata.packages_distributions() if claims is None else claims
    for name in OUR_NAMES:
        foreign = sorted(set(found.get(name, ())) - {OUR_DISTRIBUTION})
        if foreign:
            return (f"{name}: expected this import name to be ours alone, got one from the "
                    f"installed distribution {', '.join(foreign)}; uninstall it, or install the "
                    "rig into an environment of its own")
    return None if claims is not None else _place_conflict()


def _place_conflict() -> str | None:
    """A folder or file without metadata can shadow a name too (PYTHONPATH, a script's folder)."""
    for name in OUR_NAMES:
        spec = find_spec(name)
        places = list(spec.submodule_search_locations or ()) if spec is not None else []
        if spec is not None and not places and spec.origin is not None:
            places = [spec.origin]
        if not places:
            return (f"{name}: expected this package beside rig in {OUR_FOLDER}, got none; install "
                    "the rig again")
        if Path(places[0]).resolve() != OUR_FOLDER / name:
            return (f"{name}: expected this package beside rig in {OUR_FOLDER}, got {places[0]}, "
                    "which comes first on the import path; take it off PYTHONPATH or rename it")
    return None


def check_names(claims: Mapping[str, Sequence[str]] | None = None) -> None:
    """Raise `InputError` with `name_conflict`'s message when there is a conflict."""
    conflict = name_conflict(claims)
    if conflict is not None:
        from audio.errors import InputError

        raise InputError(conflict)
