"""From speech probabilities to speech spans: the library's rules, offline and live.

The rules are those of `get_speech_timestamps` in silero-vad 6.2.3, sample for sample (proved in
tests/parity/test_vad_parity.py), followed by the paper's merging of near neighbours:

1. Speech begins with the first frame whose probability reaches `threshold`.
2. A pause begins with the first frame below `neg_threshold`, and is forgotten when the probability
   reaches `threshold` again. Speech ends where the pause began, once a frame below `neg_threshold`
   lies `min_silence_ms` or more after that place. Speech still open at the end of the audio ends
   there.
3. Speech not longer than `min_speech_ms` is dropped.
4. Speech that grows longer than `max_speech_s` (less one frame and both pads) is cut: at its
   longest pause above 98 ms, going on behind that pause, or else at the current frame. Rule 3 does
   not apply to the part before the cut.
5. Every span is widened by `speech_pad_ms` on both sides, within the audio; where two would meet,
   the silence between them is shared out.
6. Spans less than `merge_gap_s` apart become one.

Positions are samples at 16 kHz unless the name says `_ns`. Edges sit on frames of 512 samples
(32 ms) before widening: that is the resolution of the instrument. Its bias is measured in
bench/bench_vad.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from audio.buffers import Float32
from audio.errors import InputError
from audio.silero import WEIGHTS_SHA256, SileroModel, StreamingProbabilities, load_model
from audio.silero import push_together as probabilities_together
from audio.silero_graph import FRAME_N
from audio.spans import Interval, Spans
from audio.timebase import ANALYSIS_RATE_HZ, s_to_n

_PAUSE_TO_CUT_AT_MS = 98
"""Rule 4; `min_silence_at_max_speech`, the library's default."""
CORRECTIONS = ("onset_refine", "offset_refine")
"""Settings that move edges after the rules above. They need the samples, not the probabilities."""
_RUNS_LEAST_N = 1_000
"""Frames: fewer are quicker one by one."""
_NEG_THRESHOLD_BELOW = 0.15
_NEG_THRESHOLD_LEAST = 0.01
"""The library's default `neg_threshold` is `max(threshold - 0.15, 0.01)`."""


@dataclass(frozen=True, slots=True)
class VadSettings:
    """Everything that turns probabilities into spans.

    Raises `InputError` when a value is out of its range.
    """

    threshold: float = 0.5
    """Probability at which speech begins, in (0, 1]. The library's default (DSB-IFEval, C.2)."""
    min_speech_ms: float = 90
    """Speech not longer than this is dropped, >= 0. DSB-IFEval, C.2 (library: 250)."""
    min_silence_ms: float = 90
    """A pause at least this long ends speech, >= 0. DSB-IFEval, C.2 (library: 100)."""
    speech_pad_ms: float = 30
    """Added on both sides, >= 0. The library's default (DSB-IFEval, C.2)."""
    merge_gap_s: float = 0.3
    """Spans less than this apart are one utterance, >= 0. DSB-IFEval, C.2."""
    neg_threshold: float | None = None
    """Probability below which a pause begins, in [0, threshold]. `None`: the library's default,
    `max(threshold - 0.15, 0.01)`."""
    max_speech_s: float = math.inf
    """Longer speech is cut, > 0. The library's default is not to cut."""
    onset_refine: bool = False
    """Move starts to where the energy rises (`audio.edge_refine`). The paper does not: off."""
    offset_refine: bool = False
    """Move ends to where the energy falls (`audio.edge_refine`). The paper does not: off."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in CORRECTIONS:
                if type(value) is not bool:
                    raise InputError.expected("true or false", got=repr(value),
                                              where=f"vad {field.name}")
                continue
            optional = field.name == "neg_threshold" and value is None
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not optional and (not number or math.isnan(value)):
                raise InputError.expected("a number", got=repr(value), where=f"vad {field.name}")
        _require(0 < self.threshold <= 1, "0 < threshold <= 1", self.threshold, "threshold")
        for name in ("min_speech_ms", "min_silence_ms", "speech_pad_ms", "merge_gap_s"):
            value = getattr(self, name)
            _require(0 <= value < math.inf, f"a finite {name} >= 0", value, name)
        _require(self.max_speech_s > 0, "max_speech_s > 0", self.max_speech_s, "max_speech_s")
        if self.neg_threshold is not None:
            _require(0 <= self.neg_threshold <= self.threshold,
                     f"neg_threshold in [0, {self.threshold:g}]", self.neg_threshold,
                     "neg_threshold")

    @property
    def exit_threshold(self) -> float:
        """`neg_threshold`, or what the library takes in its place."""
        if self.neg_threshold is not None:
            return self.neg_threshold
        return max(self.threshold - _NEG_THRESHOLD_BELOW, _NEG_THRESHOLD_LEAST)

    @property
    def corrections(self) -> tuple[str, ...]:
        """Names of the corrections that are on."""
        return tuple(name for name in CORRECTIONS if getattr(self, name))

    def key(self) -> str:
        """A short, stable name of these settings for caches; equal settings have equal keys."""
        neg = "auto" if self.neg_threshold is None else _short(self.neg_threshold)
        return (f"t{_short(self.threshold)}-n{neg}-sp{_short(self.min_speech_ms)}"
                f"-si{_short(self.min_silence_ms)}-pad{_short(self.speech_pad_ms)}"
                f"-gap{_short(self.merge_gap_s)}-max{_short(self.max_speech_s)}"
                + "".join(f"-{name}" for name in self.corrections))

    def facts(self) -> dict[str, str | float | bool | None]:
        """What a result must state about its detector, ready for JSON (no limit is `None`).
        A correction is named where it is on, and only there."""
        return {
            "model": "silero-vad",
            "weights_sha256": WEIGHTS_SHA256,
            "rate_hz": ANALYSIS_RATE_HZ,
            "threshold": self.threshold,
            "neg_threshold": self.exit_threshold,
            "min_speech_ms": self.min_speech_ms,
            "min_silence_ms": self.min_silence_ms,
            "speech_pad_ms": self.speech_pad_ms,
            "merge_gap_s": self.merge_gap_s,
            "max_speech_s": self.max_speech_s if math.isfinite(self.max_speech_s) else None,
            **dict.fromkeys(self.corrections, True),
        }


def speech_spans(
    x16k: Float32, settings: VadSettings, *, model: SileroModel | None = None
) -> Spans:
    """Merged speech spans of one channel, in samples at 16 kHz.

    `x16k`: float32 `(n,)`. Raises as `SileroModel.frame_probabilities`.
    """
    probabilities = (model or load_model()).frame_probabilities(x16k)
    return merged_spans(probabilities, len(x16k), settings)


def spans_ns(
    probabilities: Float32, n_samples: int, settings: VadSettings, offset_ns: int = 0
) -> Spans:
    """Merged speech spans in nanoseconds; sample 0 lies at `offset_ns`.

    Raises as `intervals_from_probabilities`.
    """
    merged = merged_spans(probabilities, n_samples, settings)
    return merged.to_ns(ANALYSIS_RATE_HZ).shift(offset_ns)


def merged_spans(probabilities: Float32, n_samples: int, settings: VadSettings) -> Spans:
    """Merged speech spans, in samples at 16 kHz. Raises as `intervals_from_probabilities`."""
    return finished_spans(bare_intervals(probabilities, n_samples, settings), n_samples, settings)


def spans_from_probabilities(
    probabilities: Float32, n_samples: int, settings: VadSettings
) -> Spans:
    """Speech spans before merging (rules 1 to 5), in samples at 16 kHz.

    Spans that touch after widening are one here, as in every `Spans`; the library keeps them
    apart, and so does `intervals_from_probabilities`. Raises as that one.
    """
    return Spans.of(intervals_from_probabilities(probabilities, n_samples, settings))


def intervals_from_probabilities(
    probabilities: Float32, n_samples: int, settings: VadSettings
) -> list[Interval]:
    """The library's list of speech timestamps (rules 1 to 5): sorted, disjoint, may touch.

    Args:
        probabilities: float32 `(ceil(n_samples / 512),)`, each in [0, 1].
        n_samples: length of the audio at 16 kHz.
        settings: thresholds; `merge_gap_s` is not used.

    Raises:
        InputError: probabilities and length do not fit, or a value is no probability.
    """
    found = bare_intervals(probabilities, n_samples, settings)
    return _widened(found, n_samples, settings)


def bare_intervals(
    probabilities: Float32, n_samples: int, settings: VadSettings
) -> list[Interval]:
    """Rules 1 to 4: `speech_pad_ms` (unless speech is cut) and `merge_gap_s` are not used, so that
    one list serves all of them. Raises as `intervals_from_probabilities`."""
    frames = -(-n_samples // FRAME_N)
    if n_samples < 0 or probabilities.shape != (frames,):
        raise InputError.expected(
            f"one probability for every {FRAME_N} of {n_samples} samples, shape ({frames},)",
            got=f"shape {probabilities.shape}", where="speech spans")
    if not ((probabilities >= 0) & (probabilities <= 1)).all():
        raise InputError.expected("probabilities in [0, 1]", got="something else",
                                  where="speech spans")
    machine = _Machine(settings)
    machine.feed(probabilities)
    return machine.finish(n_samples)


def finished_spans(bare: Sequence[Interval], n_samples: int, settings: VadSettings) -> Spans:
    """Rules 5 and 6 on what `bare_intervals` gave: merged speech spans, samples at 16 kHz."""
    return _merged(Spans.of(_widened(bare, n_samples, settings)), settings)


class StreamingVad:
    """Speech of one live channel, as far as it is certain.

    After `flush`, `spans_so_far` is `speech_spans` of the whole, however it was cut into pieces.
    Before, nothing that is reported is taken back: a start, an answer of `speech_active_at`, an
    onset. Only the end of the latest span moves, while speech goes on or the pad still grows.

    Speech is certain ("confirmed") once it has lasted longer than `min_speech_ms`, not counting a
    pause at its end: at most `min_speech_ms` plus two frames after it began.
    """

    def __init__(self, settings: VadSettings, *, model: SileroModel | None = None) -> None:
        """Raises `InputError` for a finite `max_speech_s`: its cuts would take spans back."""
        if math.isfinite(settings.max_speech_s):
            raise InputError.expected("no max_speech_s", got=f"{settings.max_speech_s:g}",
                                      where="live speech detection")
        self._settings = settings
        self._pad_n = _ms_to_n(settings.speech_pad_ms)
        self._merge_gap_n = s_to_n(settings.merge_gap_s, ANALYSIS_RATE_HZ)
        self._source = StreamingProbabilities(model)
        self._machine = _Machine(settings)
        self._ended = False
        self._spans = Spans()

    @property
    def analysed_n(self) -> int:
        """Samples that decisions rest on: whole frames, and everything after `flush`."""
        return self._source.samples_n if self._ended else self._machine.now_n

    @property
    def speaking(self) -> bool:
        """Whether confirmed speech is going on: it has begun, and no long enough pause has come."""
        return not self._ended and self._machine.open_confirmed_end_n is not None

    def push(self, x16k: Float32) -> None:
        """Take float32 `(n,)` at 16 kHz. Raises as `StreamingProbabilities.push`."""
        self._take(self._source.push(x16k))

    def _take(self, probabilities: Float32) -> None:
        if len(probabilities):
            self._machine.feed(probabilities)
            self._update()

    def flush(self) -> None:
        """The channel has ended; what is open ends with it. A second call changes nothing."""
        if not self._ended:
            self._machine.feed(self._source.flush())
            self._machine.finish(self._source.samples_n)
            self._ended = True
            self._update()

    def spans_so_far(self) -> Spans:
        """Confirmed speech, merged. The end of speech that goes on is what is certain of it."""
        return self._spans

    def onset_after(self, t_n: int) -> int | None:
        """The first start of confirmed, merged speech at or after sample `t_n`.

        At least `merge_gap_s` of non-speech lies before it. It equals the start of the span that
        `speech_spans` finds offline, so it may lie up to `speech_pad_ms` before the first frame of
        speech. `None` while there is none.
        """
        return next((start for start, _ in self._spans if start >= t_n), None)

    def speech_active_at(self, t_n: int) -> bool | None:
        """Whether sample `t_n` lies in merged speech; `None` while that is not certain.

        Uncertain are samples not analysed yet, speech not confirmed yet, and pauses that may still
        be bridged.
        """
        if self._spans.at(t_n) is not None:
            return True
        if not 0 <= t_n < self.analysed_n:
            return None
        if self._ended:
            return False
        # The earliest place where a span not confirmed yet could begin.
        pending_n = self._machine.open_start_n
        earliest_n = (self._machine.now_n if pending_n is None else pending_n) - self._pad_n
        if t_n >= earliest_n:
            return None
        last_end_n = self._spans.items[-1][1] if self._spans else None
        if last_end_n is not None and t_n >= last_end_n:
            return None if earliest_n - last_end_n < self._merge_gap_n else False
        return False

    def _update(self) -> None:
        found = list(self._machine.closed)
        open_end_n = None if self._ended else self._machine.open_confirmed_end_n
        open_start_n = self._machine.open_start_n
        if open_end_n is not None and open_start_n is not None:
            found.append((open_start_n, open_end_n))
        widened = _widened(found, self.analysed_n, self._settings)
        self._spans = _merged(Spans.of(widened), self._settings)


def push_together(vads: Sequence[StreamingVad], pieces: Sequence[Float32]) -> None:
    """`push` of every live channel with its piece, inferred side by side: the same bits, cheaper.

    Raises as `audio.silero.push_together`; then no channel has taken anything.
    """
    answers = probabilities_together([vad._source for vad in vads], pieces)
    for vad, probabilities in zip(vads, answers, strict=True):
        vad._take(probabilities)


class _Machine:
    """Rules 1 to 4: fed frame by frame or all at once, with the same result."""

    def __init__(self, settings: VadSettings) -> None:
        pad_n = _ms_to_n(settings.speech_pad_ms)
        self._threshold = settings.threshold
        self._exit_threshold = settings.exit_threshold
        self._min_speech_n = _ms_to_n(settings.min_speech_ms)
        self._min_silence_n = _ms_to_n(settings.min_silence_ms)
        self._max_speech_n = ANALYSIS_RATE_HZ * settings.max_speech_s - FRAME_N - 2 * pad_n
        self._cut_pause_n = _ms_to_n(_PAUSE_TO_CUT_AT_MS)
        self._pauses: list[tuple[int, int]] = []
        """Pauses inside the open speech at which it may be cut: (length, start)."""
        self._pause_n: int | None = None
        """Where the pause at the end of the open speech began."""
        self.now_n = 0
        """End of the last frame fed."""
        self.open_start_n: int | None = None
        self.closed: list[Interval] = []

    @property
    def open_confirmed_end_n(self) -> int | None:
        """The least end that the open speech can have, if it is long enough to stay."""
        if self.open_start_n is None:
            return None
        end_n = self.now_n if self._pause_n is None else self._pause_n
        return end_n if end_n - self.open_start_n > self._min_speech_n else None

    def feed(self, probabilities: Float32) -> None:
        """Take the next frames."""
        if (len(probabilities) >= _RUNS_LEAST_N and math.isinf(self._max_speech_n)
                and self._exit_threshold <= self._threshold):
            self._feed_runs(probabilities)
        else:
            self._feed_each(probabilities)

    def _feed_runs(self, probabilities: Float32) -> None:
        """The same for speech that is not cut, by what lies between two crossings of the thresholds
        instead of by frames.

        A frame between the thresholds changes nothing. Of frames of speech only the first after a
        pause does; of a pause only where it began and its last frame below `exit_threshold`, which
        is the first to end speech or comes after it.
        """
        exact = probabilities.astype(np.float64)
        speech = exact >= self._threshold
        told = np.flatnonzero(speech | (exact < self._exit_threshold))
        turns = np.flatnonzero(np.diff(speech[told])) + 1
        first_n, last_n = (self.now_n + FRAME_N * told[at] for at in (
            np.append(0, turns)[:len(told)], np.append(turns, len(told))[:len(told)] - 1))
        talks = bool(speech[told[:1]].any())
        start_n, pause_n = self.open_start_n, self._pause_n
        for begin_n, end_n in zip(first_n.tolist(), last_n.tolist(), strict=True):
            if talks:
                start_n = begin_n if start_n is None else start_n
                pause_n = None
            elif start_n is not None:
                pause_n = begin_n if pause_n is None else pause_n
                if end_n - pause_n >= self._min_silence_n:
                    self._close(start_n, pause_n)
                    start_n = pause_n = None
            talks = not talks
        self.open_start_n, self._pause_n = start_n, pause_n
        self.now_n += FRAME_N * len(exact)

    def _feed_each(self, probabilities: Float32) -> None:
        """Frame by frame. The state lives in locals: this loop sees every frame."""
        threshold, exit_threshold = self._threshold, self._exit_threshold
        min_silence_n, max_speech_n = self._min_silence_n, self._max_speech_n
        start_n, pause_n, at_n = self.open_start_n, self._pause_n, self.now_n - FRAME_N
        for probability in probabilities.tolist():
            at_n += FRAME_N
            if probability >= threshold:
                if start_n is None:
                    start_n = at_n
                    continue
                if pause_n is not None:
                    if at_n - pause_n > self._cut_pause_n:
                        self._pauses.append((at_n - pause_n, pause_n))
                    pause_n = None
            if start_n is None:
                continue
            if at_n - start_n > max_speech_n:
                pause_n = None
                start_n = self._cut(start_n, at_n)
                if start_n is None:
                    continue
            if probability < exit_threshold:
                if pause_n is None:
                    pause_n = at_n
                if at_n - pause_n >= min_silence_n:
                    self._close(start_n, pause_n)
                    start_n = pause_n = None
        self.open_start_n, self._pause_n, self.now_n = start_n, pause_n, at_n + FRAME_N

    def finish(self, n_samples: int) -> list[Interval]:
        """The audio ends at `n_samples`, and open speech with it. Gives every span kept."""
        if self.open_start_n is not None:
            self._close(self.open_start_n, n_samples)
            self.open_start_n = self._pause_n = None
        return self.closed

    def _close(self, start_n: int, end_n: int) -> None:
        if end_n - start_n > self._min_speech_n:
            self.closed.append((start_n, end_n))
        self._pauses = []

    def _cut(self, start_n: int, at_n: int) -> int | None:
        """Rule 4. Gives where speech goes on, or `None` when it must begin anew."""
        if not self._pauses:
            self.closed.append((start_n, at_n))
            return None
        length_n, pause_n = max(self._pauses, key=lambda pause: pause[0])
        self.closed.append((start_n, pause_n))
        self._pauses = []
        return pause_n + length_n


def _widened(found: Sequence[Interval], n_samples: int, settings: VadSettings) -> list[Interval]:
    """Rule 5. Fractions of a sample are cut off, as the library does."""
    pad_n = _ms_to_n(settings.speech_pad_ms)
    out: list[Interval] = []
    for index, (start_n, end_n) in enumerate(found):
        before_n = start_n - found[index - 1][1] if index else math.inf
        after_n = found[index + 1][0] - end_n if index + 1 < len(found) else math.inf
        wide_start = start_n - (before_n // 2 if before_n < 2 * pad_n else pad_n)
        wide_end = end_n + (after_n // 2 if after_n < 2 * pad_n else pad_n)
        out.append((int(max(0, wide_start)), int(min(n_samples, wide_end))))
    return out


def _merged(spans: Spans, settings: VadSettings) -> Spans:
    return spans.merge_gaps(s_to_n(settings.merge_gap_s, ANALYSIS_RATE_HZ))


def _ms_to_n(milliseconds: float) -> float:
    """Samples, with their fraction: the library compares before it cuts."""
    return ANALYSIS_RATE_HZ * milliseconds / 1000


def _require(holds: bool, what: str, value: float, name: str) -> None:
    if not holds:
        raise InputError.expected(what, got=f"{value:g}", where=f"vad {name}")


def _short(value: float) -> str:
    return repr(float(value)).removesuffix(".0")
