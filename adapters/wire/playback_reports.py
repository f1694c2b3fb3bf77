"""What a client has played of each item, told now and then to a server that asks for it.

A server that keeps in its history only what was heard must be told: while something plays, at an
interval, and at once when a response is cut off.
"""

from __future__ import annotations

from collections.abc import Callable

from adapters.wire.client_playout import ClientPlayout, Item, cut_ms
from audio.timebase import s_to_ns

Report = Callable[[Item, int, bool], str]
"""The message that says so many milliseconds of an item were heard; `True`: no more will be."""


class PlaybackReports:
    """A playback queue and what was told of it; `report=None`: the server does not want to know."""

    def __init__(self, rate_hz: int, interval_s: float, report: Report | None) -> None:
        self._rate_hz = rate_hz
        self._interval_ns = s_to_ns(interval_s)
        self._report = report
        self._playout = ClientPlayout(rate_hz)
        self._told_ms: dict[Item, int] = {}
        self._due_ns: int | None = None

    @property
    def due_ns(self) -> int | None:
        """When the next report is due; `None` while nothing plays that was not told of."""
        return self._due_ns

    def add(self, t_ns: int, n: int, item: Item | None) -> None:
        """Queue `n` samples of an item that arrived at `t_ns`; without a name nothing is told."""
        self._playout.add(t_ns, n, item)
        if item is None or self._report is None:
            return
        if item not in self._told_ms:
            self._told_ms[item] = cut_ms(self._playout.position(t_ns, item), self._rate_hz)
        if self._due_ns is None:
            self._due_ns = t_ns + self._interval_ns

    def tick(self, t_ns: int) -> list[str]:
        """The reports that are due at `t_ns`: of each item that was heard further."""
        if self._report is None or self._due_ns is None or t_ns < self._due_ns:
            return []
        messages = []
        for item, told_ms in list(self._told_ms.items()):
            cut = self._playout.position(t_ns, item)
            ms = cut_ms(cut, self._rate_hz)
            if ms > told_ms:
                messages.append(self._report(item, ms, False))
                self._told_ms[item] = ms
            if cut.played_n >= cut.received_n:
                del self._told_ms[item]  # more audio of it brings it back
        self._due_ns = t_ns + self._interval_ns if self._told_ms else None
        return messages

    def cut(self, t_ns: int) -> tuple[bool, str | None, list[str]]:
        """Drop what is queued. Whether anything was, the response that was being heard or was heard
        last, and the report of where it stopped."""
        playing = self._playout.playing(t_ns)
        cut = self._playout.flush(t_ns)
        messages = []
        if playing and cut.item in self._told_ms and self._report is not None:
            assert cut.item is not None
            messages.append(self._report(cut.item, cut_ms(cut, self._rate_hz), True))
        self._told_ms.clear()
        self._due_ns = None
        return playing, None if cut.item is None else cut.item.response_id, messages
