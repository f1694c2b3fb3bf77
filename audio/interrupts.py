"""Ctrl-C and its like wait until what must not be done by halves is done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_NAMES = ("SIGTERM", "SIGHUP", "SIGINT")
"""SIGINT last: the handler of the others may pass theirs on to it (`rig.workers`)."""


@contextmanager
def held_back() -> Iterator[None]:
    """A signal that Python code handles comes when the block is over; one that the system handles
    comes at once. Only the main thread is ever interrupted, so elsewhere there is nothing to do."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    before: dict[int, Callable[[int, FrameType | None], Any]] = {}
    for name in _NAMES:
        number = getattr(signal, name, None)
        if number is not None and callable(handler := signal.getsignal(number)):
            before[number] = handler
    try:
        for number in before:
            signal.signal(number, note)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])
