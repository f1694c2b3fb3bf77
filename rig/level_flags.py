"""Flags of how loud a system's audio is, for sessions of ours and recordings of others alike."""

from __future__ import annotations

from collections.abc import Iterable

from audio.buffers import Float32
from audio.levels import FULL_SCALE, LevelMeter

NEAR_SILENT_DBFS = -50.0
"""Loudest 20 ms. Ours: speech of the default engine, made quieter step by step, loses its first
detected frames between -49 and -54 dBFS and half of them at -69."""


def level_flags(model: Iterable[Float32], rate_hz: int, top: float = FULL_SCALE) -> set[str]:
    """Audio of a system that is scored as it is, and of which a reader should know: `near_silent`,
    `clipped`. `model` is the heard track, in pieces `(frames,)`; `top` its largest sample
    (`audio.levels.full_scale`). Digital silence has neither."""
    meter = LevelMeter(rate_hz, top)
    for piece in model:
        meter.push(piece)
    loudest_dbfs = meter.loudest_dbfs
    quiet = loudest_dbfs is not None and loudest_dbfs < NEAR_SILENT_DBFS
    flags = {"near_silent"} if quiet else set()
    return flags | {"clipped"} if meter.clipped else flags
