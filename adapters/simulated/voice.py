"""What the simulated agents say: a few clips, synthesised once a process by the default engine.

The talk is made to hold the floor without a break: its sentences have no commas, are trimmed to
their speech, stripped of pauses longer than 50 ms and joined without gaps, so that speech activity
detection at its finest (90 ms of speech, 90 ms of silence, no merging) sees one span however long
it lasts. It contains no number words and no names, and so never reads anything back by accident.

The backchannel is short enough for the strictest ceiling of the suite (0.5 s): 0.32 s of audio
are detected as one span of about 0.41 s wherever they fall on the detector's 32 ms grid.
"""

from __future__ import annotations

import functools
import re

import numpy as np

from adapters.simulated.agent import Speech
from audio.buffers import Float32
from audio.edges import trim
from audio.errors import InputError
from audio.resample import resample
from audio.synthesis import DEFAULT_ENGINE, Engine, engine
from audio.timebase import SESSION_RATE_HZ, s_to_n

SEED = 1
TALK = (
    "Most mornings I walk down to the river and look at the boats before anybody else is awake",
    "The old ferry still leaves from the same wooden landing that my grandfather helped to build",
    "People always ask me why the water looks so green near the bridge and nobody really knows",
    "My neighbor grows tomatoes along the fence and gives nearly all of them away every summer",
    "We had rain all through the spring so the hills behind the house are greener than ever",
    "Somebody painted the bakery door bright yellow and now everyone calls it the lemon shop",
    "I keep meaning to learn the names of the birds that sing outside the kitchen window",
    "The road into the valley bends around a meadow where horses stand under the trees",
)
BACKCHANNEL_WORD = "Yeah"
BACKCHANNEL_S = 0.32
UNRELATED = "Thanks for telling me about all that today"

_PAUSE_KEPT_S = 0.05
_PAUSE_BELOW_RMS = 0.004
"""-48 dB of full scale in 5 ms windows; the voice speaks at about -26 dB."""
_CUT_FADE_S = 0.03
_JOIN_FADE_S = 0.005

_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
MAX_TARGET_CHARACTERS = 400
"""About 40 s of speech; no session waits that long."""


@functools.cache
def _talk_sentences() -> tuple[Speech, ...]:
    return tuple(_spoken(text, _squeeze(_synthesise(text))) for text in TALK)


@functools.cache
def talk_on() -> Speech:
    """Talk that never ends by itself."""
    joined = _joined(_talk_sentences())
    return Speech(joined.samples, joined.words, loop=True)


def prepare() -> None:
    """Synthesise the talk now: synthesis inside a running session would delay its clock."""
    _talk_sentences()


def talk(length_s: float, first_sentence: int = 0) -> Speech:
    """Exactly `length_s` of talk, beginning with a sentence (modulo their number).

    It is cut where the time is up, mid-word if need be, with a fade of 30 ms.
    """
    sentences = _talk_sentences()
    length_n = s_to_n(length_s, SESSION_RATE_HZ)
    chosen: list[Speech] = []
    have_n = 0
    while have_n < length_n:
        chosen.append(sentences[(first_sentence + len(chosen)) % len(sentences)])
        have_n += len(chosen[-1].samples)
    return _cut(_joined(chosen), length_n)


@functools.cache
def backchannel() -> Speech:
    """One short acknowledgement."""
    word = _spoken(BACKCHANNEL_WORD, _synthesise(BACKCHANNEL_WORD))
    return _cut(word, s_to_n(BACKCHANNEL_S, SESSION_RATE_HZ))


@functools.cache
def unrelated() -> Speech:
    """A polite sentence that holds nothing of what was dictated."""
    return _spoken(UNRELATED, _squeeze(_synthesise(UNRELATED)))


@functools.lru_cache(maxsize=64)
def read_back(target: str) -> Speech:
    """The dictated items, spoken; digits one by one, whatever way they are written.

    The words are those of `target` (a transcript writes what it likes), the sound is of their
    spoken form. Raises `InputError` when there is nothing to say or far too much.
    """
    if len(target) > MAX_TARGET_CHARACTERS:
        raise InputError.expected(f"a target of at most {MAX_TARGET_CHARACTERS} characters",
                                  got=len(target), where="read-back target")
    spoken = spoken_form(target)
    if not spoken:
        raise InputError.expected("a target with at least one word", got=repr(target),
                                  where="read-back target")
    return _spoken(target, _squeeze(_synthesise(spoken)))


def spoken_form(text: str) -> str:
    """Letters and apostrophes kept, digits as single words, everything else a word break."""
    digits = re.sub(r"[0-9]", lambda m: f" {_DIGITS[int(m[0])]} ", text)
    return " ".join(re.findall(r"[A-Za-z]+(?:'[A-Za-z]+)*", digits))


def _synthesise(text: str) -> Float32:
    """Speech of the default embedded engine, trimmed to its edges: float32 `(n,)` at 24 kHz."""
    speaker = _engine()
    samples = speaker.synthesize(text, speaker.voices()[0], SEED)
    trimmed, _ = trim(resample(samples, speaker.sample_rate_hz, SESSION_RATE_HZ), SESSION_RATE_HZ)
    return trimmed


@functools.cache
def _engine() -> Engine:
    return engine(DEFAULT_ENGINE)


def _spoken(text: str, samples: Float32) -> Speech:
    """Spread the words over the sound in proportion to their letters."""
    words = text.split()
    letters = sum(len(w) for w in words)
    timed: list[tuple[str, int]] = []
    done = 0
    for word in words:
        timed.append((word, len(samples) * done // letters))
        done += len(word)
    return Speech(samples, tuple(timed))


def _joined(parts: list[Speech] | tuple[Speech, ...]) -> Speech:
    words: list[tuple[str, int]] = []
    at_n = 0
    for part in parts:
        words.extend((word, at_n + n) for word, n in part.words)
        at_n += len(part.samples)
    return Speech(np.concatenate([p.samples for p in parts]), tuple(words))


def _cut(speech: Speech, length_n: int) -> Speech:
    if length_n >= len(speech.samples):
        return speech
    samples = speech.samples[:length_n].copy()
    fade_n = min(length_n, s_to_n(_CUT_FADE_S, SESSION_RATE_HZ))
    samples[-fade_n:] *= np.linspace(1.0, 0.0, fade_n, endpoint=False, dtype=np.float32)
    return Speech(samples, tuple((w, n) for w, n in speech.words if n < length_n))


def _squeeze(samples: Float32) -> Float32:
    """Shorten every inner pause to 50 ms, keeping its edges, with short fades at the join."""
    window_n = s_to_n(0.005, SESSION_RATE_HZ)
    windows = samples[: len(samples) // window_n * window_n].reshape(-1, window_n)
    quiet = np.sqrt((windows.astype(np.float64) ** 2).mean(axis=1)) < _PAUSE_BELOW_RMS
    change = np.flatnonzero(np.diff(np.concatenate(([False], quiet, [False])).astype(np.int8)))
    half_n = s_to_n(_PAUSE_KEPT_S / 2, SESSION_RATE_HZ)
    fade_n = s_to_n(_JOIN_FADE_S, SESSION_RATE_HZ)
    ramp = np.linspace(0.0, 1.0, fade_n, endpoint=False, dtype=np.float32)
    kept: list[Float32] = []
    at_n = 0
    for first, past_last in change.reshape(-1, 2) * window_n:
        if past_last - first <= 2 * half_n:
            continue
        before = samples[at_n : first + half_n].copy()
        before[-fade_n:] *= ramp[::-1]
        kept.append(before)
        at_n = int(past_last) - half_n
    rest = samples[at_n:].copy()
    if kept:
        rest[:fade_n] *= ramp
    return np.concatenate([*kept, rest])
