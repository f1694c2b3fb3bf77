"""How many sessions of one system may be open together: what its provider states, or what the user
knows of the account, and what that leaves of `--jobs`.

What nobody states is unknown, and then only `--jobs` counts and what the provider refuses
(`rig.pace`).
"""

from __future__ import annotations

from adapters import registry
from adapters.base import Adapter
from adapters.spec import AtATime

OPTION = "--at-a-time"


def ceiling(adapter: Adapter, given: int | None = None) -> AtATime | None:
    """The most sessions that may be open together, `None` where nobody knows.

    `given`, what the user says, goes before what is stated, unless that is fixed. What is stated is
    of one address and of named models, as prices are: another address is another provider.
    """
    spec = registry.spec(adapter.name)
    stated, settings = spec.at_a_time, adapter.settings
    if stated is not None and stated.fixed:
        return stated
    if given is not None:
        return AtATime(given, OPTION)
    if stated is None:
        return None
    here, by_default = spec.address(settings)
    named = not stated.models or settings.get("model") in stated.models
    return stated if here == by_default and named else None


def capped(jobs: int, adapter: Adapter, given: int | None = None) -> tuple[int, str | None]:
    """How many of `jobs` sessions at a time are played, and why fewer, in a line; `None` where
    all of them are."""
    most = ceiling(adapter, given)
    if most is None or jobs <= most.sessions:
        return jobs, None
    line = f"--jobs {jobs}: {most.sessions} at a time ({most.source})"
    if given is None and not most.fixed:
        line += f"; for an account that may have more: {OPTION} {jobs}"
    return most.sessions, line
