"""Speed and memory of `rig field`: calls of every length, read and measured in one process.

    python bench/bench_field.py [--hours 4] [--rounds 3] [--files 500] [--json]

Speed is seconds of call (two channels) for one second of processor time, with the sensitivity
ranges and without any cache: 8 kHz mu-law, the sample call where it is there, else made speech.
Memory is the largest resident set of a process that measures a WAV file of `--hours`.

`--files` calls of 5 s, cut out of the same speech, are a study of their own, up to its document.
What a file costs beside its sound is told against the call of 4 minutes in the same run: processor
time a file less that of 5 s of it. The second time all of it is in the cache.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

ROOT = Path(__file__).resolve().parents[1]
CALL = ROOT.parent / "shared" / "data" / "calls" / "auto_repairs_40.wav"
RATE_HZ = 8_000
SMALL_S = 5
CHILD = "--child"
MANY = "--many"


def piece() -> np.ndarray:
    """Some minutes of two-sided telephone speech, (frames, 2)."""
    if CALL.exists():
        return soundfile.read(CALL, dtype="float32")[0]
    sys.path.insert(0, str(ROOT / "tests" / "tools"))
    from call_maker import dialogue

    return dialogue(24)[0].stereo(RATE_HZ)


def write(path: Path, seconds: float) -> None:
    samples = piece()
    with soundfile.SoundFile(path, "w", RATE_HZ, 2, subtype="ULAW", format="WAV") as file:
        left_n = round(seconds * RATE_HZ)
        while left_n > 0:
            file.write(samples[:left_n])
            left_n -= len(samples)


def write_many(folder: Path, count: int) -> None:
    """Calls of `SMALL_S`, each of other samples."""
    samples = piece()
    size_n = SMALL_S * RATE_HZ
    starts = np.linspace(0, len(samples) - size_n, count).astype(int)
    for k, start in enumerate(starts):
        soundfile.write(folder / f"{k:05}.wav", samples[start:start + size_n], RATE_HZ,
                        subtype="ULAW")


def many(folder: Path) -> None:
    """Measures every file of a folder twice, the second time out of the cache; prints the
    processor time of both, with the document, and the memory."""
    from audio.silero import load_model
    from rig.field.document import field_document
    from rig.field.measures import FieldSettings
    from rig.field.run import measure_all
    from rig.field.sources import channel_map, find_calls

    load_model()
    used_s = []
    for _ in range(2):
        before_s = time.process_time()
        sources = find_calls([folder], [], channel_map("left", None))
        found = list(measure_all(sources, FieldSettings(), folder / "cache", 1))
        document = field_document(found, FieldSettings())
        used_s.append(time.process_time() - before_s)
        assert len(document["calls"]) == len(sources), document["skipped"]
    print(json.dumps({"files_n": len(sources), "cpu_s": used_s[0], "again_s": used_s[1],
                      "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


def child(path: Path) -> None:
    """Measures one file; prints its seconds, the processor time and the memory."""
    from audio.silero import load_model
    from rig.field.measures import CallMeasures, FieldSettings, measure_file
    from rig.field.sources import CallSource, Track

    load_model()
    before_s = time.process_time()
    found = measure_file(CallSource("call", Track(path, 0), Track(path, 1)), FieldSettings(), None)
    used_s = time.process_time() - before_s
    assert isinstance(found, CallMeasures), found
    print(json.dumps({"call_s": found.duration_ns / 1e9, "cpu_s": used_s,
                      "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


def measure(path: Path, what: str = CHILD) -> dict[str, float]:
    done = subprocess.run([sys.executable, __file__, what, str(path)], check=True, cwd=ROOT,
                          capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def main() -> None:
    if CHILD in sys.argv:
        child(Path(sys.argv[-1]))
        return
    if MANY in sys.argv:
        many(Path(sys.argv[-1]))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=int, default=500)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        short, long = Path(folder) / "short.wav", Path(folder) / "long.wav"
        write(short, 240.0)
        speeds = [r["call_s"] / r["cpu_s"] for r in (measure(short) for _ in range(options.rounds))]
        write(long, options.hours * 3600)
        whole = measure(long)
        long.unlink()
        calls = Path(folder) / "calls"
        calls.mkdir()
        write_many(calls, options.files)
        small = measure(calls, MANY)
    # Of the same run: what 5 s cost in the call of 4 minutes.
    sound_s = SMALL_S / statistics.median(speeds)
    a_file_ms = 1000 * (small["cpu_s"] / small["files_n"] - sound_s)
    rows: list[dict[str, Any]] = [
        {"what": "a call of 4 minutes, both channels", "unit": "x real time", "values": speeds,
         "budget": 200},
        {"what": f"a call of {options.hours:g} hours", "unit": "x real time",
         "values": [whole["call_s"] / whole["cpu_s"]], "budget": 200},
        {"what": f"largest memory, {options.hours:g} hours", "unit": "MB",
         "values": [whole["mb"]], "budget": 400},
        {"what": f"{options.files} calls of {SMALL_S} s", "unit": "x real time",
         "values": [SMALL_S * small["files_n"] / small["cpu_s"]]},
        {"what": f"a file of {SMALL_S} s beside its sound (less {SMALL_S} s of the call of 4 "
                 "minutes)", "unit": "ms", "values": [a_file_ms], "budget": 10},
        {"what": f"a file of {SMALL_S} s out of the cache", "unit": "ms",
         "values": [1000 * small["again_s"] / small["files_n"]]},
        {"what": f"largest memory, {options.files} files", "unit": "MB",
         "values": [small["mb"]], "budget": 400}]
    if options.json:
        print(json.dumps({"bench": "field", "rows": rows}))
        return
    for row in rows:
        values = ", ".join(f"{v:.1f}" if v < 20 else f"{v:.0f}" for v in row["values"])
        budget = f" (budget {row['budget']})" if "budget" in row else ""
        print(f"{row['what']}: {values} {row['unit']}{budget}")


if __name__ == "__main__":
    main()
