"""An agent of one's own behind Pipecat's WebSocket transport; docs/adapters/pipecat.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.base import Capabilities, SessionConfig
from adapters.hosted import Settings
from adapters.own_agent import SERVICE_ERRORS, own_agent
from adapters.spec import Setting
from audio.errors import InputError

if TYPE_CHECKING:
    from adapters.wire.base import Wire

NAME = "pipecat"
_WIRE_SETTINGS = ("input_rate_hz", "output_rate_hz", "rtvi", "rtvi_version", "ready_on",
                  "system_prompt", "prompt_message", "reply_end", "transcript", "service_errors")

SETTINGS = (
    # Pipecat's own defaults: PipelineParams.audio_in_sample_rate, audio_out_sample_rate.
    Setting("input_rate_hz", "int", 16_000, "sample rate of user audio, PCM16 mono", 8_000, 48_000),
    Setting("output_rate_hz", "int", 24_000, "sample rate of the agent's audio, PCM16 mono",
            8_000, 48_000),
    Setting("rtvi", "bool", True, "whether the agent speaks RTVI: client-ready is answered by "
            "bot-ready, and messages tell what it says and when"),
    Setting("rtvi_version", "str", "2.2.0", "protocol version that client-ready gives"),
    Setting("ready_on", "str", "open", "without RTVI: what makes a session ready",
            choices=("open", "first_frame")),
    Setting("system_prompt", "str", "none", "how the agent is given the system prompt",
            choices=("none", "client_message", "client_request", "send_text",
                     "append_to_context")),
    Setting("prompt_message", "str", "system-prompt",
            "type (t) of the client message that holds the system prompt"),
    Setting("reply_end", "str", "bot_stopped", "what ends a reply: bot-stopped-speaking, or a "
            "second of silence", choices=("bot_stopped", "silence")),
    Setting("transcript", "str", "auto", "what tells the words: bot-output (protocol 2) or "
            "bot-tts-text (1), text frames, or nothing",
            choices=("auto", "bot_output", "bot_tts_text", "text_frame", "none")),
    SERVICE_ERRORS,
)


def _capabilities(settings: Settings) -> Capabilities:
    told = bool(settings["rtvi"])
    words = settings["transcript"]
    return Capabilities(
        full_duplex=bool(settings["full_duplex"]),
        persona_prompt=told and settings["system_prompt"] != "none",
        realtime_only=True,
        input_rate_hz=settings["input_rate_hz"],
        output_rate_hz=settings["output_rate_hz"],
        reports_response_done=told and settings["reply_end"] == "bot_stopped",
        reports_interruption=True,
        transcript="stream" if words == "text_frame" or (told and words != "none") else "none",
    )


def _check(settings: Settings, adapter: str) -> None:
    for name in ("rtvi_version", "prompt_message"):
        if not settings[name] or not settings[name].isprintable():
            raise InputError.expected("a name", got=repr(settings[name][:40]),
                                      where=f"--set {name} (adapter {adapter})")
    if settings["system_prompt"] != "none" and not settings["rtvi"]:
        raise InputError.expected("none while rtvi=false: only an RTVI message can bring it",
                                  got=settings["system_prompt"],
                                  where=f"--set system_prompt (adapter {adapter})")


def _wire(settings: Settings, config: SessionConfig) -> Wire:
    from adapters.wire.pipecat import PipecatWire
    from adapters.wire.pipecat_session import PipecatSettings

    return PipecatWire(PipecatSettings(**{name: settings[name] for name in _WIRE_SETTINGS}),
                       config.system_prompt)


PIPECAT = own_agent(
    NAME, "an agent of your own behind Pipecat's WebSocket transport", "pipecat.1",
    # The address at which Pipecat's runner serves its plain WebSocket transport.
    default_url="ws://127.0.0.1:7860/ws-client", settings=SETTINGS, capabilities=_capabilities,
    wire=_wire, gate="bot-ready or, without RTVI, what ready_on says",
    rates=("input_rate_hz", "output_rate_hz"), check=_check).spec()
