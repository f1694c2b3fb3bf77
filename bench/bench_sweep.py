"""The threshold sweep: arrays against a loop that verifies every scene at every configuration.

    python bench/bench_sweep.py [--json] [--cases 1038] [--repeats 5]

Both judge the same random scenes at the 180 configurations; their verdicts must be equal, or there
is nothing to compare. The loop is timed once over a share of the configurations and scaled up: it
does the same work at each. Ratios are given for the arrays alone, which is what `rig sweep` does
from stored measurements, and with the table built anew.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "tools")]

from random_scenes import LEVELS, random_scene  # noqa: E402

from rig.clock import Stopwatch  # noqa: E402
from sweeps.sweep import sweep  # noqa: E402
from sweeps.table import MeasurementTable, TableRow  # noqa: E402
from sweeps.threshold_grid import Grid, decide_grid  # noqa: E402
from verifiers.decide import verify  # noqa: E402
from verifiers.measurement import measure  # noqa: E402
from verifiers.scene import Action  # noqa: E402
from verifiers.verdict import Outcome  # noqa: E402

CODES = {Outcome.FAIL: 0, Outcome.PASS: 1, Outcome.UNSCORED: 2}
EVERY = 30
"""The loop visits each 30th configuration, six of 180, and is scaled up."""


def main() -> None:
    parser = argparse.ArgumentParser(description="arrays against a loop that verifies anew")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cases", type=int, default=1038)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    rng, actions = random.Random(20260), list(Action)
    scenes = [random_scene(rng, actions[i % 9]) for i in range(options.cases)]
    rows = [TableRow(f"c{i}", 1, "R1", LEVELS[i // 9 % 6], str(s.expected_action), s.params,
                     measure(s)) for i, s in enumerate(scenes)]
    table, grid = MeasurementTable.of(rows), Grid()
    picked = list(range(0, len(grid.configs), EVERY))

    alone, anew, whole, loops = [], [], [], []
    for _ in range(options.repeats):
        watch = Stopwatch()
        looped = [[CODES[verify(scene, grid.configs[i])[1].outcome] for scene in scenes]
                  for i in picked]
        loops.append(watch.elapsed_s * len(grid.configs) / len(picked))
        watch = Stopwatch()
        verdicts = decide_grid(table, grid)
        alone.append(watch.elapsed_s)
        watch = Stopwatch()
        decide_grid(MeasurementTable.of(rows), grid)
        anew.append(watch.elapsed_s)
        watch = Stopwatch()
        sweep({"one system": table}, grid)
        whole.append(watch.elapsed_s)
        if not np.array_equal(verdicts.codes[picked], np.array(looped)):
            raise SystemExit("the arrays and the loop disagree")

    result = [
        {"what": "loop / arrays, same verdicts", "unit": "times",
         "values": [a / b for a, b in zip(loops, alone, strict=True)], "budget": 100},
        {"what": "loop / (table + arrays)", "unit": "times",
         "values": [a / b for a, b in zip(loops, anew, strict=True)]},
        {"what": f"arrays, {options.cases} cases x 180", "unit": "ms",
         "values": [1000 * t for t in alone]},
        {"what": f"loop, {options.cases} cases x 180 (scaled)", "unit": "s", "values": loops},
        {"what": "sweep of one system, scores and flips", "unit": "ms",
         "values": [1000 * t for t in whole]},
    ]
    if options.json:
        print(json.dumps({"bench": "sweep", "rows": result}))
        return
    for row in result:
        values = row["values"]
        print(f"{row['what']:42} {row['unit']:>6}  min {min(values):9.1f}  "
              f"median {statistics.median(values):9.1f}  max {max(values):9.1f}")


if __name__ == "__main__":
    main()
