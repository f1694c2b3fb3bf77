"""An agent of one's own behind a plain WebSocket with PCM16; docs/adapters/raw_pcm.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.base import Capabilities, SessionConfig
from adapters.hosted import Settings, rate_setting
from adapters.own_agent import own_agent
from adapters.spec import Setting

if TYPE_CHECKING:
    from adapters.wire.base import Wire

SETTINGS = (
    rate_setting("input_rate_hz", "sample rate of user audio, in hertz, a multiple of 50"),
    rate_setting("output_rate_hz", "sample rate of the agent's audio, in hertz, a multiple of 50"),
    Setting("send_prompt", "bool", True, "whether hello holds the system prompt"),
    Setting("wait_ready", "bool", False, "whether the session begins with the agent's ready"),
    Setting("transcripts", "bool", False, "whether the agent sends transcripts of what it says"),
)


def _capabilities(settings: Settings) -> Capabilities:
    return Capabilities(
        full_duplex=settings["full_duplex"],
        persona_prompt=settings["send_prompt"],
        realtime_only=True,
        input_rate_hz=settings["input_rate_hz"],
        output_rate_hz=settings["output_rate_hz"],
        # Nothing ends a response; `clear` drops what has not been played.
        reports_response_done=False,
        reports_interruption=True,
        transcript="stream" if settings["transcripts"] else "none",
    )


def _wire(settings: Settings, config: SessionConfig) -> Wire:
    from adapters.wire.raw_pcm import RawPcmSettings, RawPcmWire

    return RawPcmWire(RawPcmSettings(
        settings["input_rate_hz"], settings["output_rate_hz"],
        config.system_prompt if settings["send_prompt"] else None, settings["wait_ready"]))


RAW_PCM = own_agent(
    "raw_pcm", "an agent of your own behind a WebSocket with PCM16 and a JSON hello", "raw-pcm.1",
    default_url="ws://127.0.0.1:8765", settings=SETTINGS, capabilities=_capabilities, wire=_wire,
    gate="the agent's ready, where wait_ready is set",
    rates=("input_rate_hz", "output_rate_hz")).spec()
