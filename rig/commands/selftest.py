"""`rig selftest`: does the instrument recover the truth?"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from adapters.known_peer.launch import started
from rig.console import Output
from rig.finite_option import Finite
from rig.selftest import run, scenarios
from rig.selftest_readings import (
    MAX_MEDIAN_MS,
    MAX_P95_MS,
    METHODS,
    Errors,
    Meeting,
    Reading,
    Scenario,
    Summary,
    errors,
    summarise,
)
from rig.settings import load_average


@click.command("selftest")
@click.option("--rounds", type=click.IntRange(1, 1000), default=2, show_default=True,
              help="Times that every agent is met; a round takes about 15 s.")
@click.option("--delay-ms", type=Finite(10.0, 1000.0), default=50.0, show_default=True,
              help="Size of the delay that is put in and must be seen.")
@click.option("--max-median-ms", type=Finite(0.0), default=MAX_MEDIAN_MS,
              show_default=True, help="Budget on the median size of the error, by arrival and by "
              "energy.")
@click.option("--max-p95-ms", type=Finite(0.0), default=MAX_P95_MS, show_default=True,
              help="Budget on its 95th percentile.")
@click.option("--keep-void", is_flag=True, help="Measure sessions over their timing budget as "
              "well: to look at a machine that cannot keep time.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(rounds: int, delay_ms: float, max_median_ms: float, max_p95_ms: float,
            keep_void: bool, as_json: bool) -> int:
    """Meet agents of known latency, yield time and backchannel length through the real path.

    The agents run in a process of their own and log their own truth. Printed are that truth, what
    the rig measures by arrival, by energy and by VAD, and the error; a delay put into the peer and
    into the rig's own path must be seen as what it is. Exit code 1 when an error is over its
    budget, 3 when a session could not be played or its timing was void.

    \b
    Example:
      rig selftest
      rig selftest --rounds 5 --json
    """
    output = Output(as_json=as_json)
    chosen = scenarios(delay_ms)
    played: list[str] = []
    with (tempfile.TemporaryDirectory(prefix="rig-selftest-") as folder,
          output.progress("selftest", rounds * len(chosen)) as progress, started() as url):

        def on_played(scenario: Scenario) -> None:
            played.append(scenario.name)
            progress.update(len(played), scenario.name)

        tested = run(url, chosen, rounds, Path(folder), keep_void=keep_void, on_played=on_played)
    summary = summarise(tested, max_median_ms=max_median_ms, max_p95_ms=max_p95_ms)
    _show(output, tested, summary)
    output.document(_document(tested, summary, max_median_ms, max_p95_ms))
    for problem in summary.problems:
        output.note(problem)
    if summary.problems:
        return 3
    return 1 if summary.failures else 0


def _show(output: Output, tested: Sequence[Meeting], summary: Summary) -> None:
    output.table(
        "truth and measurement, median ms", ["agent", "quantity", "n", "truth", *METHODS,
                                             *(f"error {m}" for m in METHODS)],
        [_row(list(group)) for group in _by_scenario(tested)])
    output.table(
        "error by method, ms, no delay put in", ["method", "n", "bias", "p5", "p95",
                                                 "median size", "p95 size"],
        [(m, e.n, *(f"{v:+.1f}" for v in (e.bias_ms, e.p5_ms, e.p95_signed_ms)),
          f"{e.median_ms:.1f}", f"{e.p95_ms:.1f}") if e is not None else (m, 0, *[""] * 5)
         for m, e in summary.by_method.items()])
    for shift in summary.shifts:
        shown = "nothing" if shift.shown_ms is None else f"{shift.shown_ms:+.1f} ms"
        output.line(f"{shift.injected_ms:+g} ms put into the {shift.where}: seen as {shown}")
    timings = [t.timing for t in tested if t.timing is not None]
    if timings:
        output.line(f"timing: worst p99 lateness {max(t.late_p99_ms for t in timings):.1f} ms, "
                    f"worst frame {max(t.late_max_ms for t in timings):.1f} ms, load average "
                    f"{load_average()}")
    for failure in summary.failures:
        output.line(f"over budget: {failure}")
    if not summary.failures and not summary.problems:
        output.line("the instrument recovers the truth within its budgets")


def _by_scenario(tested: Sequence[Meeting]) -> list[list[Reading]]:
    readings = [r for t in tested for r in t.readings]
    names = dict.fromkeys(r.scenario.name for r in readings)
    return [[r for r in readings if r.scenario.name == name] for name in names]


def _row(readings: Sequence[Reading]) -> list[object]:
    def middle(values: list[float]) -> str:
        found = Errors.of(values)
        return "none" if found is None else f"{found.bias_ms:.1f}"

    first = readings[0].scenario
    return [first.name, first.quantity, len(readings), middle([r.truth_ms for r in readings]),
            *(middle([v for r in readings if (v := r.measured_ms[m]) is not None])
              for m in METHODS),
            *("none" if (e := errors(readings, m)) is None else f"{e.bias_ms:+.1f}"
              for m in METHODS)]


def _document(tested: Sequence[Meeting], summary: Summary, max_median_ms: float,
              max_p95_ms: float) -> dict[str, Any]:
    return {
        "ok": not summary.failures and not summary.problems,
        "budget": {"max_median_ms": max_median_ms, "max_p95_ms": max_p95_ms},
        "load_average": load_average(),
        "error_ms": {m: None if e is None else asdict(e) for m, e in summary.by_method.items()},
        "injected": [{**asdict(s), "good": s.good} for s in summary.shifts],
        "agents": [{
            "name": group[0].scenario.name, "quantity": group[0].scenario.quantity,
            "injected": group[0].scenario.injected, "n": len(group),
            "error_ms": {m: None if (e := errors(group, m)) is None else asdict(e)
                         for m in METHODS},
        } for group in _by_scenario(tested)],
        "readings": [{
            "agent": r.scenario.name, "quantity": r.scenario.quantity,
            "injected": r.scenario.injected, "injected_ms": r.scenario.delay_ms,
            "truth_ms": r.truth_ms, "measured_ms": dict(r.measured_ms),
            "error_ms": {m: r.error_ms(m) for m in METHODS},
        } for t in tested for r in t.readings],
        "timing": [t.timing.model_dump() for t in tested if t.timing is not None],
        "failures": list(summary.failures), "problems": list(summary.problems),
    }
