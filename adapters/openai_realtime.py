"""OpenAI Realtime (GA) as a system under test; docs/adapters/openai_realtime.md.

The key comes from the environment when a session is opened and is kept nowhere. A declaration is
light: the protocol and the network library are imported when the adapter is built or used.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from urllib.parse import quote

from adapters.base import Capabilities, Clock, Session, SessionConfig
from adapters.peer import Peer, api_key, check_base_url, missing_key
from adapters.spec import AdapterSpec, Setting
from audio.errors import InputError

KEY_VARIABLE = "OPENAI_API_KEY"
REVISION = "openai-realtime.1"
"""Raised whenever what is sent or how events are read changes: part of the fingerprint of a run."""

_NAME = "openai_realtime"
_SESSION_SETTINGS = (
    "voice", "turn_detection", "vad_threshold", "vad_prefix_padding_ms", "vad_silence_duration_ms",
    "vad_eagerness", "create_response", "interrupt_response", "noise_reduction",
    "input_transcription_model", "max_output_tokens", "empty_prompt", "truncate_on_barge_in",
    "strict_session")

SETTINGS = (
    Setting("base_url", "str", "wss://api.openai.com/v1",
            "address of the API; /realtime?model=... is added; ws:// to this machine alone"),
    Setting("model", "str", "gpt-realtime-2.1", "model name, as the server knows it"),
    Setting("voice", "str", "alloy", "output voice"),
    Setting("turn_detection", "str", "server_vad", "who ends the user's turn, and how",
            choices=("server_vad", "semantic_vad")),
    Setting("vad_threshold", "float", 0.5, "server_vad: activation threshold", 0.0, 1.0),
    Setting("vad_prefix_padding_ms", "int", 300, "server_vad: audio kept from before the speech",
            0, 10_000),
    Setting("vad_silence_duration_ms", "int", 800, "server_vad: silence that ends a turn",
            0, 10_000),
    Setting("vad_eagerness", "str", "auto", "semantic_vad: how soon it replies",
            choices=("low", "medium", "high", "auto")),
    Setting("create_response", "bool", True, "the server replies by itself when a turn ends"),
    Setting("interrupt_response", "bool", True,
            "the server breaks off its reply when the user begins to speak"),
    Setting("noise_reduction", "str", "off", "filter on the user's audio, in the server",
            choices=("off", "near_field", "far_field")),
    Setting("input_transcription_model", "str", "",
            "model that transcribes the user, for the log alone; empty: none"),
    Setting("max_output_tokens", "int", 0, "bound on one response; 0: the server's own", 0, 4096),
    Setting("empty_prompt", "str", "send",
            "level L0: send empty instructions, or omit them and leave the server's defaults",
            choices=("send", "omit")),
    Setting("truncate_on_barge_in", "bool", False,
            "tell the server at a barge-in how much of its reply was heard, as a client would"),
    Setting("strict_session", "bool", True,
            "fail when the server reports another session than the one asked for"),
    Setting("open_timeout_s", "float", 10.0, "longest wait for the connection", 0.1, 120.0),
    Setting("ready_timeout_s", "float", 10.0, "longest wait for session.updated", 0.1, 120.0),
    Setting("keepalive_s", "float", 20.0, "interval of pings; 0: none", 0.0, 300.0),
)

CAPABILITIES = Capabilities(
    # The server's VAD decides when it may speak: it does not talk and listen at once (seed 002,
    # appendix C.6: "VAD-gated").
    full_duplex=False,
    persona_prompt=True,
    server_vad=True,
    realtime_only=True,
    reports_response_done=True,
    reports_interruption=True,
    transcript="response",
)


class OpenAIRealtimeAdapter:
    """Opens one fresh session a case."""

    def __init__(self, settings: dict[str, Any]) -> None:
        """Raises `InputError` for an address that the key must not be sent to, or an empty name."""
        self._settings = dict(settings)
        self._base_url = check_base_url(settings["base_url"],
                                        where=f"--set base_url (adapter {_NAME})")
        for name in ("model", "voice"):
            if not settings[name] or not settings[name].isprintable():
                raise InputError.expected("a name", got=repr(settings[name][:40]),
                                          where=f"--set {name} (adapter {_NAME})")

    @property
    def name(self) -> str:
        return _NAME

    @property
    def version(self) -> str:
        return f"{_package_version()}+{REVISION}"

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self._settings)

    def session(self, config: SessionConfig, clock: Clock) -> AbstractAsyncContextManager[Session]:
        """A session with the case's system prompt; the key is read from the environment now."""
        from adapters.websocket import open_session
        from adapters.wire.openai_realtime import RealtimeWire
        from adapters.wire.openai_session import SessionSettings

        key = api_key(KEY_VARIABLE)
        settings = self._settings
        peer = Peer(
            uri=f"{self._base_url}/realtime?model={quote(settings['model'], safe='')}",
            headers={"Authorization": f"Bearer {key}"}, secrets=(key,),
            open_timeout_s=settings["open_timeout_s"],
            ready_timeout_s=settings["ready_timeout_s"], keepalive_s=settings["keepalive_s"])
        asked = SessionSettings(**{name: settings[name] for name in _SESSION_SETTINGS})
        return open_session(peer, RealtimeWire(asked, config.system_prompt), clock)


def _package_version() -> str:
    try:
        return version("duplexrig")
    except PackageNotFoundError:
        return "unknown"


OPENAI_REALTIME = AdapterSpec(
    _NAME, "OpenAI Realtime over a WebSocket, or a server that speaks the same protocol",
    CAPABILITIES, OpenAIRealtimeAdapter, SETTINGS, lambda: missing_key(KEY_VARIABLE))
