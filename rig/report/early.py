"""Workers of a page begin, and import what they need, before anybody knows what they will do."""

from __future__ import annotations

from rig.report.collector import collector_paused
from rig.workers import Workers

MOST = 4
"""Ours: a run of few cases keeps no more busy, and with many the others follow at once."""


def begin_early(workers: Workers) -> None:
    """Returns at once. Nothing happens where no other process is to be used."""
    if workers.jobs > 1:
        for _ in range(min(MOST, workers.jobs)):
            workers.submit(_ready)


def _ready() -> None:
    with collector_paused():
        import rig.report.session_facts  # noqa: F401 - here, for whoever begins needs it later
