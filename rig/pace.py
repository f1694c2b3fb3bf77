"""When the next session of a provider may begin: how many at a time, how often, and not for a while
after it has asked for fewer.

One provider serves all sessions of a run, so what it says to one holds for all: a refusal for its
rate (HTTP 429 or 503, close code 1013, a rate limit's error) stops new starts, with full jitter and
a ceiling that doubles. A start that is refused while others are open also tells how many there may
be at a time: that many, and one more for as many that end well (additive increase, as TCP's
congestion avoidance, RFC 5681).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress

from audio.timebase import NS_PER_S, ns_to_s, s_to_ns
from rig.backoff import full_jitter_s
from rig.clock import SessionClock

MAX_ASKED_S = 120.0
"""Longest wait that a provider may ask for. Ours: a longer one ends the run, which `--resume`
continues another day."""
MAX_REFUSALS = 8
MAX_HELD_S = 600.0
"""The run ends after so many refusals in a row, or so many seconds held up by them, without one
session in between that became ready. Ours: with the ceilings of `backoff` eight are three minutes
at most, ten minutes bound what is asked for on top."""


class Pace:
    """For one event loop, made on it. Nothing here waits longer than until something changes."""

    def __init__(self, jobs: int, starts_per_minute: float | None, chance: random.Random,
                 note: Callable[[str], None]) -> None:
        self._jobs = jobs
        self._at_a_time = float(jobs)
        self._spacing_ns = s_to_ns(60.0 / starts_per_minute) if starts_per_minute else 0
        self._chance = chance
        self._note = note
        self._clock = SessionClock()
        self._news = asyncio.Event()
        self._next_ns = 0
        self._held_until_ns = 0
        self._refused_at_ns = -1
        """When a start was refused last. What an open session hears of a limit is no refusal."""
        self._held_s = 0.0
        self._refusals = 0
        self.open = 0
        self.stopped: str | None = None
        """Why no session may begin any more."""

    @property
    def at_a_time(self) -> int:
        return int(self._at_a_time)

    def wait_s(self) -> float | None:
        """Seconds until a session may begin, 0 for now, `None` until one of the open ones ends."""
        if self.open >= self.at_a_time:
            return None
        until_ns = max(self._next_ns, self._held_until_ns)
        return max(0, until_ns - self._clock.now_ns()) / NS_PER_S

    def begin(self) -> int:
        """A session begins; gives the moment, for `ended`."""
        now_ns = self._clock.now_ns()
        self.open += 1
        self._next_ns = now_ns + self._spacing_ns
        return now_ns

    def ended(self, began_ns: int, *, ready: bool, throttled: bool, asked_s: float,
              why: str) -> None:
        """A session has ended, or has not even become ready."""
        self.open -= 1
        if throttled:
            if not ready:
                self._at_a_time = max(1.0, min(self._at_a_time, float(self.open)))
            self._refused(began_ns, asked_s, why)
        elif ready:
            self._refusals, self._held_s = 0, 0.0
            self._at_a_time = min(float(self._jobs), self._at_a_time + 1 / self._at_a_time)
        self._news.set()

    def hold(self, wait_s: float, why: str) -> None:
        """The provider says that nothing new may begin for a while; nothing was refused yet."""
        self._hold_for(min(wait_s, MAX_ASKED_S), why)

    def stop(self, why: str) -> None:
        """Nothing begins any more; the first reason counts."""
        self.stopped = self.stopped or why
        self._news.set()

    def changed(self) -> None:
        """Something else that a start may wait for has changed."""
        self._news.set()

    async def rest(self, seconds: float | None) -> None:
        """Wait until something has changed, at most so long."""
        self._news.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    def _refused(self, began_ns: int, asked_s: float, why: str) -> None:
        if asked_s > MAX_ASKED_S:
            self.stop(f"{why}; the provider asks for {asked_s:g} s of patience, more than "
                      f"{MAX_ASKED_S:g} s")
            return
        together = began_ns <= self._refused_at_ns
        self._refused_at_ns = self._clock.now_ns()
        if together:
            # Turned away together with the one before: that is one refusal, not many.
            self._hold_for(asked_s, why)
            return
        self._refusals += 1
        if self._refusals > MAX_REFUSALS or self._held_s > MAX_HELD_S:
            self.stop(f"{why}; the provider has refused {self._refusals} times in a row, held up "
                      f"for {self._held_s:.0f} s")
            return
        wait_s = full_jitter_s(self._refusals, asked_s, self._chance)
        self._held_s += wait_s
        self._hold_for(wait_s, why)

    def _hold_for(self, wait_s: float, why: str) -> None:
        now_ns = self._clock.now_ns()
        until_ns = now_ns + s_to_ns(wait_s)
        if until_ns > self._held_until_ns:
            self._held_until_ns = until_ns
            self._note(f"{why}: no new session for {ns_to_s(until_ns - now_ns):.1f} s, "
                       f"{self.at_a_time} at a time")
