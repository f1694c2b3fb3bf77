"""A sound card without a device: a thread that calls `Bridge.exchange` as PortAudio's does.

What is played comes back on column 1 after `round_trip_n` samples (the reference), and on column 0
what `agent` makes of it: the same, unless another is given.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from adapters.sound_card.bridge import Bridge
from adapters.sound_card.devices import Device
from adapters.sound_card.stream import Asked
from rig.clock import Stopwatch, pause

DEVICE = Device(0, "fake", "test", 2, 2, 48_000, True, True)


def devices() -> tuple[Device, ...]:
    return (DEVICE, Device(1, "fake two", "test", 2, 0, 48_000),
            Device(2, "other", "test", 0, 1, 48_000))


@dataclass
class Plan:
    """How the card behaves; times in seconds since it was opened."""

    round_trip_n: int = 3_000
    drift_ppm: float = 0.0
    agent: Callable[[np.ndarray, int], np.ndarray] | None = None
    """Samples played since the opening, and an input sample: that block of the agent's channel."""
    stall_at_s: float | None = None
    end_at_s: float | None = None
    burst_n: int = 1
    """Callbacks that come together, so many, once the last of them is due."""
    flags_at: dict[float, int] = field(default_factory=dict)
    shift_at_s: float | None = None
    shift_n: int = 0
    times: bool = True
    """Whether the callback time info holds anything."""
    reported_n: int = 2_500
    """Round trip by the card's own words."""
    dies_n: int = 0
    """So many openings end at once."""
    openings: int = 0

    def open(self, asked: Asked, bridge: Bridge) -> FakeCard:
        self.openings += 1
        return FakeCard(self, asked, bridge, dead=self.openings <= self.dies_n)


class FakeCard:
    def __init__(self, plan: Plan, asked: Asked, bridge: Bridge, dead: bool) -> None:
        self._plan, self._asked, self._bridge = plan, asked, bridge
        self._closed = threading.Event()
        self._ended = dead
        self._played = np.zeros(60 * asked.rate_hz, dtype=np.float32)
        self._thread = threading.Thread(target=self._run, daemon=True)
        if not dead:
            self._thread.start()

    @property
    def active(self) -> bool:
        return not self._ended

    def facts(self) -> dict[str, Any]:
        return {"portaudio": "fake", "rate_hz": self._asked.rate_hz}

    def close(self) -> None:
        self._closed.set()
        if self._thread.ident is not None:
            self._thread.join(5)

    def _run(self) -> None:
        plan, n, rate_hz = self._plan, self._asked.block_n, self._asked.rate_hz
        flags = sorted(plan.flags_at.items())
        watch = Stopwatch()
        done = 0
        while not self._closed.is_set():
            at_s = done / rate_hz
            if plan.end_at_s is not None and at_s >= plan.end_at_s:
                self._ended = True
                return
            if plan.stall_at_s is not None and at_s >= plan.stall_at_s:
                self._closed.wait()
                return
            together_n = plan.burst_n * n
            due_s = (done // together_n + 1) * together_n / rate_hz * (1 + plan.drift_ppm / 1e6)
            pause(max(0.0, due_s - watch.elapsed_s))
            flag = flags.pop(0)[1] if flags and at_s >= flags[0][0] else 0
            indata = np.zeros((n, self._asked.input_channels), dtype=np.float32)
            indata[:, 0] = (plan.agent or self._back)(self._played[:done], done)[:n]
            if indata.shape[1] > 1:
                indata[:, 1] = self._back(self._played[:done], done)[:n]
            outdata = np.full((n, self._asked.output_channels), 9.0, dtype=np.float32)
            card_s = 1e6 + due_s if plan.times else 0.0
            self._bridge.exchange(indata, outdata, n, card_s - 0.01 if plan.times else 0.0,
                                  card_s - 0.01 + plan.reported_n / rate_hz if plan.times else 0.0,
                                  card_s, flag)
            self._played[done:done + n] = outdata[:, -1]
            done += n

    def _back(self, played: np.ndarray, done: int) -> np.ndarray:
        shifted = (self._plan.shift_at_s is not None
                   and done / self._asked.rate_hz >= self._plan.shift_at_s)
        return delayed(played, done, self._plan.round_trip_n + self._plan.shift_n * shifted,
                       self._asked.block_n)


def delayed(played: np.ndarray, done: int, by_n: int, n: int) -> np.ndarray:
    """Block `[done, done + n)` of what was played, `by_n` samples later."""
    out = np.zeros(n, dtype=np.float32)
    first = done - by_n
    part = played[max(0, first): max(0, first + n)]
    out[n - len(part) if first < 0 else 0:][: len(part)] = part
    return out
