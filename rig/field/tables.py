"""A field study as text, and one line a turn as CSV."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from audio.files import atomic_write_text
from rig.comparison_text import csv_cell
from rig.console import Output
from rig.field.call_csv import origin_of_words
from rig.field.prosody import FIGURES

CSV_COLUMNS = ("file", "kind", "caller_start_s", "caller_end_s", "agent_start_s", "agent_end_s",
               "latency_ms", "doubtful", "l2_ms", "opens_with_filler", "words")


CALLS_SHOWN = 200
"""Ours, as many as the page has timelines of: a terminal keeps little more."""

SKIPPED_LINES = 20
"""Ours: lines on what could not be read."""


def print_field(output: Output, document: Mapping[str, Any]) -> None:
    """Calls, warnings, totals with range and reference, gates, sweep, groups."""
    calls = document["calls"]
    shown = calls[:CALLS_SHOWN]
    if calls:
        output.table("calls (caller and agent are channels)", *call_rows(shown))
    for call in shown:
        for warning in call["warnings"]:
            output.line(f"{call['file']}: {warning['code']}: {warning['detail']}")
        for side, found in call["channels"].items():
            if found["spans_over_30s_n"]:
                output.line(f"{call['file']}: {side}: {found['spans_over_30s_n']} spans over 30 s, "
                            f"the longest {found['longest_span_s']:.0f} s: pauses in them were not "
                            "detected")
    if more_n := len(calls) - len(shown):
        codes = Counter(code for call in calls for code in {w["code"] for w in call["warnings"]})
        told = ", ".join(f"{code} {n}" for code, n in sorted(codes.items()))
        output.line(f"{more_n} more calls are not listed here; --calls-csv and --json have all. "
                    f"Calls with a warning, of all {len(calls)}: {told or 'none'}")
    for line in _skipped_lines(document["skipped"]):
        output.line(line)
    if not calls:
        # Empty tables and how turns are told would push the reasons off the screen.
        output.line("no call could be read")
        return
    _totals(output, "all calls", document["aggregate"])
    for name, group in document.get("groups", {}).items():
        _totals(output, f"group {name}", group)
    settings = document["settings"]
    output.line(f"yield point: {settings['yield_silence_s']:g} s of caller silence, also in a "
                "pause of one caller turn, so there can be more of them than turns; overlap rule: "
                f"{settings['overlap_rule']}")
    if settings["edges"] == "detector":
        output.line("edges: the detector's, less their bias on clean speech at threshold 0.5, "
                    "whatever the noise and the threshold are")


def _skipped_lines(skipped: Sequence[Mapping[str, str]]) -> list[str]:
    """Each reason once, those of most calls first."""
    alike: dict[str, list[Mapping[str, str]]] = {}
    for call in skipped:
        alike.setdefault(_reason_alone(call), []).append(call)
    most = sorted(alike.items(), key=lambda item: -len(item[1]))
    out = [f"skipped: {calls[0]['reason']}" if len(calls) == 1 else
           f"skipped: {len(calls)} calls, the first {calls[0]['file']}: {reason}"
           for reason, calls in most[:SKIPPED_LINES]]
    if more_n := sum(len(calls) for _, calls in most[SKIPPED_LINES:]):
        out.append(f"skipped: {more_n} more; --json has all")
    return out


def _reason_alone(call: Mapping[str, str]) -> str:
    """A reason without the name of the call, or of one of its two files, before it."""
    for name in (call["file"], *call["file"].split(" + ")):
        if call["reason"].startswith(f"{name}: "):
            return call["reason"].removeprefix(f"{name}: ")
    return call["reason"]


def call_rows(calls: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    """Columns and one line a call."""
    return (["file", "s", "caller", "agent", "replies", "L1 p50", "p90 ms", "interrupted",
             "turn-take", "talk ratio", "warnings"], [_call_row(call) for call in calls])


def _call_row(call: Mapping[str, Any]) -> list[Any]:
    l1 = call["l1"]
    return [call["file"], f"{call['duration_s']:.0f}", call["caller_channel"],
            call["agent_channel"], l1["n"], _ms(l1["p50_ms"]), _ms(l1["p90_ms"]),
            share(call["interruption_rate"]), share(call["turn_take"]),
            _percent(call["talk_ratio"]), " ".join(sorted({w["code"] for w in call["warnings"]}))]


TOTAL_COLUMNS = ("", "value [95 %]", "range over detector settings", "published", "gate")


def _totals(output: Output, title: str, total: Mapping[str, Any]) -> None:
    output.table(f"{title}: {total['measured_n']} of {total['calls_n']} measured, "
                 f"{total['duration_s'] / 60:.1f} minutes", TOTAL_COLUMNS, total_rows(total))
    for line in total_lines(total):
        output.line(line)
    if total["turn_take_sweep"]:
        output.table(f"{title}: turn-take rate by yield silence", ["s", "rate", "overlapped"],
                     [[f"{p['yield_silence_s']:g}", share(p), p["overlapped"]]
                      for p in total["turn_take_sweep"]])


def total_rows(total: Mapping[str, Any]) -> list[list[Any]]:
    """What `TOTAL_COLUMNS` says of each headline figure."""
    l1, l2, u1, take = total["l1"], total["l2"], total["u1"], total["turn_take"]
    spread = total.get("sensitivity", {}).get("range", {})
    reference, gates = total["reference"], total["gates"]
    return [
        ["L1 p50 ms", f"{_ms(l1['p50_ms'])}{_interval(l1['p50_ci'], 1)} n={l1['n']}",
         _spread(spread.get("l1_p50_ms"), 1), reference["l1_p50_ms"], _gate(gates["l1_p50_ms"])],
        ["L1 p90 ms", f"{_ms(l1['p90_ms'])}{_interval(l1['p90_ci'], 1)} n={l1['n']}",
         _spread(spread.get("l1_p90_ms"), 1), reference["l1_p90_ms"], ""],
        ["replies over 1 s", share(l1["over_1s"]), "", reference["l1_over_1s"], ""],
        ["interruption rate", share(total["interruption_rate"]),
         _spread(spread.get("interruption_rate"), 100), reference["interruption_rate"],
         _gate(gates["interruption_rate"], percent=True)],
        ["turn-take rate", share(take), _spread(spread.get("turn_take_rate"), 100),
         reference["turn_take"], _gate(gates["turn_take_rate"], percent=True)],
        ["L2 p50 ms", _value(l2, "p50_ms", "p50_ci"), "", reference["l2_p50_ms"], ""],
        ["filler tax ms", _value(l2, "filler_tax_ms", "filler_tax_ci"), "",
         reference["filler_tax_ms"], ""],
        ["filler rate", share(total["filler_rate"]) if l2["words"]["calls_n"] else "-", "",
         reference["filler_rate"], ""],
        ["entity errors (U1)", share(u1) if u1["calls_n"] else "-", "",
         reference["entity_error_rate"], ""],
        ["talk ratio", _percent(total["talk_ratio"]), "", reference["talk_ratio"], ""],
        ["win rate (A1)", share(total["a1"]["win"]) if total["a1"]["pairs_n"] else "-", "",
         reference["a1_win_rate"], ""],
    ]


def total_lines(total: Mapping[str, Any]) -> list[str]:
    """What stands below the figures: counts apart, and why there is none of something."""
    l1, l2, u1, take = total["l1"], total["l2"], total["u1"], total["turn_take"]
    out = [f"caller turns {l1['caller_turns_n']}, without a reply {l1['missing_n']}; yield "
           f"points apart: {take['overlapped']} with the agent already speaking, "
           f"{take['fast']} with a fast reply; in no rate: {l1['doubtful_n']} doubtful turns"]
    bare = _ms(l1.get("p50_uncorrected_ms"))
    if bare not in ("-", _ms(l1["p50_ms"])):
        out.append(f"L1 p50 with bare edges, as the detector has them: {bare} ms")
    if (by := total.get("sensitivity", {}).get("by_setting", {}).get("min_silence_ms")):
        out.append(f"over the minimum silence alone: L1 p50 {_spread(by['l1_p50_ms'], 1)} ms, "
                   f"turn-take {_spread(by['turn_take_rate'], 100)}")
    out += prosody_lines(total["prosody"])
    out += _a1_lines(total["a1"])
    if "reason" in l2:
        out.append(f"L2: {l2['reason']}")
    if u1["wer"] is not None:
        ratio = "-" if u1["ratio_to_wer"] is None else f"{u1['ratio_to_wer']:.2f}"
        out.append(f"U1: {u1['calls_n']} calls; WER {_percent(u1['wer'])} of "
                   f"{u1['reference_tokens_n']} tokens, entity errors {ratio} x WER")
    else:
        out.append(f"U1: {u1['reason']}")
    if words := l2["words"]["given_n"]:
        origin = ", ".join(f"{n} {name}" for name, n in l2["words"]["origin"].items())
        out.append(f"words of {l2['words']['calls_n']} calls ({origin}): {words}, of them "
                   f"{l2['words']['dropped_n']} outside detected speech dropped; replies without "
                   f"words {l2['without_words_n']}, of filler alone {l2['filler_only_n']}")
    for by in l2["words"].get("recognised_by", ()):
        out.append(f"recognised by {by}: what is measured on these words has its errors in it")
    for left in total["words_unusable"]:
        out.append(f"words not used: {left['file']}: {left['reason']}")
    for left in total["left_out"]:
        out.append(f"left out: {left['file']}: {left['reason']}")
    return out


def prosody_lines(stat: Mapping[str, Any]) -> list[str]:
    """How the agent speaks, and what the calls fall into."""
    out = [f"prosody: {stat['reason']}"] if "reason" in stat else []
    if not stat["calls_n"]:
        return out
    said = [f"{name} {stat[name]['median']:.2f}"
            + ("" if stat[name]["ci"] is None else
               f" [{stat[name]['ci'][0]:.2f}, {stat[name]['ci'][1]:.2f}]")
            for name in FIGURES if stat[name]["median"] is not None]
    out.append(f"prosody, median of {stat['calls_n']} calls: "
               f"{', '.join(said) or 'too little speech'}")
    if "calls_by_cluster" in stat:
        found = stat["calls_by_cluster"]
        out.append("clusters: " + (", ".join(f"{n} calls in {c}" for c, n in found.items())
                                   or "no call is in one"))
    return out + (_cluster_lines(stat["clusters"]) if "clusters" in stat else [])


def _a1_lines(a1: Mapping[str, Any]) -> list[str]:
    if not a1["pairs_n"]:
        return [f"A1: {a1['win']['reason']}"]
    win, places = a1["win"], a1["same_place"]
    out = [f"A1: {a1['pairs_n']} pairs: {win['count']} won, {a1['losses_n']} lost, "
           f"{a1['ties_n']} tied ({a1['identical_n']} the same words); not the same in both "
           f"orders: {share(a1['inconsistent'])} (first place both times {places['first']}, second "
           f"{places['second']}); in no rate: {a1['judge_error_n']} judge errors, "
           f"{a1['not_judged_n']} not judged, {a1['unscored_n']} without a reply or its words"]
    return out + [f"A1: {p['file']} at {p['agent_start_s']:g} s: {p['status']}: {p['reason']}"
                  for p in a1.get("pairs", ()) if p["reason"] is not None]


def _cluster_lines(found: Mapping[str, Any]) -> list[str]:
    by_k = ", ".join(f"k={k} {v:.2f}" for k, v in found["silhouette_by_k"].items())
    tried = f"; silhouettes: {by_k}" if by_k else ""
    if found["k"] is None:
        return [f"clusters on tilt and centroid: {found['reason']}{tried}"]
    out = [f"{found['k']} clusters of {found['calls_n']} calls on tilt and centroid, silhouette "
           f"{found['silhouette']:.2f} (one voice: below {found['chance_silhouette_p95']:.2f} in "
           f"95 % of draws), calls in none {found['outliers_n']}{tried}; a cluster may be a line "
           "or a codec as well as a voice"]
    return out + [f"cluster {g['cluster']}, medians of {g['calls_n']} calls: " + ", ".join(
        f"{name} {g[name]:.2f}" for name in FIGURES if g[name] is not None)
        for g in found["groups"]]


def share(stat: Mapping[str, Any]) -> str:
    """`42.9 % [33, 53] n=7`, or why there is none."""
    if stat["rate"] is None:
        return str(stat.get("reason", "-"))
    return f"{100 * stat['rate']:.1f} %{_interval(stat['ci'], 100)} n={stat['n']}"


def _value(stat: Mapping[str, Any], name: str, ci: str) -> str:
    """`812 [700, 900] n=7`; why there is none stands under the table."""
    if stat[name] is None:
        return "-"
    return f"{stat[name]:.0f}{_interval(stat[ci], 1)} n={stat['n']}"


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _interval(ci: list[float] | None, factor: float) -> str:
    return "" if ci is None else f" [{factor * ci[0]:.0f}, {factor * ci[1]:.0f}]"


def _spread(found: list[float] | None, factor: float) -> str:
    """`factor` 100: shares, told in percent."""
    unit = " %" if factor == 100 else ""
    return "-" if found is None else f"{factor * found[0]:.0f} to {factor * found[1]:.0f}{unit}"


def _gate(gate: Mapping[str, Any], *, percent: bool = False) -> str:
    """`percent`: the limit is a share in 0..1, the values beside it are in percent."""
    sign, limit = gate["limit"].split()
    word = {None: "not measured", True: "met", False: "NOT MET"}[gate["met"]]
    return f"{sign} {f'{100 * float(limit):.1f} %' if percent else limit}: {word}"


def write_csv(path: Path, document: Mapping[str, Any]) -> None:
    """One line a turn. Text that a spreadsheet would run as a formula is quoted with a `'`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for call in document["calls"]:
        words = origin_of_words(call)
        for turn in call["turns"]:
            writer.writerow([_cell(call["file"]), *(_cell(turn[c]) for c in CSV_COLUMNS[1:-1]),
                             _cell(words)])
    atomic_write_text(path, out.getvalue())


def _cell(value: object) -> object:
    return csv_cell(int(value) if isinstance(value, bool) else value)
