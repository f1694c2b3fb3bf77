"""Words of recordings that nobody wrote down: heard by a recogniser, and marked so.

`offline` is what the default install has (`adapters.cascade.recognition`, PocketSphinx); anything
else names a Whisper model of faster-whisper (extra `whisper`): a folder, or a name that is fetched
once. English.

Only what the detector takes for speech is heard, one channel at a time, in stretches of at most
`PIECE_S`, so an hour costs no more memory than a minute. A recogniser makes words up ("Thank you"
on silence): those whose middle lies outside detected speech are dropped and counted.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from adapters.cascade.recognition import Recogniser as Pocketsphinx
from adapters.cascade.recognition import RecognitionError
from audio.buffers import Float32
from audio.errors import AudioFileError, InputError
from audio.files import sha256_file
from audio.inspection import inspect
from audio.resample import resample
from audio.spans import Interval, Spans
from audio.suggest import did_you_mean
from audio.timebase import ANALYSIS_RATE_HZ, NS_PER_S, s_to_ns
from probes.segments import canonical_json
from rig.answer_cache import AnswerCache
from rig.field.reading import read_stretches
from rig.field.sources import Track
from verifiers.calls.substance import Word
from verifiers.calls.turns import DOUBT_MARGIN_NS

OFFLINE = "offline"
PIECE_S = 28
"""Longest stretch that is heard at once: Whisper's window is 30 s."""
JOIN_S = 1.0
"""Spans less than this apart are heard together: a recogniser needs the sentence."""
AROUND_S = 0.2
"""Heard before and after a stretch: onsets that the detector misses."""
SETTINGS = {"language": "en", "beam_size": 5, "temperature": 0.0, "word_timestamps": True,
            "condition_on_previous_text": False, "vad_filter": False}
"""Of Whisper. One temperature: its fallback to others draws at random."""
VERSION = 1
"""Of what is kept."""
EXTRA = "pip install -c constraints.txt -e '.[whisper]' where duplexrig is"

Heard = tuple[str, float, float]


class Hears(Protocol):
    """A loaded recogniser."""

    def timed_words(self, x16k: Float32) -> Sequence[Heard]:
        """Words of float32 `(n,)` at 16 kHz with start and end in seconds. Raises
        `RecognitionError`."""


@dataclass(frozen=True, slots=True)
class Recogniser:
    """Which recogniser is used. folder: its model's, `None` for `offline`; model_sha256: of the
    file with the weights."""

    engine: str
    version: str
    model: str
    folder: Path | None = None
    model_sha256: str | None = None

    @property
    def label(self) -> str:
        """Engine, version and model in one line."""
        weights = "" if self.model_sha256 is None else f" ({self.model_sha256[:12]})"
        return f"{self.engine} {self.version}, {self.model}{weights}"

    def facts(self) -> dict[str, Any]:
        """What a result must state."""
        return {"engine": self.engine, "version": self.version, "model": self.model,
                "model_sha256": self.model_sha256,
                "settings": {} if self.folder is None else SETTINGS}


@dataclass(frozen=True, slots=True)
class Recognised:
    """Words of one side inside detected speech, in order; how many others were dropped."""

    words: tuple[Word, ...]
    dropped_n: int


def find_recogniser(name: str, say: Callable[[str], None]) -> Recogniser:
    """The recogniser that `--recognise` names. `say` gets a line before a model is fetched.

    Raises `InputError`: it is not installed, no such folder or name, the model cannot be fetched.
    """
    where = "--recognise"
    if name == OFFLINE:
        version = _version("pocketsphinx")
        if version is None:
            raise InputError(f"{where} offline: expected pocketsphinx, which has no package for "
                             "this version of Python")
        return Recogniser("pocketsphinx", version, "en-us, two passes")
    version = _version("faster-whisper")
    if version is None:
        raise InputError(f"{where} {name}: expected faster-whisper, got none: {EXTRA}; the "
                         f"recogniser of the default install is {where} {OFFLINE}")
    folder = Path(name)
    if not folder.is_dir():
        folder = _fetched(name, say)
    weights = folder / "model.bin"
    if not weights.is_file():
        raise InputError.expected("a folder of a CTranslate2 Whisper model", got="no model.bin",
                                  where=f"{where} {folder}")
    runtime = _version("ctranslate2") or "?"
    return Recogniser("faster-whisper", f"{version} (ctranslate2 {runtime})", Path(name).name,
                      folder, sha256_file(weights))


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _fetched(name: str, say: Callable[[str], None]) -> Path:
    """The folder of a model by name, from this machine where it is there already."""
    from faster_whisper.utils import available_models, download_model

    known = [OFFLINE, *available_models()]
    if name not in known:
        raise InputError(f"--recognise: expected {OFFLINE}, a folder, or one of "
                         f"{', '.join(known[1:])}; got {name!r}{did_you_mean(name, known)}")
    with contextlib.suppress(Exception):
        return Path(download_model(name, local_files_only=True))
    say(f"the model {name} is not on this machine: it is downloaded once (recordings stay here)")
    try:
        return Path(download_model(name))
    except Exception as error:  # every layer of a download has errors of its own
        raise InputError(f"--recognise {name}: expected the model, got no download of it: "
                         f"{' '.join(str(error).split())[:300]}") from error


def recognise(track: Track, speech: Spans, with_: Recogniser,
              cache_dir: Path | None) -> Recognised:
    """The words of one side of a call, kept in `cache_dir` by sound, recogniser and stretches.

    Raises `RecognitionError` (it failed) and `AudioFileError` (the recording cannot be read).
    """
    stretches = _stretches(speech)
    cache = None if cache_dir is None else AnswerCache(cache_dir)
    key = b""
    if cache is not None:
        try:
            content = sha256_file(track.path)
        except InputError as error:
            raise AudioFileError(str(error)) from error
        key = canonical_json({
            "recognised": VERSION, "by": with_.facts(), "sound": content,
            "channel": track.channel, "stretches_ns": [list(s) for s in stretches]}).encode()
    heard = None if cache is None else _kept(cache.load(key))
    if heard is None:
        heard = list(_hear(track, stretches, with_))
        if cache is not None:
            # A convenience: on a read-only disk the study goes on without.
            with contextlib.suppress(InputError, OSError):
                cache.store(key, [[text, *span] for text, span in heard])
    inside = [Word(text, span) for text, span in heard if _inside(span, speech)]
    return Recognised(tuple(sorted(inside, key=lambda w: w.span_ns)), len(heard) - len(inside))


def _kept(answer: Any) -> list[tuple[str, Interval]] | None:
    if not isinstance(answer, list):
        return None
    try:
        return [(str(text), (int(start), int(end))) for text, start, end in answer]
    except (TypeError, ValueError):
        return None


def _stretches(speech: Spans) -> list[Interval]:
    """What is heard at once: near spans together, none longer than `PIECE_S`."""
    around, piece = s_to_ns(AROUND_S), PIECE_S * NS_PER_S
    out: list[Interval] = []
    for start, end in speech:
        joins = out and start - out[-1][1] < s_to_ns(JOIN_S) and end - out[-1][0] <= piece
        if joins:
            out[-1] = (out[-1][0], end)
        else:
            out += [(at, min(at + piece, end)) for at in range(start, end, piece)]
    # The margins of two neighbours share what lies between them.
    wide = []
    for k, (start, end) in enumerate(out):
        before = out[k - 1][1] if k else 0
        after = out[k + 1][0] if k + 1 < len(out) else end + 2 * around
        wide.append((max(start - around, (before + start) // 2 if k else 0),
                     min(end + around, (end + after) // 2)))
    return wide


def _hear(track: Track, stretches: Sequence[Interval],
          with_: Recogniser) -> Iterator[tuple[str, Interval]]:
    loaded = _loaded(with_)
    file = inspect(track.path)
    for (start, end), samples in read_stretches(file, track.channel, stretches):
        x16k = resample(samples, file.info.rate_hz, ANALYSIS_RATE_HZ)
        for text, begins_s, ends_s in loaded.timed_words(x16k):
            at = (start + s_to_ns(begins_s), start + s_to_ns(ends_s))
            # Times of a recogniser are guesses; they lie in what it was given.
            first = min(max(at[0], start), end)
            yield text, (first, min(max(at[1], first), end))


def _inside(span: Interval, speech: Spans) -> bool:
    """Does the middle of a word lie in detected speech, `DOUBT_MARGIN_NS` around included?"""
    middle = (span[0] + span[1]) // 2
    return bool(speech.touching(middle - DOUBT_MARGIN_NS, middle + DOUBT_MARGIN_NS + 1))


@functools.cache
def _loaded(with_: Recogniser) -> Hears:
    """One a process: loading takes half a second and more."""
    if with_.folder is None:
        return Pocketsphinx()
    return Whisper(with_.folder)


class Whisper:
    """faster-whisper on one core: the calls of a study are spread over the cores."""

    def __init__(self, folder: Path) -> None:
        try:
            from faster_whisper import WhisperModel

            self._model: Any = WhisperModel(str(folder), device="cpu", compute_type="int8",
                                            cpu_threads=1, num_workers=1, local_files_only=True)
        except Exception as error:  # a damaged model fails in a dozen ways
            raise RecognitionError(f"faster-whisper: cannot load {folder}: "
                                   f"{' '.join(str(error).split())[:300]}") from error

    def timed_words(self, x16k: Float32) -> Sequence[Heard]:
        """Words as Whisper writes them, with punctuation and digits. Raises `RecognitionError`."""
        try:
            segments, _ = self._model.transcribe(x16k, **SETTINGS)
            return [(word.word.strip(), float(word.start), float(word.end))
                    for segment in segments for word in segment.words or ()
                    if word.word.strip()]
        except Exception as error:
            raise RecognitionError(f"faster-whisper: {' '.join(str(error).split())[:300]}"
                                   ) from error
