"""Scores as tables for the terminal: the same layout wherever scores are printed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from audio.vad import VadSettings
from rig.console import Output
from rig.recount import counted_from
from rig.wording import counted
from sweeps.aggregate import LEVELS
from verifiers.thresholds import DEFAULTS


def rate_text(stat: Mapping[str, Any] | None) -> str:
    """`42.9 [33, 53] n=7, 1 unscored`: percent, 95 % interval, and what stands behind it."""
    if stat is None:
        return "-"
    unscored = f", {stat['unscored']} unscored" if stat["unscored"] else ""
    if not stat["n"] or stat["rate"] is None:
        return f"none scored{unscored}"
    low, high = stat["ci"]
    return (f"{100 * stat['rate']:.1f} [{100 * low:.0f}, {100 * high:.0f}] n={stat['n']}"
            f"{unscored}")


def latency_text(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def changed_settings(scores: Mapping[str, Any]) -> str:
    """Thresholds and detector settings that are not the defaults: `name=value, ...`, or nothing."""
    defaults = {**asdict(DEFAULTS), **VadSettings().facts()}
    used = {**scores["thresholds"], **scores["vad"]}
    return ", ".join(f"{k}={v:g}" for k, v in used.items()
                     if isinstance(v, int | float) and v != defaults.get(k))


def alike(reason: str, case_id: str = "") -> str:
    """The kind of a reason: reasons that differ in numbers, in the file that they begin with, and
    in the name of their case alone are one. The name counts where it is a name, in quotes or in a
    file's: a case may be called "a", and that is a word of many reasons."""
    head, colon, rest = reason.partition(": ")
    if colon and re.search(r"[./\\]", head):
        if rest.startswith("expected "):
            head = "FILE"
        elif case_id:
            head = re.sub(rf"(?<!\w){re.escape(case_id)}(?!\w)", "CASE", head)
        reason = f"{head}: {rest}"
    if case_id:
        reason = re.sub(rf"(['\"`]){re.escape(case_id)}\1", "CASE", reason)
    return re.sub(r"\d+(\.\d+)?", "#", reason)


MOST_KINDS = 20
"""Kinds of reasons that are printed, the most frequent first; the rest is counted. Ours."""


def unscored_lines(cases: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why sessions have no verdict, a line a kind; and a warning where none has one."""
    kinds: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for case in cases:
        if case["outcome"] == "unscored":
            kinds[alike(case["reason"], case["case_id"])].append(case)
    ordered = sorted(kinds.values(), key=len, reverse=True)
    out = []
    for found in ordered[:MOST_KINDS]:
        first = found[0]
        others = "" if len(found) == 1 else f" (of {first['case_id']} t{first['trial']})" \
            if first["reason"] != found[-1]["reason"] else ""
        out.append(f"unscored: {counted(len(found), 'session')}: {first['reason']}{others}")
    if rest := ordered[MOST_KINDS:]:
        out.append(f"unscored: {counted(sum(map(len, rest)), 'session')} for "
                   f"{len(rest)} more reasons")
    if cases and not any(case["outcome"] in ("pass", "fail") for case in cases):
        out.append(f"WARNING: nothing is scored: no verdict on any of {len(cases)} sessions")
    return out


def print_scores(output: Output, name: str, scores: Mapping[str, Any]) -> None:
    """IAS by level and action, latency, flags."""
    ias = scores["ias"]
    levels = [level for level in LEVELS if level in ias["all"]]
    output.table(
        f"{name}: IAS in percent (playout {scores['playout']})",
        ["", *levels],
        [["ias_core (LISTEN READBACK TAKE_TURN YIELD)",
          *(rate_text(ias["core"].get(level)) for level in levels)],
         ["ias_all (nine actions)", *(rate_text(ias["all"].get(level)) for level in levels)]])
    if scores.get("conditions"):
        output.line(f"line conditions: {', '.join(scores['conditions'])}")
    if changed := changed_settings(scores):
        output.line(f"not the default settings: {changed}")
    output.table("by action, all levels but L4a", ["action", "IAS"],
                 [[action, rate_text(stat)] for action, stat in ias["by_action"].items()])
    output.table("by role, all levels but L4a", ["role", "IAS"],
                 [[role, rate_text(stat)] for role, stat in ias["by_role"].items()])
    output.table("latency", ["", "n", "p50 ms", "p90 ms", "p99 ms", "counts from"],
                 [[kind, stat["n"], *(latency_text(stat[q]) for q in ("p50_ms", "p90_ms",
                                                                      "p99_ms")),
                   counted_from(kind, scores["cases"])]
                  for kind, stat in scores["latency"].items()])
    if scores["flags"]:
        output.table("flags", ["flag", "cases"], list(scores["flags"].items()))
    troubles = {s: n for s, n in scores["attempts"].items() if s != "done"}
    if troubles:
        output.table("sessions that are not scored", ["status", "n"], list(troubles.items()))
    for line in unscored_lines(scores["cases"]):
        output.line(line)
    if scores["playout_differences"]:
        output.line(f"{len(scores['playout_differences'])} verdicts depend on the playout policy: "
                    + ", ".join(d["case_id"] for d in scores["playout_differences"][:8]))
