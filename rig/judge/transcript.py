"""What was heard of the assistant in words: its own transcript, else what a recogniser hears.

Only what was heard under the chosen playout counts, and only near detected speech:

- A system's own words have estimated times (`rig.transcript`): the words of a response are spread
  over its audio, those of a stream stand where they came. One word's time may be off by seconds, so
  words are kept or dropped by the stretch: words less than `STRETCH_GAP_S` apart are one, and a
  stretch is dropped where no speech was detected between `SLACK_S` before and after it. Words
  without any time of their own cannot be: text without audio was never heard.
- Recognition is given nothing but the detected speech.

Where a system has no transcript, or has none for a session in which it was heard, the words are
recognised and marked so: a recogniser of a few megabytes mishears.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from adapters.cascade.recognition import Recogniser, RecognitionError
from audio.buffers import float_to_pcm16
from audio.errors import AudioFileError, InputError
from audio.spans import Spans
from audio.timebase import SESSION_RATE_HZ, ns_to_n, ns_to_s, s_to_ns
from audio.vad import VadSettings, spans_ns
from probes.segments import canonical_json
from rig.answer_cache import AnswerCache
from rig.judge.prompt import Spoken
from rig.playout import Policy
from rig.store import RunFolder
from rig.tracks import (
    Track,
    analyse_tracks,
    checked_record,
    heard_samples,
    make_track,
    track_channel,
)
from rig.transcript import heard_transcript
from verifiers.scene import TimedText

STRETCH_GAP_S = 1.0
"""Ours: longer than a pause inside a sentence (rig/heard.py takes as much for the end of a
reply)."""
SLACK_S = 1.0
"""Ours: text of a stream may come this much before or after its sound."""
FASTEST_WORDS_PER_S = 6.0
"""Ours: 360 words a minute, more than anybody is understood at. Above it the text is flagged."""
MAX_CHARS = 12_000
"""Ours: ten minutes of fast speech; what is beyond is left out, and the judge is told."""

Source = Literal["native", "recognised", "none"]


@dataclass(frozen=True, slots=True)
class Said:
    """The words of one session, and how they were got. `dropped` words lay outside any detected
    speech; `speech_s` seconds of it there are."""

    spoken: Spoken
    source: Source
    words: int
    dropped: int
    speech_s: float
    flags: tuple[str, ...] = ()


def said_in(run: RunFolder, sessions: Sequence[tuple[str, int]], playout: Policy,
            vad: VadSettings) -> list[Said | str]:
    """What was said in some sessions (case and trial), in order, or why it is not known."""
    out: dict[int, Said | str] = {}
    tracks: list[tuple[int, Track]] = []
    for index, (case_id, trial) in enumerate(sessions):
        try:
            tracks.append((index, make_track(checked_record(run, case_id, trial), playout)))
        except InputError as error:
            out[index] = str(error)
    activities = analyse_tracks(run, [track for _, track in tracks])
    for (index, track), activity in zip(tracks, activities, strict=True):
        try:
            if isinstance(activity, AudioFileError):
                raise activity
            speech = spans_ns(activity.probabilities, activity.samples_n, vad)
            out[index] = _said(run, track, speech)
        except (InputError, RecognitionError) as error:
            out[index] = str(error)
    return [out[index] for index in range(len(sessions))]


def _said(run: RunFolder, track: Track, speech: Spans) -> Said:
    native = heard_transcript(track.record, track.placements, track.recorded_ns)
    words, dropped = within_speech(native or (), speech)
    source: Source = "native"
    if speech and not words:
        words, source = _recognised(run, track, speech), "recognised"
    speech_s = ns_to_s(speech.total)
    text = " ".join(words)
    if not speech:
        return Said(Spoken("no_speech"), "none", 0, dropped, 0.0)
    if not text:
        return Said(Spoken("no_words"), "none", 0, dropped, speech_s)
    flags = []
    if len(words) > FASTEST_WORDS_PER_S * speech_s:
        flags.append("text_faster_than_speech")
    if source == "recognised" and native is not None:
        flags.append("native_text_missing")
    if len(text) > MAX_CHARS:
        flags.append("text_cut")
    return Said(Spoken("said", text[:MAX_CHARS], recognised=source == "recognised",
                       cut=len(text) > MAX_CHARS),
                source, len(words), dropped, speech_s, tuple(flags))


def within_speech(words: Sequence[TimedText], speech: Spans) -> tuple[list[str], int]:
    """The words of stretches that come with detected speech, and how many others were dropped."""
    kept: list[str] = []
    dropped = 0
    slack_ns = s_to_ns(SLACK_S)
    for stretch in _stretches(words):
        start_ns = stretch[0].start_ns - slack_ns
        # A word of a stream has no length.
        end_ns = max(w.end_ns for w in stretch) + slack_ns
        if speech.touching(start_ns, end_ns):
            kept += [w.text for w in stretch]
        else:
            dropped += len(stretch)
    return kept, dropped


def _stretches(words: Sequence[TimedText]) -> Iterator[list[TimedText]]:
    stretch: list[TimedText] = []
    end_ns = 0
    for word in sorted(words, key=lambda w: w.start_ns):
        if stretch and word.start_ns - end_ns >= s_to_ns(STRETCH_GAP_S):
            yield stretch
            stretch = []
        stretch.append(word)
        end_ns = max(end_ns, word.end_ns)
    if stretch:
        yield stretch


# --- recognition -----------------------------------------------------------------------------


def _recognised(run: RunFolder, track: Track, speech: Spans) -> list[str]:
    """Words of the detected speech, kept in the run's cache."""
    stretches = speech.merge_gaps(s_to_ns(STRETCH_GAP_S))
    name = canonical_json({
        "recogniser": _recogniser_name(), "track": track_channel(run, track).content,
        "stretches_ns": [list(s) for s in stretches]}).encode()
    cache = AnswerCache(run.cache_dir)
    kept = cache.load(name)
    if isinstance(kept, list) and all(isinstance(w, str) for w in kept):
        return kept
    samples = heard_samples(run, track)
    words: list[str] = []
    for start_ns, end_ns in stretches:
        part = samples[ns_to_n(start_ns, SESSION_RATE_HZ):ns_to_n(end_ns, SESSION_RATE_HZ)]
        words += _recogniser().words(float_to_pcm16(part))
    # A convenience: a folder that cannot be written can still be judged.
    with contextlib.suppress(InputError, OSError):
        cache.store(name, words)
    return words


@functools.cache
def _recogniser() -> Recogniser:
    """One a process: loading takes half a second."""
    return Recogniser()


def _recogniser_name() -> str:
    try:
        return f"pocketsphinx {importlib.metadata.version('pocketsphinx')}, two passes"
    except importlib.metadata.PackageNotFoundError:
        raise InputError("no transcript: the system gives none, and the recogniser (pocketsphinx) "
                         "is not installed here") from None

