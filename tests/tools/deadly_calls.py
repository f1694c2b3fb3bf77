"""In the place of `rig.field.measures.measure_file`, in worker processes: calls that end them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from rig.field.measures import FieldSettings, Skipped
from rig.field.sources import CallSource

DEADLY = "deadly"
READ = "was read"


def dies_over(source: CallSource, _settings: FieldSettings, _cache: Path | None) -> Skipped:
    """Every call is read as `Skipped`; over one with `DEADLY` in its name the process dies."""
    if DEADLY in source.name:
        os.kill(os.getpid(), signal.SIGKILL)
    return Skipped(source.name, READ)
