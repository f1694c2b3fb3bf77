"""`rig sweep`: thresholds re-decided from stored measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from audio.errors import InputError
from audio.files import atomic_write_text
from rig.console import Output
from rig.ledger import dumps
from rig.store import RunFolder
from rig.stored import load_table
from sweeps.sweep import SweepResult, sweep


@click.command("sweep")
@click.argument("run_dirs", metavar="RUN...", nargs=-1, required=True,
                type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Also write the JSON document here.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(run_dirs: tuple[Path, ...], out: Path | None, as_json: bool) -> int:
    """Decide every verdict anew under the 180 published threshold configurations.

    Reads what `rig score` measured; no recording is touched. With two runs or more it says how
    stable the ranking by Entailment Gap (L1 - L2) is.

    \b
    Example:
      rig sweep runs/long_endpoint
      rig sweep runs/echo runs/eager runs/long_endpoint --json
    """
    output = Output(as_json=as_json)
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
    result = sweep(tables)
    _print(output, result)
    document = result.as_dict()
    if out is not None:
        atomic_write_text(out, dumps(document) + "\n")
    output.document(document)
    return 0


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
        output.table(f"ranking by Entailment Gap, {pool} ({found['n_distinct']} of {n_configs} "
                     "configurations differ)", ["statistic", "value"],
                     [[k, v if not isinstance(v, float) else f"{v:.3f}"]
                      for k, v in found.items() if v is not None])
