"""A cancellation waits until what must not be done by halves is done; of a signal:
`audio.interrupts`."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Like `await work`, but that a cancellation waits until it is over."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            cancelled = True
    if cancelled and not task.cancelled():
        task.result()
        raise asyncio.CancelledError
    return task.result()
