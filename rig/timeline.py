"""One session as a picture in characters, for the terminal: the user's speech from construction,
the model's as the detector found it, and the windows. (The report draws its own: `rig.report`.)"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Stretch = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Seconds on the session clock."""

    recorded_s: float
    user: tuple[Stretch, ...]
    model: tuple[Stretch, ...]
    window: Stretch
    alternates: tuple[tuple[str, Stretch], ...] = ()
    marks: tuple[tuple[str, float], ...] = ()


def ascii_lines(timeline: Timeline, width: int = 100) -> list[str]:
    """Rows of `width` cells with their legend; before the cells stand `label_n` characters."""
    if width < 10:
        raise ValueError(f"a timeline needs at least 10 cells, got {width}")
    cell_s = max(timeline.recorded_s, 1e-9) / width
    rows = [
        ("user", _cells(timeline.user, cell_s, width)),
        ("model", _cells(timeline.model, cell_s, width)),
        ("window", _bracket(timeline.window, cell_s, width)),
    ]
    rows += [(name, _bracket(window, cell_s, width)) for name, window in timeline.alternates]
    label = label_n(timeline)
    ruler = "".join("|" if i % 10 == 0 else " " for i in range(width))
    times = "".join(f"{i * cell_s:<10.1f}" for i in range(0, width, 10))[:width]
    return ([f"{name:>{label}} {cells}" for name, cells in rows]
            + [f"{'':>{label}} {ruler}", f"{'s':>{label}} {times}",
               f"speech in a cell of {cell_s:.3f} s: # half of it or more, + less, . none"])


def label_n(timeline: Timeline) -> int:
    """Characters of the longest name of a row."""
    return max(len(name) for name in ("window", *(name for name, _ in timeline.alternates)))


def _cells(stretches: tuple[Stretch, ...], cell_s: float, width: int) -> str:
    out = []
    for i in range(width):
        start, end = i * cell_s, (i + 1) * cell_s
        covered = sum(max(0.0, min(end, b) - max(start, a)) for a, b in stretches)
        out.append("#" if covered >= cell_s / 2 else "+" if covered > 0 else ".")
    return "".join(out)


def _bracket(window: Stretch, cell_s: float, width: int) -> str:
    first = min(width - 1, max(0, int(window[0] / cell_s)))
    last = min(width - 1, max(first, int(window[1] / cell_s)))
    inside = "" if last == first else "[" + "-" * (last - first - 1) + "]"
    return " " * first + (inside or "|") + " " * (width - last - 1)


def timeline_of(row: Mapping[str, Any]) -> Timeline:
    """The picture of one measurement row (`rig.scoring.timeline_row`)."""
    return Timeline(
        recorded_s=float(row["recorded_s"]),
        user=tuple((float(a), float(b)) for a, b in row["user_spans_s"]),
        model=tuple((float(a), float(b)) for a, b in row["model_spans_s"]),
        window=(float(row["window_s"][0]), float(row["window_s"][1])),
        alternates=tuple((str(name), (float(w[0]), float(w[1])))
                         for name, w in sorted(row["alternate_windows_s"].items())),
    )
