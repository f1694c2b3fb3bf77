"""What line conditions do: to the built-in agents, and to a detector that listens to the user.

    python bench/measure_conditions.py SUITE_DIR [--jobs N] [--json]

SUITE_DIR is a built suite; docs/conditions.md was made with nine cells of dsb-ifeval, one an
action, on L2. Every agent of AGENTS is played and scored under every line of CONDITIONS, in virtual
time; the first table is cases passed of cases scored.

The second table is informative: Silero VAD with the default settings on what the system was sent
(the sessions of the silent agent), against the same detector on the clean track:

- found: share of the clean spans that overlap with one found under the condition;
- onset: of those, onset under the condition minus clean onset, ms: median, 10th and 90th
  percentile. A span that begins more than 0.3 s off is not the same onset and counts as `moved`;
- false: seconds of speech found in a minute of what is no speech on the clean track.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from audio.condition_text import parse_all
from audio.files import read_analysis_channel
from audio.spans import Spans
from audio.timebase import ANALYSIS_RATE_HZ
from audio.vad import VadSettings, speech_spans
from probes.render import load_built
from rig.runner import RunRequest, run
from rig.scores import write_scores
from rig.scoring import measure_run
from rig.store import RunFolder
from rig.workers import Workers
from verifiers.thresholds import Thresholds

AGENTS = ("oracle", "silent", "long_endpoint", "eager", "metronome", "echo", "inverse")
CONDITIONS = (
    "", "level=-40", "noise=babble:20", "noise=babble:10", "noise=babble:0", "noise=car:10",
    "noise=white:10", "noise=pink:10", "echo=120ms:-20", "line=ulaw", "line=ulaw:300-3400",
    "loss=3", "loss=10:burst=4:conceal=repeat", "jitter=20ms:40ms", "silence=dither",
    "level=-30,noise=babble:15,echo=120ms:-30,line=ulaw:300-3400,loss=2",
)
SAME_ONSET_S = 0.3


def played(suite: Path, agent: str, condition: str, folder: Path, jobs: int,
           workers: Workers) -> dict[str, Any]:
    """The scores of one agent under one condition."""
    built = load_built(suite)
    out = RunFolder(folder)
    result = run(RunRequest(suite_dir=suite, run=out, adapter=agent, settings={},
                            cases=tuple(built.cases), jobs=jobs,
                            conditions=parse_all([condition] if condition else [])),
                 workers=workers)
    assert result.complete, result.failed
    vad = VadSettings()
    return write_scores(out, measure_run(out, vad, workers), Thresholds(), vad, "hold")


def rate(scores: dict[str, Any]) -> str:
    n = sum(c["outcome"] in ("pass", "fail") for c in scores["cases"])
    passed = sum(c["outcome"] == "pass" for c in scores["cases"])
    return f"{passed}/{n}"


def heard(folder: Path) -> dict[str, float | int]:
    """What a detector finds in what was sent, against what it finds in what was said."""
    run_folder = RunFolder(folder)
    vad = VadSettings()
    shifts: list[float] = []
    clean_n = found_n = moved_n = 0
    false_n = quiet_n = 0
    for case in run_folder.read_cases():
        record = run_folder.read_record(case.case_id, 1)
        clean_audio, _ = read_analysis_channel(run_folder.rec_dir / record.stereo.path, 0)
        clean = speech_spans(clean_audio, vad)
        sent = clean_audio if record.line is None else read_analysis_channel(
            run_folder.rec_dir / record.line.sent.path, 0)[0]
        other = speech_spans(sent, vad)
        for start, end in clean:
            clean_n += 1
            overlapping = [s for s in other if s[0] < end and s[1] > start]
            found_n += bool(overlapping)
            if overlapping:
                shift_s = (overlapping[0][0] - start) / ANALYSIS_RATE_HZ
                if abs(shift_s) <= SAME_ONSET_S:
                    shifts.append(1000 * shift_s)
                else:
                    moved_n += 1
        quiet_n += len(clean_audio) - length(clean)
        false_n += length(other) - length(other, clean)
    low, middle, high = np.percentile(shifts, [10, 50, 90]) if shifts else (np.nan,) * 3
    return {"spans": clean_n, "found": found_n, "moved": moved_n,
            "onset_p10_ms": round(float(low), 1), "onset_p50_ms": round(float(middle), 1),
            "onset_p90_ms": round(float(high), 1),
            "false_s_per_min": round(60 * false_n / quiet_n, 2)}


def length(spans: Spans, inside: Spans | None = None) -> int:
    """Samples in `spans`, or in both."""
    if inside is None:
        return sum(b - a for a, b in spans)
    return sum(max(0, min(b, d) - max(a, c)) for a, b in spans for c, d in inside)


def main() -> int:
    parser = argparse.ArgumentParser(description="What line conditions do.")
    parser.add_argument("suite", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="conditions_") as folder, \
            Workers(options.jobs) as workers:
        for number, condition in enumerate(CONDITIONS):
            row: dict[str, Any] = {"condition": condition or "none"}
            for agent in AGENTS:
                out = Path(folder) / f"{number}_{agent}"
                row[agent] = rate(played(options.suite, agent, condition, out, options.jobs,
                                         workers))
            row |= heard(Path(folder) / f"{number}_silent")
            rows.append(row)
            print(json.dumps(row), file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps(rows))
        return 0
    for columns in (AGENTS, ("spans", "found", "moved", "onset_p10_ms", "onset_p50_ms",
                             "onset_p90_ms", "false_s_per_min")):
        print(f"| condition | {' | '.join(columns)} |")
        print(f"|---|{'---:|' * len(columns)}")
        for row in rows:
            print(f"| `{row['condition']}` | {' | '.join(str(row[c]) for c in columns)} |")
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
