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
