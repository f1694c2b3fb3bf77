"""Processes that compute for another one."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import threading
from contextlib import suppress

INDEX_NAME = "RIG_PROCESS_INDEX"
"""Environment variable in which a process of a pool finds its number: 0, 1, ..."""


_own: set[int] = set()


def own(pid: int) -> None:
    """This process has started another one, the first of a group of its own, which ends with it."""
    _own.add(pid)


def disown(pid: int) -> None:
    """That one has ended."""
    _own.discard(pid)


def end_own() -> None:
    """End by force what is owned, with all that it has started. Takes no lock, so that a signal's
    handler or a thread may call it at any moment."""
    for pid in tuple(_own):
        with suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(pid, signal.SIGKILL)
            else:
                os.kill(pid, signal.SIGTERM)  # this system's way of ending one at once
    _own.clear()


atexit.register(end_own)


def end_with_parent() -> None:
    """In a process that `multiprocessing` started: end when the parent does, whatever ends it.

    A worker of a pool whose parent was killed waits for work for ever otherwise.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        end_own()
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="parent-watch").start()


def give_way(nice: int) -> None:
    """Lower the priority of this process by `nice`, where the system knows that."""
    if nice and hasattr(os, "nice"):
        os.nice(nice)
