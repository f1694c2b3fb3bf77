"""One chirp through a card: played, and looked for on an input."""

from __future__ import annotations

import numpy as np

from adapters.base import Clock
from adapters.sound_card.bridge import XRUN, Bridge, xrun_names
from adapters.sound_card.loopback import Found, chirp, find
from adapters.sound_card.stream import POLL_NS, CardStream
from audio.errors import InfrastructureError
from audio.timebase import s_to_ns

STALL_S = 2.0
"""A card that gives no audio for so long beyond the wait has stopped. Ours."""


async def send_chirp(bridge: Bridge, stream: CardStream, clock: Clock, lead_n: int, *, column: int,
                     level: float, wait_s: float) -> Found | None:
    """Play one chirp `lead_n` samples ahead of the card and look for it on an input column for
    `wait_s`; `at_n` is its round trip in samples. Raises `InfrastructureError` for a card that
    stops or reports an xrun meanwhile."""
    sent = chirp(bridge.rate_hz, level)
    at_n = bridge.done_n + lead_n
    if bridge.play(at_n, sent):
        raise InfrastructureError("sound card: the chirp came too late for the card; a longer "
                                  "--set lead_ms helps")
    end_n = at_n + round(wait_s * bridge.rate_hz) + len(sent)
    limit_ns = clock.now_ns() + s_to_ns(wait_s + STALL_S)
    while bridge.done_n < end_n:
        if not stream.active or clock.now_ns() > limit_ns:
            raise InfrastructureError("sound card: it stopped while a chirp was played")
        await clock.sleep_until(clock.now_ns() + POLL_NS)
    flags = 0
    for callback in list(bridge.log):
        if callback.first_n + callback.frames_n > at_n:
            flags |= callback.flags & XRUN
    if flags:
        raise InfrastructureError(f"sound card: xrun while a chirp was played "
                                  f"({xrun_names(flags)}); a longer --set latency_ms helps")
    heard = bridge.take(at_n, end_n)
    return None if heard is None else find(np.ascontiguousarray(heard[:, column]), sent)
