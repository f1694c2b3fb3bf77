"""The one place that prints: results on standard output, progress and errors on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import islice
from types import TracebackType
from typing import Any, Self, TextIO

from rich.console import Console as RichConsole
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from rig.clock import Stopwatch
from rig.wording import printable

_PIECES_N = 20_000
"""Pieces of a JSON document that are written at once."""


class Output:
    """Text for people, or one JSON document for machines."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self._out = _console(sys.stdout)
        self._err = _console(sys.stderr)

    def line(self, text: str = "") -> None:
        """One line of the result; left out under `--json`."""
        if not self.as_json:
            self._out.print(plain(text))

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """A table of the result; left out under `--json`. Numbers are right-aligned."""
        if self.as_json:
            return
        table = Table(title=plain(title), title_justify="left", box=None, pad_edge=False)
        for index, column in enumerate(columns):
            table.add_column(plain(column), justify="left" if index == 0 else "right")
        for row in rows:
            table.add_row(*(plain(str(cell)) for cell in row))
        self._out.print(table)

    def document(self, value: Any) -> None:
        """The JSON document of `--json`; nothing otherwise."""
        if self.as_json:
            # In pieces: a study of thousands of calls is hundreds of megabytes of them.
            pieces = json.JSONEncoder(ensure_ascii=False, indent=2,
                                      allow_nan=False).iterencode(value)
            while some := "".join(islice(pieces, _PIECES_N)):
                sys.stdout.write(some)
            sys.stdout.write("\n")

    def note(self, text: str) -> None:
        """Something to know beside the result; standard error."""
        self._err.print(plain(text))

    def progress(self, label: str, total: int) -> ProgressLine:
        """Progress of long work: a bar on a terminal, plain lines elsewhere."""
        return ProgressLine(self._err, label, total)


def plain(text: object) -> str:
    """Text for a terminal, nothing of it a command to the terminal or markup to rich."""
    return escape(printable(str(text), "\n\t"))


def _console(file: TextIO) -> RichConsole:
    """Files and pipes have no width: there a table is never squeezed."""
    width = None if file.isatty() else 200
    return RichConsole(file=file, highlight=False, soft_wrap=True, width=width)


class ProgressLine:
    """A bar on a terminal; otherwise a line at every tenth of the work, on standard error."""

    def __init__(self, console: RichConsole, label: str, total: int) -> None:
        self._console = console
        self._label = label
        self._total = total
        self._watch = Stopwatch()
        self._next = 0.1
        self._bar: Progress | None = None
        if console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True)
            self._task = self._bar.add_task(plain(label), total=total)

    def update(self, done: int, note: str = "", total: int | None = None,
               facts: str = "") -> None:
        """`done` of `total` are finished; `note` says which was the last, `facts` what else counts.
        """
        self._total = self._total if total is None else total
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=self._total,
                             description=plain(" ".join(
                                 part for part in (self._label, note, facts) if part)))
            return
        if self._total and done / self._total >= self._next:
            self._next = done / self._total + 0.1
            self._console.print(f"{plain(self._label)}: {done}/{self._total}, "
                                f"{self._watch.elapsed_s:.1f} s{plain(facts and ', ' + facts)}")

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()
