"""OpenAI Realtime (GA) as a system under test; docs/adapters/openai_realtime.md.

The key comes from the environment when a session is opened and is kept nowhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from adapters.base import Capabilities
from adapters.hosted import Hosted, Settings, connection_settings
from adapters.peer import Key
from adapters.spec import Setting

if TYPE_CHECKING:
    from adapters.wire.base import Wire

KEY = Key(("OPENAI_API_KEY",))
REVISION = "openai-realtime.2"
"""Raised whenever what is sent or how events are read changes: part of the fingerprint of a run."""

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
    *connection_settings("session.updated"),
)

CAPABILITIES = Capabilities(
    # The server's VAD decides when it may speak: it does not talk and listen at once (DSB-IFEval,
    # appendix C.6: "VAD-gated").
    full_duplex=False,
    persona_prompt=True,
    server_vad=True,
    realtime_only=True,
    reports_response_done=True,
    reports_interruption=True,
    transcript="response",
)


def realtime_path(settings: Settings) -> str:
    """Where sessions are opened: the model is named in the query."""
    return f"/realtime?model={quote(settings['model'], safe='')}"


def _wire(settings: Settings, prompt: str) -> Wire:
    from adapters.wire.openai_realtime import RealtimeWire
    from adapters.wire.openai_session import SessionSettings

    return RealtimeWire(
        SessionSettings(**{name: settings[name] for name in _SESSION_SETTINGS}), prompt)


OPENAI_REALTIME = Hosted(
    name="openai_realtime",
    summary="OpenAI Realtime over a WebSocket, or a server that speaks the same protocol",
    revision=REVISION, key=KEY, capabilities=lambda _: CAPABILITIES,
    settings=SETTINGS, path=realtime_path, wire=_wire).spec()
