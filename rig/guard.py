"""Refuses to start when another distribution claims one of our import names.

The six top-level names are common words. A foreign `audio` or `probes` package on the path would
be imported half the time and give wrong numbers, so the command line stops instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import metadata

from audio.errors import InputError

OUR_NAMES = ("adapters", "audio", "probes", "rig", "sweeps", "verifiers")
OUR_DISTRIBUTION = "duplexrig"


def check_names(claims: Mapping[str, Sequence[str]] | None = None) -> None:
    """Raise `InputError` when a name is claimed by a distribution that is not ours.

    `claims` maps import names to distributions, as `packages_distributions()` gives them.
    """
    found = metadata.packages_distributions() if claims is None else claims
    for name in OUR_NAMES:
        foreign = sorted(set(found.get(name, ())) - {OUR_DISTRIBUTION})
        if foreign:
            raise InputError(
                f"{name}: expected this import name to be ours alone, got one from the installed "
                f"distribution {', '.join(foreign)}; uninstall it, or install the rig into an "
                "environment of its own")
