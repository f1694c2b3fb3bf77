"""Charts as plain dicts for plotly, and tables as HTML: what the sections of figures share.

Everything is drawn sideways, a line a name, so that names stay readable on a narrow screen. A
series is told by the shape of its mark as well as by its colour.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rig.report.colours import SERIES

SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "pentagon",
           "triangle-down", "hexagon", "bowtie", "hourglass")
"""Marks of the series, in order; with six colours they repeat together after twelve."""
GREY = "#8c959f"
"""Of what stands beside the series: visible on both papers."""
BAND = "rgba(140,149,159,0.22)"
_LINE_PX, _GAP_PX, _AROUND_PX = 15, 16, 110
Cell = str | float | int | None


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text. `text` are the columns, from 0, that are words and not numbers."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    text: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Point:
    """A value with its interval in a line of a chart; `None` where there is none. `hollow` marks
    are those of which nothing is claimed."""

    value: float | None
    interval: tuple[float, float] | None
    note: str = ""
    hollow: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """One mark a line, in the order of the lines."""

    name: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class Beside:
    """Known behaviour beside the series, a mapping a line from agent to value: `floors` as a band
    from the least to the largest with a stroke an agent, `ceiling` as strokes alone."""

    floors: Sequence[Mapping[str, float]] = ()
    ceiling: Sequence[Mapping[str, float]] = ()


def dots(lines: Sequence[str], series: Sequence[Series], *, axis: str, beside: Beside | None = None,
         span: tuple[float, float] | None = None, zero: bool = False) -> dict[str, Any]:
    """Values with intervals, one line a name, from top to bottom in the order given.

    `span` fixes the axis; `zero` draws a line at 0.
    """
    beside = beside or Beside()
    step = 0.7 / max(1, len(series))
    traces: list[dict[str, Any]] = [
        *_strokes("floors", beside.floors, GREY), *_strokes("ceiling", beside.ceiling, GREY)]
    for index, one in enumerate(series):
        offset = (index - (len(series) - 1) / 2) * step
        symbol = SYMBOLS[index % len(SYMBOLS)]
        traces.append({
            "type": "scatter", "mode": "markers", "name": plain(one.name),
            "showlegend": True,
            "x": [p.value for p in one.points],
            "y": [line + offset for line in range(len(lines))],
            "error_x": _errors(one.points),
            "marker": {"color": SERIES[index % len(SERIES)], "size": 9, "line": {"width": 1.5},
                       "symbol": [f"{symbol}-open" if p.hollow else symbol for p in one.points]},
            "customdata": [plain(p.note) for p in one.points],
            "hovertemplate": "%{x:.1f} %{customdata}<extra>%{fullData.name}</extra>"})
    bands = [{"type": "rect", "x0": min(values.values()), "x1": max(values.values()),
              "y0": line - 0.42, "y1": line + 0.42, "fillcolor": BAND, "layer": "below",
              "line": {"width": 1, "color": GREY}}
             for line, values in enumerate(beside.floors) if values]
    x_axis: dict[str, Any] = {"title": {"text": axis}, "zeroline": zero, "zerolinewidth": 2}
    if span is not None:
        x_axis["range"] = list(span)
    height = len(lines) * (_GAP_PX + _LINE_PX * max(1, len(series))) + _AROUND_PX
    return {"data": traces, "layout": {
        "height": height + legend_px(len(traces)), "shapes": bands, "xaxis": x_axis,
        "yaxis": {"tickvals": list(range(len(lines))), "ticktext": [plain(n) for n in lines],
                  "range": [len(lines) - 0.5, -0.5], "automargin": True, "fixedrange": True,
                  "zeroline": False},
        "legend": LEGEND, "margin": {"l": 8, "r": 12, "t": 8, "b": 44}}}


LEGEND: Mapping[str, Any] = {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.0,
                             "yanchor": "bottom"}


def legend_px(entries_n: int) -> int:
    """Height that a legend above a chart needs where two entries stand in a line."""
    return 20 * -(-entries_n // 2)


def plain(text: str) -> str:
    """A text for a chart, in which plotly takes `<b>` or `<a href>` for markup."""
    return html.escape(text, quote=False).replace("\n", " ")


def _strokes(name: str, lines: Sequence[Mapping[str, float]],
             colour: str) -> list[dict[str, Any]]:
    found = [(value, line, agent) for line, values in enumerate(lines)
             for agent, value in values.items()]
    if not found:
        return []
    return [{"type": "scatter", "mode": "markers", "name": name,
             "x": [value for value, _, _ in found], "y": [line for _, line, _ in found],
             "text": [plain(agent) for _, _, agent in found],
             "marker": {"symbol": "line-ns" if name == "floors" else "asterisk",
                        "size": 14 if name == "floors" else 11, "color": colour,
                        "line": {"width": 2, "color": colour}},
             "hovertemplate": "%{x:.1f} %{text}<extra>%{fullData.name}</extra>"}]


def _errors(points: Sequence[Point]) -> dict[str, Any]:
    """Distances from the value to the ends of its interval; plotly takes `None` for no bar. An
    interval of a bootstrap may lie beside its value, which then has a bar to one side alone."""
    plus: list[float | None] = []
    minus: list[float | None] = []
    for point in points:
        if point.value is None or point.interval is None:
            plus.append(None)
            minus.append(None)
        else:
            low, high = point.interval
            plus.append(max(0.0, high - point.value))
            minus.append(max(0.0, point.value - low))
    return {"type": "data", "symmetric": False, "array": plus, "arrayminus": minus,
            "thickness": 1.5, "width": 3}


@dataclass(frozen=True, slots=True)
class Heat:
    """A matrix of shares in percent, `values[row][column]`; `None` is left blank.

    `at` is the column that is marked; `groups` are headings over runs of columns: name and how
    many.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float | None]]
    at: int
    at_name: str
    axis: str
    ticks: Mapping[int, str] = field(default_factory=dict)


def heat(found: Heat) -> dict[str, Any]:
    """A heat map from 0 to 100 on a scale whose lightness alone tells the order (cividis)."""
    n = len(found.rows)
    rows = [plain(name) for name in found.rows]
    return {"data": [{
        "type": "heatmap", "z": [list(row) for row in found.values], "x": list(
            range(len(found.columns))), "y": list(range(n)), "zmin": 0, "zmax": 100,
        "colorscale": "Cividis", "colorbar": {"title": {"text": "%"}, "thickness": 10},
        "text": [list(found.columns)] * n,
        "customdata": [[name] * len(found.columns) for name in rows],
        "hovertemplate": "%{customdata}: %{z:.1f}<br>%{text}<extra></extra>",
        "hoverongaps": False}],
        "layout": {
            "height": 22 * n + 150,
            "xaxis": {"title": {"text": found.axis}, "tickvals": list(found.ticks),
                      "ticktext": list(found.ticks.values()), "showgrid": False,
                      "zeroline": False},
            "yaxis": {"tickvals": list(range(n)), "ticktext": rows,
                      "range": [n - 0.5, -0.5], "automargin": True, "fixedrange": True,
                      "showgrid": False, "zeroline": False},
            "shapes": [{"type": "rect", "x0": found.at - 0.5, "x1": found.at + 0.5, "y0": -0.5,
                        "y1": n - 0.5, "line": {"color": "#d55e00", "width": 2}}],
            "annotations": [{"x": found.at, "y": 1, "yref": "paper", "yanchor": "bottom",
                             "text": found.at_name, "showarrow": False}],
            "margin": {"l": 8, "r": 8, "t": 28, "b": 48}}}


def percent(value: float | None, digits: int = 1) -> str:
    """A share of 1 in percent; `–` for none."""
    return "–" if value is None else f"{100 * value:.{digits}f}"


def interval(value: Sequence[float] | None, digits: int = 0, sign: str = "") -> str:
    """Ends of an interval of shares in percent; `–` for none."""
    if value is None:
        return "–"
    low, high = value
    return f"[{100 * low:{sign}.{digits}f}, {100 * high:{sign}.{digits}f}]"
