"""StepFun realtime (StepAudio-3 and others), OpenAI's beta dialect; docs/adapters/stepfun.md.

The key comes from the environment when a session is opened and is kept nowhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.base import Capabilities
from adapters.hosted import Hosted, Settings, connection_settings, rate_setting
from adapters.openai_realtime import realtime_path
from adapters.peer import Key
from adapters.spec import Setting

if TYPE_CHECKING:
    from adapters.wire.base import Wire

_SESSION_SETTINGS = (
    "voice", "input_rate_hz", "output_rate_hz", "vad_energy_threshold", "vad_prefix_padding_ms",
    "vad_silence_duration_ms", "max_output_tokens", "interrupt_on_speech", "empty_prompt",
    "strict_session")

SETTINGS = (
    Setting("base_url", "str", "wss://api.stepfun.com/v1",
            "address of the API; /realtime?model=... is added; ws:// to this machine alone"),
    Setting("model", "str", "stepaudio-3-realtime-preview", "model name, as the server knows it"),
    Setting("voice", "str", "soft-spoken-gentleman", "output voice; which exist depends on the "
            "model"),
    rate_setting("input_rate_hz", "rate of the user's audio; unconfirmed"),
    rate_setting("output_rate_hz", "rate of the model's audio; unconfirmed"),
    Setting("vad_energy_threshold", "int", 2_500, "server_vad: energy above which it hears speech; "
            "-1: the server's own", -1, 5_000),
    Setting("vad_prefix_padding_ms", "int", 500, "server_vad: audio kept from before the speech; "
            "-1: the server's own", -1, 10_000),
    Setting("vad_silence_duration_ms", "int", 800, "server_vad: silence that ends a turn; -1: the "
            "server's own", -1, 10_000),
    Setting("max_output_tokens", "int", 0, "bound on one response; 0: the server's own", 0,
            100_000),
    Setting("interrupt_on_speech", "bool", True, "take the server's hearing the user for the end "
            "of what is heard of its reply, under flush"),
    Setting("empty_prompt", "str", "send",
            "level L0: send empty instructions, or omit them and leave the server's defaults",
            choices=("send", "omit")),
    Setting("strict_session", "bool", True,
            "fail when the server reports another session than the one asked for"),
    *connection_settings("session.updated"),
)


def _capabilities(settings: Settings) -> Capabilities:
    return Capabilities(
        # DSB-IFEval, table 19: concurrent audio "Yes", "Server VAD + model-native".
        full_duplex=True,
        persona_prompt=True,
        server_vad=True,
        realtime_only=True,
        input_rate_hz=settings["input_rate_hz"],
        output_rate_hz=settings["output_rate_hz"],
        reports_response_done=True,
        reports_interruption=settings["interrupt_on_speech"],
        transcript="response",
    )


def _wire(settings: Settings, prompt: str) -> Wire:
    from adapters.wire.beta_session import BetaSessionSettings
    from adapters.wire.openai_realtime import RealtimeWire

    return RealtimeWire(
        BetaSessionSettings(**{name: settings[name] for name in _SESSION_SETTINGS}), prompt)


STEPFUN = Hosted(
    name="stepfun", summary="StepFun realtime over a WebSocket (OpenAI's beta dialect)",
    revision="stepfun.1", key=Key(("STEPFUN_API_KEY",)), capabilities=_capabilities,
    settings=SETTINGS, path=realtime_path, wire=_wire,
    rates=("input_rate_hz", "output_rate_hz")).spec()
