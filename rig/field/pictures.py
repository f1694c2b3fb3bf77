"""A call as a picture: who spoke when, what each agent turn was, and which yield points were taken.

Drawn from the call's part of the document of `rig field`, so that it shows what the figures rest
on. Plain SVG in rows of two minutes; longer ones where a call would have more than `ROWS_MAX`.
There is no sound and no waveform in it, and no word but the file's name and the warnings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from markupsafe import escape

from audio.files import atomic_write_text
from rig.report.colours import DARK, LIGHT, OKABE_ITO
from rig.store import make_folder

Stretch = tuple[float, float]

ROW_S = 120.0
ROWS_MAX = 120
"""Ours: four hours of rows of two minutes."""
MARKS_MAX = 20_000
"""Ours: four hours have some 6,000 spans and turns. What is beyond is said, not drawn."""
_WIDTH, _LEFT, _RIGHT = 1000, 58, 8
_HEAD, _ROW, _LANE = 46, 84, 20
_CALLER_Y, _AGENT_Y = 16, 42
_TICK_S = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
_LINE_CHARACTERS, _LINES_MAX = 160, 20
"""A line of text in the picture's width; what is cut off stands in the document."""

KINDS: Mapping[str, str] = {
    "reply": OKABE_ITO["bluish_green"], "overlap": OKABE_ITO["vermillion"],
    "backchannel": OKABE_ITO["sky_blue"], "greeting": OKABE_ITO["reddish_purple"],
    "continuation": OKABE_ITO["orange"]}
"""Colour of an agent turn; the letter above it (`R`, `O`, `B`, `G`, `C`) says the same."""
YIELDS: Mapping[str, str] = {"taken": "taken", "missed": "missed",
                             "overlapped": "agent already speaking", "fast": "taken, fast",
                             "doubtful": "in no rate"}

_STYLE = (
    ".call{{font:11px system-ui,sans-serif;min-width:760px}}.call text{{fill:var(--ink)}}"
    ".call .soft{{fill:var(--soft)}}.call .head{{font-size:13px;font-weight:600}}"
    ".call .base{{stroke:var(--line)}}.call .caller{{fill:var(--user)}}"
    ".call .agent{{fill:var(--soft)}}.call .both{{fill:var(--window);opacity:.45}}"
    ".call .doubt{{fill:none;stroke:var(--ink);stroke-dasharray:3 2}}"
    ".call .yield{{stroke:var(--ink);stroke-width:1.5;fill:none}}"
    ".call .yield.taken,.call .yield.fast{{fill:var(--pass);stroke:var(--pass)}}"
    ".call .yield.missed{{stroke:var(--fail);stroke-width:2}}{kinds}")
STYLE = _STYLE.format(kinds="".join(
    f".call .{kind}{{fill:{colour}}}" for kind, colour in KINDS.items()))
"""Rules of the picture, for a page that has the variables of `rig.report.colours`."""


def _roles(theme: Mapping[str, str]) -> str:
    return "".join(f"--{role}:{theme[role]};" for role in
                   ("ink", "paper", "soft", "line", "user", "window", "pass", "fail"))


_ALONE = (f".call{{{_roles(LIGHT)}background:var(--paper)}}"
          f"@media(prefers-color-scheme:dark){{.call{{{_roles(DARK)}}}}}")


def call_svg(call: Mapping[str, Any], *, alone: bool = True) -> str:
    """The picture of one entry of `calls`. `alone`: with its own colours, light and dark."""
    picture = _Picture(call)
    body = picture.body()
    namespace = ' xmlns="http://www.w3.org/2000/svg"' if alone else ""
    style = f"<style>{_ALONE}{STYLE}</style>" if alone else ""
    label = text(f"{call['file']}: {call['duration_s']:.0f} s, {len(call['turns'])} agent turns")
    return (f'<svg{namespace} class="call" viewBox="0 0 {_WIDTH} {picture.height}" role="img" '
            f'aria-label="{label}">{style}{body}</svg>')


def text(value: object) -> str:
    """Escaped for XML, which has no control characters and no lone surrogates."""
    return str(escape("".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in str(value))))


class _Picture:
    def __init__(self, call: Mapping[str, Any]) -> None:
        self._call = call
        self._long_s = max(float(call["duration_s"]), 1e-3)
        self._row_s = max(ROW_S, self._long_s / ROWS_MAX)
        self._rows = max(1, -int(-self._long_s // self._row_s))
        shown_s = min(self._row_s, self._long_s) if self._rows == 1 else self._row_s
        self._scale = (_WIDTH - _LEFT - _RIGHT) / shown_s
        self._warnings = [_short(f"{w['code']}: {w['detail']}")
                          for w in call["warnings"][:_LINES_MAX]]
        self._top = _HEAD + 14 * len(self._warnings)
        self.height = self._top + _ROW * self._rows

    def body(self) -> str:
        call = self._call
        parts = [f'<text class="head" x="4" y="16">{text(_short(str(call["file"])))}</text>',
                 *(f'<text x="4" y="{48 + 14 * k}">&#9888; {text(line)}</text>'
                   for k, line in enumerate(self._warnings))]
        for row in range(self._rows):
            parts += self._frame(row)
        speech = call["speech"]
        marks = chain(self._lanes(speech["caller"], "caller", _CALLER_Y, "caller"),
                      self._agent(speech["agent"]), self._both(speech), self._yields())
        parts += islice(marks, MARKS_MAX)
        parts.insert(1, self._legend(whole=next(marks, None) is None))
        return "".join(parts)

    @staticmethod
    def _legend(*, whole: bool) -> str:
        entries = [f'<tspan style="fill:{colour}">&#9632;</tspan> {kind[0].upper()} {kind}  '
                   for kind, colour in KINDS.items()]
        out = (f'<text class="soft" x="4" y="32">{"".join(entries)} &#9660; yield point taken  '
               "&#10005; missed  &#9675; apart  dashed: in no rate")
        more = "" if whole else f"; only the first {MARKS_MAX} marks are drawn"
        return f"{out}{more}</text>"

    def _frame(self, row: int) -> list[str]:
        y = self._top + row * _ROW
        start_s = row * self._row_s
        end_s = min(self._long_s, start_s + self._row_s)
        out = []
        for name, lane in (("caller", _CALLER_Y), ("agent", _AGENT_Y)):
            out.append(f'<text class="soft" x="4" y="{y + lane + 14}">{name}</text>'
                       f'<line class="base" x1="{_LEFT}" x2="{self._x(end_s, row)}" '
                       f'y1="{y + lane + _LANE}" y2="{y + lane + _LANE}"/>')
        step = next((s for s in _TICK_S if self._row_s / s <= 24), self._row_s / 24)
        first = -int(-start_s // step)
        for k in range(first, int(end_s / step) + 1):
            out.append(f'<text class="soft" x="{self._x(k * step, row)}" y="{y + 78}" '
                       f'text-anchor="middle">{_clock(k * step)}</text>')
        return out

    def _x(self, seconds: float, row: int) -> str:
        inside = min(max(seconds - row * self._row_s, 0.0), self._row_s)
        return f"{_LEFT + inside * self._scale:.1f}"

    def _pieces(self, stretch: Sequence[float]) -> Iterable[tuple[int, float, float]]:
        """A stretch cut at the ends of rows: row, x, width."""
        start, end = max(0.0, stretch[0]), min(self._long_s, stretch[1])
        row = int(start // self._row_s)
        while start < end and row < self._rows and row * self._row_s < end:
            a, b = max(start, row * self._row_s), min(end, (row + 1) * self._row_s)
            yield row, _LEFT + (a - row * self._row_s) * self._scale, (b - a) * self._scale
            row += 1

    def _bar(self, stretch: Sequence[float], style: str, lane: int, height: int,
             title: str) -> Iterator[str]:
        for row, x, width in self._pieces(stretch):
            yield (f'<rect class="{style}" x="{x:.1f}" y="{self._top + row * _ROW + lane}" '
                   f'width="{max(0.5, width):.1f}" height="{height}"><title>{text(title)}</title>'
                   "</rect>")

    def _lanes(self, stretches: Iterable[Sequence[float]], style: str, lane: int,
               name: str) -> Iterator[str]:
        for s in stretches:
            yield from self._bar(s, style, lane, _LANE, f"{name} {s[0]:.2f} to {s[1]:.2f} s")

    def _agent(self, stretches: Sequence[Sequence[float]]) -> Iterator[str]:
        """Agent speech in the colour of its turn, grey where a call was refused."""
        turns = {turn["agent_start_s"]: turn for turn in self._call["turns"]}
        for stretch in stretches:
            turn = turns.get(stretch[0])
            if turn is None:
                yield from self._lanes([stretch], "agent", _AGENT_Y, "agent")
                continue
            latency = "" if turn["latency_ms"] is None else f", {turn['latency_ms']:.0f} ms"
            title = f"{turn['kind']} {stretch[0]:.2f} to {stretch[1]:.2f} s{latency}"
            kind = turn["kind"] if turn["kind"] in KINDS else "agent"
            yield from self._bar(stretch, kind, _AGENT_Y, _LANE, title)
            if turn["doubtful"]:
                yield from self._bar(stretch, "doubt", _AGENT_Y, _LANE, f"in no rate: {title}")
            row, x, _ = next(iter(self._pieces(stretch)), (0, float(_LEFT), 0.0))
            yield (f'<text x="{x:.1f}" y="{self._top + row * _ROW + _AGENT_Y - 1}" '
                   f'font-size="9">{text(turn["kind"][:1].upper())}</text>')

    def _both(self, speech: Mapping[str, Sequence[Sequence[float]]]) -> Iterator[str]:
        for start, end in overlaps(speech["caller"], speech["agent"]):
            yield from self._bar((start, end), "both", _CALLER_Y - 4,
                                 _AGENT_Y + _LANE + 4 - _CALLER_Y,
                                 f"both speak {start:.2f} to {end:.2f} s")

    def _yields(self) -> Iterator[str]:
        for point in self._call["yield_points"]:
            outcome = point["outcome"] if point["outcome"] in YIELDS else "doubtful"
            row = min(self._rows - 1, int(point["at_s"] // self._row_s))
            x, y = float(self._x(point["at_s"], row)), self._top + row * _ROW + 4
            shape = {"taken": f"M{x - 4:.1f} {y}h8l-4 8z", "fast": f"M{x - 4:.1f} {y}h8l-4 8z",
                     "missed": f"M{x - 4:.1f} {y}l8 8m0 -8l-8 8"}.get(
                outcome, f"M{x - 4:.1f} {y + 4}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z")
            yield (f'<path class="yield {outcome}" d="{shape}"><title>yield point '
                   f'{point["at_s"]:.2f} s: {YIELDS[outcome]}</title></path>')


def overlaps(first: Sequence[Sequence[float]],
             second: Sequence[Sequence[float]]) -> list[Stretch]:
    """Where both lists, each in order and without overlap of its own, have a stretch."""
    out: list[Stretch] = []
    i = j = 0
    while i < len(first) and j < len(second):
        start, end = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if start < end:
            out.append((start, end))
        if first[i][1] <= second[j][1]:
            i += 1
        else:
            j += 1
    return out


def _short(line: str) -> str:
    return line if len(line) <= _LINE_CHARACTERS else line[:_LINE_CHARACTERS - 1] + "\u2026"


def _clock(seconds: float) -> str:
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def write_pictures(folder: Path, calls: Sequence[Mapping[str, Any]]) -> list[Path]:
    """`NUMBER-NAME.svg` for every call, numbered in the order of the document."""
    make_folder(folder)
    digits = max(4, len(str(len(calls))))
    out = []
    for number, call in enumerate(calls, 1):
        stem = re.sub(r"[^A-Za-z0-9._-]+", "_", Path(call["file"]).stem)[:80].strip("._-")
        path = folder / f"{number:0{digits}}-{stem or 'call'}.svg"
        # Thousands of them would wait for the disk twice each.
        atomic_write_text(path, call_svg(call) + "\n", durable=False)
        out.append(path)
    return out
