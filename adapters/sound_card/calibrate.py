"""Measures the round trip of a card: chirps out, chirps in, over several openings of the stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from adapters.base import Clock
from adapters.sound_card.adapter import SoundCardAdapter
from adapters.sound_card.loopback import Summary, summarise
from adapters.sound_card.round_trip import send_chirp
from adapters.sound_card.stream import opened
from audio.errors import InfrastructureError

SEARCH_S = 0.5
"""How long a chirp may be on its way: longer than any wire, and than sound across a hall. Ours."""


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
