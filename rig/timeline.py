"""One session as a picture: for the terminal in characters, for the report as SVG.

Both draw the same facts: the user's speech from construction, the model's speech as the detector
found it, the scored window and the moments of the schedule.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    """Rows of `width` cells: `#` speech in most of a cell, `+` in some of it, `.` in none."""
    if width < 10:
        raise ValueError(f"a timeline needs at least 10 cells, got {width}")
    cell_s = max(timeline.recorded_s, 1e-9) / width
    rows = [
        ("user", _cells(timeline.user, cell_s, width)),
        ("model", _cells(timeline.model, cell_s, width)),
        ("window", _bracket(timeline.window, cell_s, width)),
    ]
    rows += [(name[:12], _bracket(window, cell_s, width)) for name, window in timeline.alternates]
    label = max(len(name) for name, _ in rows)
    ruler = "".join("|" if i % 10 == 0 else " " for i in range(width))
    times = "".join(f"{i * cell_s:<10.1f}" for i in range(0, width, 10))[:width]
    return ([f"{name:>{label}} {cells}" for name, cells in rows]
            + [f"{'':>{label}} {ruler}", f"{'s':>{label}} {times}"])


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


SVG_WIDTH = 1000
SVG_HEIGHT = 96
_LEFT = 52
_ROWS = {"user": 14, "model": 42}
_BAR = 20


def svg(timeline: Timeline) -> str:
    """A self-contained SVG element; colours come from the page's style sheet by class."""
    scale = (SVG_WIDTH - _LEFT - 8) / max(timeline.recorded_s, 1e-9)

    def x(seconds: float) -> str:
        return f"{_LEFT + min(max(seconds, 0.0), timeline.recorded_s) * scale:.1f}"

    def width(stretch: Stretch) -> str:
        return f"{max(0.5, (stretch[1] - stretch[0]) * scale):.1f}"

    parts = [
        f'<svg class="timeline" viewBox="0 0 {SVG_WIDTH} {SVG_HEIGHT}" role="img" '
        f'aria-label="timeline of {timeline.recorded_s:.1f} seconds">',
        f'<rect class="window" x="{x(timeline.window[0])}" y="6" '
        f'width="{width(timeline.window)}" height="64"><title>window '
        f'{timeline.window[0]:.3f} to {timeline.window[1]:.3f} s</title></rect>',
    ]
    for name, stretches in (("user", timeline.user), ("model", timeline.model)):
        y = _ROWS[name]
        parts.append(f'<text class="label" x="4" y="{y + 15}">{name}</text>')
        parts.append(f'<line class="base" x1="{_LEFT}" x2="{SVG_WIDTH - 8}" y1="{y + _BAR}" '
                     f'y2="{y + _BAR}"/>')
        parts += [
            f'<rect class="{name}" x="{x(s[0])}" y="{y}" width="{width(s)}" height="{_BAR}">'
            f'<title>{name} {s[0]:.3f} to {s[1]:.3f} s</title></rect>' for s in stretches]
    step = _tick_step(timeline.recorded_s)
    ticks = int(timeline.recorded_s / step) + 1
    parts += [
        f'<line class="tick" x1="{x(i * step)}" x2="{x(i * step)}" y1="70" y2="75"/>'
        f'<text class="tick" x="{x(i * step)}" y="90">{i * step:g}</text>' for i in range(ticks)]
    parts.append("</svg>")
    return "".join(parts)


def _tick_step(seconds: float) -> float:
    for step in (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0):
        if seconds / step <= 24:
            return step
    return seconds / 24
