"""A comparison as tables for the terminal, rows for a spreadsheet, and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from rig.console import Output
from rig.floor_data import mark
from sweeps.aggregate import LEVELS

EFFECT_NAMES = {"entailment_gap": "entailment gap (L1 - L2)",
                "redundancy_gain": "redundancy gain (L3 - L2)", "role_tax": "role tax (L3 - L1)"}
_LATEX = {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
          "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}

MAX_NAMED = 8
"""Cases that one line names; JSON and CSV have all."""
DIFFERENCE_COLUMNS = ["n", "+", "-", "points", "95 %", "McNemar p", "clustered p", "Holm p",
                      "verdict"]
RATE_TITLE = "IAS in percent [bootstrap 95 % over audio streams]"
"""Of a table of `rate_cells`."""


def print_comparison(output: Output, document: dict[str, Any]) -> None:
    """Everything, in the order in which it is asked."""
    systems = document["systems"]
    levels = levels_of(systems)
    for title, floor in (("systems", False), ("floors and oracles", True)):
        rows = [[name, pool, *(cells.get(level, "-") for level in levels)]
                for name, s in systems.items() if s["floor"] is floor for pool in s["ias"]
                for cells in (rate_cells(s["ias"][pool]),)]
        if rows:
            output.table(f"{title}: {RATE_TITLE}",
                         ["run", "pool", *levels], rows)
    for pool in ("core", "all"):
        rows = [[f"{name}: {EFFECT_NAMES[e]}", *difference_cells(found)]
                for name, s in systems.items() if not s["floor"]
                for e, found in s["effects"][pool].items() if found["n"]]
        if rows:
            output.table(f"effects, {pool}: percentage points", ["", *DIFFERENCE_COLUMNS], rows)
        rows = [[f"{p['first']} - {p['second']}, {p['level']}", *difference_cells(p)]
                for p in document["pairs"] if p["pool"] == pool and p["n"]]
        if rows:
            output.table(f"systems, {pool}: percentage points", ["", *DIFFERENCE_COLUMNS], rows)
    for line in (*document.get("floors_missing", ()), *_missing(document),
                 *_flip_lines(document["flips"])):
        output.line(line)
    for name, s in systems.items():
        _print_system(output, name, s)
    output.line("a difference is resolved when its clustered p, adjusted by Holm in its family, is "
                f"below {document['alpha']:g}; + and - are the discordant pairs")


def _print_system(output: Output, name: str, s: dict[str, Any]) -> None:
    if s["floor"]:
        output.line(f"{name}, floor: {_counts(s)}; {'; '.join(s['notes'])}")
        return
    output.line(f"{name}: {_counts(s)}, {s['trials']} trial(s)")
    for note in s["notes"]:
        output.line(f"  {note}")
    smallest = _smallest(s["effects"]["all"])
    if smallest:
        output.line(f"  {smallest}")
    rows = [[f"{kind} {key}", found["n"],
             share_percent(found["rate"], found["upper_bound_of_zero"]), _interval(found["wilson"]),
             _interval(found["bootstrap"])]
            for kind in ("action", "role", "probe") for key, found in s[f"by_{kind}"].items()]
    output.table(f"{name}: rates in percent, all levels but L4a",
                 ["", "n", "rate", "Wilson 95 %", "bootstrap 95 %"], rows)
    rows = [[f"{role}: {EFFECT_NAMES[e]}", *difference_cells(found)]
            for role, effects in s["effects_by_role"].items() for e, found in effects.items()
            if found["n"]]
    if rows:
        output.table(f"{name}: effects by role, all actions; not adjusted, for looking",
                     ["", *DIFFERENCE_COLUMNS], rows)
    matched = s["matched_audio"]
    if matched:
        rows = [[pair, *difference_cells(found)] for pair, found in matched["pairs"].items()
                if found["n"]]
        if rows:
            output.table(f"{name}: roles on the same audio ({matched['streams']} streams); "
                         "not adjusted", ["", *DIFFERENCE_COLUMNS], rows)
    repeated = s["repeated"]
    if repeated:
        hats = ", ".join(f"pass^{k} {_percent(v)}" for k, v in repeated["pass_hat"].items())
        output.line(f"  trials, all levels but L4a: {repeated['unstable']} of {repeated['cases']} "
                    "cases have both verdicts; variance of a verdict within cases "
                    f"{_variance(repeated['variance_within'])}, between cases "
                    f"{_variance(repeated['variance_between'])}; {hats}")


def _counts(s: dict[str, Any]) -> str:
    """What was decided, and what was not."""
    others = "".join(f", {s[kind]} {kind}" for kind in ("unscored", "unsupported") if s[kind])
    return f"{s['verdicts']} verdicts{others} on {s['streams']} audio streams"


def _missing(document: dict[str, Any]) -> Iterator[str]:
    """What cannot be compared, once each: levels that a system lacks, cases that a pair lacks."""
    for name, s in document["systems"].items():
        lost = [e for e, found in s["effects"]["all"].items() if not found["n"]]
        if lost and not s["floor"]:
            yield (f"{name} has no {', no '.join(EFFECT_NAMES[e] for e in lost)}: its cases are on "
                   f"{', '.join(s['levels']) or 'no level'}"
                   + (f", {s['unscored']} unscored" if s["unscored"] else ""))
    for pair in document["common"]:
        if pair["only_first"] or pair["only_second"]:
            yield (f"{pair['first']} and {pair['second']} have {pair['common']} sessions in "
                   f"common; {pair['only_first']} of the first and {pair['only_second']} of the "
                   "second are in no pair")
    empty: dict[tuple[str, str], list[str]] = {}
    for p in document["pairs"]:
        if p["pool"] == "all" and not p["n"]:
            empty.setdefault((p["first"], p["second"]), []).append(p["level"])
    for (first, second), levels in empty.items():
        yield f"{first} and {second} have no scored case in common on {', '.join(levels)}"


def _flip_lines(flips: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Which cases differ, by what differs and which side passed."""
    groups: dict[tuple[str, str], list[str]] = {}
    for flip in flips:
        if flip["kind"] == "effect":
            about = f"{flip['system']}, {EFFECT_NAMES[flip['name']]}"
        else:
            about = f"{flip['system']} - {flip['second']}, {flip['name']}"
        trial = "" if flip["trial"] == 1 else f" t{flip['trial']}"
        groups.setdefault((about, flip["passed"]), []).append(flip["conversation"] + trial)
    for (about, passed), names in groups.items():
        more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        yield (f"{about}: {len(names)} passed with {passed} alone: "
               f"{', '.join(names[:MAX_NAMED])}{more}")


def _smallest(effects: dict[str, Any]) -> str:
    """What the design can resolve at all, in words."""
    known = [e for e in effects.values() if e["resolves"] is not None]
    if not known:
        return "no effect can be resolved: fewer than six audio streams"
    best = min(known, key=lambda e: e["resolves"])
    text = (f"before Holm, {best['n']} pairs on {best['clusters']} audio streams resolve "
            f"{100 * best['resolves']:.1f} points at the least, when all that differ point one way")
    powered = [e["resolves_powered"] for e in known if e["resolves_powered"] is not None]
    if powered:
        text += f"; about {100 * min(powered):.1f} points with power 0.8 at the discordance seen"
    return text


def difference_cells(found: dict[str, Any]) -> list[str]:
    """The cells under `DIFFERENCE_COLUMNS`."""
    interval = found["interval"]
    return [str(found["n"]) + (f" (+{found['one_sided']} one-sided)" if found["one_sided"] else ""),
            str(found["only_first"]), str(found["only_second"]),
            "-" if found["difference"] is None else f"{100 * found['difference']:+.1f}",
            "-" if interval is None else f"[{100 * interval[0]:+.1f}, {100 * interval[1]:+.1f}]",
            _p(found["p_mcnemar"]), _p(found["p_clustered"]), _p(found["p_holm"]),
            found["verdict"]]


def _p(value: float | None) -> str:
    if value is None:
        return "-"
    return "<0.0001" if value < 0.0001 else f"{value:.4f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _variance(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def share_percent(share: float | None, upper_bound_of_zero: float | None) -> str:
    """A share in percent; of a zero also what it may be at most (95 %, one-sided)."""
    bound = upper_bound_of_zero
    return _percent(share) + ("" if bound is None else f" (at most {100 * bound:.1f})")


def _interval(value: tuple[float, float] | None) -> str:
    return "-" if value is None else f"[{100 * value[0]:.0f}, {100 * value[1]:.0f}]"


def levels_of(systems: dict[str, Any]) -> list[str]:
    """The levels that any of the systems has, in their order."""
    found = {level for s in systems.values() for pool in s["ias"].values() for level in pool}
    return [level for level in LEVELS if level in found]


def rate_cells(levels: dict[str, Any]) -> dict[str, str]:
    """A cell for each level: percent, interval, n."""
    return {level: f"{_percent(r['rate'])} {_interval(r['bootstrap'])} n={r['n']}"
            for level, r in levels.items()}


# rows for a spreadsheet

_CSV_COLUMNS = ("kind", "system", "second", "pool", "group", "name", "n", "passed", "rate",
                "only_first", "only_second", "one_sided", "difference", "low", "high",
                "p_mcnemar", "p_clustered", "p_holm", "verdict", "conversation", "trial", "action",
                "passed_with", "value")


def as_csv(document: dict[str, Any]) -> str:
    """Every rate and difference, a row each; shares in 0..1. Empty where there is no number."""
    out = io.StringIO()
    writer = csv.DictWriter(out, _CSV_COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for row in _rows(document):
        writer.writerow({k: csv_cell(v) for k, v in row.items() if k in _CSV_COLUMNS})
    return out.getvalue()


def csv_cell(value: object) -> object:
    """A run's name may begin like a formula; a spreadsheet would run it."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return "" if value is None else value


def _rows(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for system, s in document["systems"].items():
        about = {"system": system}
        for pool, levels in s["ias"].items():
            for level, found in levels.items():
                yield about | {"kind": "ias", "pool": pool, "name": level} | _rate_row(found)
        for kind in ("action", "role", "probe"):
            for key, found in s[f"by_{kind}"].items():
                yield about | {"kind": kind, "name": key} | _rate_row(found)
        for pool, effects in s["effects"].items():
            for e, found in effects.items():
                yield about | {"kind": "effect", "pool": pool, "name": e} | _difference_row(found)
        for role, effects in s["effects_by_role"].items():
            for e, found in effects.items():
                yield about | {"kind": "effect", "pool": "all", "group": role, "name": e} \
                    | _difference_row(found)
        for pair, found in (s["matched_audio"] or {"pairs": {}})["pairs"].items():
            yield about | {"kind": "matched_audio", "pool": "all", "name": pair} \
                | _difference_row(found)
        for name, n, value in _repeated_rows(s["repeated"]):
            yield about | {"kind": "trials", "pool": "all", "name": name, "n": n, "value": value}
    for found in document["pairs"]:
        yield {"kind": "pair", "system": found["first"], "second": found["second"],
               "pool": found["pool"], "name": found["level"]} | _difference_row(found)
    for flip in document["flips"]:
        yield {**flip, "kind": f"flip_{flip['kind']}", "passed": None,
               "passed_with": flip["passed"]}


def _repeated_rows(repeated: dict[str, Any] | None) -> Iterator[tuple[str, int | None, Any]]:
    """Name, cases and value of what repeated trials tell. The cases of pass^k are those with k
    scored trials or more: how many is not known here."""
    if repeated is None:
        return
    for name in ("unstable", "variance_within", "variance_between"):
        yield name, repeated["cases"], repeated[name]
    for k, value in repeated["pass_hat"].items():
        yield f"pass^{k}", None, value


def _rate_row(found: dict[str, Any]) -> dict[str, Any]:
    low, high = found["bootstrap"] or (None, None)
    return {"n": found["n"], "passed": found["passed"], "rate": found["rate"], "low": low,
            "high": high}


def _difference_row(found: dict[str, Any]) -> dict[str, Any]:
    low, high = found["interval"] or (None, None)
    return {**found, "low": low, "high": high}


# LaTeX

def as_latex(document: dict[str, Any]) -> str:
    """Tables (booktabs): IAS by level; effects, in bold what is resolved; trials where a run has
    several."""
    systems = document["systems"]
    levels = levels_of(systems)
    head = "% made by rig compare; needs \\usepackage{booktabs}\n"
    ias = [[_escape(name) + (mark(name.partition(" ")[0]) if s["floor"] else ""), pool,
            *(_percent(s["ias"][pool].get(level, {}).get("rate")) for level in levels)]
           for name, s in systems.items() for pool in s["ias"]]
    effects = [[_escape(name), pool, *(_latex_effect(s["effects"][pool][e]) for e in EFFECT_NAMES)]
               for name, s in systems.items() if not s["floor"] for pool in s["effects"]]
    tables = [_tabular(["System", "Pool", *levels], ias), _tabular(
        ["System", "Pool", "Entailment gap", "Redundancy gain", "Role tax"], effects)]
    trials = {name: s["repeated"] for name, s in systems.items() if s["repeated"]}
    if trials:
        ks = [str(k) for k in range(1, max(len(r["pass_hat"]) for r in trials.values()) + 1)]
        tables.append(_tabular(
            ["System", "Cases", "Both verdicts", "Variance within", "between",
             *(f"pass\\textasciicircum{{}}{k}" for k in ks)],
            [[_escape(name), str(r["cases"]), str(r["unstable"]), _variance(r["variance_within"]),
              _variance(r["variance_between"]), *(_percent(r["pass_hat"].get(k)) for k in ks)]
             for name, r in trials.items()]))
    return head + "\n".join(tables)


def _latex_effect(found: dict[str, Any]) -> str:
    if found["difference"] is None:
        return "--"
    text = f"{100 * found['difference']:+.1f}"
    return f"\\textbf{{{text}}}" if found["verdict"] == "resolved" else text


def _tabular(columns: list[str], rows: list[list[str]]) -> str:
    lines = [f"\\begin{{tabular}}{{ll{'r' * (len(columns) - 2)}}}", "\\toprule",
             " & ".join(columns) + r" \\", "\\midrule",
             *(" & ".join("--" if cell == "-" else cell for cell in row) + r" \\" for row in rows),
             "\\bottomrule", "\\end{tabular}"]
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    text = "".join(_LATEX.get(c, c) for c in text if c.isprintable())
    # A row that began with [ or * would be an argument of the command before it.
    return f"{{{text}}}" if text[:1] in ("[", "*") else text
