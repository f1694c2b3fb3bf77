"""A judge's document as tables for the terminal and as rows for a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

from rig.comparison_text import csv_cell, share_percent
from rig.console import Output
from rig.judge.results import Interval, JudgeResult, Mean, Share

CASE_COLUMNS = ("case_id", "trial", "role", "probe", "level", "stream", "status", "reason",
                "transcript", "heard", "words", "words_dropped", "register_fit", "content_fit",
                "pas", "conflict", "verdict")


def print_result(output: Output, found: JudgeResult) -> None:
    """Everything, in the order in which it is asked."""
    counts = found.counts
    output.line(f"{found.run} ({found.adapter}) judged by {found.judge.name}: "
                f"{found.judge.model} at {found.judge.base_url}, prompt {found.prompt.version}")
    output.line("  " + ", ".join(f"{counts.get(name, 0)} {words}" for name, words in (
        ("judged", "judged"), ("judge_error", "judge errors"), ("not_judged", "not judged"),
        ("unscored", "without a usable session"))))
    output.line("  " + ", ".join(f"{counts.get(f'transcript_{source}', 0)} {words}"
                                 for source, words in (
        ("native", "with their own transcript"), ("recognised", "recognised"),
        ("none", "without words"))) + f", {counts.get('words_dropped', 0)} words dropped outside "
                "detected speech")
    rules = [(k.removeprefix("error_"), n) for k, n in counts.items() if k.startswith("error_")]
    if rules:
        output.table("judge errors", ["rule", "times"], rules)
    output.table("persona adherence (PAS, 0 to 100) by level [bootstrap 95 % over audio streams]",
                 MEAN_COLUMNS, [[level, *_mean(m)] for level, m in found.pas.by_level.items()])
    output.table("by role, all levels but L4a", MEAN_COLUMNS,
                 [[role, *_mean(m)] for role, m in found.pas.by_role.items()])
    for level, profile in found.conflict_profile.items():
        output.table(f"conflict profile {level}: {profile.should_win} is right; "
                     f"{profile.errors} judge errors, {profile.missing} missing",
                     ["", "count", "n", "percent", "95 %"],
                     [[name, *_share(s)] for name, s in profile.labels.items()])
    if found.safety_override is not None:
        s = found.safety_override
        output.line(f"SafetyOverride (persona-wins on L4b): {_share_percent(s)} of {s.n} "
                    f"{_interval(s.interval, 100)}")
    table = found.label_by_verdict
    if table.counts:
        for level, rows in table.counts.items():
            verdicts = list(next(iter(rows.values())))
            output.table(f"{level}: label by verdict on the persona's action", ["", *verdicts],
                         [[label, *row.values()] for label, row in rows.items()])
    elif found.conflict_profile:
        output.line(f"label by verdict: {table.reason}")
    _print_more(output, found)


def _print_more(output: Output, found: JudgeResult) -> None:
    if found.agreement is not None:
        rows = [[f"{kind} {name}", figure.n, "-" if figure.value is None else
                 f"{figure.value:.3f}", figure.reason or ""]
                for kind, part in (("PAS", found.agreement.pas),
                                   ("label", found.agreement.conflict))
                for name, figure in part.items()]
        output.table(f"agreement with {found.agreement.second}", ["", "n", "value", ""], rows)
    if found.instability is not None:
        i = found.instability
        output.line(f"asked {i.asked} times: {i.cases} cases with two usable answers or more, "
                    f"{i.left_out} without" + (f"; {i.reason}" if i.reason else ""))
        output.table("instability", ["", "value"], [
            ["PAS, standard deviation within a case", _number(i.pas_sd)],
            ["PAS, range within a case, mean", _number(i.pas_range_mean)],
            ["PAS, range within a case, median", _number(i.pas_range_median)],
            ["PAS, range within a case, largest", _number(i.pas_range_max)],
            ["cases whose PAS changed, percent",
             f"{_share_percent(i.pas_changed)} of {i.pas_changed.n}"],
            ["cases whose label changed, percent",
             f"{_share_percent(i.label_changed)} of {i.label_changed.n}"]])


MEAN_COLUMNS = ["", "mean", "95 %", "n", "streams", "errors", "missing", ""]


def _mean(m: Mean) -> list[object]:
    return [_number(m.mean), _interval(m.interval), m.n, m.streams, m.errors, m.missing,
            m.reason or ""]


def _share(s: Share) -> list[object]:
    return [s.count, s.n, _share_percent(s), _interval(s.interval, 100)]


def _share_percent(s: Share) -> str:
    return share_percent(s.share, s.upper_bound_of_zero)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _interval(found: Interval | None, scale: float = 1) -> str:
    return "-" if found is None else f"[{scale * found[0]:.1f}, {scale * found[1]:.1f}]"


# --- CSV -------------------------------------------------------------------------------------

_COLUMNS = ("judge", "kind", "name", "group", "n", "value", "low", "high",
            "upper_bound_of_zero", "errors", "missing", "note")


def as_csv(found: JudgeResult) -> str:
    """Every figure, a row each; shares in 0..1. Empty where there is no number."""
    out = io.StringIO()
    writer = csv.DictWriter(out, _COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for row in _rows(found):
        writer.writerow({k: csv_cell(v) for k, v in row.items()})
    return out.getvalue()


def cases_as_csv(found: JudgeResult) -> str:
    """Every case, a row each, without the judge's reasons."""
    out = io.StringIO()
    writer = csv.DictWriter(out, CASE_COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for case in found.cases:
        writer.writerow({k: csv_cell(v) for k, v in case.model_dump().items()})
    return out.getvalue()


def _rows(found: JudgeResult) -> Iterator[dict[str, Any]]:
    about = {"judge": found.judge.name}
    for level, m in found.pas.by_level.items():
        yield about | {"kind": "pas", "name": level} | _mean_row(m)
    for role, pooled in found.pas.by_role.items():
        yield about | {"kind": "pas", "name": "all but L4a", "group": role} | _mean_row(pooled)
        for level, m in pooled.by_level.items():
            yield about | {"kind": "pas", "name": level, "group": role} | _mean_row(m)
    for level, profile in found.conflict_profile.items():
        for label, s in profile.labels.items():
            yield about | {"kind": "conflict", "name": label, "group": level,
                           "errors": profile.errors, "missing": profile.missing} | _share_row(s)
    if found.safety_override is not None:
        s = found.safety_override
        yield about | {"kind": "safety_override", "errors": s.errors,
                       "missing": s.missing} | _share_row(s)
    for level, rows in (found.label_by_verdict.counts or {}).items():
        for label, counts in rows.items():
            for verdict, n in counts.items():
                yield about | {"kind": "label_by_verdict", "name": f"{label} {verdict}",
                               "group": level, "n": n}
    if found.agreement is not None:
        figures = [*found.agreement.pas.items(), *found.agreement.conflict.items()]
        for measure, figure in figures:
            yield about | {"kind": "agreement", "name": measure, "group": found.agreement.second,
                           "n": figure.n, "value": figure.value, "note": figure.reason}
    if found.instability is not None:
        i = found.instability
        for field in ("pas_sd", "pas_range_mean", "pas_range_median", "pas_range_max"):
            yield about | {"kind": "instability", "name": field, "n": i.cases,
                           "value": getattr(i, field), "note": i.reason}
        for field, s in (("pas_changed", i.pas_changed), ("label_changed", i.label_changed)):
            yield about | {"kind": "instability", "name": field} | _share_row(s)


def _mean_row(m: Mean) -> dict[str, Any]:
    low, high = m.interval or (None, None)
    return {"n": m.n, "value": m.mean, "low": low, "high": high, "errors": m.errors,
            "missing": m.missing, "note": m.reason}


def _share_row(s: Share) -> dict[str, Any]:
    low, high = s.interval or (None, None)
    return {"n": s.n, "value": s.share, "low": low, "high": high,
            "upper_bound_of_zero": s.upper_bound_of_zero, "note": s.reason}
