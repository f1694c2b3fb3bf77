"""Peers on a network: which addresses a key may be sent to, and how it is kept out of everything.

A key comes from the environment, goes into the request that opens a session, and appears nowhere
else: not in settings, logs, error messages, the run folder or the representation of an object.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from adapters.base import AgentEvent
from audio.errors import InputError

_KEY_LIKE = re.compile(
    r"\b(?:sk|ek|pk)[-_][A-Za-z0-9_*.\-]{6,}|(?i:\bbearer\s+)\S+|(?<=://)[^\s/@]+(?=@)")
"""Keys by their usual prefixes, authorization headers, user and password in an address."""
SECRET_MIN_CHARS = 16
"""A shorter key is a placeholder for a server that wants none ("none", "test"): taking it out would
take words out of transcripts. Ours: keys of hosted systems have 39 characters and more."""
_FREE_TEXT = ("name", "detail", "reason", "status")
"""Fields of events that hold the peer's own wording; ids and transcripts are searched for the given
secrets alone."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Where to connect and how. `secrets` are taken out of everything that is logged or raised."""

    uri: str
    headers: Mapping[str, str] = field(repr=False, default_factory=dict)
    secrets: tuple[str, ...] = field(repr=False, default=())
    open_timeout_s: float = 10.0
    ready_timeout_s: float = 10.0
    keepalive_s: float = 20.0
    """Interval of pings, and how long a pong may take; 0 sends none."""


def check_base_url(url: str, *, where: str) -> str:
    """An address that a key may be sent to, without a trailing slash.

    `wss://` anywhere, `ws://` to this machine alone. Raises `InputError` for anything else, and for
    a user, query or fragment: the address is written into the run folder and must hold no secret.
    """
    expected = "wss://HOST[:PORT][/PATH], or ws:// to this machine (localhost, 127.0.0.1, [::1])"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InputError.expected(expected, got="an address that cannot be read",
                                  where=where) from None
    if "@" in parts.netloc or "?" in url or "#" in url:
        raise InputError.expected(f"{expected}, without user, query or fragment",
                                  got="one of these", where=where)
    plain = parts.scheme == "ws" and host is not None and is_loopback(host)
    if not host or port == 0 or not (parts.scheme == "wss" or plain) or not url.isprintable() \
            or " " in url:
        raise InputError.expected(expected, got=repr(url[:80]), where=where)
    return url.rstrip("/")


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine, without asking any name server."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Redactor:
    """Takes secrets out of text: the given ones exactly, and whatever looks like a key."""

    def __init__(self, secrets: tuple[str, ...]) -> None:
        self._secrets = tuple(s for s in secrets if len(s) >= SECRET_MIN_CHARS)

    def __call__(self, text: str) -> str:
        return _KEY_LIKE.sub("[redacted]", self.exactly(text))

    def exactly(self, text: str) -> str:
        """The given secrets alone, so that words of a transcript stay as they are."""
        for secret in self._secrets:
            text = text.replace(secret, "[redacted]")
        return text

    def event(self, event: AgentEvent) -> AgentEvent:
        """The same event without secrets in any of its texts."""
        changes: dict[str, Any] = {}
        for f in dataclasses.fields(event):
            value = getattr(event, f.name)
            clean = self if f.name in _FREE_TEXT else self.exactly
            if isinstance(value, str) and (cleaned := clean(value)) != value:
                changes[f.name] = cleaned
        return dataclasses.replace(event, **changes) if changes else event


def api_key(variable: str) -> str:
    """The key in an environment variable.

    Raises `InputError`, which never shows it, when it is missing or cannot be a key.
    """
    key = os.environ.get(variable, "").strip()
    if not key:
        raise InputError(f"{variable}: expected a key in the environment, got none")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise InputError(f"{variable}: expected a key of printable ASCII without spaces, got "
                         "something else")
    return key


def missing_key(variable: str) -> str | None:
    """What to do about a key that is not set, in one line; `None` when it is."""
    if os.environ.get(variable, "").strip():
        return None
    return (f"the environment variable {variable} is not set; export it (it is read from there and "
            "nowhere else)")
