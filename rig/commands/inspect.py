"""`rig inspect`: one case in the terminal."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from audio.errors import InputError
from audio.suggest import did_you_mean
from rig.console import Output
from rig.ledger import read
from rig.playout import Policy
from rig.scenes import case_identity
from rig.scores import decide_all, scores_document
from rig.scoring import measure_records, timeline_row
from rig.sent import condition_texts
from rig.settings import scoring_settings
from rig.store import RunFolder
from rig.timeline import ascii_lines, label_n, timeline_of
from rig.worker_load import worker_load

_FROM_WINDOW = frozenset({"genuine_onset_s", "first_offset_s", "first_offset_at_least_s",
                          "spans_s"})
"""Of `measured`: times that count from the window's start; the others are lengths and counts, or
name what they count from."""


@click.command("inspect")
@click.argument("run_dir", metavar="RUN", type=click.Path(path_type=Path))
@click.argument("case_id", metavar="CASE")
@click.option("--trial", type=click.IntRange(1), default=1, show_default=True)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
              help="Threshold or detector setting; may be repeated.")
@click.option("--playout", type=click.Choice(["hold", "flush"]), default="hold",
              show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(run_dir: Path, case_id: str, trial: int, settings: tuple[str, ...], playout: Policy,
            as_json: bool) -> int:
    """Show one case: spans, window, numbers and the verdict they give.

    \b
    Example:
      rig inspect runs/long_endpoint R1-C1-1-L2
    """
    output = Output(as_json=as_json)
    thresholds, vad = scoring_settings(settings)
    run = RunFolder(run_dir)
    info = run.read_info()
    cases = {case.case_id: case for case in run.read_cases()}
    if case_id not in cases:
        raise InputError(f"{run.path}: expected a case of this run, got {case_id!r}"
                         f"{did_you_mean(case_id, cases)}")
    if trial > info.trials:
        raise InputError.expected(f"a trial from 1 to {info.trials}", got=trial, where="--trial")
    case = cases[case_id]
    attempts = [a for a in read(run.ledger_path) if a.case_id == case_id and a.trial == trial]
    if not any(a.status == "done" for a in attempts):
        last = f"its last attempt ended in {attempts[-1].status}: {attempts[-1].reason}" if (
            attempts) else "it has not been played"
        raise InputError(f"{run.path}: expected a done session of {case_id} t{trial}, but {last}")
    rows = [row for row in measure_records(run, [case_identity(case, trial)], vad)
            if row.playout == playout]
    scored = decide_all(rows, thresholds, playout)
    found: dict[str, Any] = scores_document(scored, thresholds=thresholds, vad=vad,
                                            playout=playout)["cases"][0]
    row = timeline_row(rows[0])
    record = run.read_record(case_id, trial)
    output.line(f"{case_id} t{trial}: {case.probe_id}, {case.expected_action} expected, "
                f"{info.adapter.name}, {info.clock} time, playout {playout}")
    output.line(f"{found['outcome'].upper()}: {found['reason']}")
    output.line()
    timeline = timeline_of(row)
    columns = shutil.get_terminal_size((110, 20)).columns
    for line in ascii_lines(timeline, min(160, max(40, columns - label_n(timeline) - 2))):
        output.line(line)
    output.line()
    numbers = {f"{k} (from the window's start)" if k in _FROM_WINDOW else k: v
               for k, v in found["measured"].items() if v is not None and not isinstance(v, dict)}
    output.table("measured", ["what", "value"], list(numbers.items()))
    output.table("schedule", ["moment", "s"], [
        [e.name, f"{e.t_ns / 1e9:.3f}"] for e in record.events if e.kind == "user"])
    scored_window = record.windows.scored
    output.line(f"window: {scored_window.start_s:.3f} to {scored_window.end_s:.3f} s")
    for name, alternate in found.get("alternates", {}).items():
        output.line(f"{name}: {alternate['outcome']}: {alternate['reason']}")
    if record.line is not None:
        output.line("line conditions: " + ", ".join(condition_texts(record.line.conditions)))
        output.table("came to", ["what", "value"], list(record.line.achieved.items()))
    load = worker_load(record)
    if load is not None:
        late = "" if load.late_ms is None else f", an answer at most {load.late_ms:.0f} ms late"
        output.line(f"model: {load.compute_p50_ms:.1f} ms for a frame of {load.frame_ms:g} ms (p95 "
                    f"{load.compute_p95_ms:.1f}, most {load.compute_max_ms:.1f}), real-time factor "
                    f"{load.real_time_factor:.2f}, at most {load.waiting} waiting{late}")
    if found["flags"]:
        output.line("flags: " + ", ".join(found["flags"]))
    output.line(f"recording: {run.stereo_path(case_id, trial)}")
    if record.line is not None:
        output.line(f"sent to the system: {run.sent_path(case_id, trial)}")
    output.document({**found, **row, "attempts": [a.model_dump() for a in attempts],
                     "worker": None if load is None else {**asdict(load), "slow": load.slow},
                     "line": None if record.line is None else record.line.model_dump()})
    return 0
