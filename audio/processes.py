"""Processes that compute for another one."""

from __future__ import annotations

import multiprocessing
import os
import threading


def end_with_parent() -> None:
    """In a process that `multiprocessing` started: end when the parent does, whatever ends it.

    A worker of a pool whose parent was killed waits for work for ever otherwise.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="parent-watch").start()


def give_way(nice: int) -> None:
    """Lower the priority of this process by `nice`, where the system knows that."""
    if nice and hasattr(os, "nice"):
        os.nice(nice)
