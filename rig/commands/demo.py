"""`rig demo`: the whole job with nothing but the install."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import click

from adapters import registry
from audio.synthesis import DEFAULT_ENGINE
from probes.expand import expand, select
from probes.loader import load_suite
from probes.manifest import Case
from probes.render import build_suite, load_built
from rig.clock import Stopwatch
from rig.console import Output
from rig.rendering import EngineRenderer
from rig.report.build import write_report
from rig.runner import RunRequest, run
from rig.scores import recorded_minutes, write_scores
from rig.scoring import measure_run
from rig.settings import default_jobs, scoring_settings
from rig.store import RunFolder
from rig.stored import load_table
from rig.tables import latency_text, rate_text
from rig.wording import pasteable
from rig.workers import Workers
from sweeps.sweep import sweep
from sweeps.table import MeasurementTable

AGENTS = ("oracle", "silent", "monologue", "echo", "metronome", "long_endpoint", "eager", "random",
          "inverse")
CELLS = ("R1-A", "R1-C1", "R1-C2", "R1-C3", "R1-C4", "R2-C1", "R4-C4", "R7-C3", "R8-C3")
"""Nine cells, one for each action; on L1 and L2, so that an Entailment Gap exists."""
LEVELS = ("L1", "L2")
LIVE_AGENT = "cascade"
LIVE_CELLS = ("R1-C1", "R1-C3")
"""TAKE_TURN and YIELD, played side by side. Two, because each agent computes on this very machine:
with four at a time on two cores the reply came 0.6 s later than alone (docs/cascade.md).
"""
LIVE_LEVEL = "L2"
_FLUSHED = f"{LIVE_AGENT}, flush"


@click.command("demo")
@click.option("--out", type=click.Path(path_type=Path), default=Path("out/demo"),
              show_default=True, help="Folder for suite, runs and report.")
@click.option("--jobs", type=click.IntRange(1, 1024), help="Processes. Default: the cores.")
@click.option("--live/--no-live", default=True, show_default=True,
              help="End with a run in real time, against an agent that hears and speaks.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(out: Path, jobs: int | None, live: bool, as_json: bool) -> int:
    """Build a small suite, run it against the built-in agents, score, sweep, report.

    Needs no key, no GPU and no network. The agents in virtual time are floors and a ceiling: what
    a system that cannot listen scores, and what one that does everything right scores. Last comes
    a run in real time over a socket, against `cascade`, an agent that recognises and speaks.

    Exit code 3 when a session of that run had an infrastructure error.

    \b
    Example:
      rig demo
      rig demo --no-live --out /tmp/demo
    """
    output = Output(as_json=as_json)
    watch = Stopwatch()
    demo = _Demo(output, out, jobs or default_jobs())
    with Workers(demo.jobs) as workers:
        demo.build()
        demo.floors(workers)
        problem = demo.live(workers) if live else "left out: --no-live"
        report = write_report(list(demo.folders.values()), out / "report.html", workers=workers)
    result = sweep(demo.floor_tables)
    demo.print_scores()
    flips = {name: len(system.flips) for name, system in result.systems.items()}
    output.line("verdicts that depend on the thresholds (180 configurations): "
                + ", ".join(f"{name} {n}" for name, n in flips.items()))
    output.line(f"{demo.n_sessions} sessions, {demo.minutes:.0f} minutes of recording, in "
                f"{watch.elapsed_s:.0f} s")
    output.line(f"report: {report.page} ({report.bytes / 1e6:.1f} MB); recordings: {out / 'runs'}")
    # `make run` leaves the environment unactivated.
    rig = "rig" if shutil.which("rig") else Path(sys.executable).with_name("rig")
    output.line(f"look at a case: {rig} inspect {out / 'runs' / 'long_endpoint'} R1-C1-1-L2")
    if problem is not None:
        output.note(f"real time: {problem}")
    documents = demo.documents
    output.document({"suite_dir": str(demo.suite_dir), "report": str(report.page),
                     "runs": {a: str(f.path) for a, f in demo.folders.items()},
                     "ias": {a: d["ias"] for a, d in documents.items()},
                     "latency": {a: d["latency"] for a, d in documents.items()},
                     "live": {"agent": LIVE_AGENT if LIVE_AGENT in documents else None,
                              "problem": problem},
                     "flips": flips, "recorded_minutes": demo.minutes})
    return 3 if demo.live_infra_errors else 0


class _Demo:
    """The suite of the demo, what was played on it, and how that is shown."""

    def __init__(self, output: Output, out: Path, jobs: int) -> None:
        self.jobs = jobs
        self.suite_dir = out / "suite"
        self.folders: dict[str, RunFolder] = {}
        self.documents: dict[str, dict[str, Any]] = {}
        self.floor_tables: dict[str, MeasurementTable] = {}
        self.minutes = 0.0
        self.n_sessions = 0
        self.live_infra_errors = 0
        self._output = output
        self._out = out
        self._cases: tuple[Case, ...] = ()
        self._thresholds, self._vad = scoring_settings(())

    def build(self) -> None:
        """User audio of nine cells on two levels."""
        spec = load_suite("dsb-ifeval")
        wanted = "|".join(f"{cell}-1-*" for cell in CELLS)
        chosen = select(expand(spec), LEVELS, f"case={wanted}")
        with self._output.progress("build", len(CELLS)) as progress:
            info = build_suite(
                spec, self.suite_dir, EngineRenderer(DEFAULT_ENGINE), select=chosen,
                jobs=self.jobs,
                progress=lambda done, total, label: progress.update(done, label, total=total))
        self._output.line(f"built {info.n_cases} cases, {info.n_streams} user audio streams: "
                          f"{self.suite_dir}")
        self._cases = tuple(load_built(self.suite_dir).cases)

    def floors(self, workers: Workers) -> None:
        """The built-in agents, in virtual time."""
        with self._output.progress("play and score", len(AGENTS)) as progress:
            for done, agent in enumerate(AGENTS, start=1):
                folder = RunFolder(self._out / "runs" / agent)
                run(self._request(agent, folder, self._cases, self.jobs), workers=workers)
                self._score(agent, folder, workers)
                self.floor_tables[agent] = load_table(folder)[0]
                progress.update(done, agent)

    def live(self, workers: Workers) -> str | None:
        """The cascade, in real time; gives what kept it from a whole run, or `None`."""
        missing = registry.spec(LIVE_AGENT).missing()
        if missing is not None:
            return f"{LIVE_AGENT} left out: {missing}"
        cases = tuple(c for c in self._cases if c.level == LIVE_LEVEL
                      and f"{c.role}-{c.probe}" in LIVE_CELLS)
        folder = RunFolder(self._out / "runs" / LIVE_AGENT)
        with self._output.progress(f"{LIVE_AGENT} in real time", len(cases)) as progress:
            result = run(self._request(LIVE_AGENT, folder, cases, len(cases)),
                         lambda attempt, done, _total: progress.update(done, attempt.case_id))
        self.live_infra_errors = result.counts.get("infra_error", 0)
        # Sessions that were no good are on the page, too: unscored, with the reason.
        self._score(LIVE_AGENT, folder, workers)
        if result.complete:
            return None
        why = "; ".join(f"{case} {status}: {reason}" for case, _, status, reason in result.failed)
        again = pasteable("rig", "demo", "--out", self._out)
        return f"{why or 'interrupted'}; with the cores free, {again} plays these again"

    def print_scores(self) -> None:
        """Floors and ceiling; then the live agent beside them on the cases that it met."""
        floors = {a: d for a, d in self.documents.items() if a != LIVE_AGENT}
        actions = sorted({a for d in floors.values() for a in d["ias"]["by_action"]})
        self._output.table(
            f"IAS in percent, {LIVE_LEVEL} (persona only): floors and ceiling",
            ["agent", "ias_core", "ias_all"],
            [[agent, *(rate_text(d["ias"][which].get(LIVE_LEVEL)) for which in ("core", "all"))]
             for agent, d in floors.items()])
        self._output.table(
            "passed of scored by action, L1 and L2", ["action", *floors],
            [[a, *(_fraction(d["ias"]["by_action"].get(a)) for d in floors.values())]
             for a in actions])
        if LIVE_AGENT not in self.documents:
            return
        live = self.documents[LIVE_AGENT]
        verdicts = {agent: {c["case_id"]: c["outcome"] for c in d["cases"]}
                    for agent, d in self.documents.items()}
        # Whether the client drops what was sent when the user barges in decides what is heard.
        verdicts[_FLUSHED] = {**verdicts[LIVE_AGENT], **{
            d["case_id"]: d["flush"] for d in live["playout_differences"]}}
        columns = [LIVE_AGENT, _FLUSHED, *floors]
        self._output.table(
            f"{LIVE_AGENT} in real time, beside the agents in virtual time",
            ["case", "action", *columns],
            [[c["case_id"], c["expected_action"],
              *(verdicts[agent].get(c["case_id"], "-") for agent in columns)]
             for c in live["cases"]])
        kinds = list(live["latency"])
        self._output.table(
            "latency, median in ms (n)", ["agent", *kinds],
            [[agent, *(_median(d["latency"][kind]) for kind in kinds)]
             for agent, d in self.documents.items()])

    def _request(self, agent: str, folder: RunFolder, cases: tuple[Case, ...], jobs: int,
                 ) -> RunRequest:
        return RunRequest(suite_dir=self.suite_dir, run=folder, adapter=agent, settings={},
                          cases=cases, jobs=jobs, resume=True)

    def _score(self, agent: str, folder: RunFolder, workers: Workers) -> None:
        rows = measure_run(folder, self._vad, workers)
        self.documents[agent] = write_scores(folder, rows, self._thresholds, self._vad, "hold")
        self.folders[agent] = folder
        self.minutes += recorded_minutes(rows)
        self.n_sessions += len(folder.read_cases())


def _median(stat: dict[str, Any]) -> str:
    return f"{latency_text(stat['p50_ms'])} ({stat['n']})" if stat["n"] else "-"


def _fraction(stat: dict[str, Any] | None) -> str:
    return "-" if stat is None else f"{stat['passed']}/{stat['n']}"
