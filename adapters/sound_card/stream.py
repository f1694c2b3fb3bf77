"""Opens the card: one full-duplex PortAudio stream whose callback is `Bridge.exchange`.

A stream counts as open once its callbacks come evenly; software devices (PulseAudio) stumble for up
to two seconds before that, and may end the stream at once.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

from adapters.base import Clock
from adapters.sound_card.bridge import XRUN, Bridge, Callback
from adapters.sound_card.devices import Device, portaudio
from audio.errors import InfrastructureError
from audio.timebase import NS_PER_MS, NS_PER_S, s_to_ns

STEADY_S = 0.5
"""Callbacks must come evenly for so long before the card is ready. Ours."""
MAX_GAP_S = 0.1
"""Longest gap between two callbacks of a steady stream. Ours: PulseAudio hands over bursts of some
20 ms; blocks of the longest setting are 50 ms."""
POLL_NS = 5 * NS_PER_MS
OPENINGS = 3
"""A stream that ends while it starts is opened again. Ours: seen with PulseAudio at first use."""
_HOPELESS = frozenset({-9998, -9997, -9996, -9994})
"""PortAudio: invalid channel count, sample rate, device; format not supported."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the stream is opened with; channels are those opened, from the first on."""

    input: Device
    output: Device
    rate_hz: int
    input_channels: int
    output_channels: int
    latency_s: float
    block_n: int


class CardStream(Protocol):
    """A running stream."""

    @property
    def active(self) -> bool: ...

    def facts(self) -> dict[str, Any]:
        """What goes into the log about it."""
        ...

    def close(self) -> None: ...


Opener = Callable[[Asked, Bridge], CardStream]


class _PortAudioStream:
    def __init__(self, asked: Asked, bridge: Bridge) -> None:
        sd = portaudio()
        self._error: type[Exception] = sd.PortAudioError

        def callback(indata: Any, outdata: Any, frames: int, time: Any, status: Any) -> None:
            flags = 0
            if status:
                flags = (status.input_underflow | status.input_overflow << 1
                         | status.output_underflow << 2 | status.output_overflow << 3)
            bridge.exchange(indata, outdata, frames, time.inputBufferAdcTime,
                            time.outputBufferDacTime, time.currentTime, flags)

        self._stream = sd.Stream(
            samplerate=asked.rate_hz, blocksize=asked.block_n,
            device=(asked.input.index, asked.output.index),
            channels=(asked.input_channels, asked.output_channels), dtype="float32",
            latency=asked.latency_s, clip_off=False, dither_off=True, callback=callback)
        try:
            self._stream.start()
        except self._error:
            self._stream.close(ignore_errors=True)
            raise
        self._facts = {
            "portaudio": sd.get_portaudio_version()[1], "sounddevice": sd.__version__,
            "input": f"{asked.input.name}, {asked.input.host}",
            "output": f"{asked.output.name}, {asked.output.host}", "rate_hz": asked.rate_hz,
            "block_n": asked.block_n,
            "latency_ms": [round(1e3 * s, 2) for s in self._stream.latency]}

    @property
    def active(self) -> bool:
        return bool(self._stream.active)

    def facts(self) -> dict[str, Any]:
        return self._facts

    def close(self) -> None:
        self._stream.abort(ignore_errors=True)
        self._stream.close(ignore_errors=True)


def open_portaudio(asked: Asked, bridge: Bridge) -> CardStream:
    """Open the devices for real. Raises `InfrastructureError` with PortAudio's own words."""
    sd = portaudio()
    try:
        return _PortAudioStream(asked, bridge)
    except sd.PortAudioError as error:
        code = next((a for a in error.args[1:2] if isinstance(a, int)), 0)
        failed = InfrastructureError(
            f"sound card: cannot open {asked.input.name!r} and {asked.output.name!r} at "
            f"{asked.rate_hz} Hz: {' '.join(str(error).split())[:200]}")
        failed.hopeless = code in _HOPELESS
        raise failed from None


def rig_now_ns(clock: Clock) -> int:
    """The rig's monotonic clock, whatever the session's zero is."""
    return clock.now_ns() + (clock.origin_ns or 0)


@asynccontextmanager
async def opened(asked: Asked, columns: tuple[int, ...], output_column: int, clock: Clock,
                 timeout_s: float, opener: Opener) -> AsyncIterator[tuple[Bridge, CardStream]]:
    """A steady stream; closed at the end. Raises `InfrastructureError` when there is none in time.

    PortAudio's calls may take long: they are made beside the event loop.
    """
    deadline_ns = clock.now_ns() + s_to_ns(timeout_s)
    for opening in range(1, OPENINGS + 1):
        bridge = Bridge(asked.rate_hz, lambda: rig_now_ns(clock), input_columns=columns,
                        output_column=output_column)
        stream = await asyncio.to_thread(opener, asked, bridge)
        try:
            if not await _steady(bridge, stream, clock, deadline_ns, timeout_s):
                if opening < OPENINGS:
                    continue
                raise InfrastructureError(f"sound card: the stream ended {OPENINGS} times while it "
                                          "started; another rate or latency may help")
            yield bridge, stream
            return
        finally:
            await _closed(stream)


async def _closed(stream: CardStream) -> None:
    """Close it, in a thread that nothing waits for at the end of the process: the driver of a
    device that has vanished may keep it for ever (PulseAudio's, when its daemon is killed)."""
    loop = asyncio.get_running_loop()
    closed = asyncio.Event()

    def close() -> None:
        try:
            stream.close()
        finally:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(closed.set)

    threading.Thread(target=close, daemon=True).start()
    await closed.wait()


async def _steady(bridge: Bridge, stream: CardStream, clock: Clock, deadline_ns: int,
                  timeout_s: float) -> bool:
    """Wait until callbacks come evenly; false when the stream has ended by itself."""
    while not is_steady(list(bridge.log), bridge.rate_hz, rig_now_ns(clock)):
        if not stream.active:
            return False
        if clock.now_ns() >= deadline_ns:
            raise InfrastructureError(f"sound card: no steady stream within {timeout_s:g} s; "
                                      f"{bridge.done_n} samples were exchanged")
        await clock.sleep_until(clock.now_ns() + POLL_NS)
    return True


def is_steady(log: list[Callback], rate_hz: int, now_ns: int) -> bool:
    """Whether the last `STEADY_S` were without xruns and gaps, at about the nominal rate."""
    since_ns = now_ns - s_to_ns(STEADY_S)
    recent = [c for c in log if c.rig_ns >= since_ns]
    if not recent or log[0].rig_ns >= since_ns or any(c.flags & XRUN for c in recent):
        return False
    times = [since_ns, *(c.rig_ns for c in recent), now_ns]
    gap_ns = max(b - a for a, b in pairwise(times))
    expected_n = STEADY_S * rate_hz
    got_n = sum(c.frames_n for c in recent)
    return gap_ns <= MAX_GAP_S * NS_PER_S and abs(got_n - expected_n) <= 0.25 * expected_n
