"""240 virtual cases played and scored, twice: seconds, and whether the bytes agree.

    python bench/bench_run.py [--json] [--adapter NAME ...]

The suite (48 cells, instance 1, levels L0 to L4a) is rendered first, outside the clock. Beside the
total stand its limits in the same run: detection alone on the same recordings (nothing that scores
them can be faster) and the length of the recordings (what real time would take).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from pathlib import Path

from audio.files import read_analysis_channel
from audio.silero import frame_probabilities_batch
from audio.synthesis import DEFAULT_ENGINE
from probes.expand import expand, select
from probes.loader import load_suite
from probes.render import build_suite, load_built
from rig.clock import Stopwatch
from rig.ledger import read
from rig.rendering import EngineRenderer
from rig.runner import RunRequest, run
from rig.scores import recorded_minutes, write_scores
from rig.scoring import measure_run
from rig.settings import default_jobs, scoring_settings
from rig.store import RunFolder
from rig.workers import Workers

LEVELS = ("L0", "L1", "L2", "L3", "L4a")
BUDGET_S = 90.0


def play_and_score(suite_dir: Path, out: Path, adapter: str, jobs: int) -> tuple[float, float]:
    """Seconds for one adapter from the first session to `scores.json`, and recorded seconds."""
    watch = Stopwatch()
    folder = RunFolder(out)
    cases = load_built(suite_dir).cases
    thresholds, vad = scoring_settings(())
    with Workers(jobs) as workers:
        run(RunRequest(suite_dir=suite_dir, run=folder, adapter=adapter, settings={},
                       cases=cases, jobs=jobs), workers=workers)
        rows = measure_run(folder, vad, workers)
    write_scores(folder, rows, thresholds, vad, "hold")
    return watch.elapsed_s, recorded_minutes(rows) * 60


def fingerprint(out: Path) -> dict[str, str]:
    """Hash of every file of a run; of the ledger, all but its times and the order of its lines."""
    found = {}
    for path in sorted(p for p in out.rglob("*") if p.is_file() and p.name != ".lock"):
        if path.name == "attempts.jsonl":
            lines = sorted(f"{a.case_id} {a.trial} {a.attempt} {a.status}" for a in read(path))
            data = "\n".join(lines).encode()
        else:
            data = path.read_bytes()
        found[str(path.relative_to(out))] = hashlib.sha256(data).hexdigest()
    return found


def detection_s(out: Path) -> float:
    """One core: the detector alone on every model channel, in batches of 16."""
    paths = sorted((out / "rec").glob("*.stereo.wav"))
    total = 0.0
    for first in range(0, len(paths), 16):
        batch = [read_analysis_channel(path, 1)[0] for path in paths[first : first + 16]]
        watch = Stopwatch()
        frame_probabilities_batch(batch)
        total += watch.elapsed_s
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--adapter", nargs="+", default=["long_endpoint", "oracle"])
    options = parser.parse_args()
    jobs = default_jobs()
    rows = []
    with tempfile.TemporaryDirectory(prefix="bench-run-") as name:
        folder = Path(name)
        spec = load_suite("dsb-ifeval")
        chosen = select(expand(spec), LEVELS, "instance=1")
        watch = Stopwatch()
        info = build_suite(spec, folder / "suite", EngineRenderer(DEFAULT_ENGINE), select=chosen,
                           jobs=jobs)
        rows.append({"what": f"build {info.n_streams} streams, {jobs} jobs", "unit": "s",
                     "values": [watch.elapsed_s]})
        for adapter in options.adapter:
            outs = [folder / f"{adapter}{i}" for i in range(2)]
            times = [play_and_score(folder / "suite", out, adapter, jobs) for out in outs]
            same = fingerprint(outs[0]) == fingerprint(outs[1])
            rows += [
                {"what": f"{adapter}: {info.n_cases} cases played and scored, {jobs} jobs",
                 "unit": "s", "values": [t for t, _ in times], "budget": BUDGET_S},
                {"what": f"{adapter}: recorded length over that time", "unit": "x real time",
                 "values": [recorded / t for t, recorded in times]},
                {"what": f"{adapter}: limit, detection alone, 1 core", "unit": "s",
                 "values": [detection_s(outs[0])]},
                {"what": f"{adapter}: two runs agree byte for byte", "unit": "1 is yes",
                 "values": [int(same)]},
            ]
    if options.json:
        sys.stdout.write(json.dumps({"bench": "run", "rows": rows}) + "\n")
    else:
        for row in rows:
            values = ", ".join(f"{v:.1f}" for v in row["values"])
            sys.stdout.write(f"{row['what']}: {values} {row['unit']}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
