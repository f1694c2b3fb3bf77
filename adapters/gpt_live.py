"""OpenAI GPT-Live as a system under test; docs/adapters/gpt_live.md.

The key comes from the environment when a session is opened and is kept nowhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.base import Capabilities
from adapters.hosted import Hosted, Settings, connection_settings
from adapters.openai_realtime import KEY
from adapters.spec import AtATime, Setting

if TYPE_CHECKING:
    from adapters.wire.base import Wire

_SESSION_SETTINGS = ("model", "voice", "backend_model", "transcript_times", "strict_session",
                     "close_timeout_s")

SETTINGS = (
    Setting("base_url", "str", "wss://api.openai.com/v1",
            "address of the API; /live/sessions is added; ws:// to this machine alone"),
    Setting("model", "str", "gpt-live-1", "model name, as the server knows it"),
    Setting("voice", "str", "marin", "output voice"),
    Setting("rate_hz", "str", "24000", "sample rate of both directions, in hertz",
            choices=("16000", "24000")),
    Setting("backend_model", "str", "gpt-5.6-terra",
            "model that the server delegates work to; empty: none, nobody answers delegations"),
    Setting("transcript_times", "str", "output", "place words by the times of the transcript, "
            "counted in the audio received, or by when they arrive",
            choices=("output", "arrival")),
    Setting("strict_session", "bool", True,
            "fail when the server reports another session than the one asked for"),
    # The rig gives a session 10 s to close, and the closing handshake may take 2 of them.
    Setting("close_timeout_s", "float", 7.5, "longest wait for session.closed at the end",
            0.0, 7.5),
    *connection_settings("session.started"),
)


def _capabilities(settings: Settings) -> Capabilities:
    rate_hz = int(settings["rate_hz"])
    return Capabilities(
        full_duplex=True,
        persona_prompt=True,
        realtime_only=True,
        input_rate_hz=rate_hz,
        output_rate_hz=rate_hz,
        # No event begins or ends a response, none reports a barge-in.
        reports_response_done=False,
        reports_interruption=False,
        transcript="stream",
    )


def _wire(settings: Settings, prompt: str) -> Wire:
    from adapters.wire.gpt_live import LiveSettings, LiveWire

    return LiveWire(LiveSettings(rate_hz=int(settings["rate_hz"]), **{
        name: settings[name] for name in _SESSION_SETTINGS}), prompt)


GPT_LIVE = Hosted(
    name="gpt_live", summary="OpenAI GPT-Live over a WebSocket", revision="gpt-live.1",
    key=KEY, capabilities=_capabilities, settings=SETTINGS,
    path=lambda _: "/live/sessions", wire=_wire,
    at_a_time=AtATime(25, "the vendor's documentation: 25 to 500 by tier, each model by itself",
                      ("gpt-live-1", "gpt-live-1.1"))).spec()
