"""Until when a peer that plays what it receives, in order, will be playing.

    play_start = max(arrival, end of what is queued)

The model of rig/playout.py, with nothing but its clock: what a wire needs that must say when
playback has reached something.
"""

from __future__ import annotations

from audio.timebase import n_to_ns


class PlayoutClock:
    """The end of a playback queue; positions never drift by rounding."""

    def __init__(self, rate_hz: int) -> None:
        self._rate_hz = rate_hz
        self._start_ns = 0
        self._n = 0

    @property
    def end_ns(self) -> int:
        """When everything queued so far has been played."""
        return self._start_ns + n_to_ns(self._n, self._rate_hz)

    def add(self, t_ns: int, n: int) -> None:
        """Queue `n` samples that arrived at `t_ns`."""
        if t_ns > self.end_ns:
            self._start_ns, self._n = t_ns, 0
        self._n += n

    def drop(self, t_ns: int) -> None:
        """Forget what would be played from `t_ns` on."""
        if t_ns < self.end_ns:
            self._start_ns, self._n = t_ns, 0
