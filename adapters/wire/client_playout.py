"""What a real client would have played by now, so that it can say where it was cut off.

Hosted systems deliver faster than real time, so what was received is not what was heard:

    play_start = max(arrival, end of what is queued)

On an interruption the queue is dropped. This is the client's view and serves the protocol alone;
the tracks that are measured are derived from the arrival log, elsewhere.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from audio.timebase import NS_PER_MS, NS_PER_S


@dataclass(frozen=True, slots=True)
class Item:
    """One stretch of audio that the peer knows by name."""

    response_id: str | None
    item_id: str
    content_index: int


@dataclass(frozen=True, slots=True)
class Cut:
    """Where playback of `item` stood: samples played out of samples received."""

    item: Item | None
    played_n: int
    received_n: int


@dataclass(slots=True)
class _Chunk:
    item: Item | None
    run_start_ns: int
    from_n: int
    n: int

    def played_n(self, t_ns: int, rate_hz: int) -> int:
        """Whole samples of the chunk that are over at `t_ns`."""
        at_n = (t_ns - self.run_start_ns) * rate_hz // NS_PER_S
        return min(self.n, max(0, at_n - self.from_n))


class ClientPlayout:
    """The playback queue of a client that flushes when it is told to."""

    def __init__(self, rate_hz: int) -> None:
        self._rate_hz = rate_hz
        self._queue: deque[_Chunk] = deque()
        self._run_start_ns = 0
        self._run_n = 0
        self._last: Item | None = None
        self._played: dict[Item | None, int] = {}
        self._received: dict[Item | None, int] = {}

    def add(self, t_ns: int, n: int, item: Item | None) -> None:
        """Queue `n` samples that arrived at `t_ns`."""
        self._settle(t_ns)
        if not self._queue:
            self._run_start_ns, self._run_n = t_ns, 0
        self._queue.append(_Chunk(item, self._run_start_ns, self._run_n, n))
        self._run_n += n
        self._last = item
        self._received[item] = self._received.get(item, 0) + n

    def playing(self, t_ns: int) -> bool:
        """Whether anything that was received is still to be heard."""
        self._settle(t_ns)
        return bool(self._queue)

    def heard_item(self, t_ns: int) -> Item | None:
        """The item being heard, or the one heard last."""
        self._settle(t_ns)
        return self._queue[0].item if self._queue else self._last

    def flush(self, t_ns: int) -> Cut:
        """Drop what is queued; where the item being heard, or heard last, stood."""
        cut = self.position(t_ns, self.heard_item(t_ns))
        self._queue.clear()
        return cut

    def position(self, t_ns: int, item: Item | None) -> Cut:
        """Where playback of an item stands; nothing is dropped."""
        self._settle(t_ns)
        played_n = self._played.get(item, 0) + sum(
            c.played_n(t_ns, self._rate_hz) for c in self._queue if c.item == item)
        return Cut(item, played_n, self._received.get(item, 0))

    def _settle(self, t_ns: int) -> None:
        while self._queue and self._queue[0].played_n(t_ns, self._rate_hz) == self._queue[0].n:
            chunk = self._queue.popleft()
            self._played[chunk.item] = self._played.get(chunk.item, 0) + chunk.n


def cut_ms(cut: Cut, rate_hz: int) -> int:
    """Milliseconds heard, whole and never beyond what was received: min(played, received)."""
    heard_n = min(cut.played_n, cut.received_n)
    return heard_n * (NS_PER_S // NS_PER_MS) // rate_hz
