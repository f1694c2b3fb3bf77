"""What the adapters of hosted systems have in common: facts, settings, a key that is kept nowhere.

A declaration is light: the protocol and the network library are imported when a session is opened.
The key comes from the environment at that moment.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adapters.base import Capabilities, Clock, Session, SessionConfig
from adapters.peer import Key, Peer, check_base_url
from adapters.spec import AdapterSpec, AtATime, Setting, package_version
from audio.errors import InputError
from audio.timebase import FRAMES_PER_S

if TYPE_CHECKING:
    from adapters.wire.base import Wire

Settings = dict[str, Any]
BYTES_PER_SAMPLE = 3
"""User audio on the way: PCM16 in base64 within JSON has 2.8."""


def connection_settings(gate: str) -> tuple[Setting, ...]:
    """The settings that every connection has; `gate` is the event that makes a session ready."""
    return (
        Setting("open_timeout_s", "float", 10.0, "longest wait for the connection", 0.1, 120.0),
        Setting("ready_timeout_s", "float", 10.0, f"longest wait for {gate}", 0.1, 120.0),
        Setting("keepalive_s", "float", 20.0, "interval of pings; 0: none", 0.0, 300.0),
    )


def rate_setting(name: str, help_text: str) -> Setting:
    """A sample rate, PCM16 mono, in hertz; 24 kHz is what DSB-IFEval, appendix F.4, states."""
    return Setting(name, "int", 24_000, help_text, 8_000, 48_000)


def base_address(settings: Settings, adapter: str) -> str:
    """The setting `base_url`, as `check_base_url` takes it."""
    return check_base_url(settings["base_url"], where=f"--set base_url (adapter {adapter})")


@dataclass(frozen=True, slots=True)
class Hosted:
    """One hosted system: what is fixed about it, and how its sessions are made."""

    name: str
    summary: str
    revision: str
    """Raised whenever what is sent or how events are read changes: part of a run's fingerprint."""
    key: Key
    capabilities: Callable[[Settings], Capabilities]
    settings: tuple[Setting, ...]
    path: Callable[[Settings], str]
    """What is added to the address."""
    wire: Callable[[Settings, str], Wire] | None = None
    """The protocol of one session, from settings and system prompt."""
    wire_of_case: Callable[[Settings, SessionConfig], Wire] | None = None
    """In its place, where a session depends on the case."""
    names: tuple[str, ...] = ("model", "voice")
    """Settings that must be names."""
    rates: tuple[str, ...] = ()
    """Settings that are sample rates."""
    address: Callable[[Settings, str], str] = base_address
    """Where it is, from settings and the adapter's name; raises `InputError` for an address that
    must not be used. Asked when the adapter is built, and for each session."""
    check: Callable[[Settings, str], None] | None = None
    """Raises `InputError` for settings that cannot be, from settings and the adapter's name."""
    at_a_time: AtATime | None = None
    """As of `AdapterSpec`."""
    unverified: str | None = None
    """As of `AdapterSpec`."""
    of_files: Callable[[Settings], str] | None = None
    """What of the files that settings name counts to the version: a hash, or nothing."""

    def spec(self) -> AdapterSpec:
        """The declaration, with capabilities as of the default settings."""
        return AdapterSpec(self.name, self.summary,
                           self.capabilities({s.name: s.default for s in self.settings}),
                           lambda settings: HostedAdapter(self, settings), self.settings,
                           self.key.missing, self.at_a_time, self.unverified)

    def session_wire(self, settings: Settings, config: SessionConfig) -> Wire:
        """The protocol of one session."""
        if self.wire_of_case is not None:
            return self.wire_of_case(settings, config)
        assert self.wire is not None, self.name
        return self.wire(settings, config.system_prompt)


class HostedAdapter:
    """Opens one fresh session a case."""

    def __init__(self, hosted: Hosted, settings: Settings) -> None:
        """Raises `InputError` for an address that the key must not be sent to, an empty name, a
        rate that 20 ms are not a whole number of samples of, or what `check` refuses."""
        self._hosted = hosted
        self._settings = dict(settings)
        hosted.address(self._settings, hosted.name)
        for name in hosted.names:
            if not settings[name] or not settings[name].isprintable():
                raise InputError.expected("a name", got=repr(settings[name][:40]),
                                          where=self._where(name))
        for name in hosted.rates:
            if settings[name] % FRAMES_PER_S:
                raise InputError.expected(f"a multiple of {FRAMES_PER_S}", got=str(settings[name]),
                                          where=self._where(name))
        if hosted.check is not None:
            hosted.check(self._settings, hosted.name)

    def _where(self, setting: str) -> str:
        return f"--set {setting} (adapter {self._hosted.name})"

    @property
    def name(self) -> str:
        return self._hosted.name

    @property
    def version(self) -> str:
        files = self._hosted.of_files
        return (f"{package_version()}+{self._hosted.revision}"
                f"{'' if files is None else files(self._settings)}")

    @property
    def capabilities(self) -> Capabilities:
        return self._hosted.capabilities(self._settings)

    @property
    def settings(self) -> Settings:
        return dict(self._settings)

    def session(self, config: SessionConfig, clock: Clock) -> AbstractAsyncContextManager[Session]:
        """A session with the case's system prompt; the key is read from the environment now."""
        from adapters.websocket import open_session

        headers, secrets = self._hosted.key.read()
        settings = self._settings
        peer = Peer(
            uri=f"{self._hosted.address(settings, self.name)}{self._hosted.path(settings)}",
            headers=headers, secrets=secrets,
            open_timeout_s=settings["open_timeout_s"],
            ready_timeout_s=settings["ready_timeout_s"], keepalive_s=settings["keepalive_s"],
            unsent_bytes=min(64 * 1024, BYTES_PER_SAMPLE * self.capabilities.input_rate_hz))
        return open_session(peer, self._hosted.session_wire(settings, config), clock)
