"""The one module that reads or waits for time.

Two kinds of time behind one interface: real time (absolute deadlines on the monotonic clock) and
virtual time (an event loop that jumps an integer nanosecond counter to the next deadline whenever
nothing is ready). The clock is swapped by swapping the event loop:

    asyncio.run(main(), loop_factory=loop_factory("virtual"))
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

from audio.timebase import NS_PER_S, s_to_ns

ClockKind = Literal["virtual", "real"]


class VirtualDeadlockError(RuntimeError):
    """Nothing is ready and nothing is scheduled: in virtual time that would last for ever."""


class _JumpingSelector(selectors.SelectSelector):
    """Never blocks: where a selector would wait, the loop's own time moves on instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ns = 0

    def select(
        self, timeout: float | None = None
    ) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise VirtualDeadlockError("virtual time: every task waits and no deadline is set")
        if timeout > 0:
            # Deadlines are whole nanoseconds; rounding undoes the loop's float arithmetic.
            self.now_ns += max(1, s_to_ns(timeout))
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is an integer that jumps from deadline to deadline."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)
        # The stock value (1 ns to 15 ms by platform) would run timers early by that much.
        self._clock_resolution = 0.5e-9

    def time(self) -> float:
        return self._jumping.now_ns / NS_PER_S

    def now_ns(self) -> int:
        """Virtual nanoseconds since the loop was made."""
        return self._jumping.now_ns


def loop_factory(kind: ClockKind) -> Callable[[], asyncio.AbstractEventLoop]:
    """The event loop class for one kind of time."""
    return VirtualLoop if kind == "virtual" else asyncio.SelectorEventLoop


class SessionClock:
    """Integer nanoseconds since `start()`; reads and waits, on whichever loop is running.

    Before `start()` it counts from its creation, so that an adapter may use it while connecting.
    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._virtual = loop if isinstance(loop, VirtualLoop) else None
        self._origin_ns = self._read_ns()

    @property
    def kind(self) -> ClockKind:
        return "virtual" if self._virtual is not None else "real"

    def _read_ns(self) -> int:
        if self._virtual is not None:
            return self._virtual.now_ns()
        return time.perf_counter_ns()

    def start(self) -> None:
        """Set zero to now: called once, when the session is ready."""
        self._origin_ns = self._read_ns()

    def now_ns(self) -> int:
        """Nanoseconds since the session clock started."""
        return self._read_ns() - self._origin_ns

    async def sleep_until(self, t_ns: int) -> None:
        """Wait for an absolute deadline; returns at once when it has passed.

        Always passes control to the loop at least once, so that received events are seen.
        """
        while (left_ns := t_ns - self.now_ns()) > 0:
            await asyncio.sleep(left_ns / NS_PER_S)
        if self._virtual is None:
            await asyncio.sleep(0)


def utc_now() -> str:
    """The wall clock for ledger lines: ISO 8601, UTC, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")  # noqa: TID251


class Stopwatch:
    """Elapsed real seconds, for progress and throughput; never for a measurement."""

    def __init__(self) -> None:
        self._start_ns = time.perf_counter_ns()

    @property
    def elapsed_s(self) -> float:
        return (time.perf_counter_ns() - self._start_ns) / NS_PER_S
