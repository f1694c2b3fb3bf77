"""The voices of the default engine: pitch, formants, recognition and alignment of each.

    python bench/measure_voices.py [--model DIR] [--alone] [--lines N] [--voice NAME ...] [--json]
    python bench/measure_voices.py --report FILE [FILE ...]

Needs the rig. With `--model DIR` (whisper base, see bench/measure_engines.py) words are recognised
as well: about 10 s a voice and core, 30 s with `--alone`. With the package praat-parselmouth
installed, Praat measures pitch and formants, too: a judge that knows nothing of how the voices are
made. It is GPL-3, and nothing of the rig needs it; use a throw-away environment.

- Pitch, formant factor: `tests/tools/voice_measures.py`, over the first 8 lines of TEXT of
  bench/measure_engines.py, against the first voice of the engine.
- Praat: median pitch (autocorrelation); geometric mean of the median ratios of F1, F2, F3 (Burg, 5
  formants below 5500 Hz times the factor asked for, as its manual wants it set by tract length).
- Word error rate, alignment: every line as a segment (`audio.synthesis.render_segment`). Whisper
  hears as many lines at once as fit into its 30 s, with 0.6 s of zeros after each; with `--alone`
  one at a time, as in bench/measure_engines.py, which is harder: a line has no context.
- Distinct: every pair of voices, as measured, is at least 1 semitone or 5 % of formants apart.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests" / "tools")]

from measure_engines import TEXT, edits, error_rate, normalised, whisper  # noqa: E402
from voice_measures import formant_factor, median_pitch_hz  # noqa: E402

from audio.buffers import Float32  # noqa: E402
from audio.errors import RigError  # noqa: E402
from audio.resample import resample  # noqa: E402
from audio.spoken_text import normalise  # noqa: E402
from audio.synthesis import (  # noqa: E402
    DEFAULT_ENGINE,
    Engine,
    RenderedSegment,
    engine,
    render_segment,
)
from audio.timebase import ANALYSIS_RATE_HZ, SESSION_RATE_HZ, s_to_n  # noqa: E402
from audio.voice_bank import BANK, VOICES  # noqa: E402

ACOUSTIC_LINES = 8
SEMITONE, FORMANTS = 1.0, math.log(1.05)
"""The least distance of two voices, in one of the two."""
WER_LIMIT, WER_LIMIT_WORST_TENTH = 0.10, 0.15
CLIP_S, GAP_S = 28.0, 0.6


def spoken(speech: Engine, voice: str) -> Float32:
    """The acoustic lines, as the engine gives them: the timing is that of every other voice."""
    return np.concatenate([speech.synthesize(normalise(line), voice, 1)
                           for line in TEXT[:ACOUSTIC_LINES]])


def praat(samples: Float32, reference: Float32, rate_hz: int, factor: float) -> dict[str, float]:
    """Semitones and formant factor against `reference`, by Praat."""
    import parselmouth

    def tracks(x: Float32, ceiling_hz: float) -> tuple[Any, Any]:
        sound = parselmouth.Sound(x.astype(float), rate_hz)
        return (sound.to_pitch_ac(time_step=0.01, pitch_floor=60, pitch_ceiling=400),
                sound.to_formant_burg(0.01, 5, ceiling_hz, 0.025, 50))

    pitch, formants = tracks(samples, 5500 * factor)
    pitch0, formants0 = tracks(reference, 5500)
    times = [t for t in np.arange(0.1, len(samples) / rate_hz - 0.1, 0.01)
             if pitch.get_value_at_time(t) > 0 and pitch0.get_value_at_time(t) > 0]
    medians = [np.median([p.get_value_at_time(t) for t in times]) for p in (pitch, pitch0)]
    ratios = [np.nanmedian([math.log(formants.get_value_at_time(i, t)
                                     / formants0.get_value_at_time(i, t)) for t in times])
              for i in (1, 2, 3)]
    return {"semitones": 12 * math.log2(medians[0] / medians[1]),
            "formants": math.exp(float(np.mean(ratios)))}


def error_rate_in_clips(
    segments: Sequence[RenderedSegment], recognise: Callable[[Float32], str]
) -> dict[str, Any]:
    """As `measure_engines.error_rate`, over clips of several lines."""
    gap = np.zeros(s_to_n(GAP_S, SESSION_RATE_HZ), np.float32)
    clips: list[list[RenderedSegment]] = []
    length_n = 0
    for segment in segments:
        length_n += segment.samples.size + gap.size
        if not clips or length_n > s_to_n(CLIP_S, SESSION_RATE_HZ):
            clips.append([])
            length_n = segment.samples.size + gap.size
        clips[-1].append(segment)
    wrong = total = 0
    misheard: list[str] = []
    for clip in clips:
        samples = np.concatenate([part for s in clip for part in (s.samples, gap)])
        heard = recognise(resample(samples, SESSION_RATE_HZ, ANALYSIS_RATE_HZ))
        text = " ".join(s.text for s in clip)
        count = edits(normalised(text), normalised(heard))
        wrong += count
        total += len(normalised(text))
        if count:
            misheard.append(f"{text} -> {heard.strip()} ({count})")
    return {"wer": wrong / total, "errors": wrong, "words": total, "misheard": misheard}


def measure(voice: str, speech: Engine, reference: Float32, lines: Sequence[str],
            recognise: Callable[[Float32], str] | None, alone: bool) -> dict[str, Any]:
    """Everything about one voice."""
    rate_hz = speech.sample_rate_hz
    samples = spoken(speech, voice)
    pitch_hz = median_pitch_hz(samples, rate_hz)
    shift = BANK.get(voice)
    out: dict[str, Any] = {
        "voice": voice,
        "asked": {"semitones": shift.semitones if shift else 0.0,
                  "formants": shift.formants if shift else 1.0},
        "pitch_hz": pitch_hz,
        "semitones": 12 * math.log2(pitch_hz / median_pitch_hz(reference, rate_hz)),
        "formants": formant_factor(samples, reference, rate_hz),
    }
    if importlib.util.find_spec("parselmouth"):
        out["praat"] = praat(samples, reference, rate_hz, out["asked"]["formants"])
    segments, refused = [], []
    for line in lines:
        try:
            segments.append(render_segment(line, speech, voice, 1))
        except RigError as error:
            refused.append(str(error))
    out |= {"segments": len(segments), "refused": refused,
            "forced": sum(s.alignment == "forced" for s in segments),
            "peak": max(float(np.abs(s.samples).max()) for s in segments)}
    if recognise:
        out["recognised"] = (error_rate if alone else error_rate_in_clips)(segments, recognise)
    return out


def closest(results: Sequence[dict[str, Any]], of: Callable[[dict[str, Any]], dict[str, float]]
            ) -> tuple[float, str, str, float, float]:
    """The pair that is least apart: share of the limit (1.0 just passes), names, distances."""
    def apart(a: dict[str, Any], b: dict[str, Any]) -> tuple[float, str, str, float, float]:
        semitones = abs(of(a)["semitones"] - of(b)["semitones"])
        formants = abs(math.log(of(a)["formants"] / of(b)["formants"]))
        return (max(semitones / SEMITONE, formants / FORMANTS), a["voice"], b["voice"],
                semitones, 100 * (math.exp(formants) - 1))

    return min(apart(a, b) for a, b in combinations(results, 2))


def report(results: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Markdown: one row a voice, then the worst tenth and the closest pair."""
    yield ("| voice | asked: semitones, formants | median pitch, Hz | measured | Praat "
           "| WER whisper base | forced |")
    yield "|---" * 7 + "|"
    for r in results:
        judge = f"{r['praat']['semitones']:+.2f}, {r['praat']['formants']:.3f}" \
            if "praat" in r else "-"
        heard = r.get("recognised")
        rate = f"{heard['wer']:.3f} ({heard['errors']} of {heard['words']})" if heard else "-"
        yield (f"| `{r['voice']}` | {r['asked']['semitones']:+.1f}, {r['asked']['formants']:.3f} "
               f"| {r['pitch_hz']:.0f} | {r['semitones']:+.2f}, {r['formants']:.3f} | {judge} "
               f"| {rate} | {r['forced']} of {r['segments']} |")
    yield ""
    if len(results) > 1:
        for who, of in (("ours", lambda r: r), ("Praat", lambda r: r["praat"])):
            if who == "ours" or all("praat" in r for r in results):
                share, a, b, semitones, percent = closest(results, of)
                yield (f"closest pair ({who}): {a}, {b}: {semitones:.2f} semitones, "
                       f"{percent:.1f} % of formants; "
                       f"{'distinct' if share >= 1 else 'NOT DISTINCT'}")
    if all("recognised" in r for r in results):
        ranked = sorted(results, key=lambda r: -r["recognised"]["wer"])
        tenth = ranked[:max(1, round(len(ranked) / 10))]
        yield "worst tenth: " + ", ".join(
            f"{r['voice']} {r['recognised']['wer']:.3f}" for r in tenth)
        over = [r["voice"] for r in ranked if r["recognised"]["wer"] > (
            WER_LIMIT_WORST_TENTH if r in tenth else WER_LIMIT)]
        yield f"over the limit: {', '.join(over) or 'none'}"
    yield from (f"{r['voice']}, refused: {line}" for r in results for line in r["refused"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, metavar="DIR", help="whisper base, see above")
    parser.add_argument("--alone", action="store_true", help="recognise one line at a time")
    parser.add_argument("--lines", type=int, default=len(TEXT), metavar="N",
                        help="the first N of 28 lines (default: all)")
    parser.add_argument("--voice", action="append", metavar="NAME", help="instead of all")
    parser.add_argument("--json", action="store_true", help="everything, one line a voice")
    parser.add_argument("--report", type=Path, nargs="+", metavar="FILE",
                        help="tables of what --json wrote before, and nothing else")
    options = parser.parse_args()
    if options.report:
        lines = [line for path in options.report for line in path.read_text().splitlines()]
        results = sorted(map(json.loads, lines), key=lambda r: VOICES.index(r["voice"]))
        print("\n".join(report(results)))
        return
    recognise = whisper(options.model) if options.model else None
    speech = engine(DEFAULT_ENGINE)
    reference = spoken(speech, VOICES[0])
    results = []
    for voice in options.voice or VOICES:
        results.append(measure(voice, speech, reference, TEXT[:options.lines], recognise,
                               options.alone))
        if options.json:
            print(json.dumps(results[-1]), flush=True)
    if not options.json:
        print("\n".join(report(results)))


if __name__ == "__main__":
    main()
