"""The one module that reads or waits for time.

Two kinds of time behind one interface: real time (absolute deadlines on the monotonic clock) and
virtual time (an event loop that jumps an integer nanosecond counter to the next deadline whenever
nothing is ready). The clock is swapped by swapping the event loop:

    asyncio.run(main(), loop_factory=loop_factory("virtual"))
"""

from __future__ import annotations

import asyncio
import functools
import gc
import select
import selectors
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Literal

from audio.timebase import NS_PER_S, s_to_ns

ClockKind = Literal["virtual", "real"]

FINE_WAIT_S = 1.0
"""Longer waits may end a millisecond late and are followed by a short one. Ours."""
FD_SETSIZE = 1024
"""`select` takes no descriptor from here on (POSIX, glibc)."""
SWITCH_INTERVAL_S = 0.0005
GC_THRESHOLDS = (5_000, 5, 20_000)
"""Objects until a collection of the youngest, those until one of the middle, those until a full
one. Measured in docs/realtime.md."""


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


class _FineSelector(selectors.DefaultSelector):
    """Waits to the microsecond where the system's own call rounds up to the millisecond (epoll)."""

    def select(
        self, timeout: float | None = None
    ) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and 0 < timeout <= FINE_WAIT_S and self._can_wait_finely:
            # An epoll descriptor is itself readable when one of its descriptors is ready.
            select.select([self.fileno()], [], [], timeout)
            timeout = 0
        return super().select(timeout)

    @functools.cached_property
    def _can_wait_finely(self) -> bool:
        epoll = getattr(selectors, "EpollSelector", None)
        return epoll is not None and isinstance(self, epoll) and self.fileno() < FD_SETSIZE


def loop_factory(kind: ClockKind) -> Callable[[], asyncio.AbstractEventLoop]:
    """The event loop of one kind of time."""
    if kind == "virtual":
        return VirtualLoop
    return lambda: asyncio.SelectorEventLoop(_FineSelector())


@contextmanager
def punctual() -> Iterator[None]:
    """While real-time sessions run: what makes this process late is put off.

    A garbage collection of everything the process holds takes tens of milliseconds: what lives
    when the block begins is left out of it, and full collections are rare. A thread that wants to
    compute gives way to the event loop after 0.5 ms instead of 5 ms.
    """
    thresholds, interval_s = gc.get_threshold(), sys.getswitchinterval()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(interval_s)
        gc.set_threshold(*thresholds)
        gc.unfreeze()


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

    @property
    def origin_ns(self) -> int | None:
        """Zero as a reading of `time.perf_counter_ns`, which every process of a machine shares on
        Linux, macOS and Windows; `None` in virtual time."""
        return None if self._virtual is not None else self._origin_ns

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
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def pause(seconds: float) -> None:
    """Wait for real seconds outside of sessions, for instance before a request is sent again."""
    time.sleep(seconds)


class Stopwatch:
    """Elapsed real seconds, for progress and throughput; never for a measurement."""

    def __init__(self) -> None:
        self._start_ns = time.perf_counter_ns()

    @property
    def elapsed_s(self) -> float:
        return (time.perf_counter_ns() - self._start_ns) / NS_PER_S
