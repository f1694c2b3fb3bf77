"""`rig demo`: the whole job with nothing but the install."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from audio.synthesis import DEFAULT_ENGINE
from probes.expand import expand, select
from probes.loader import load_suite
from probes.render import build_suite, load_built
from rig.clock import Stopwatch
from rig.console import Output
from rig.rendering import EngineRenderer
from rig.report import write_report
from rig.runner import RunRequest, run
from rig.scores import recorded_minutes, write_scores
from rig.scoring import measure_run
from rig.settings import default_jobs, scoring_settings
from rig.store import RunFolder
from rig.stored import load_table
from rig.tables import rate_text
from rig.workers import Workers
from sweeps.sweep import sweep

AGENTS = ("oracle", "silent", "monologue", "echo", "metronome", "long_endpoint", "eager", "random",
          "inverse")
CELLS = ("R1-A", "R1-C1", "R1-C2", "R1-C3", "R1-C4", "R2-C1", "R4-C4", "R7-C3", "R8-C3")
"""Nine cells, one for each action; on L1 and L2, so that an Entailment Gap exists."""
LEVELS = ("L1", "L2")


@click.command("demo")
@click.option("--out", type=click.Path(path_type=Path), default=Path("out/demo"),
              show_default=True, help="Folder for suite, runs and report.")
@click.option("--jobs", type=click.IntRange(1, 1024), help="Processes. Default: the cores.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(out: Path, jobs: int | None, as_json: bool) -> int:
    """Build a small suite, run it against the built-in agents, score, sweep, report.

    Needs no key, no GPU and no network. The agents are floors and a ceiling: what a system that
    cannot listen scores, and what one that does everything right scores.

    \b
    Example:
      rig demo
    """
    output = Output(as_json=as_json)
    watch = Stopwatch()
    jobs = jobs or default_jobs()
    suite_dir = out / "suite"
    spec = load_suite("dsb-ifeval")
    wanted = "|".join(f"{cell}-1-*" for cell in CELLS)
    chosen = select(expand(spec), LEVELS, f"case={wanted}")
    with output.progress("build", len(CELLS)) as progress:
        info = build_suite(
            spec, suite_dir, EngineRenderer(DEFAULT_ENGINE), select=chosen, jobs=jobs,
            progress=lambda done, total, label: progress.update(done, label, total=total))
    output.line(f"built {info.n_cases} cases, {info.n_streams} user audio streams: {suite_dir}")
    cases = load_built(suite_dir).cases
    thresholds, vad = scoring_settings(())
    documents: dict[str, Any] = {}
    tables = {}
    folders = []
    minutes = 0.0
    with (output.progress("play and score", len(AGENTS)) as progress,
          Workers(jobs) as workers):
        for done, agent in enumerate(AGENTS, start=1):
            folder = RunFolder(out / "runs" / agent)
            run(RunRequest(suite_dir=suite_dir, run=folder, adapter=agent, settings={},
                           cases=cases, jobs=jobs, resume=True), workers=workers)
            rows = measure_run(folder, vad, workers)
            documents[agent] = write_scores(folder, rows, thresholds, vad, "hold")
            tables[agent] = load_table(folder)[0]
            folders.append(folder)
            minutes += recorded_minutes(rows)
            progress.update(done, agent)
    result = sweep(tables)
    report = out / "report.html"
    size = write_report(folders, report)
    _print(output, documents)
    flips = {name: len(system.flips) for name, system in result.systems.items()}
    output.line("verdicts that depend on the thresholds (180 configurations): "
                + ", ".join(f"{name} {n}" for name, n in flips.items()))
    output.line(f"{len(cases) * len(AGENTS)} sessions, {minutes:.0f} minutes of recording, in "
                f"{watch.elapsed_s:.0f} s")
    output.line(f"report: {report} ({size / 1e6:.1f} MB); recordings: {out / 'runs'}")
    output.line(f"look at a case: rig inspect {out / 'runs' / 'long_endpoint'} R1-C1-1-L2")
    output.document({"suite_dir": str(suite_dir), "report": str(report),
                     "runs": {a: str(f.path) for a, f in zip(AGENTS, folders, strict=True)},
                     "ias": {a: d["ias"] for a, d in documents.items()},
                     "flips": flips, "recorded_minutes": minutes})
    return 0


def _print(output: Output, documents: dict[str, Any]) -> None:
    actions = sorted({a for d in documents.values() for a in d["ias"]["by_action"]})
    output.table(
        "IAS in percent, L2 (persona only): floors and ceiling", ["agent", "ias_core", "ias_all"],
        [[agent, rate_text(d["ias"]["core"].get("L2")), rate_text(d["ias"]["all"].get("L2"))]
         for agent, d in documents.items()])
    output.table(
        "passed of scored by action, L1 and L2", ["action", *documents],
        [[a, *(_fraction(d["ias"]["by_action"].get(a)) for d in documents.values())]
         for a in actions])


def _fraction(stat: dict[str, Any] | None) -> str:
    return "-" if stat is None else f"{stat['passed']}/{stat['n']}"
