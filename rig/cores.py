"""How many processes work at once."""

from __future__ import annotations

import os


def default_jobs() -> int:
    """Processes to use when the user names no number: the cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1
