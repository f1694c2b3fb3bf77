"""An agent of one's own behind WebRTC (Pipecat's SmallWebRTC signalling); docs/adapters/webrtc.md.

A declaration is light: the extra `webrtc` (aiortc) is imported when a session is opened. The key
and what a relay asks for come from the environment at that moment and are kept nowhere.
"""

from __future__ import annotations

import importlib.util
import os
import re
from contextlib import AbstractAsyncContextManager
from typing import Any

from adapters.base import Capabilities, Clock, Session, SessionConfig
from adapters.hosted import Settings
from adapters.own_agent import FULL_DUPLEX, KEY, SERVICE_ERRORS, address, address_settings
from adapters.peer import Peer
from adapters.spec import AdapterSpec, Setting, package_version
from audio.errors import InputError

NAME = "webrtc"
REVISION = "webrtc.1"
"""Raised whenever what is sent or how audio is placed changes: part of a run's fingerprint."""
MODULES = ("aiortc", "aioice", "av")
HOW_TO_GET = 'pip install "aiortc==1.16.0" (the extra webrtc)'
ICE_USER, ICE_PASSWORD = "AGENT_ICE_USER", "AGENT_ICE_PASSWORD"
_ICE_SERVER = re.compile(r"(stun|turn|turns):(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:\d{1,5})?"
                         r"(\?transport=(udp|tcp))?")
WORDS = ("bot-output", "bot-tts-text", "none")

SETTINGS = (
    # The address at which Pipecat's runner takes offers.
    *address_settings("http://127.0.0.1:7860/api/offer", secure="https", plain="http"),
    Setting("ice_servers", "str", "", "STUN and TURN servers, stun:HOST[:PORT] or turn:HOST[:PORT]"
            "[?transport=tcp], with commas between; none: addresses of this machine alone"),
    Setting("data_channel", "bool", True, "whether to offer a data channel, for RTVI messages"),
    Setting("words", "str", "bot-output", "RTVI messages that are the agent's transcript",
            choices=WORDS),
    SERVICE_ERRORS,
    Setting("prompt_key", "str", "", "field of the offer's requestData in which the system prompt "
            "is sent; empty: it is not sent"),
    Setting("trickle", "bool", False, "send our addresses by PATCH after the answer"),
    Setting("jitter_ms", "int", 40, "how much later than it comes a packet is heard, so that ones "
            "that come unevenly leave no holes", 0, 400),
    Setting("bitrate_bps", "int", 64_000, "of user audio, in bits a second (Opus, mono)",
            16_000, 256_000),
    FULL_DUPLEX,
    Setting("open_timeout_s", "float", 10.0, "longest wait for an answer to the offer", 0.1, 120.0),
    Setting("ready_timeout_s", "float", 10.0, "longest wait for the connection", 0.1, 120.0),
    Setting("lost_after_s", "float", 4.0, "an agent that answers nothing for so long is gone",
            1.5, 60.0),
)


def capabilities(settings: Settings) -> Capabilities:
    """What such an agent can do, as far as the settings say."""
    told = bool(settings["data_channel"])
    return Capabilities(
        full_duplex=bool(settings["full_duplex"]),
        persona_prompt=bool(settings["prompt_key"]),
        realtime_only=True,
        # The clock of Opus, both ways: the user's turns are resampled as a whole, so nothing is
        # held back by a filter.
        input_rate_hz=48_000,
        output_rate_hz=48_000,
        # The track goes on in silence after a reply: its end is heard.
        reports_response_done=False,
        reports_interruption=told,
        transcript="stream" if told and settings["words"] != "none" else "none",
    )


def missing() -> str | None:
    """What is not installed, and how to get it."""
    lacking = [name for name in MODULES if importlib.util.find_spec(name) is None]
    return f"{', '.join(lacking)} not installed: {HOW_TO_GET}" if lacking else None


def ice_servers(text: str) -> tuple[str, ...]:
    """The addresses in the setting. Raises `InputError` for one that is none."""
    servers = tuple(filter(None, re.split(r"[\s,]+", text.strip())))
    for server in servers:
        if not _ICE_SERVER.fullmatch(server):
            raise InputError.expected(
                "stun:HOST[:PORT], turn:HOST[:PORT][?transport=tcp] or turns:..., without user",
                got=repr(server[:80]), where=f"--set ice_servers (adapter {NAME})")
    return servers


class WebRtcAdapter:
    """Opens one fresh connection a case."""

    def __init__(self, settings: Settings) -> None:
        """Raises `InputError` for an address that must not be used."""
        self._settings = dict(settings)
        address(self._settings, NAME, secure="https", plain="http")
        self._ice_servers = ice_servers(settings["ice_servers"])
        if not settings["prompt_key"].isprintable() or len(settings["prompt_key"]) > 80:
            raise InputError.expected("a short name", got=repr(settings["prompt_key"][:80]),
                                      where=f"--set prompt_key (adapter {NAME})")

    @property
    def name(self) -> str:
        return NAME

    @property
    def version(self) -> str:
        return f"{package_version()}+{REVISION}+aiortc.{package_version('aiortc')}"

    @property
    def capabilities(self) -> Capabilities:
        return capabilities(self._settings)

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self._settings)

    def session(self, config: SessionConfig, clock: Clock) -> AbstractAsyncContextManager[Session]:
        """A connection for the case; key and relay's password are read from the environment now."""
        from adapters.webrtc_session import Options, open_session

        settings = self._settings
        headers, secrets = KEY.read()
        user, password = (os.environ.get(name) or None for name in (ICE_USER, ICE_PASSWORD))
        relay = tuple(filter(None, (password,)))
        prompt = settings["prompt_key"]
        peer = Peer(
            uri=address(settings, NAME, secure="https", plain="http"), headers=headers,
            secrets=(*secrets, *relay), open_timeout_s=settings["open_timeout_s"],
            ready_timeout_s=settings["ready_timeout_s"])
        return open_session(peer, Options(
            ice_servers=self._ice_servers, ice_user=user, ice_password=password,
            request_data={prompt: config.system_prompt} if prompt else None,
            **{name: settings[name] for name in (
                "data_channel", "words", "service_errors", "trickle", "jitter_ms", "bitrate_bps",
                "lost_after_s")}),
            clock)


WEBRTC = AdapterSpec(
    NAME, "an agent of one's own behind WebRTC (Pipecat's SmallWebRTC signalling)",
    capabilities({s.name: s.default for s in SETTINGS}), WebRtcAdapter, SETTINGS, missing)
