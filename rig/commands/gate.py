"""`rig gate`: whether a scored run is good enough, for CI."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from audio.errors import InputError
from audio.files import atomic_write_text
from rig.console import Output
from rig.gate.asked import gates_of
from rig.gate.figures import STATUSES
from rig.gate.judging import gate_document, judge
from rig.gate.junit import junit_xml
from rig.gate.loading import GatedRun, load_gated
from rig.gate.markdown import cells, summary
from rig.gate.readings import read
from rig.gate.results import At, one_line, shown
from rig.outputs import check_outputs


@click.command("gate")
@click.argument("run_dir", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--min", "least", multiple=True, metavar="NAME=NUMBER",
              help="A figure must be at least this; may be repeated.")
@click.option("--max", "most", multiple=True, metavar="NAME=NUMBER",
              help="A figure must be at most this; may be repeated.")
@click.option("--baseline", type=click.Path(path_type=Path), metavar="RUN2",
              help="A scored run to hold this one against.")
@click.option("--max-drop", "drops", multiple=True, metavar="NAME=NUMBER",
              help="A rate may be this much below the baseline's, on the cases that both have "
              "scored; may be repeated.")
@click.option("--gates", "file", type=click.Path(path_type=Path), metavar="FILE",
              help="More of them, from a YAML file.")
@click.option("--at", type=click.Choice(["value", "interval"]), default="value",
              show_default=True, help="What must keep the limit: the figure, or the nearer end of "
              "its 95 % interval.")
@click.option("--junit", type=click.Path(path_type=Path), metavar="FILE",
              help="Write JUnit XML: a testcase a gate and one a case.")
@click.option("--junit-cases/--no-junit-cases", default=True, show_default=True,
              help="Cases in it, beside the gates.")
@click.option("--markdown", type=click.Path(path_type=Path), metavar="FILE",
              help="Write a summary for people.")
@click.option("--list", "listed", is_flag=True, help="List the figures of the run; judge nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(run_dir: Path, least: tuple[str, ...], most: tuple[str, ...], baseline: Path | None,
            drops: tuple[str, ...], file: Path | None, at: At, junit: Path | None,
            junit_cases: bool, markdown: Path | None, listed: bool, as_json: bool) -> int:
    """Hold a scored run against limits; exit with 1 where one is not kept.

    A figure without evidence keeps no limit. Exit 3: every gate is met, and sessions are missing
    (infrastructure errors, void, not played). A gate that is not met wins over that.

    \b
    Example:
      rig gate runs/agent --min ias_core.L2=0.35 --max latency.reply.p90_ms=1500
      rig gate runs/agent --baseline runs/before --max-drop ias_core=0.05 --junit gates.xml
      rig gate runs/agent --list
    """
    output = Output(as_json=as_json)
    if listed:
        if least or most or drops or file or baseline or junit or markdown:
            raise InputError("--list: expected no gates and no files beside it, got some")
        return _list(output, load_gated(run_dir))
    gates = gates_of({"min": least, "max": most, "max_drop": drops}, file)
    asks_drop = any(gate.bound == "max_drop" for gate in gates)
    if asks_drop and baseline is None:
        raise InputError("--max-drop: expected --baseline RUN2 beside it, got none")
    if baseline is not None and not asks_drop:
        raise InputError("--baseline: expected --max-drop beside it, got none: the baseline would "
                         "test nothing")
    check_outputs({"--junit": junit, "--markdown": markdown}, [run_dir, baseline, file])
    run = load_gated(run_dir, baseline)
    results = judge(run, gates, at)
    document = gate_document(run, results, at)
    _print(output, document)
    if junit is not None:
        atomic_write_text(junit, junit_xml(run, results, cases=junit_cases))
    if markdown is not None:
        atomic_write_text(markdown, summary(document, run.sessions))
    output.document(document)
    code = document["exit_code"]
    assert isinstance(code, int)
    return code


def _print(output: Output, document: dict[str, Any]) -> None:
    output.table(one_line(f"{document['name']}: gates at the {document['at']}"),
                 ["gate", "limit", "value", "n", "95 %", "met"],
                 [[f"{g['bound']} {g['path']}", *cells(g), "yes" if g["met"] else "NO"]
                  for g in document["gates"]])
    for gate in document["gates"]:
        if not gate["met"] or gate["drop"] is not None:
            output.line(one_line(f"{'met' if gate['met'] else 'not met'}: {gate['bound']} "
                                 f"{gate['path']}: {gate['why']}"))
    if document["changed"]:
        output.line(one_line(f"not the default settings: {document['changed']}"))
    counts = document["sessions"]
    lost = ", ".join(f"{counts[name]} {name}" for name in STATUSES if counts[name])
    if lost:
        output.line(f"of {counts['n']} sessions {lost}: they are in no rate")
    output.line({0: "all gates are met", 1: "a gate is not met",
                 3: "all gates are met, and sessions are missing"}[document["exit_code"]])


def _list(output: Output, run: GatedRun) -> int:
    """Every figure with a value; and in words what has none here."""
    draws = run.draws()
    rows: list[dict[str, Any]] = []
    empty = 0
    for path, figure in run.figures.items():
        found = read(figure, run.sessions, draws)
        if found.value is None:
            empty += 1
            continue
        rows.append({"path": path, "unit": figure.unit, "value": found.value, "n": found.n,
                     "interval": None if found.interval is None else list(found.interval),
                     "max_drop": figure.droppable})
    output.table(one_line(f"{run.scored.name}: figures"), ["name", "unit", "value", "n"],
                 [[row["path"], row["unit"], shown(row["value"]), row["n"]] for row in rows])
    output.line(f"{empty} more have no value in this run")
    output.document({"schema_version": 1, "run": str(run.scored.folder.path), "figures": rows,
                     "without_value": empty})
    return 0
