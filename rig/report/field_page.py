"""A field study as a page: gates, reply gaps, turn-take by yield silence, calls and their warnings.

Made from the document of `rig field --json` alone, which may come from somebody else: what does not
read as one is an `InputError`, and every name in it is text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from audio.errors import InputError
from rig.field.document import SCHEMA_VERSION
from rig.field.pictures import STYLE, call_svg
from rig.field.tables import TOTAL_COLUMNS, call_rows, total_lines, total_rows
from rig.report.colours import OKABE_ITO
from rig.report.figures import GREY, LEGEND, SYMBOLS, Table, legend_px, percent
from rig.report.page import Chart, Section, render, write_page
from rig.store import read_text
from verifiers.calls.gates import L1_P50_BELOW_MS, TURN_TAKE_AT_LEAST

PICTURES_MAX = 200
"""Calls whose picture is on the page: 30 to 200 KB each for calls of minutes. Ours."""
PICTURES_CHARACTERS = 24_000_000
FILE_MAX_BYTES = 512 * 1024 * 1024
PUBLISHED_TURN_TAKE = ((0.5, 0.37), (3.0, 0.68))
PUBLISHED_L1_MS = ((50, 1230.0), (90, 2493.0))
"""CallScreenBench, table 2 and appendix A (`verifiers.calls.gates.REFERENCE`): 76 calls of one
deployment. Its 45.1 % stands at a yield silence that the paper does not name, so it is no point."""
_BIN_MS = 100.0
_BINS_MAX = 80


def read_field_document(path: Path) -> dict[str, Any]:
    """What `rig field --json` printed. Raises `InputError` for anything else."""
    what = "a document of `rig field --json`"
    if path.is_file() and path.stat().st_size > FILE_MAX_BYTES:
        raise InputError.expected(f"a file of at most {FILE_MAX_BYTES >> 20} MB",
                                  got=f"{path.stat().st_size >> 20} MB", where=path)
    try:
        found = json.loads(read_text(path, what).removeprefix("\ufeff"), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise InputError.expected(what, got=f"no JSON ({error})", where=path) from error
    keys = {"schema_version", "settings", "calls", "aggregate", "skipped"}
    if not isinstance(found, dict) or not keys <= found.keys():
        raise InputError.expected(what, got="another document", where=path)
    if found["schema_version"] != SCHEMA_VERSION:
        raise InputError.expected(f"schema_version {SCHEMA_VERSION}",
                                  got=repr(found["schema_version"])[:40], where=path)
    if not isinstance(found["calls"], list):
        raise InputError.expected(f"{what} with a list of calls", got="another document",
                                  where=path)
    if any(isinstance(call, dict) and "speech" not in call for call in found["calls"]):
        raise InputError.expected(f"{what} with the speech of each call",
                                  got="one of an earlier version; run `rig field` again",
                                  where=path)
    return found


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def write_field_page(document: Mapping[str, Any], out: Path, *, where: object = None) -> int:
    """Write the page; returns its size in bytes. Raises `InputError` for a document that is not as
    `rig field` makes it, and where `out` cannot be written."""
    try:
        made = sections(document)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise InputError.expected("a document as `rig field --json` makes it",
                                  got=f"another ({type(error).__name__}: {error})"[:200],
                                  where=where or "rig field") from error
    return write_page("Field study", made, out)


def sections(document: Mapping[str, Any]) -> list[Section]:
    """The page in three parts."""
    return [_figures(document), _timing(document), _calls(document)]


def _figures(document: Mapping[str, Any]) -> Section:
    total = document["aggregate"]
    said = (f"{total['measured_n']} of {total['calls_n']} calls measured, "
            f"{total['duration_s'] / 60:.1f} minutes; {len(document['skipped'])} skipped.")
    groups = [_totals(f"{name}: {one['measured_n']} of {one['calls_n']} calls measured", one)
              for name, one in document.get("groups", {}).items()]
    return Section("figures", "Figures and gates", render(
        "field.html.j2", said=said, groups=groups, lines=total_lines(total),
        figures=_totals("all calls", total)))


def _totals(caption: str, total: Mapping[str, Any]) -> Table:
    """The gate stands beside the name: on a narrow screen it is seen without scrolling."""
    columns, *rows = [[row[0], row[-1], *row[1:-1]] for row in (TOTAL_COLUMNS, *total_rows(total))]
    return Table(caption, columns, rows, frozenset(range(len(columns))))


def _timing(document: Mapping[str, Any]) -> Section:
    charts = []
    gaps = reply_gaps_ms(document)
    if gaps:
        charts.append(_gap_chart(gaps))
    sweep = [p for p in document["aggregate"]["turn_take_sweep"] if p["rate"] is not None]
    if sweep:
        charts.append(_sweep_chart(sweep))
    why = "" if charts else "Nothing was measured: no reply and no yield point."
    return Section("timing", "Reply gaps and turn-taking", Markup("<p>{}</p>").format(why),
                   charts=charts)


def reply_gaps_ms(document: Mapping[str, Any]) -> list[float]:
    """L1 of every reply that is in the totals, in order."""
    return sorted(float(turn["latency_ms"]) for call in document["calls"]
                  if call["left_out_of_totals"] is None for turn in call["turns"]
                  if turn["kind"] == "reply" and not turn["doubtful"])


def _gap_chart(gaps: Sequence[float]) -> Chart:
    top_ms = min(_BIN_MS * _BINS_MAX, _BIN_MS * (int(gaps[-1] // _BIN_MS) + 1))
    inside = [v for v in gaps if v < top_ms]
    counts = [0] * round(top_ms / _BIN_MS)
    for value in inside:
        counts[int(value // _BIN_MS)] += 1
    beyond = len(gaps) - len(inside)
    p50, p90 = (float(np.percentile(gaps, p)) for p in (50, 90))
    lines = [(f"p50 {p50:.0f}", p50, OKABE_ITO["blue"], "solid"),
             (f"p90 {p90:.0f}", p90, OKABE_ITO["blue"], "dash"),
             (f"gate {L1_P50_BELOW_MS:g}", L1_P50_BELOW_MS, OKABE_ITO["vermillion"], "dot")]
    lines += [(f"published p{p} {value:.0f}", value, GREY, "dashdot")
              for p, value in PUBLISHED_L1_MS if value < top_ms or p == 50]
    traces: list[dict[str, Any]] = [{
        "type": "bar", "name": "replies", "marker": {"color": OKABE_ITO["sky_blue"]},
        "x": [_BIN_MS * (k + 0.5) for k in range(len(counts))], "y": counts, "width": _BIN_MS,
        "hovertemplate": f"%{{y}} replies within {_BIN_MS:g} ms of %{{x}}<extra></extra>"}]
    most = max(counts)
    traces += [{"type": "scatter", "mode": "lines", "name": f"{name} ms", "x": [x, x],
                "y": [0, most], "hoverinfo": "name",
                "line": {"color": colour, "dash": dash, "width": 2}}
               for name, x, colour, dash in lines]
    text = (f"Reply gap of {len(gaps)} replies: half of them within {p50:.0f} ms, nine of ten "
            f"within {p90:.0f} ms"
            + (f"; {beyond} later than {top_ms / 1000:g} s are not drawn" if beyond else "")
            + "; one published deployment had 1230 and 2493 ms")
    return Chart("gaps", {"data": traces, "layout": {
        "height": 380 + legend_px(len(traces)), "bargap": 0.02,
        "xaxis": {"title": {"text": "caller's end to agent's first sound, ms"}},
        # Few replies: left alone, plotly counts them in halves.
        "yaxis": {"title": {"text": "replies"}, "fixedrange": True,
                  **({"dtick": 1} if most < 10 else {})},
        "legend": LEGEND, "margin": {"l": 48, "r": 12, "t": 8, "b": 56}}},
        text, ("from ms", "below ms", "replies"),
        [[_BIN_MS * k, _BIN_MS * (k + 1), n] for k, n in enumerate(counts) if n])


def _sweep_chart(sweep: Sequence[Mapping[str, Any]]) -> Chart:
    rates = [100 * p["rate"] for p in sweep]
    ends = [[100 * end for end in p["ci"] or [p["rate"], p["rate"]]] for p in sweep]
    silences = [p["yield_silence_s"] for p in sweep]
    traces: list[dict[str, Any]] = [
        {"type": "scatter", "mode": "lines+markers", "name": "these calls", "x": silences,
         "y": rates, "marker": {"color": OKABE_ITO["blue"], "size": 9, "symbol": SYMBOLS[0]},
         "line": {"color": OKABE_ITO["blue"]},
         "error_y": {"type": "data", "symmetric": False, "thickness": 1.5, "width": 3,
                     "array": [max(0.0, high - rate)
                               for (_, high), rate in zip(ends, rates, strict=True)],
                     "arrayminus": [max(0.0, rate - low)
                                    for (low, _), rate in zip(ends, rates, strict=True)]},
         "customdata": [p["n"] for p in sweep],
         "hovertemplate": "%{y:.1f} % of %{customdata} at %{x} s<extra></extra>"},
        {"type": "scatter", "mode": "markers", "name": "published, one deployment",
         "x": [s for s, _ in PUBLISHED_TURN_TAKE], "y": [100 * r for _, r in PUBLISHED_TURN_TAKE],
         "marker": {"color": GREY, "size": 12, "symbol": SYMBOLS[2]},
         "hovertemplate": "%{y:.1f} % at %{x} s<extra>published</extra>"},
        {"type": "scatter", "mode": "lines", "name": f"gate {100 * TURN_TAKE_AT_LEAST:g} %",
         "x": [min(silences), max(silences)], "y": [100 * TURN_TAKE_AT_LEAST] * 2,
         "hoverinfo": "name", "line": {"color": OKABE_ITO["vermillion"], "dash": "dot"}}]
    text = ("Turn-take rate by the silence that makes a yield point: "
            + ", ".join(f"{percent(p['rate'])} % at {p['yield_silence_s']:g} s" for p in sweep)
            + "; published for one deployment 37 % at 0.5 s and 68 % at 3 s")
    return Chart("turn-take", {"data": traces, "layout": {
        "height": 380 + legend_px(3), "yaxis": {"title": {"text": "taken, %"}, "range": [0, 103],
                                                "fixedrange": True},
        "xaxis": {"title": {"text": "yield silence, s"}},
        "legend": LEGEND, "margin": {"l": 48, "r": 12, "t": 8, "b": 56}}},
        text, ("yield silence s", "yield points", "taken", "%", "95 %", "agent already speaking"),
        [[p["yield_silence_s"], p["n"], p["taken"], percent(p["rate"]),
          "–" if p["ci"] is None else f"[{100 * p['ci'][0]:.0f}, {100 * p['ci'][1]:.0f}]",
          p["overlapped"]] for p in sweep])


def _calls(document: Mapping[str, Any]) -> Section:
    calls = document["calls"]
    apart = [[s["file"], "skipped", s["reason"]] for s in document["skipped"]]
    apart += [[one["file"], "left out", one["reason"]]
              for one in document["aggregate"]["left_out"]]
    apart += [[one["file"], "words not used", one["reason"]]
              for one in document["aggregate"]["words_unusable"]]
    pictures: list[tuple[str, Markup]] = []
    room = PICTURES_CHARACTERS
    for call in calls[:PICTURES_MAX]:
        drawn = call_svg(call, alone=False)
        room -= len(drawn)
        if room < 0:
            break
        pictures.append((str(call["file"]), Markup(drawn)))  # noqa: S704 - escaped by call_svg
    columns, rows = call_rows(calls)
    return Section("calls", "Calls and warnings", render(
        "field_calls.html.j2", style=Markup(STYLE),  # noqa: S704 - ours
        pictures=pictures,
        left_n=len(calls) - len(pictures),
        warnings=Table("warnings", ("call", "warning", "detail"), [
            [call["file"], w["code"], w["detail"]] for call in calls for w in call["warnings"]],
            frozenset({0, 1, 2})),
        apart=Table("not in the totals", ("call", "", "why"), apart, frozenset({0, 1, 2})),
        calls=Table("calls (caller and agent are channels)", columns, rows,
                    frozenset({0, len(columns) - 1}))))
