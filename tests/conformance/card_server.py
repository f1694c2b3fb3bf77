"""A sound card with an agent behind it, for sessions that are opened by name as with a server.

PortAudio's Python package is replaced as a whole, so that all of the adapter runs, and nothing of
the system's sound need be there. There is a device for each scenario, with its name; its thread
(tests/tools/fake_card.py) calls back as PortAudio's does. What the agent hears and says is counted
in samples of the card.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_card import FakeCard
from fake_card import Plan as Card
from faults import REPLIES_S, PeerLog
from live_server import reply_pcm

from adapters.simulated import voice
from adapters.sound_card import adapter, devices
from audio.timebase import n_to_ns

RATE_HZ = 48_000
LOUD = 300 / 32768
"""Mean size of samples from which on a block is speech, as of the other servers."""


@dataclass(frozen=True)
class CardScenario:
    """What the agent says, and how the card behaves."""

    replies_s: tuple[float, ...] = REPLIES_S
    think_s: float = 0.05
    respond: bool = True
    speak: Callable[..., bytes] = reply_pcm
    card: Callable[[], Card] = Card
    """Made afresh for each session."""
    ends_at: tuple[str, float] | None = None
    """The card ends so long after `reply` or `replied`, the beginning or end of the first one."""
    stalls: bool = False
    """It stalls then, instead."""
    cannot_open: tuple[int, str] | None = None
    """PortAudio's code and words."""
    broken_sample: float | None = None
    """What the first sample of the first reply is instead."""


class CardAgent:
    """Hears what was played a round trip ago, and replies to each stretch of speech."""

    def __init__(self, scenario: CardScenario, card: Card) -> None:
        self._scenario, self._card = scenario, card
        self._loud_n = self._quiet_n = self._heard_n = 0
        self._speaking = False
        self._said: list[tuple[int, np.ndarray]] = []
        self._zero_n: int | None = None

    def __call__(self, played: np.ndarray, done: int) -> np.ndarray:
        """What comes in from card sample `done` on; `played` is what went out before it."""
        heard_n = max(0, done - self._card.round_trip_n)
        block, self._heard_n = played[self._heard_n:heard_n], heard_n
        if len(block):
            self._hear(block, done)
        return self._says(done)

    def _hear(self, block: np.ndarray, done: int) -> None:
        if self._zero_n is None and np.any(block):
            self._zero_n = done - len(block) + int(np.flatnonzero(block)[0])
        loud = bool(np.abs(block).mean() > LOUD)
        self._loud_n = self._loud_n + len(block) if loud else 0
        self._quiet_n = 0 if loud else self._quiet_n + len(block)
        if not self._speaking and self._loud_n >= 0.06 * RATE_HZ:
            self._speaking = True
        elif self._speaking and self._quiet_n >= 0.2 * RATE_HZ:
            self._speaking = False
            if self._scenario.respond:
                self._reply(done)

    def _reply(self, done: int) -> None:
        s, number = self._scenario, len(self._said) + 1
        seconds = s.replies_s[min(number, len(s.replies_s)) - 1]
        pcm = np.frombuffer(said(s.speak, number, seconds), "<i2").astype(np.float32) / 32768
        start_n = done + round(s.think_s * RATE_HZ)
        if number == 1 and s.broken_sample is not None:
            pcm = np.append(np.float32(s.broken_sample), pcm[1:])
        self._said.append((start_n, pcm))
        if number == 1 and s.ends_at is not None:
            moment, later_s = s.ends_at
            at_n = start_n + (len(pcm) if moment == "replied" else 0)
            at_s = at_n / RATE_HZ + later_s
            if s.stalls:
                self._card.stall_at_s = at_s
            else:
                self._card.end_at_s = at_s

    def _says(self, from_n: int, n: int = RATE_HZ // 10) -> np.ndarray:
        out = np.zeros(n, dtype=np.float32)
        for start_n, pcm in self._said:
            a, b = max(from_n, start_n), min(from_n + n, start_n + len(pcm))
            if a < b:
                out[a - from_n:b - from_n] = pcm[a - start_n:b - start_n]
        return out

    @property
    def log(self) -> PeerLog:
        """When each reply began, by the card, from the first sample of the user that came in on."""
        return PeerLog(onsets_ns=[n_to_ns(at + int(np.flatnonzero(pcm)[0]) - (self._zero_n or 0),
                                          RATE_HZ)
                                  for at, pcm in self._said])


@functools.cache
def said(speak: Callable[..., bytes], number: int, seconds: float) -> bytes:
    """A reply. Once a process: resampling inside a callback would delay the card."""
    return speak(number, seconds, RATE_HZ)


class PortAudioError(Exception):
    """As sounddevice's: words and a code."""

    def __str__(self) -> str:
        words, code = self.args
        return f"{words} [PaErrorCode {code}]"


class _Callback:
    """Takes what a card exchanges, and calls back as sounddevice does."""

    def __init__(self, callback: Callable[..., None]) -> None:
        self._callback = callback

    def exchange(self, indata: np.ndarray, outdata: np.ndarray, frames: int, adc_s: float,
                 dac_s: float, current_s: float, flags: int) -> None:
        status = [bool(flags & 1 << bit) for bit in range(4)]
        self._callback(
            indata, outdata, frames,
            SimpleNamespace(inputBufferAdcTime=adc_s, outputBufferDacTime=dac_s,
                            currentTime=current_s),
            _Status(*status) if any(status) else None)


@dataclass(frozen=True)
class _Status:
    input_underflow: bool
    input_overflow: bool
    output_underflow: bool
    output_overflow: bool


@dataclass
class CardServer:
    """Every scenario is a device."""

    scenarios: dict[str, CardScenario]
    agents: dict[str, CardAgent] = field(default_factory=dict)
    openings: dict[str, int] = field(default_factory=dict)

    def url_of(self, name: str) -> str:
        return name

    async def met(self, name: str) -> CardAgent | None:
        return self.agents.get(name)

    def peer_log(self, name: str) -> PeerLog | None:
        return self.agents[name].log if name in self.agents else None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[CardServer]:
        """With PortAudio replaced, and sessions side by side allowed: each has a card of its own.
        """
        class Unguarded(list[str]):
            def __bool__(self) -> bool:
                return False

        voice.prepare()
        for scenario in self.scenarios.values():
            for number, seconds in enumerate(scenario.replies_s, 1):
                said(scenario.speak, number, seconds)
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "sounddevice", self._sounddevice())
            patch.setattr(devices.ctypes.util, "find_library", lambda name: name)
            patch.setattr(adapter, "_OPEN", Unguarded())
            devices.missing.cache_clear()
            try:
                yield self
            finally:
                devices.missing.cache_clear()

    def _sounddevice(self) -> ModuleType:
        module: Any = ModuleType("sounddevice")
        module.__spec__ = ModuleSpec("sounddevice", None)
        module.__version__ = "fake"
        module.PortAudioError = PortAudioError
        module.default = SimpleNamespace(device=(0, 0))
        module.get_portaudio_version = lambda: (0, "fake")
        module.query_hostapis = lambda *_: [{"name": "test"}]
        module.query_devices = lambda: [
            {"index": k, "name": name, "hostapi": 0, "max_input_channels": 2,
             "max_output_channels": 2, "default_samplerate": RATE_HZ}
            for k, name in enumerate(self.scenarios)]
        module.Stream = functools.partial(_Stream, self)
        return module

    def opened(self, name: str) -> tuple[Card, bool]:
        """The card of another session, and whether it is dead."""
        scenario = self.scenarios[name]
        card = scenario.card()
        if scenario.cannot_open is not None:
            code, words = scenario.cannot_open
            raise PortAudioError(words, code)
        self.openings[name] = self.openings.get(name, 0) + 1
        self.agents[name] = CardAgent(scenario, card)
        card.agent = self.agents[name]
        return card, self.openings[name] <= card.dies_n


class _Stream:
    """`sounddevice.Stream`, as far as the adapter asks for it."""

    def __init__(self, server: CardServer, *, samplerate: int, blocksize: int,
                 device: tuple[int, int], channels: tuple[int, int], callback: Callable[..., None],
                 latency: float, **_: Any) -> None:
        self._card, self._dead = server.opened(list(server.scenarios)[device[0]])
        self._asked: Any = SimpleNamespace(rate_hz=samplerate, block_n=blocksize,
                                           input_channels=channels[0], output_channels=channels[1])
        self._bridge: Any = _Callback(callback)
        self.latency = (latency, latency)
        self._stream: FakeCard | None = None

    def start(self) -> None:
        self._stream = FakeCard(self._card, self._asked, self._bridge, self._dead)

    @property
    def active(self) -> bool:
        return self._stream is not None and self._stream.active

    def abort(self, ignore_errors: bool) -> None:
        if self._stream is not None:
            self._stream.close()

    def close(self, ignore_errors: bool) -> None:
        """Nothing that `abort` has not done."""
