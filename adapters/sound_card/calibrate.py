"""Measures the round trip of a card: chirps out, chirps in, over several openings of the stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np

from adapters.base import Clock
from adapters.sound_card.adapter import SoundCardAdapter
from adapters.sound_card.bridge import XRUN, Bridge, xrun_names
from adapters.sound_card.loopback import Found, Summary, chirp, find, summarise
from adapters.sound_card.stream import POLL_NS, CardStream, opened
from audio.errors import InfrastructureError
from audio.timebase import s_to_ns

SEARCH_S = 0.5
"""How long a chirp may be on its way: longer than any wire, and than sound across a hall. Ours."""
STALL_S = 2.0


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


async def measure(adapter: SoundCardAdapter, clock: Clock, *, openings: int, chirps: int,
                  level: float, on_chirp: Callable[[int], None] | None = None) -> Summary:
    """Open the card `openings` times and play `chirps` each time.

    Raises `InputError` for devices that are not there and `InfrastructureError` when the card
    fails or a chirp is not heard.
    """
    settings = adapter.settings
    asked, opener = adapter.asked()
    per_ms = settings["rate_hz"] / 1000
    found: list[list[tuple[float, float]]] = []
    for opening in range(openings):
        found.append([])
        async with opened(asked, adapter.columns, settings["output_channel"] - 1, clock,
                          settings["ready_timeout_s"], opener) as (bridge, stream):
            for number in range(chirps):
                one = await send_chirp(
                    bridge, stream, clock, round(settings["lead_ms"] * per_ms),
                    column=len(adapter.columns) - 1, level=level, wait_s=SEARCH_S)
                if one is None:
                    raise InfrastructureError(
                        f"sound card: chirp {number + 1} of opening {opening + 1} was not heard "
                        f"within {SEARCH_S:g} s: connect the output to the input, by a cable or "
                        "through the air, and mind the levels")
                found[-1].append((one.at_n / per_ms, one.level_db))
                if on_chirp is not None:
                    on_chirp(opening * chirps + number + 1)
                await asyncio.sleep(0)
    return summarise(found)
