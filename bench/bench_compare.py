"""Eleven systems over the whole suite: the sweep of 180 configurations, and the bootstrap.

    python bench/bench_compare.py [--json] [--repeats 5] [--draws 10000]

Cases, actions and limits are those of the built-in suite; what happens in each is drawn at random.
Both are given in seconds, and as ratios to a named reference that computes the same numbers in the
same run:

- the sweep against judging every case at every configuration one by one (`verifiers.decide`), timed
  over each 30th configuration of one system and scaled up;
- one interval against a loop that adds up each draw, timed over a share of the draws.

The limit beside the bootstrap is what no implementation that draws can go below on this machine:
one pass over its table of draws, as a sum of that table takes.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "tools")]

from random_scenes import random_scene  # noqa: E402

from probes.expand import PlannedCase, base_stream_id, expand  # noqa: E402
from probes.loader import load_suite  # noqa: E402
from rig.clock import Stopwatch  # noqa: E402
from rig.scenes import case_params  # noqa: E402
from sweeps.comparison import System, compare  # noqa: E402
from sweeps.effects import INTERVAL_PERCENT, SEED, Case, Draws, rate  # noqa: E402
from sweeps.sweep import sweep  # noqa: E402
from sweeps.table import MeasurementTable, TableRow  # noqa: E402
from sweeps.threshold_grid import Grid, decide_grid  # noqa: E402
from verifiers.decide import decide  # noqa: E402
from verifiers.measurement import measure  # noqa: E402
from verifiers.scene import Action  # noqa: E402
from verifiers.thresholds import effective_limits  # noqa: E402
from verifiers.verdict import Outcome  # noqa: E402

SYSTEMS_N = 11
SWEEP_BUDGET_S, COMPARE_BUDGET_S = 0.1, 5.0
EVERY = 30
SHARE = 20
"""The loop over draws does each 20th of them and is scaled up."""
CODES = {Outcome.FAIL: 0, Outcome.PASS: 1, Outcome.UNSCORED: 2}


def measured(planned: Sequence[PlannedCase], seed: int) -> list[TableRow]:
    """A system: every case of the suite with something that happened in it."""
    rng = random.Random(seed)
    return [TableRow(c.case_id, 1, c.role, c.level, c.expected_action, case_params(c.params),
                     measure(random_scene(rng, Action(c.expected_action)))) for c in planned]


def one_by_one(rows: Sequence[TableRow], grid: Grid, picked: Sequence[int]) -> list[list[int]]:
    """The reference of the sweep: every case at every configuration."""
    return [[CODES[decide(Action(r.action), r.measurement, effective_limits(
        grid.configs[i], r.params, Action(r.action))).outcome] for r in rows] for i in picked]


def drawn_one_by_one(cases: Sequence[Case], draws_n: int) -> tuple[float, float]:
    """The reference of the bootstrap: the same draws, added up stream by stream."""
    streams = sorted({c.stream for c in cases})
    rng = np.random.default_rng(SEED)
    times = rng.multinomial(len(streams), np.full(len(streams), 1 / len(streams)), size=draws_n)
    passed = dict.fromkeys(streams, 0)
    n = dict.fromkeys(streams, 0)
    for case in cases:
        if case.passed is not None:
            passed[case.stream] += case.passed
            n[case.stream] += 1
    rates = []
    for draw in times.tolist():
        top = sum(k * passed[s] for k, s in zip(draw, streams, strict=True))
        bottom = sum(k * n[s] for k, s in zip(draw, streams, strict=True))
        if bottom:
            rates.append(top / bottom)
    low, high = np.percentile(rates, INTERVAL_PERCENT)
    return float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(description="eleven systems: sweep and bootstrap")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--draws", type=int, default=10_000)
    options = parser.parse_args()
    planned = expand(load_suite("dsb-ifeval"))
    rows = {f"system {k}": measured(planned, k) for k in range(SYSTEMS_N)}
    tables = {name: MeasurementTable.of(found) for name, found in rows.items()}
    grid = Grid()
    picked = list(range(0, len(grid.configs), EVERY))
    first, first_rows = tables["system 0"], rows["system 0"]

    sweeps, loops = [], []
    for _ in range(options.repeats):
        watch = Stopwatch()
        sweep(tables, grid)
        sweeps.append(watch.elapsed_s)
        watch = Stopwatch()
        looped = one_by_one(first_rows, grid, picked)
        loops.append(watch.elapsed_s * len(grid.configs) / len(picked) * SYSTEMS_N)
        if not np.array_equal(decide_grid(first, grid).codes[picked], np.array(looped)):
            raise SystemExit("the arrays and the loop disagree")

    outcomes = (Outcome.FAIL, Outcome.PASS, Outcome.UNSCORED)
    systems = []
    for name, table in tables.items():
        codes = decide_grid(table, grid).codes[grid.default_index]
        systems.append(System(name, tuple(
            Case(c.conversation_id, base_stream_id(c.stream_id), c.role, c.probe_id, c.level,
                 Action(c.expected_action), 1, outcomes[code])
            for c, code in zip(planned, codes, strict=True))))
    whole, alone, reference, limit = [], [], [], []
    cases = systems[0].cases
    streams = [c.stream for c in cases]
    for _ in range(options.repeats):
        watch = Stopwatch()
        compare(systems, draws_n=options.draws)
        whole.append(watch.elapsed_s)
        draws = Draws(streams, options.draws)
        watch = Stopwatch()
        found = rate(cases, draws).interval
        alone.append(watch.elapsed_s)
        few_n = max(options.draws // SHARE, 100)
        watch = Stopwatch()
        looped_interval = drawn_one_by_one(cases, few_n)
        reference.append(watch.elapsed_s * options.draws / few_n)
        if rate(cases, Draws(streams, few_n)).interval != looped_interval or found is None:
            raise SystemExit("the bootstrap and the loop disagree")
        table_of_draws = np.ones((options.draws, len(set(streams))))
        watch = Stopwatch()
        table_of_draws.sum()
        limit.append(watch.elapsed_s)

    what = f"{SYSTEMS_N} x {len(planned)} cases"
    result = [
        {"what": f"sweep, {what} x 180, after load", "unit": "s", "values": sweeps,
         "budget": SWEEP_BUDGET_S},
        {"what": "one by one (scaled) / sweep, same verdicts", "unit": "times",
         "values": [a / b for a, b in zip(loops, sweeps, strict=True)]},
        {"what": f"compare, {what}, {options.draws} draws", "unit": "s", "values": whole,
         "budget": COMPARE_BUDGET_S},
        {"what": "draw by draw (scaled) / one interval, same interval", "unit": "times",
         "values": [a / b for a, b in zip(reference, alone, strict=True)]},
        {"what": "one interval / limit (one pass over the draws)", "unit": "times",
         "values": [a / b for a, b in zip(alone, limit, strict=True)]},
    ]
    if options.json:
        print(json.dumps({"bench": "compare", "rows": result}))
        return
    for row in result:
        values = row["values"]
        print(f"{row['what']:52} {row['unit']:>6}  min {min(values):9.3g}  "
              f"median {statistics.median(values):9.3g}  max {max(values):9.3g}")


if __name__ == "__main__":
    main()
