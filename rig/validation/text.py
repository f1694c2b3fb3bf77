"""The figures of `rig agree` for a terminal, and as rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

from rig.console import Output
from rig.validation.figures import Estimate

_HEAD = ("figure", "value", "low", "high", "n", "reason")


def print_agreement(output: Output, document: Mapping[str, Any]) -> None:
    """Tables of the study."""
    output.table("annotators", ["code", "complete", "partial", "unanswered"],
                 [(a["annotator"], a["complete"], a["partial"], a["unanswered"])
                  for a in document["annotators"]])
    if document["not_given_back"]:
        output.line("not given back: " + ", ".join(document["not_given_back"]))
    for title, columns, rows in _tables(document["study"], document["figures"]):
        output.table(title, columns, rows)
    why = sorted({f"{one.reason}" for _, one in _flat(document["figures"], "")
                  if one.value is None})
    if why:
        output.line("- where there is no value: " + "; ".join(why))
    if not document["complete"]:
        output.note("answers are missing: every figure carries the items it is over")


def _tables(study: str, f: Mapping[str, Any]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    if study == "h1":
        target, kappa = f["target_agreement"], f["fleiss_kappa"]
        yield ("recoverability (target agreement: share of answers)",
               ["role", "target agreement", "Fleiss' kappa"],
               [["all", _cell(target["all"], percent=True), _cell(kappa["all"])],
                *([role, _cell(one, percent=True), _cell(kappa["by_role"][role])]
                  for role, one in target["by_role"].items())])
        yield ("by action (kappa: of this answer)",
               ["target", "target agreement", "category kappa", "median range, s"],
               [[action, _cell(one, percent=True), _cell(kappa["by_category"][action]),
                 _range(f["timing"][action])] for action, one in target["by_action"].items()])
        yield ("by confidence", ["confidence", "target agreement"],
               [[c, _cell(one, percent=True)] for c, one in target["by_confidence"].items()])
    elif study == "h2":
        names = ["precision", "recall", "f1", "accuracy", "kappa", "human_kappa", "functional"]
        rows = {"all": f["all"], **f["by_action"], "near a threshold": f["near"],
                "away from it": f["away"]}
        yield ("verifiers against the majority of annotators",
               ["action", "items", "no majority", *(n.replace("_", " ") for n in names)],
               [[name, str(row["items"]), str(row["no_majority"]), *(_cell(row[n], row["items"])
                                                               for n in names)]
                for name, row in rows.items()])
    elif study == "h3":
        for scale in ("pas", "register", "content"):
            names = ["pearson", "spearman", "mae", "mean_difference"]
            yield (f"{scale}: judges against the mean of annotators",
                   ["judge", *(n.replace("_", " ") for n in names)],
                   [[judge, *(_cell(one[scale][n]) for n in names)]
                    for judge, one in f["judges"].items()])
        names = ["accuracy", "macro_f1", "kappa"]
        yield ("conflict labels: judges against the majority",
               ["judge", *(n.replace("_", " ") for n in names), "no majority"],
               [[judge, *(_cell(one["conflict"][n]) for n in names),
                 str(one["conflict"]["no_majority"])] for judge, one in f["judges"].items()])
        human = f["human"]
        yield ("annotators among themselves", ["figure", "value"],
               [*([f"PAS, pairs: {n}", _cell(one)] for n, one in human["pas_pairs"].items()),
                ["conflict labels: Fleiss' kappa", _cell(human["conflict_kappa"])]])
    else:
        names = ["faithful", "minor", "major"]
        # Pairs: a run may be called as a row is.
        parts = [("all", f["all"]), *((f"system {n}", one) for n, one in f["by_system"].items()),
                 *((f"transcript {n}", one) for n, one in f["by_transcript"].items())]
        yield ("transcripts", ["of", "items", *names],
               [[name, str(row["items"]),
                 *(_cell(row[n], row["items"], percent=True) for n in names)]
                for name, row in parts])
        yield ("annotators among themselves", ["figure", "value"],
               [["Fleiss' kappa", _cell(f["human_kappa"])]])


def _cell(one: Estimate, items: int | None = None, *, percent: bool = False) -> str:
    """Value and interval; and over how many items, where that is not `items`."""
    if one.value is None:
        return "-"
    by, digits = (100, 0) if percent else (1, 2)
    text = f"{one.value * by:.{digits}f}"
    if one.interval is not None:
        text += f" [{one.interval[0] * by:.{digits}f}, {one.interval[1] * by:.{digits}f}]"
    return text if one.n == items else f"{text} n={one.n}"


def _range(timing: Mapping[str, Any]) -> str:
    if not timing["n"]:
        return "-"
    return f"{timing['earliest_s']:.1f} to {timing['latest_s']:.1f} n={timing['n']}"


def as_csv(document: Mapping[str, Any]) -> str:
    """Every figure, a row each, under its dotted name; what is not defined is empty."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_HEAD)
    for name, one in _flat(document["figures"], ""):
        low, high = one.interval or ("", "")
        writer.writerow([name, "" if one.value is None else one.value, low, high, one.n,
                         one.reason or ""])
    return out.getvalue()


def _flat(value: Any, prefix: str) -> Iterator[tuple[str, Estimate]]:
    if isinstance(value, Estimate):
        yield prefix, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flat(inner, f"{prefix}.{name}" if prefix else str(name))
