"""`--group-by`: calls by a column of a table that somebody else kept."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from audio.errors import InputError
from audio.suggest import nearest
from rig.field.measures import CallMeasures
from rig.field.sources import CallSource
from rig.field.words import check_size
from rig.store import read_text

NOT_LISTED = "(not in the metadata)"
EMPTY = "(empty)"


@dataclass(frozen=True, slots=True)
class Grouping:
    """The value of a column by the name of a recording."""

    by_file: dict[str, str]

    def check(self, sources: Sequence[CallSource], where: Path) -> None:
        """Raise `InputError` when not one of the calls is in the table: it is that of others; and
        when a line may mean two calls, whose files in two folders have one name."""
        many = Counter(source.caller.path.name for source in sources)
        for source in sources:
            name = source.caller.path.name
            if many[name] > 1 and name in self.by_file and self._by_path(source) is None:
                raise InputError(f"{where}: expected the path in the column 'file', as "
                                 f"{many[name]} recordings are called {name!r}, got the name "
                                 f"alone for {source.name}")
        if not any(self._value(source) for source in sources):
            first = sources[0].caller.path.name if sources else "CALL"
            raise InputError.expected(f"lines of these calls, such as {first!r} in the column "
                                      "'file'", got=f"{len(self.by_file)} lines of others",
                                      where=where)

    def _value(self, source: CallSource) -> str | None:
        return self._by_path(source) or self.by_file.get(source.caller.path.name)

    def _by_path(self, source: CallSource) -> str | None:
        names = (source.name, source.caller.path.as_posix())
        return next((self.by_file[n] for n in names if n in self.by_file), None)

    def of(self, calls: Sequence[CallMeasures]) -> dict[str, list[CallMeasures]]:
        """Calls by value, values in order. A call is looked up by its path as given, then by the
        name of its file (the caller's, of two)."""
        out: dict[str, list[CallMeasures]] = {}
        for call in calls:
            out.setdefault(self._value(call.source) or NOT_LISTED, []).append(call)
        return dict(sorted(out.items()))


def read_groups(path: Path, column: str) -> Grouping:
    """Read a CSV file with a header and a column `file`. Raises `InputError` with file and line."""
    check_size(path)
    rows = csv.DictReader(io.StringIO(read_text(path, "a CSV file").removeprefix("\ufeff")),
                          strict=True)
    by_file: dict[str, str] = {}
    try:
        header = list(rows.fieldnames or ())
        for name in ("file", column):
            if header.count(name) != 1:
                raise InputError(f"{path}: expected a column {name!r}, got "
                                 + (f"{header.count(name)} of that name" if name in header
                                    else f"none{nearest(name, header)}"))
        for row in rows:
            file, value = row["file"], row[column]
            if not file or value is None:
                raise InputError.expected("a file name and a value", got="an incomplete line",
                                          where=f"{path}:{rows.line_num}")
            value = value or EMPTY
            if by_file.setdefault(file, value) != value:
                raise InputError.expected(f"one value for {file!r}", got="two",
                                          where=f"{path}:{rows.line_num}")
    except csv.Error as error:
        raise InputError.expected("a CSV file", got=str(error),
                                  where=f"{path}:{rows.line_num}") from error
    return Grouping(by_file)
