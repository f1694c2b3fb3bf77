"""`rig definitions`: other people's definitions beside ours."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from audio.errors import InputError
from audio.files import atomic_write_text
from audio.suggest import unknown_name
from rig.comparison_text import csv_cell
from rig.console import Output
from rig.definitions import FAMILIES, run_document
from rig.settings import scoring_settings
from rig.store import RunFolder

TITLES = {"fdb": "Full-Duplex-Bench v1 and v1.5", "tau2": "tau2-bench, voice",
          "eva": "EVA, turn taking"}
_SIDE = ("value", "n", "low", "high", "interval", "reason")
COLUMNS = ("run", "family", "key", "name", "unit", *(f"theirs_{c}" for c in _SIDE), "ours_name",
           *(f"ours_{c}" for c in _SIDE), "source")


@click.command("definitions")
@click.argument("run_dirs", metavar="RUN...", nargs=-1, required=True,
                type=click.Path(path_type=Path))
@click.option("--only", multiple=True, metavar="fdb|tau2|eva",
              help="One benchmark alone; may be repeated.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
              help="Threshold or detector setting of ours; may be repeated.")
@click.option("--csv", "csv_path", type=click.Path(path_type=Path),
              help="Also write every figure, a row each.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(run_dirs: tuple[Path, ...], only: tuple[str, ...], settings: tuple[str, ...],
            csv_path: Path | None, as_json: bool) -> int:
    """Compute the figures of Full-Duplex-Bench, tau2-bench and EVA from recorded runs, ours beside.

    Rules, sources and differences: docs/definitions.md. The run need not be scored.

    \b
    Example:
      rig definitions runs/long_endpoint runs/eager
      rig definitions runs/long_endpoint --only fdb --csv definitions.csv
    """
    output = Output(as_json=as_json)
    for name in only:
        if name not in FAMILIES:
            raise unknown_name("--only", name, FAMILIES)
    families = [family for family in FAMILIES if not only or family in only]
    thresholds, vad = scoring_settings(settings)
    if len({path.resolve() for path in run_dirs}) < len(run_dirs):
        raise InputError("expected different runs, got one twice")
    runs = [{"run": str(path), **run_document(RunFolder(path), families, thresholds, vad)}
            for path in run_dirs]
    for run in runs:
        _print(output, run, families)
    if csv_path is not None:
        atomic_write_text(csv_path, as_csv(runs))
    output.document({"schema_version": 1, "vad": vad.facts(), "runs": runs})
    return 0


def _print(output: Output, run: dict[str, Any], families: list[str]) -> None:
    left_out = "".join(f", {n} left out: {reason}" for reason, n in run["left_out"].items())
    output.line(f"{run['run']} ({run['adapter']}): {run['sessions']} sessions{left_out}")
    for family in families:
        figures = [f for f in run["figures"] if f["family"] == family]
        output.table(f"{TITLES[family]}: theirs, and the nearest of ours",
                     ["", "unit", "theirs", "ours", "which of ours"],
                     [[f["name"], f["unit"], side_text(f["theirs"]),
                       "-" if f["ours"] is None else side_text(f["ours"]),
                       "" if f["ours"] is None else f["ours"]["name"]] for f in figures])
        for figure in figures:
            if figure["theirs"]["value"] is None:
                output.line(f"  {figure['name']}: null: {figure['theirs']['reason']}")
            elif nulls := figure["theirs"]["null_sessions"]:
                output.line(f"  {figure['name']}: not in it: " + "; ".join(
                    f"{n} session(s): {reason}" for reason, n in nulls.items()))


def side_text(side: dict[str, Any]) -> str:
    """`0.429 [0.158, 0.750] n=7`."""
    if side["value"] is None:
        return "null"
    ci = "" if side["ci"] is None else " [{:.3f}, {:.3f}]".format(*side["ci"])
    return f"{side['value']:.3f}{ci} n={side['n']}"


def as_csv(runs: list[dict[str, Any]]) -> str:
    """A row a figure; what does not exist is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: csv_cell(v) for k, v in row.items()} for row in _rows(runs))
    return text.getvalue()


def _rows(runs: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for run in runs:
        for figure in run["figures"]:
            row = {"run": run["run"], **{c: figure[c] for c in ("family", "key", "name", "unit",
                                                               "source")}}
            for side in ("theirs", "ours"):
                found = figure[side]
                if found is None:
                    continue
                low, high = found["ci"] or (None, None)
                values = {**found, "low": low, "high": high}
                row |= {f"{side}_{c}": values[c] for c in _SIDE}
                row["ours_name"] = found.get("name")
            yield row
