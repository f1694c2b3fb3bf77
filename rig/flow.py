"""How many events the systems under test send, so that a flood is told from a busy machine.

Every event costs the one event loop of a run some 0.1 ms, whoever sent it and over whatever wire:
thousands a second make the frames of all its sessions late, and that is the sender's doing.
"""

from __future__ import annotations

from audio.timebase import NS_PER_S

FLOOD_PER_S = 2_000
"""So many within a second are a flood. Ours: 40 for each frame of the user, a tenth to a fifth of
the event loop's time; a reply in pieces of 20 ms is 50 a second of speech."""
KEPT_S = 3_600
"""How far back is remembered. Ours: longer than a session may last."""
FLOODED = "events within a second"
"""In the reason of every session that was late beside a flood."""


class Flow:
    """Counts by second of a clock that never goes back."""

    def __init__(self) -> None:
        self._by_second: dict[int, int] = {}

    def count(self, t_ns: int) -> None:
        """One event at `t_ns`."""
        second = t_ns // NS_PER_S
        self._by_second[second] = self._by_second.get(second, 0) + 1
        if len(self._by_second) > KEPT_S:
            del self._by_second[next(iter(self._by_second))]

    def most_per_s(self, from_ns: int = 0) -> int:
        """Events of the busiest second from that of `from_ns` on."""
        first = from_ns // NS_PER_S
        return max((n for second, n in self._by_second.items() if second >= first), default=0)


def flood(own_per_s: int | None, all_per_s: int | None) -> str | None:
    """What else there is to say of frames that were late, given the busiest second of the session's
    own system and of all systems of the run meanwhile; `None` without a flood, or where nobody
    counted."""
    for n, who in ((own_per_s, "the system"), (all_per_s, "the systems of the run together")):
        if n is not None and n >= FLOOD_PER_S:
            return (f"{who} sent {n} {FLOODED} ({FLOOD_PER_S} are a flood), which makes the rig "
                    "late on any machine")
    return None
