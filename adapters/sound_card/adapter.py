"""An agent behind a sound card as a system under test; docs/adapters/sound_card.md."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adapters.base import Capabilities, Clock, Session, SessionConfig
from adapters.own_agent import FULL_DUPLEX
from adapters.sound_card.devices import Device, listed, missing
from adapters.spec import AdapterSpec, AtATime, Setting, package_version
from audio.errors import InfrastructureError, InputError
from audio.timebase import FRAMES_PER_S

if TYPE_CHECKING:
    from adapters.sound_card.bridge import Bridge
    from adapters.sound_card.session import Correction
    from adapters.sound_card.stream import Asked, CardStream, Opener

REVISION = "sound-card.1"
"""Raised whenever what is played or how audio is stamped changes: part of a run's fingerprint."""
MAX_REPORTED_MS = 250
"""A longer round trip must be measured: live detection counts on no more. Ours."""
SLACK_MS = 40
"""Between the moment a sample is in the card and the rig's taking it: bursts of callbacks, turns of
the event loop. Ours."""
REFERENCE_LEVEL = 0.1
REFERENCE_WAIT_S = 1.0
"""How long the chirp on the reference channel may be on its way. Ours."""

SETTINGS = (
    Setting("input", "str", "", "device that hears the agent: name, part of it, or index (rig "
            "devices); empty: the default"),
    Setting("output", "str", "", "device that plays the user to the agent; likewise"),
    Setting("rate_hz", "int", 48_000, "sample rate of both directions", 8_000, 192_000),
    Setting("input_channel", "int", 1, "channel of the input that the agent is on, from 1", 1, 64),
    Setting("output_channel", "int", 1, "channel of the output that the user is played on, from 1",
            1, 64),
    Setting("reference_channel", "int", 0, "channel of the input that hears the rig's own output "
            "over a cable; 0: none. Each session then measures its round trip with a chirp", 0, 64),
    Setting("latency_ms", "float", 40.0, "latency asked of the devices, each way", 1.0, 500.0),
    Setting("block_ms", "float", 10.0, "length of a callback", 1.0, 50.0),
    Setting("lead_ms", "float", 40.0, "how far ahead of the card the user is put", 5.0, 500.0),
    Setting("round_trip_ms", "float", 0.0, "round trip that recorded audio is corrected by, as "
            "measured by rig calibrate-card; 0: what the card reports, uncalibrated", 0.0, 1000.0),
    Setting("calibration", "str", "", "file of rig calibrate-card --out, instead of round_trip_ms"),
    Setting("max_xruns", "int", 0, "xruns of the card that a session may have", 0, 1000),
    Setting("ready_timeout_s", "float", 15.0, "longest wait for a steady stream", 1.0, 120.0),
    FULL_DUPLEX,
    Setting("persona_prompt", "bool", False, "whether the agent has the case's system prompt by "
            "other means; a sound card cannot carry it"),
)

_OPEN: list[str] = []
"""The session that has the card now: a second one would be heard on the first one's recording."""


class SoundCardAdapter:
    """Opens the devices anew for each case."""

    def __init__(self, settings: dict[str, Any], opener: Opener | None = None,
                 devices: Callable[[], tuple[Device, ...]] = listed) -> None:
        """`opener`, `devices`: another way to open cards and to find them, for tests.

        Raises `InputError` for a rate that 20 ms are no whole number of samples of, a channel
        with two uses, and a calibration that does not fit."""
        self._settings = dict(settings)
        self._opener = opener
        self._devices = devices
        if settings["rate_hz"] % FRAMES_PER_S:
            raise InputError.expected(f"a multiple of {FRAMES_PER_S}", got=settings["rate_hz"],
                                      where=_where("rate_hz"))
        if settings["reference_channel"] == settings["input_channel"]:
            raise InputError.expected("another channel than input_channel",
                                      got=settings["reference_channel"],
                                      where=_where("reference_channel"))
        if settings["calibration"]:
            from adapters.sound_card.loopback import read_calibration

            if settings["round_trip_ms"]:
                raise InputError.expected("either calibration or round_trip_ms", got="both",
                                          where=_where("calibration"))
            self._settings["round_trip_ms"] = read_calibration(
                settings["calibration"], settings, where=_where("calibration"))

    @property
    def name(self) -> str:
        return "sound_card"

    @property
    def version(self) -> str:
        return f"{package_version()}+{REVISION}.sounddevice-{package_version('sounddevice')}"

    @property
    def capabilities(self) -> Capabilities:
        s = self._settings
        behind_ms = (1000 / FRAMES_PER_S + s["lead_ms"] + 2 * s["block_ms"] + SLACK_MS
                     + max(s["round_trip_ms"], 0 if s["round_trip_ms"] else MAX_REPORTED_MS))
        return replace(CAPABILITIES, full_duplex=s["full_duplex"],
                       persona_prompt=s["persona_prompt"], input_rate_hz=s["rate_hz"],
                       output_rate_hz=s["rate_hz"], heard_behind_ms=round(behind_ms))

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self._settings)

    def session(self, config: SessionConfig, clock: Clock) -> AbstractAsyncContextManager[Session]:
        return self._open(config, clock)

    @asynccontextmanager
    async def _open(self, config: SessionConfig, clock: Clock) -> AsyncIterator[Session]:
        from adapters.sound_card.session import CardSession
        from adapters.sound_card.stream import opened

        if clock.kind == "virtual":
            raise InfrastructureError("sound_card: a sound card keeps real time; expected --clock "
                                      "real")
        if _OPEN:
            raise InputError.expected("one session at a time on a sound card (--jobs 1)",
                                      got=f"{_OPEN[0]} and {config.case_id}", where="--jobs")
        _OPEN.append(config.case_id)
        try:
            asked, opener = self.asked()
            async with opened(asked, self.columns, self._settings["output_channel"] - 1, clock,
                              self._settings["ready_timeout_s"], opener) as (bridge, stream):
                clean_from_n = bridge.done_n
                correction = await self._correction(bridge, stream, clock)
                yield CardSession(
                    bridge, stream, clock, correction,
                    lead_n=round(self._settings["lead_ms"] * asked.rate_hz / 1000),
                    max_xruns=self._settings["max_xruns"], clean_from_n=clean_from_n)
        finally:
            _OPEN.clear()

    @property
    def columns(self) -> tuple[int, ...]:
        """Channels of the input that are kept, from 0: the agent's, then the reference."""
        s = self._settings
        return (s["input_channel"] - 1,
                *((s["reference_channel"] - 1,) if s["reference_channel"] else ()))

    def asked(self) -> tuple[Asked, Opener]:
        """What is opened, and how. Raises `InputError` for devices and channels that are not there.
        """
        from adapters.sound_card.devices import check_channel, choose
        from adapters.sound_card.stream import Asked, open_portaudio

        s = self._settings
        there = self._devices()
        heard, played = choose(there, s["input"], "input"), choose(there, s["output"], "output")
        for setting in ("input_channel", "reference_channel"):
            check_channel(heard, "input", s[setting], setting)
        check_channel(played, "output", s["output_channel"], "output_channel")
        return Asked(
            heard, played, s["rate_hz"], max(self.columns) + 1, s["output_channel"],
            s["latency_ms"] / 1000,
            max(1, round(s["block_ms"] * s["rate_hz"] / 1000))), self._opener or open_portaudio

    async def _correction(self, bridge: Bridge, stream: CardStream, clock: Clock) -> Correction:
        from adapters.sound_card.card_clock import reported_round_trip_ms
        from adapters.sound_card.round_trip import send_chirp
        from adapters.sound_card.session import Correction

        s = self._settings
        per_ms = s["rate_hz"] / 1000
        if s["reference_channel"]:
            found = await send_chirp(bridge, stream, clock, round(s["lead_ms"] * per_ms),
                                     column=1, level=REFERENCE_LEVEL, wait_s=REFERENCE_WAIT_S)
            if found is None:
                raise InfrastructureError(
                    f"sound card: no chirp on the reference channel ({s['reference_channel']}) "
                    f"within {REFERENCE_WAIT_S:g} s; expected it to hear the rig's own output")
            ms, source = found.at_n / per_ms, "reference_channel"
        elif s["round_trip_ms"]:
            return Correction(round(s["round_trip_ms"] * per_ms), "calibration")
        else:
            ms, source = reported_round_trip_ms(list(bridge.log)), "reported"
        if not 0 <= ms <= MAX_REPORTED_MS:
            raise InfrastructureError(
                f"sound card: a round trip of {ms:.0f} ms ({source}), expected 0 to "
                f"{MAX_REPORTED_MS} ms; lower latency_ms, or measure it: rig calibrate-card")
        return Correction(round(ms * per_ms), source)


def _where(setting: str) -> str:
    return f"--set {setting} (adapter sound_card)"


CAPABILITIES = Capabilities(
    full_duplex=True, persona_prompt=False, realtime_only=True, input_rate_hz=48_000,
    output_rate_hz=48_000, heard_behind_ms=370)

SOUND_CARD = AdapterSpec(
    "sound_card", "any agent behind a sound card: a phone, a kiosk, an app, a robot",
    CAPABILITIES, SoundCardAdapter, SETTINGS, missing,
    AtATime(1, "a sound card carries one conversation", fixed=True))
