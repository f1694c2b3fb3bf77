"""Speed of our speech detection beside the official package, and the bias of its edges.

    python bench/bench_vad.py [--rounds 5] [--json]

One thread, one process, the same audio: 8 recordings of 30 s (the sample call where it is there,
synthesized speech with pauses otherwise), from float32 samples at 16 kHz to the list of speech
timestamps at the paper's settings. In every round each route does the whole work once, in an order
that rotates; a ratio is taken within a round, so that noise of the machine hits both sides alike.
Before anything is timed the lists of all routes are compared: they must be equal.

Routes: ours file by file and in one batch; live, in pieces of 20 ms; `get_speech_timestamps` with
the JIT model (`load_silero_vad()`) and with the ONNX model (`onnx=True`); the official block route
(`sequence=True`), in silero-vad 6.2.2 and later.

Edge bias: where the detector puts the edges of single words in noise of -80 dB, minus where
`audio.edges` measures them. Positive is late.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from hibari import Hibari

from audio.analysis import analysis_samples
from audio.buffers import Float32
from audio.edges import measure_edges
from audio.resample import resample
from audio.silero import WEIGHTS_SHA256, load_model
from audio.spans import Interval
from audio.vad import VadSettings, intervals_from_probabilities
from rig.clock import Stopwatch

CALL = (Path(__file__).resolve().parent.parent.parent
        / "shared" / "data" / "calls" / "auto_repairs_40.wav")
RATE_HZ = 16_000
FILES = 8
FILE_N = 30 * RATE_HZ
PAPER = VadSettings()
OFFICIAL = {"min_speech_duration_ms": 90, "min_silence_duration_ms": 90}
WORDS = ("Yes.", "No.", "Okay.", "Right.", "Hello.", "Thanks.", "Tomorrow.", "Seven.", "Goodbye.",
         "Please.", "Friday.", "Again.", "Maybe.", "Wonderful.", "Exactly.", "Morning.")

Found = list[list[Interval]]


def recordings() -> tuple[str, list[Float32]]:
    """Eight times 30 s at 16 kHz, and where they come from."""
    if CALL.exists():
        samples, rate_hz = soundfile.read(CALL, dtype="float32")
        channels = [analysis_samples(np.ascontiguousarray(samples[:, c]), rate_hz) for c in (0, 1)]
        source = CALL.name
    else:
        spoken = resample(np.asarray(Hibari()(
            "I can see two open slots, one on Tuesday at nine and one on Friday afternoon.", seed=1
        ), dtype=np.float32), 24_000, RATE_HZ)
        turn = np.concatenate([spoken, np.zeros(3 * RATE_HZ, np.float32)])
        channels = [np.tile(turn, 30), np.roll(np.tile(turn, 30), 4 * RATE_HZ)]
        source = "synthesized"
    return source, [np.ascontiguousarray(channels[k % 2][(k // 2) * FILE_N:(k // 2 + 1) * FILE_N])
                    for k in range(FILES)]


def our_routes(files: list[Float32]) -> dict[str, Callable[[], Found]]:
    model = load_model()

    def spans(all_probabilities: list[Float32]) -> Found:
        return [intervals_from_probabilities(p, len(x), PAPER)
                for p, x in zip(all_probabilities, files, strict=True)]

    def live(samples: Float32) -> Float32:
        stream = model.stream()
        parts = [stream.push(samples[at:at + 320]) for at in range(0, len(samples), 320)]
        return np.concatenate([*parts, stream.flush()])

    return {
        "ours, file by file": lambda: spans([model.frame_probabilities(x) for x in files]),
        "ours, one batch": lambda: spans(model.frame_probabilities_batch(files)),
        "ours, live, 20 ms": lambda: spans([live(x) for x in files]),
    }


def official_routes(files: list[Float32]) -> dict[str, Callable[[], Found]]:
    """Raises ModuleNotFoundError without the extra."""
    import silero_vad
    import torch

    torch.set_num_threads(1)
    tensors = [torch.from_numpy(x) for x in files]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        jit = silero_vad.load_silero_vad()
    onnx = silero_vad.load_silero_vad(onnx=True)

    def loop(model: Any) -> Found:
        return [[(s["start"], s["end"]) for s in
                 silero_vad.get_speech_timestamps(x, model, **OFFICIAL)] for x in tensors]

    routes: dict[str, Callable[[], Found]] = {
        "official JIT loop": lambda: loop(jit), "official ONNX loop": lambda: loop(onnx)}
    if "get_speech_timestamps_sequence" in dir(silero_vad):
        sequence = silero_vad.load_silero_vad(sequence=True)
        routes["official sequence"] = lambda: [
            [(s["start"], s["end"]) for s in
             silero_vad.get_speech_timestamps_sequence(x, sequence, **OFFICIAL)] for x in files]
    return routes


def timed(routes: dict[str, Callable[[], Found]], rounds: int) -> dict[str, list[float]]:
    """Seconds of every route in every round; the first, untimed round checks and warms up."""
    answers = {name: route() for name, route in routes.items()}
    expected = answers["official JIT loop"]
    for name, answer in answers.items():
        if answer != expected:
            raise SystemExit(f"bench_vad: expected equal spans, got others from {name}")
    took: dict[str, list[float]] = {name: [] for name in routes}
    order = list(routes)
    for round_index in range(rounds):
        turn = round_index % len(order)
        for name in order[turn:] + order[:turn]:
            watch = Stopwatch()
            routes[name]()
            took[name].append(watch.elapsed_s)
    return took


def edge_bias_ms(pad_ms: float) -> tuple[list[float], list[float]]:
    """Start and end of every word as detected, minus as measured, in ms."""
    settings = VadSettings(speech_pad_ms=pad_ms)
    speak = Hibari()
    random = np.random.default_rng(4)
    starts, ends = [], []
    for word in WORDS:
        spoken = resample(np.asarray(speak(word, seed=2), dtype=np.float32), 24_000, RATE_HZ)
        edges = measure_edges(spoken, RATE_HZ)
        # Words begin at every place within a frame.
        lead_n = RATE_HZ + int(random.integers(0, 512))
        samples = np.zeros(lead_n + len(spoken) + RATE_HZ, np.float32)
        samples[lead_n:lead_n + len(spoken)] = spoken
        samples += 1e-4 * random.standard_normal(len(samples)).astype(np.float32)
        found = intervals_from_probabilities(
            load_model().frame_probabilities(samples), len(samples), settings)
        if found:
            starts.append((found[0][0] - lead_n - edges.start_n) / 16)
            ends.append((found[-1][1] - lead_n - edges.end_n) / 16)
    return starts, ends


def rows(took: dict[str, list[float]]) -> list[dict[str, Any]]:
    audio_s = FILES * FILE_N / RATE_HZ
    out: list[dict[str, Any]] = [
        {"what": name, "unit": "x real time", "values": [audio_s / s for s in seconds]}
        for name, seconds in took.items()]
    for ours in ("ours, file by file", "ours, one batch"):
        for theirs, budget in (("official JIT loop", 3.0), ("official ONNX loop", None),
                               ("official sequence", 0.9)):
            if theirs in took:
                ratios = [b / a for a, b in zip(took[ours], took[theirs], strict=True)]
                out.append({"what": f"{ours} / {theirs}", "unit": "times as fast",
                            "values": ratios, "budget": budget})
    for pad_ms in (30, 0):
        starts, ends = edge_bias_ms(pad_ms)
        for edge, values in (("start", starts), ("end", ends)):
            out.append({"what": f"bias of the {edge}, pad {pad_ms} ms, {len(values)} of "
                                f"{len(WORDS)} words", "unit": "ms", "values": values})
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one JSON document")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds: expected at least 1, got {options.rounds}")
    source, files = recordings()
    try:
        routes = our_routes(files) | official_routes(files)
    except ModuleNotFoundError as error:
        print(f"ModuleNotFoundError: bench_vad needs the extra `parity` (torch, silero-vad): "
              f"{error}", file=sys.stderr)
        return 1
    document = {
        "bench": "vad", "rows": rows(timed(routes, options.rounds)),
        "audio": f"{source}, {FILES} x {FILE_N // RATE_HZ} s", "threads": 1,
        "route": load_model().route, "weights_sha256": WEIGHTS_SHA256,
    }
    if options.json:
        print(json.dumps(document, indent=2))
        return 0
    print(f"{document['audio']}, one thread, {options.rounds} rounds, route "
          f"{document['route']}, all routes give the same spans")
    print(f"{'':58}{'unit':>16}{'min':>9}{'median':>9}{'max':>9}{'budget':>9}")
    for row in document["rows"]:
        values = row["values"]
        budget = "" if row.get("budget") is None else f"{row['budget']:g}"
        print(f"{row['what']:58}{row['unit']:>16}{min(values):9.2f}"
              f"{statistics.median(values):9.2f}{max(values):9.2f}{budget:>9}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
