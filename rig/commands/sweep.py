"""`rig sweep`: thresholds re-decided from stored measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from audio.errors import InputError
from audio.files import atomic_write_text, check_targets
from rig.comparing import load_systems, require_same_cases
from rig.console import Output
from rig.ledger import dumps
from rig.settings import default_jobs
from rig.store import RunFolder
from rig.stored import load_table
from rig.vad_decided import Plan
from rig.vad_sweep import AXES, plan_settings, read_axes, read_scored, sweep_run
from rig.vad_sweep_text import as_csv, document, print_vad_sweep
from rig.workers import Workers
from sweeps.sweep import SweepResult, sweep

CASE_COST_S = (0.06, 0.00007)
"""Seconds of one core a session: reading it, and each setting (docs/instrument.md)."""


@click.command("sweep")
@click.argument("run_dirs", metavar="RUN...", nargs=-1, required=True,
                type=click.Path(path_type=Path))
@click.option("--vad", is_flag=True, help="Sweep the detector instead: its settings, edges refined "
              "by energy, and an energy detector.")
@click.option("--axis", "axes", multiple=True, metavar="NAME=V,V",
              help="With --vad: other values on one axis; may be repeated. Axes: "
              + ", ".join(AXES) + ".")
@click.option("--jobs", type=click.IntRange(1, 1024),
              help="With --vad: processes. Default: the cores.")
@click.option("--csv", "csv_path", type=click.Path(path_type=Path),
              help="With --vad: also write flips by system, setting and action, a row each.")
@click.option("--out", type=click.Path(path_type=Path), help="Also write the JSON document here.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(run_dirs: tuple[Path, ...], vad: bool, axes: tuple[str, ...], jobs: int | None,
            csv_path: Path | None, out: Path | None, as_json: bool) -> int:
    """Decide every verdict anew under the 180 published threshold configurations.

    Reads what `rig score` measured; no recording is touched. With two runs or more it says how
    stable the ranking by Entailment Gap (L1 - L2) is. With --vad the detector is swept instead,
    around the settings that the runs were scored with: what flips, and which orders of systems and
    signs of effects survive every setting.

    \b
    Example:
      rig sweep runs/long_endpoint
      rig sweep runs/echo runs/eager runs/long_endpoint --json
      rig sweep --vad runs/eager runs/long_endpoint --csv flips.csv
      rig sweep --vad runs/eager --axis vad_threshold=0.4,0.6 --axis merge_gap_s=0.3
    """
    output = Output(as_json=as_json)
    if vad:
        return _sweep_vad(output, run_dirs, axes, jobs or default_jobs(), csv_path, out)
    if axes or jobs is not None or csv_path is not None:
        raise InputError("rig sweep: expected --vad with --axis, --jobs and --csv, got none")
    tables: dict[str, Any] = {}
    vads: dict[str, str] = {}
    seen: set[Path] = set()
    for path in run_dirs:
        names = (path.name, str(path), str(path.resolve()))
        name = next((n for n in names if n not in tables), names[-1])
        if path.resolve() in seen:
            raise InputError(f"{path}: expected different runs, got this one twice")
        seen.add(path.resolve())
        tables[name], vads[name] = load_table(RunFolder(path))
    if len(set(vads.values())) > 1:
        raise InputError("expected runs measured with one detector and setting, got "
                         + "; ".join(f"{n}: {v}" for n, v in vads.items())
                         + "; score them again with the same --set")
    if not require_same_cases(run_dirs):
        output.note("the runs hold different cases; each is ranked by the gap on its own")
    result = sweep(tables)
    _print(output, result)
    document = result.as_dict()
    if out is not None:
        atomic_write_text(out, dumps(document) + "\n")
    output.document(document)
    return 0


def _sweep_vad(output: Output, run_dirs: tuple[Path, ...], axes: tuple[str, ...], jobs: int,
               csv_path: Path | None, out: Path | None) -> int:
    if csv_path is not None and out is not None and csv_path.resolve() == out.resolve():
        raise InputError("expected different files for --csv and --out, got one twice")
    check_targets(csv_path, out)
    chosen = read_axes(axes)
    systems = load_systems(run_dirs)
    names = [system.name for system in systems]
    planned = [{(c.conversation, c.level, c.trial) for c in system.cases} for system in systems]
    for name, cases in zip(names, planned, strict=True):
        if cases != planned[0]:
            raise InputError(f"{name}: expected the cases and trials of {names[0]}, got others")
    runs = [RunFolder(path) for path in run_dirs]
    scored = [read_scored(run) for run in runs]
    if len({found.playout for found in scored}) > 1:
        raise InputError("expected runs scored under one --playout, got hold and flush")
    plan = plan_settings(scored[0].vad, chosen)
    swept = {}
    total = len(planned[0])
    output.note(_cost(plan, total * len(runs), jobs))
    with output.progress("sweep", total * len(runs)) as progress, Workers(jobs) as workers:
        for index, (name, run, found) in enumerate(zip(names, runs, scored, strict=True)):
            swept[name] = sweep_run(
                run, plan, found, workers,
                lambda done, index=index: progress.update(  # type: ignore[misc]
                    index * total + done))
    told = document(plan, swept, [system.name for system in systems if system.floor])
    print_vad_sweep(output, told)
    if csv_path is not None:
        atomic_write_text(csv_path, as_csv(told))
    if out is not None:
        atomic_write_text(out, dumps(told) + "\n")
    output.document(told)
    return 0


def _cost(plan: Plan, cases_n: int, jobs: int) -> str:
    reading_s, setting_s = CASE_COST_S
    seconds = cases_n * (reading_s + setting_s * len(plan.settings)) / jobs
    return (f"{cases_n} sessions under {len(plan.settings)} settings: about {seconds:.0f} s on "
            f"{jobs} free core(s), more where probabilities are not in the cache")


def _print(output: Output, result: SweepResult) -> None:
    n_configs = len(result.grid.configs)
    default = result.grid.default_index
    for name, system in result.systems.items():
        rows = []
        for pool, levels in system.counts.items():
            for level, counts in levels.items():
                rates = [r for i in range(n_configs) if (r := counts.rate(i)) is not None]
                at_default = counts.rate(default)
                rows.append([
                    f"ias_{pool} {level}", int(counts.n[default]),
                    "-" if at_default is None else f"{100 * float(at_default):.1f}",
                    "-" if not rates else f"{100 * float(min(rates)):.1f}",
                    "-" if not rates else f"{100 * float(max(rates)):.1f}"])
        output.table(f"{name}: IAS over {n_configs} configurations, percent",
                     ["", "n", "default", "lowest", "highest"], rows)
        output.line(f"{len(system.flips)} of {system.n_cases} cases change their verdict under "
                    "some configuration")
    for pool, found in result.as_dict()["ranking"].items():
        if found.get("reason"):
            output.line(f"ranking by Entailment Gap, {pool}: {found['reason']}")
            continue
        output.table(f"ranking by Entailment Gap, {pool} ({found['n_distinct']} distinct "
                     f"configurations of {n_configs})", ["statistic", "value"],
                     [[k, v if not isinstance(v, float) else f"{v:.3f}"]
                      for k, v in found.items() if v is not None])
