"""Peers on a network: which addresses a key may be sent to, and how it is kept out of everything.

A key comes from the environment, goes into the request that opens a session, and appears nowhere
else: not in settings, logs, error messages, the run folder or the representation of an object.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from adapters.base import AgentEvent, ResponseDone, TextDelta
from audio import endpoint_rules
from audio.endpoint_rules import SECRET_MIN_CHARS, api_key, is_loopback, missing_key

__all__ = ["SECRET_MIN_CHARS", "Key", "Peer", "Redactor", "api_key", "check_base_url",
           "is_loopback", "missing_key"]

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
    unsent_bytes: int = 64 * 1024
    """What this system keeps for the network without making a sender wait: about a second of user
    audio. 24 kHz in JSON need 70 kB/s."""


@dataclass(frozen=True, slots=True)
class Key:
    """Which environment variables hold a system's key, and how it is sent.

    The first variable that is set counts. `required=False`: a system that may want none.
    """

    variables: tuple[str, ...]
    header: str = "Authorization"
    prefix: str = field(default="Bearer ", repr=False)
    required: bool = True

    @property
    def _variable(self) -> str | None:
        return next((v for v in self.variables if missing_key(v) is None), None)

    def missing(self) -> str | None:
        """What to do when it is required and not set, in one line."""
        if self._variable is not None or not self.required:
            return None
        return missing_key(self.variables[0])

    def read(self) -> tuple[dict[str, str], tuple[str, ...]]:
        """The headers that carry it, and the secrets that nothing may show, as of now.

        Raises `InputError`, which never shows it, when it is missing or cannot be a key.
        """
        variable = self._variable
        if variable is None and not self.required:
            return {}, ()
        key = api_key(variable or self.variables[0])
        return {self.header: f"{self.prefix}{key}"}, (key,)


def check_base_url(url: str, *, where: str) -> str:
    """An address that a key may be sent to, without a trailing slash.

    `wss://` anywhere, `ws://` to this machine alone; else as `endpoint_rules.check_base_url`.
    """
    return endpoint_rules.check_base_url(url, where=where, secure="wss", plain="ws")


HELD_CHARS = 4
"""The end of a transcript delta that is so much of a secret waits for what comes next. Ours."""


class Redactor(endpoint_rules.Redactor):
    """Takes secrets out of text and out of events, also where one is spelled over many events."""

    def __init__(self, secrets: tuple[str, ...]) -> None:
        super().__init__(secrets)
        self._held: dict[str | None, str] = {}
        self._told: dict[str | None, str] = {}
        """The last characters that were told of each transcript: too few to be a secret's."""

    def events(self, event: AgentEvent) -> Iterator[AgentEvent]:
        """What may be told of an event, in its place in the stream.

        The end of a transcript that may be the middle of a secret is told with the next piece or
        with the end of the response.
        """
        if isinstance(event, TextDelta) and self._secrets:
            text = self._held.pop(event.response_id, "") + event.text
            told = self._told.get(event.response_id, "")
            if held := min(self._held_n(told + text), len(text)):
                text, self._held[event.response_id] = text[:-held], text[-held:]
            self._told[event.response_id] = (told + text)[1 - HELD_CHARS :]
            if text:
                yield self.event(dataclasses.replace(event, text=text))
            return
        if isinstance(event, ResponseDone) and (rest := self._held.pop(event.response_id, "")):
            yield self.event(TextDelta(event.t_ns, rest, event.response_id))
        yield self.event(event)

    def _held_n(self, text: str) -> int:
        """Length of the longest end of `text` that is part of a secret, and not all of it."""
        found = 0
        for secret in self._secrets:
            n = HELD_CHARS
            while n <= len(text) and text[-n:] in secret:
                n += 1
            if HELD_CHARS < n <= len(secret):
                found = max(found, n - 1)
        return found

    def event(self, event: AgentEvent) -> AgentEvent:
        """The same event without secrets in any of its texts."""
        changes: dict[str, Any] = {}
        for f in dataclasses.fields(event):
            value = getattr(event, f.name)
            clean = self if f.name in _FREE_TEXT else self.exactly
            if isinstance(value, str) and (cleaned := clean(value)) != value:
                changes[f.name] = cleaned
        return dataclasses.replace(event, **changes) if changes else event
