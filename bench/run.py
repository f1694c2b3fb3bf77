"""Runs every bench/bench_*.py in turn and prints one table; what `make bench` calls.

    python bench/run.py [--json] [--only NAME ...] [--timeout SECONDS]

A benchmark is a script that takes --json and prints one document

    {"bench": "vad", "rows": [{"what": "silero, one channel", "unit": "x real time",
                               "values": [431.0, 440.2, 415.9], "budget": 200}]}

`values` are the repetitions (one or more), `budget` may be left out. Any other document is read as
well: its numbers, and its lists of numbers, become rows named by their keys. A benchmark whose
module is not installed is listed with the reason and does not fail the run; any other failure does.

Numbers of a shared machine move. So that a reader can tell a change from noise, a fixed piece of
work is timed around every benchmark and shown in the first row.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rig.clock import Stopwatch
from rig.console import Output

HERE = Path(__file__).resolve().parent
NOISE_BYTES = 16_000_000
NOISE_REPEATS = 3


@dataclass(frozen=True, slots=True)
class Row:
    """One measured quantity and its repetitions."""

    bench: str
    what: str
    unit: str
    values: tuple[float, ...]
    budget: float | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """A benchmark without numbers; `failed` when something is wrong rather than missing."""

    bench: str
    reason: str
    failed: bool


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _flat(value: Any, name: str) -> Iterator[tuple[str, tuple[float, ...]]]:
    if _is_number(value):
        yield name, (float(value),)
    elif isinstance(value, list) and value and all(_is_number(item) for item in value):
        yield name, tuple(float(item) for item in value)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{name} {key}".strip())
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            label = f"{inner['name']}" if isinstance(inner, dict) and "name" in inner else index
            yield from _flat(inner, f"{name} {label}".strip())


def rows_of(bench: str, document: Any) -> list[Row]:
    """The rows of a benchmark's document, in its own form or found in whatever it printed."""
    if isinstance(document, dict) and isinstance(document.get("rows"), list):
        return [Row(bench, str(row["what"]), str(row["unit"]),
                    tuple(float(value) for value in row["values"]),
                    None if row.get("budget") is None else float(row["budget"]))
                for row in document["rows"]]
    return [Row(bench, what, "", values) for what, values in _flat(document, "")]


def run_one(script: Path, timeout_s: float) -> list[Row] | Skipped:
    """Run one benchmark in its own process."""
    bench = script.stem.removeprefix("bench_")
    try:
        done = subprocess.run([sys.executable, script, "--json"], capture_output=True, text=True,
                              timeout=timeout_s, check=False, cwd=HERE.parent)
    except subprocess.TimeoutExpired:
        return Skipped(bench, f"not finished after {timeout_s:g} s", failed=True)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        last = lines[-1] if lines else "nothing was printed"
        missing = last.startswith(("ModuleNotFoundError", "ImportError"))
        return Skipped(bench, f"exit {done.returncode}: {last}", failed=not missing)
    try:
        return rows_of(bench, json.loads(done.stdout))
    except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        return Skipped(bench, f"its --json output cannot be read: {error!r}", failed=True)


def noise_ms() -> list[float]:
    """Milliseconds that the same SHA-256 work takes, a few times in a row."""
    block = bytes(NOISE_BYTES)
    took = []
    for _ in range(NOISE_REPEATS):
        watch = Stopwatch()
        hashlib.sha256(block).digest()
        took.append(watch.elapsed_s * 1000)
    return took


def _shown(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Run every benchmark and print one table.")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--only", action="append", metavar="NAME", help="e.g. vad; may be repeated")
    parser.add_argument("--timeout", type=float, default=600.0, metavar="SECONDS",
                        help="limit for one benchmark (default 600)")
    options = parser.parse_args()
    output = Output(as_json=options.json)
    scripts = {path.stem.removeprefix("bench_"): path for path in sorted(HERE.glob("bench_*.py"))}
    unknown = sorted(set(options.only or ()) - set(scripts))
    if unknown:
        parser.error(f"--only: expected one of {', '.join(scripts)}, got {', '.join(unknown)}")

    noise = noise_ms()
    rows: list[Row] = []
    skipped: list[Skipped] = []
    for name, script in scripts.items():
        if options.only and name not in options.only:
            continue
        output.note(f"bench {name} ...")
        result = run_one(script, options.timeout)
        if isinstance(result, Skipped):
            skipped.append(result)
        else:
            rows += result
        noise += noise_ms()
    rows.insert(0, Row("machine", f"noise: SHA-256 of {NOISE_BYTES // 10**6} MB", "ms",
                       tuple(noise)))
    output.table("benchmarks", ["bench", "what", "unit", "n", "min", "median", "max", "budget"],
                 [(row.bench, row.what, row.unit, len(row.values), _shown(min(row.values)),
                   _shown(statistics.median(row.values)), _shown(max(row.values)),
                   "" if row.budget is None else _shown(row.budget))
                  for row in rows if row.values])
    for entry in skipped:
        output.line(f"{entry.bench}: {'failed' if entry.failed else 'not run'}: {entry.reason}")
    output.document({"rows": [asdict(row) for row in rows],
                     "skipped": [asdict(entry) for entry in skipped]})
    return 1 if any(entry.failed for entry in skipped) else 0


if __name__ == "__main__":
    sys.exit(main())
