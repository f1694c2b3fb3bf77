"""What adapters of a user's own agent have in common: its address, its key, what nobody can know.

The agent may need no key and may stand anywhere. A key is sent as a bearer token when the
connection is opened, never over one that others can read, and goes nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from adapters.base import Capabilities, SessionConfig
from adapters.hosted import Hosted, Settings, connection_settings
from adapters.peer import Key
from adapters.spec import Setting
from audio.endpoint_rules import check_base_url, is_loopback
from audio.errors import InputError

if TYPE_CHECKING:
    from adapters.wire.base import Wire

KEY = Key(("AGENT_API_KEY",), required=False)
"""Optional: an agent that wants none gets none."""

FULL_DUPLEX = Setting("full_duplex", "bool", True,
                      "whether the agent hears the user while it speaks; false marks cases that "
                      "need it as architecture_constrained")
"""Nobody but its maker knows it. Ours: an agent that is tested for turn-taking claims it."""

SERVICE_ERRORS = Setting("service_errors", "str", "end",
                         "an error of the agent's services that is not fatal: end the session "
                         "unscored, or log it", choices=("end", "log"))
"""Of agents that speak RTVI."""


def address_settings(default: str, *, secure: str = "wss", plain: str = "ws",
                     ) -> tuple[Setting, ...]:
    """The settings that say where the agent is; `default` is on this machine."""
    return (
        Setting("url", "str", default, f"address of the agent: {secure}:// anywhere, {plain}:// to "
                "this machine"),
        Setting(f"allow_plain_{plain}", "bool", False,
                f"allow {plain}:// to other machines, unencrypted; never with a key"),
    )


def address(settings: Settings, adapter: str, *, secure: str = "wss", plain: str = "ws") -> str:
    """The agent's address, as it was given.

    `secure` anywhere, `plain` to this machine; `plain` elsewhere where `allow_plain_...` is set and
    `AGENT_API_KEY` is not. Raises `InputError` for anything else, and for a user, query or
    fragment: the address is written into files and must hold no secret.
    """
    url, where = str(settings["url"]), f"--set url (adapter {adapter})"
    allowed = bool(settings[f"allow_plain_{plain}"])
    check_base_url(url, where=where, secure=secure, plain=plain, plain_anywhere=True)
    if urlsplit(url).scheme == plain and not is_loopback(urlsplit(url).hostname or ""):
        if not allowed:
            raise InputError.expected(
                f"{secure}://, or {plain}:// to this machine (--set allow_plain_{plain}=true: "
                "elsewhere, too, unencrypted and without a key)", got=repr(url[:80]), where=where)
        if KEY.read()[1]:
            raise InputError.expected(
                f"{secure}:// while {KEY.variables[0]} is set: no key is sent unencrypted to "
                "another machine", got=repr(url[:80]), where=where)
    return url


def own_agent(
    name: str, summary: str, revision: str, *, default_url: str, settings: tuple[Setting, ...],
    capabilities: Callable[[Settings], Capabilities],
    wire: Callable[[Settings, SessionConfig], Wire], gate: str, rates: tuple[str, ...] = (),
    check: Callable[[Settings, str], None] | None = None,
) -> Hosted:
    """An agent that is reached over a WebSocket; `gate` is what makes a session ready."""
    return Hosted(
        name=name, summary=summary, revision=revision, key=KEY, capabilities=capabilities,
        settings=(*address_settings(default_url), *settings, FULL_DUPLEX,
                  *connection_settings(gate)),
        path=lambda _: "", wire_of_case=wire, names=(), rates=rates, address=address,
        check=check)
