"""The adapter of the known peer: the real path, with somebody at its end who knows the truth."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

from adapters.base import Capabilities, Clock, Session, SessionConfig
from adapters.known_peer.protocol import AGENT_KINDS, VERSION, Behaviour
from adapters.peer import Peer, check_base_url
from adapters.spec import AdapterSpec, Setting, package_version
from audio.errors import InputError

_DEFAULT = Behaviour()


def _number(name: str, help_text: str) -> Setting:
    low, high = Behaviour.bounds(name)
    return Setting(name, "float", getattr(_DEFAULT, name), help_text, low, high)


SETTINGS = (
    Setting("url", "str", "", "address that `python -m adapters.known_peer` printed, ws:// to this "
            "machine"),
    Setting("agent", "str", _DEFAULT.agent, "what it does", choices=AGENT_KINDS),
    _number("latency_s", "from the user's last sound to its first, in seconds"),
    _number("reply_s", "length of a reply, in seconds"),
    _number("yield_s", "hold: from a barge-in to its last sound, in seconds"),
    _number("backchannel_s", "backchannel: its length, in seconds"),
    _number("delay_ms", "added to everything it sends, unknown to its own log"),
    Setting("report_done", "bool", True, "whether it counts as reporting the end of a response; if "
            "not, the rig listens for it"),
)

CAPABILITIES = Capabilities(
    full_duplex=True, persona_prompt=False, realtime_only=True, reports_response_done=True,
    transcript="response")


class KnownPeerAdapter:
    """Opens one session of the peer for each case; the prompt is not read."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = dict(settings)
        where = "--set url (adapter peer)"
        if not settings["url"]:
            raise InputError.expected("the address of a running peer (start one with: python -m "
                                      "adapters.known_peer)", got="none", where=where)
        self._url = check_base_url(settings["url"], where=where)
        self._behaviour = Behaviour(**{name: settings[name] for name in _DEFAULT.as_dict()})

    @property
    def name(self) -> str:
        return "peer"

    @property
    def version(self) -> str:
        return f"{package_version()}+known-peer.{VERSION}"

    @property
    def capabilities(self) -> Capabilities:
        return replace(CAPABILITIES, reports_response_done=self._settings["report_done"])

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self._settings)

    def session(self, config: SessionConfig, clock: Clock) -> AbstractAsyncContextManager[Session]:  # noqa: ARG002
        from adapters.known_peer.wire import KnownPeerWire
        from adapters.websocket import open_session

        return open_session(Peer(self._url, keepalive_s=0.0), KnownPeerWire(self._behaviour), clock)


PEER = AdapterSpec(
    "peer", "a peer of known behaviour in another process of this machine: for `rig selftest`",
    CAPABILITIES, KnownPeerAdapter, SETTINGS)
