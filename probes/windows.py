"""Where a case is scored, from construction: rules plus segment positions give seconds.

Pure. Positions are samples at 24 kHz within turn 2; results are seconds relative to the onset of
turn 2. Nothing is inferred from a waveform and nothing is clamped. Source: DSB-IFEval, tables 15,
16 and 28; the readings that the paper leaves open are in docs/suite.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from audio.timebase import SESSION_RATE_HZ, n_to_s
from probes.manifest import WindowSpec
from probes.names import EDGE
from probes.structure import ScoringRule, WindowRule

Positions = Mapping[str, tuple[int, int]]
"""Segment name to `[start_n, end_n)` within turn 2."""


@dataclass(frozen=True, slots=True)
class Placed:
    """The scored window of a case and what is reported beside it; seconds from turn-2 onset."""

    window: WindowSpec
    alternate_windows: dict[str, WindowSpec]
    user_offset_s: float
    readback_from_s: float | None


def place(rule: ScoringRule, positions: Positions, turn2_n: int) -> Placed:
    """Evaluate a rule on the segments of a turn of `turn2_n` samples.

    The user offset is the end of turn 2, which ends with speech. Raises `ValueError` for an edge
    that names no segment and for a window that would be empty or reversed.
    """
    alternates = {name: _window(w, positions, turn2_n, name) for name, w in rule.alternates.items()}
    readback_s = None
    if rule.readback_from is not None:
        readback_s = edge_s(rule.readback_from, positions, turn2_n)
    return Placed(_window(rule, positions, turn2_n, "window"), alternates,
                  n_to_s(turn2_n, SESSION_RATE_HZ), readback_s)


def edge_s(edge: str, positions: Positions, turn2_n: int) -> float:
    """One edge, for instance `pause.start` or `turn2.end + 10.0`, in seconds."""
    if not re.fullmatch(EDGE, edge):
        raise ValueError(f"expected an edge like 'pause.start + 1.5', got {edge!r}")
    point, _, plus = edge.partition(" + ")
    name, _, side = point.partition(".")
    if name == "turn2":
        start_n, end_n = 0, turn2_n
    elif name in positions:
        start_n, end_n = positions[name]
    else:
        raise ValueError(f"edge {edge!r} names no segment of {sorted(positions)}")
    at_n = start_n if side == "start" else end_n
    return n_to_s(at_n, SESSION_RATE_HZ) + (float(plus) if plus else 0.0)


def _window(rule: WindowRule, positions: Positions, turn2_n: int, name: str) -> WindowSpec:
    start_s = edge_s(rule.start, positions, turn2_n)
    end_s = edge_s(rule.end, positions, turn2_n)
    if start_s >= end_s:
        raise ValueError(f"{name}: expected a start before its end, got [{start_s}, {end_s})")
    return WindowSpec(start_s=start_s, end_s=end_s)
