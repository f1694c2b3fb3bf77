"""Whether a `scores.json` says of the whole run what its own cases say.

Rates, latencies and flags are counted again from the cases, by the code that `rig score` counts
with; where the file says something else it was changed, and nobody can tell which part is right.
Every reader of scores goes through here (`rig.stored.read_scores`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from audio.errors import InputError
from rig.scores_model import CaseEntry, DifferenceEntry, Document, check
from rig.wording import spelt
from sweeps.aggregate import ias, percentiles
from sweeps.table import NO_LEVEL
from verifiers.scene import Action
from verifiers.verdict import Outcome

LATENCIES: Mapping[str, Action] = {
    "reply": Action.TAKE_TURN, "interrupt": Action.INTERRUPT, "yield": Action.YIELD,
    "backchannel": Action.BACKCHANNEL}
"""Kinds of latency, each of one action."""
_FROM = {"reply": "user's end", "interrupt": "trigger", "yield": "barge-in",
         "backchannel": "window's start"}
_KIND_OF = {action: kind for kind, action in LATENCIES.items()}
_MS = 1e-3
_REL, _ABS = 1e-9, 1e-6
"""Ours: latencies are counted from seconds here and from nanoseconds in `rig score`, which differ
in the last digits of a double; 1e-6 of a millisecond is a nanosecond, and far below any rate."""


@dataclass(frozen=True, slots=True)
class CountedCase:
    """A case of `scores.json` as rates are counted from it."""

    action: Action
    level_name: str
    role: str | None
    outcome: Outcome
    live: bool
    forced: bool


def is_live(measured: Mapping[str, Any] | None, flags: Collection[str]) -> bool:
    """Any model speech was heard in a session."""
    return bool(measured) and "no_model_speech" not in flags


def latency_ms(action: Action, measured: Mapping[str, Any] | None, limited: bool,
               ) -> tuple[str, float | None] | None:
    """The kind of latency that a case could have, and the latency in milliseconds, `None` where it
    is missing (`sweeps.aggregate.latency`). Nothing for another action, for a case that was not
    measured and for one whose window was not recorded. `limited`: its verdict names a limit."""
    kind = _KIND_OF.get(action)
    if kind is None or not measured or measured.get("spans_in_window", 0) is None:
        return None
    known, name = True, "genuine_onset_s"
    if kind == "yield":
        known, name = measured.get("held_at_w0") is True, "first_offset_s"
    elif kind == "backchannel":
        known = limited and measured.get("label") == "backchannel"
    value = measured.get(name)
    if not known or isinstance(value, bool) or not isinstance(value, int | float):
        return kind, None
    return kind, 1000 * float(value)


def counted_from(kind: str, cases: Sequence[Mapping[str, Any]]) -> str:
    """The moment from which the latencies of a kind count, which is where the window begins.

    A reply's wait may count from a gap within the user's turn (C2 of DSB-IFEval): then an agent
    that waits for the user to end has a wait longer than its own, and how many do is said. Without
    a known end of the user's turn (`rig rescore`) it is the window's start.
    """
    if kind != "reply":
        return _FROM[kind]
    ends_s = []  # of the user's turn behind the window's start
    for case in cases:
        measured = case["measured"] or {}
        found = latency_ms(Action(case["expected_action"]), measured, limited=True)
        if found is not None and found[0] == kind and found[1] is not None:
            after_s = measured.get("onset_from_user_offset_s")
            ends_s.append(None if after_s is None else found[1] / 1000 - after_s)
    within_n = sum(end_s is not None and end_s > _MS for end_s in ends_s)
    if ends_s and all(end_s is None for end_s in ends_s):
        return "window's start"
    return _FROM[kind] + (f"; from a gap within the user's turn: {within_n}" if within_n else "")


def check_scores(scores: Mapping[str, Any], where: object) -> None:
    """Raise `InputError` where a document has no such form, names a case and trial twice, or has
    rates, latencies, flags or an outcome of `playout_differences` that its cases do not give."""
    check(Document, scores, where)
    cases: dict[tuple[str, int], CaseEntry] = {}
    for number, data in enumerate(scores["cases"]):
        place = f"{where}: cases[{number}]"
        entry = check(CaseEntry, data, place)
        key = entry.case_id, entry.trial
        if key in cases:
            raise InputError.expected("every case and trial once",
                                      got=f"{spelt(entry.case_id)} t{entry.trial} again",
                                      where=place)
        cases[key] = entry
    for part, counted in aggregates(tuple(cases.values())).items():
        _agree(part, counted, scores[part], where)
    for number, data in enumerate(scores["playout_differences"]):
        told = check(DifferenceEntry, data, f"{where}: playout_differences[{number}]")
        case = cases.get((told.case_id, told.trial))
        outcome = told.hold if scores["playout"] == "hold" else told.flush
        if case is None or case.outcome is not outcome:
            raise InputError.expected(
                f"one outcome of {spelt(told.case_id)} t{told.trial}",
                got=f"{'none' if case is None else case.outcome} and, among playout_differences, "
                f"{outcome}", where=where)


def aggregates(cases: Sequence[CaseEntry]) -> dict[str, Any]:
    """`ias`, `latency` and `flags` of `scores.json`, counted from its cases."""
    values: dict[str, list[float | None]] = {kind: [] for kind in LATENCIES}
    for case in cases:
        found = latency_ms(case.expected_action, case.measured, case.limit is not None)
        if found is not None:
            values[found[0]].append(found[1])
    return {
        "ias": ias([CountedCase(c.expected_action, c.level or NO_LEVEL, c.role, c.outcome,
                                is_live(c.measured, c.flags), "forced" in c.flags)
                    for c in cases]),
        "latency": {kind: percentiles(found) for kind, found in values.items()},
        "flags": dict(sorted(Counter(flag for c in cases for flag in c.flags).items()))}


def _agree(part: str, counted: Mapping[str, Any], stored: Mapping[str, Any], where: object) -> None:
    if part == "flags":
        for name in sorted({*counted, *stored}):
            if stored.get(name, 0) != counted.get(name, 0):
                _refuse(f"flags.{spelt(name)} of {counted.get(name, 0)}", stored.get(name), where)
        return
    for name, mine in counted.items():
        theirs = stored.get(name)
        if part == "latency":
            if not _same(mine, theirs):
                values = ", ".join(f"{key} {value}" for key, value in mine.items())
                _refuse(f"latency.{name} of {values}", theirs, where)
            continue
        path = name if name.startswith("by_") else f"ias_{name}"
        for key in sorted({*mine, *(theirs if isinstance(theirs, Mapping) else ())}):
            _agree_rate(f"{path}.{spelt(key)}", mine.get(key),
                        theirs.get(key) if isinstance(theirs, Mapping) else None, where)


def _agree_rate(path: str, mine: Mapping[str, Any] | None, theirs: object, where: object) -> None:
    """A rate, and those of its levels where it has them."""
    if mine is None:
        _refuse(f"no {path}", theirs, where)
        return
    said = theirs if isinstance(theirs, Mapping) else {}
    if not isinstance(theirs, Mapping) or not _same(
            {k: v for k, v in mine.items() if k != "by_level"}, theirs):
        _refuse(f"{path} of {mine['passed']} in {mine['n']}",
                {k: said.get(k) for k in ("passed", "n", "rate", "ci")} if said else theirs, where)
    levels = mine.get("by_level")
    if levels is not None:
        told = said.get("by_level")
        told = told if isinstance(told, Mapping) else {}
        for level in sorted({*levels, *told}):
            _agree_rate(f"{path}.{spelt(level)}", levels.get(level), told.get(level), where)


def _same(mine: object, theirs: object) -> bool:
    """Whether a value says what was counted; what else a later rig says beside does no harm."""
    if isinstance(mine, Mapping):
        return isinstance(theirs, Mapping) and all(
            key in theirs and _same(value, theirs[key]) for key, value in mine.items())
    if isinstance(mine, list):
        return isinstance(theirs, list) and len(mine) == len(theirs) and all(
            map(_same, mine, theirs))
    if isinstance(mine, float):
        return type(theirs) in (int, float) and (mine == theirs or (
            isinstance(theirs, float) and math.isclose(mine, theirs, rel_tol=_REL, abs_tol=_ABS)))
    return type(mine) is type(theirs) and mine == theirs


def _refuse(expected: str, got: object, where: object) -> None:
    said = "none" if got is None else str(got)[:80]
    raise InputError.expected(f"{expected}, as the cases have it", where=where,
                              got=f"{said}; the file was changed, score the run again")
