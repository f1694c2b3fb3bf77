"""Gemini Live as a system under test; docs/adapters/gemini_live.md.

The key comes from the environment when a session is opened and is kept nowhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.base import Capabilities
from adapters.hosted import Hosted, Settings, connection_settings, rate_setting
from adapters.peer import Key
from adapters.spec import Setting

if TYPE_CHECKING:
    from adapters.wire.base import Wire

KEY = Key(("GOOGLE_API_KEY", "GEMINI_API_KEY"), header="x-goog-api-key", prefix="")
OUTPUT_RATE_HZ = 24_000

_SESSION_SETTINGS = (
    "model", "voice", "input_rate_hz", "vad_start_sensitivity", "vad_end_sensitivity",
    "vad_prefix_padding_ms", "vad_silence_duration_ms", "activity_handling",
    "output_transcription", "input_transcription", "context_compression")
_SENSITIVITIES = ("server", "low", "high")

SETTINGS = (
    Setting("base_url", "str", "wss://generativelanguage.googleapis.com",
            "address of the API; /ws/... is added; ws:// to this machine alone"),
    Setting("api_version", "str", "v1", "version of the API", choices=("v1", "v1beta", "v1alpha")),
    Setting("model", "str", "gemini-3.8-live", "model name, as the server knows it"),
    Setting("voice", "str", "", "output voice; empty: the server's own"),
    rate_setting("input_rate_hz", "rate of the user's audio, declared with it"),
    Setting("vad_start_sensitivity", "str", "server", "how readily the server hears speech begin",
            choices=_SENSITIVITIES),
    Setting("vad_end_sensitivity", "str", "server", "how readily the server hears speech end",
            choices=_SENSITIVITIES),
    Setting("vad_prefix_padding_ms", "int", -1,
            "speech that must be heard before it counts; -1: the server's own", -1, 10_000),
    Setting("vad_silence_duration_ms", "int", -1,
            "silence that ends a turn; -1: the server's own", -1, 10_000),
    Setting("activity_handling", "str", "server",
            "whether the user's speech breaks off a reply, in the server",
            choices=("server", "interrupts", "no_interruption")),
    Setting("output_transcription", "bool", True, "have the server transcribe the model"),
    Setting("input_transcription", "bool", False,
            "have the server transcribe the user, for the log alone"),
    Setting("context_compression", "bool", False,
            "let the server forget the beginning of long sessions"),
    *connection_settings("setupComplete"),
)


def _capabilities(settings: Settings) -> Capabilities:
    return Capabilities(
        # DSB-IFEval, table 19: concurrent audio "Yes", "Model-native (server VAD)".
        full_duplex=True,
        persona_prompt=True,
        server_vad=True,
        realtime_only=True,
        input_rate_hz=settings["input_rate_hz"],
        output_rate_hz=OUTPUT_RATE_HZ,
        reports_response_done=True,
        reports_interruption=settings["activity_handling"] != "no_interruption",
        transcript="response" if settings["output_transcription"] else "none",
    )


def _path(settings: Settings) -> str:
    return (f"/ws/google.ai.generativelanguage.{settings['api_version']}"
            ".GenerativeService.BidiGenerateContent")


def _wire(settings: Settings, prompt: str) -> Wire:
    from adapters.wire.gemini_live import GeminiWire
    from adapters.wire.gemini_setup import GeminiSettings

    return GeminiWire(GeminiSettings(**{
        name: settings[name] for name in _SESSION_SETTINGS}), prompt)


GEMINI_LIVE = Hosted(
    name="gemini_live", summary="Google Gemini Live over a WebSocket", revision="gemini-live.1",
    key=KEY, capabilities=_capabilities, settings=SETTINGS, path=_path, wire=_wire,
    names=("model",), rates=("input_rate_hz",)).spec()
