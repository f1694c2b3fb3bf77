"""A gated run as Markdown, to be the summary of a CI job. Names and reasons come from files: here
nothing of them is markup."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rig.gate.figures import STATUSES, Session
from rig.gate.results import one_line, shown
from verifiers.verdict import Outcome

MAX_CASES = 50
"""Ours: a summary is read by people; JUnit has all."""
MAX_TEXT = 300
_MARKS = re.compile(r"[\\`*\[\]#|~<>&$@]|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.",
                    re.IGNORECASE)
"""What begins markup within a line of GitHub's Markdown: code, emphasis, links (also of bare
addresses), mentions, mathematics, HTML, an end of a cell. Lines begin with words of ours."""


def summary(document: Mapping[str, Any], sessions: Sequence[Session]) -> str:
    """The page. `document` is that of `gate_document`."""
    counts = document["sessions"]
    lines = [
        f"## {text(document['name'])}: gates {'met' if document['met'] else 'not met'}", "",
        f"Run of {', '.join(_said(document))}", "",
        "| gate | limit | value | n | 95 % | met | why |",
        "|---|--:|--:|--:|--:|---|---|",
        *(f"| {row[0]} | " + " | ".join(row[1:]) + " |" for row in map(_row, document["gates"])),
        "", f"{counts['n']} sessions: " + ", ".join(
            f"{counts[name]} {text(name)}" for name in (
                "pass", "fail", "unscored", "unsupported", *STATUSES) if counts[name]), "",
    ]
    return "\n".join([*lines, *_cases("Failed", sessions, {Outcome.FAIL}),
                      *_cases("Not scored", sessions, {Outcome.UNSCORED})])


def text(value: object) -> str:
    """Text of a file as text of a page: on one line, no markup, control characters spelled out,
    at most `MAX_TEXT` characters."""
    line = one_line(" ".join(str(value).split()))
    line = line if len(line) <= MAX_TEXT else line[:MAX_TEXT - 3] + "..."
    return _MARKS.sub(lambda found: f"&#{ord(found[0])};", line)


def _said(document: Mapping[str, Any]) -> list[str]:
    out = [text(document[name]) for name in ("adapter", "suite") if document[name]]
    out.append(f"playout {text(document['playout'])}")
    if document["baseline"] is not None:
        out.append(f"baseline {text(document['baseline'])}")
    if document["at"] == "interval":
        out.append("judged at the end of the interval")
    if document["changed"]:
        out.append(f"not the default settings: {text(document['changed'])}")
    return [*out, *map(text, document["conditions"])]


def _row(entry: Mapping[str, Any]) -> list[str]:
    return [text(f"{entry['bound']} {entry['path']}"), *map(text, cells(entry)),
            "yes" if entry["met"] else "**no**", text(entry["why"])]


def cells(entry: Mapping[str, Any]) -> list[str]:
    """Limit, value, n and interval of a gate of `gate_document`, for any table."""
    beside = ", ".join(f"{entry[name]} {name}" for name in ("unscored", "unsupported", "missing")
                       if entry[name])
    value, interval = entry["value"], entry["interval"]
    if interval is None:
        ends = "-"
    elif interval == [None, None]:
        ends = "none"
    else:
        ends = "[{}, {}]".format(*("none" if end is None else shown(end) for end in interval))
    return [shown(entry["limit"]), "none" if value is None else shown(value, entry["limit"]),
            f"{entry['n']}" + (f" ({beside})" if beside else ""), ends]


def _cases(title: str, sessions: Sequence[Session], outcomes: set[Outcome]) -> list[str]:
    found = [s for s in sessions if s.outcome in outcomes]
    if not found:
        return []
    rows = [f"| {text(s.case_id)} | {s.trial} | {text(s.action)} | {text(s.reason)} |"
            for s in found[:MAX_CASES]]
    more = [f"{len(found) - MAX_CASES} more are in the run."] if len(found) > MAX_CASES else []
    return [f"### {title}: {len(found)}", "", "| case | trial | expected | why |",
            "|---|--:|---|---|", *rows, "", *more, *([""] if more else [])]
