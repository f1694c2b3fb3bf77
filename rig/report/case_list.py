"""Every case of every run as one list that can be filtered, searched and sorted.

The rows are columns of plain values, drawn by `static/case_list.js`, which keeps only those rows in
the document that can be seen. What was said lies in a part of its own, read when it is first
searched: `user` is what the caller's audio says, `model` all text that the system sent, in the
order in which it came, heard or not (a read-back is judged on what was heard alone).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from audio.errors import InputError
from rig.report import redecide
from rig.report.case_margin import case_margin
from rig.report.cut import cut
from rig.report.loading import ScoredRun
from rig.report.page import Section, render
from rig.report.said import MAX_TEXT, Said
from rig.report.scored import ScoredCase
from verifiers.margins import Margin
from verifiers.verdict import Outcome

KEY = "cases"
SCRIPTS = (*redecide.SCRIPTS, "case_list.js")
FACETS = ("run", "role", "probe", "level", "action", "outcome", "flag", "verdict")
"""What can be filtered by; `verdict` is whether the thresholds, moved, turn it."""


def section(runs: Sequence[ScoredRun], said: Sequence[Said]) -> Section:
    """The list; nothing is left out of it. `said`: of every case of every run, in their order.
    Its script reads verdicts from that of `redecide.section`, which the same page must have, over
    the same runs."""
    return Section(KEY, "Cases", render("case_list.html.j2", facets=FACETS),
                   data=data(runs), scripts=SCRIPTS, wide=True,
                   parts={"transcripts": transcripts(said)})


def data(runs: Sequence[ScoredRun]) -> dict[str, Any]:
    """Columns over all cases of all runs, in the order of the runs and of their scores.

    Repeated words are places in `values`; `margin` is in `margin_unit`, both `None` where there is
    none, and `margin_text` says what it is, or why there is none.
    """
    rows = [(run, case) for run in runs for case in run.cases]
    margins = [_margin(run, case) for run, case in rows]
    values: dict[str, list[Any]] = {}

    def column(name: str, of: Callable[[ScoredCase], str | None]) -> list[int | None]:
        places: dict[str, int] = {}
        out = [None if (word := of(case)) is None else places.setdefault(word, len(places))
               for _, case in rows]
        values[name] = list(places)
        return out

    flags: dict[str, int] = {}
    return {
        "runs": [run.name for run in runs],
        "outcomes": [str(outcome) for outcome in Outcome],
        "values": values,
        "key": [case.key for _, case in rows],
        "run": [run.index for run, _ in rows],
        "case_id": [case.case_id for _, case in rows],
        "trial": [case.trial for _, case in rows],
        "role": column("role", lambda case: case.role),
        "probe": column("probe", lambda case: case.probe),
        "level": column("level", lambda case: case.level),
        "action": column("action", lambda case: str(case.action)),
        "outcome": [list(Outcome).index(case.outcome) for _, case in rows],
        "reason": [cut(case.reason) for _, case in rows],
        "value": [case.value for _, case in rows],
        "unit": [case.unit or "" for _, case in rows],
        "margin": [found.margin for found in margins],
        "margin_unit": [found.unit if found.margin is not None else None for found in margins],
        "margin_text": [_margin_text(found) for found in margins],
        "flags": [[flags.setdefault(flag, len(flags)) for flag in case.flags]
                  for _, case in rows],
        "flag_names": list(flags),
    }


def _margin(run: ScoredRun, case: ScoredCase) -> Margin:
    try:
        return case_margin(run, case)
    except ValueError as error:  # spans that are reversed
        raise InputError.expected("spans of speech as `rig score` writes them", got=str(error),
                                  where=run.folder.measurements_path) from error


def _margin_text(found: Margin) -> str:
    if found.margin is None:
        return cut(found.reason or "")
    least = "at least " if found.at_least else ""
    return (f"{found.quantity} {least}{found.value:.3f} {found.unit}; nearest bound: "
            f"{found.bound_name} {found.bound:.3f} {found.unit}")


def transcripts(said: Sequence[Said]) -> dict[str, Any]:
    """What both sides said, by row: places in `texts`, `None` where there is no text.

    A session whose record cannot be read has none: its verdict says what is wrong with it. Of each
    side the first `most` characters are there; `cut` are the rows of which that is not all.
    """
    texts: dict[str, int] = {}

    def place(words: str) -> int | None:
        return texts.setdefault(words, len(texts)) if words else None

    user, model = [], []
    for one in said:
        user.append(place(one.user))
        model.append(place(one.model))
    return {"texts": list(texts), "user": user, "model": model, "most": MAX_TEXT,
            "cut": [row for row, one in enumerate(said) if one.cut]}
