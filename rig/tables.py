"""Scores as tables for the terminal: the same layout wherever scores are printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from audio.vad import VadSettings
from rig.console import Output
from verifiers.thresholds import DEFAULTS

LEVELS = ("L0", "L1", "L2", "L3", "L4a", "L4b", "none")


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
    output.table("latency", ["", "n", "p50 ms", "p90 ms", "p99 ms"],
                 [[kind, stat["n"], *(latency_text(stat[q]) for q in ("p50_ms", "p90_ms",
                                                                      "p99_ms"))]
                  for kind, stat in scores["latency"].items()])
    if scores["flags"]:
        output.table("flags", ["flag", "cases"], list(scores["flags"].items()))
    troubles = {s: n for s, n in scores["attempts"].items() if s != "done"}
    if troubles:
        output.table("sessions that are not scored", ["status", "n"], list(troubles.items()))
    if scores["playout_differences"]:
        output.line(f"{len(scores['playout_differences'])} verdicts depend on the playout policy: "
                    + ", ".join(d["case_id"] for d in scores["playout_differences"][:8]))
