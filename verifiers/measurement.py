"""The continuous quantities of one case, independent of every threshold.

A `Measurement` holds all that any verdict reads, so that thresholds can be changed later without
the recording (DSB-IFEval, appendices C.1 and C.7). Times are integer nanoseconds relative to the
start `w0` of their window and keep their sign. What does not exist is `None`, never 0.

Definitions (DSB-IFEval, appendix C.2 and C.4; design page "Verifiers"):

- *in the window*: a model span that shares a point with `[w0, w1)`; *begun*: one whose onset lies
  in it. Lengths are those of the whole span, not of its part inside.
- *genuine onset*: onset of the first begun span; speech that already held the floor is no onset.
- *held at w0*: some span contains `w0`, half-open, so one that starts exactly at `w0` does and
  one that ends there does not.
- *first offset*: end of the first model span that ends at or after `w0`, in the window or not.
- *cut*: a span that ends within the merge gap of the recording's end has only a least length,
  because speech right behind the end would have been merged with it.
- *complete*: the recording goes on for at least 0.5 s behind `w1` (design page "Windows"), so
  that an edge near `w1` was detectable. An onset is known to be absent before
  `recorded_ns - 0.5 s` and not later.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from audio.errors import InputError
from audio.spans import Interval, Spans
from audio.timebase import NS_PER_MS
from verifiers import readback_text
from verifiers.scene import Scene, Window

RECORD_BEYOND_NS = 500 * NS_PER_MS
"""Record until `w1` + 0.5 s (design page "Windows"; the paper is silent)."""
EDGE_ROUNDING_NS = NS_PER_MS
"""An edge may be off by a sample of either rate when it is compared with the end of the
recording; 1 ms covers one sample from 1 kHz up (ours)."""


@dataclass(frozen=True, slots=True)
class WindowReading:
    """What model and user did in one window; times relative to its start.

    `spans_ns` are the whole model spans in the window. `recorded_ns` is where the recording ends
    and may be negative. `resumed` is whether a span begins in the window at or after the first
    offset: `None` when there is no known offset, or no resumption was seen and the recording is
    not complete. `overlap_ns` and `user_speech_ns` are clipped to the window.
    """

    length_ns: int
    recorded_ns: int
    starts_before_recording: bool
    spans_ns: tuple[Interval, ...]
    spans_begun: int
    onset_ns: int | None
    first_span_ns: int | None
    first_span_cut: bool
    held_at_w0: bool
    first_offset_ns: int | None
    first_offset_cut: bool
    resumed: bool | None
    overlap_ns: int
    user_speech_ns: int

    @property
    def spans_in_window(self) -> int:
        """Model spans that start or continue in the window."""
        return len(self.spans_ns)

    @property
    def complete(self) -> bool:
        """The recording holds the window and the 0.5 s behind it."""
        return self.recorded_ns >= self.length_ns + RECORD_BEYOND_NS

    @property
    def seen_ns(self) -> int:
        """Up to here the absence of an onset is known."""
        return self.recorded_ns - RECORD_BEYOND_NS

    @property
    def outside(self) -> bool:
        """Nothing of the window was recorded, or its beginning was not."""
        return self.starts_before_recording or self.recorded_ns <= 0


@dataclass(frozen=True, slots=True)
class Readback:
    """Dictated tokens found in what the model said; both counts out of their own totals.

    `heard` is whether any model speech was detected from `readback_from` on: words of a
    transcript without a sound were not heard.
    """

    target_n: int
    matched_n: int
    ordered_target_n: int
    ordered_matched_n: int
    heard: bool

    @property
    def coverage(self) -> float:
        """Multiset token coverage, 0..1 (DSB-IFEval, appendix C.5)."""
        return self.matched_n / self.target_n

    @property
    def coverage_ordered(self) -> float:
        """Order-aware, number-normalised coverage, 0..1 (ours; never decides)."""
        return self.ordered_matched_n / self.ordered_target_n


@dataclass(frozen=True, slots=True)
class Measurement:
    """One case under one VAD setting and one playout.

    `readback` is `None` when there is no target or no transcript, and where it spoke and no word of
    that ever came. `user_offset_ns` is relative to `w0`; `onset_after_user_offset_ns` is the first
    model onset at or after it within the window, counted from it. `model_speaks` is proof of life:
    any model speech in the session.
    """

    scored: WindowReading
    model_speaks: bool
    forced: bool
    target_given: bool
    transcript_given: bool
    readback: Readback | None
    user_offset_ns: int | None
    onset_after_user_offset_ns: int | None
    alternates: tuple[tuple[str, WindowReading], ...]

    def through(self, alternate: str) -> Measurement:
        """The same case seen through one of its other windows.

        The user offset is relative to the scored window, so it is left behind.
        """
        return replace(self, scored=dict(self.alternates)[alternate], alternates=(),
                       user_offset_ns=None, onset_after_user_offset_ns=None)


def measure(scene: Scene) -> Measurement:
    """Measure one scene.

    Raises `InputError` when a model span lies behind the end of the recording: those spans are
    then not from this recording.
    """
    if scene.model and scene.model.items[-1][1] > scene.recorded_ns + EDGE_ROUNDING_NS:
        raise InputError.expected("model speech inside the recording",
                                  got=f"speech until {scene.model.items[-1][1]} ns",
                                  where=f"recording of {scene.recorded_ns} ns")
    w0, w1 = scene.window.start_ns, scene.window.end_ns
    offset = scene.user_offset_ns
    after = () if offset is None else scene.model.starting_in(max(w0, offset), w1).items
    readback, target_given = _readback(scene)
    return Measurement(
        scored=read_window(scene, scene.window),
        model_speaks=bool(scene.model),
        forced=scene.forced,
        target_given=target_given,
        transcript_given=scene.transcript is not None,
        readback=readback,
        user_offset_ns=None if offset is None else offset - w0,
        onset_after_user_offset_ns=after[0][0] - offset if after and offset is not None else None,
        alternates=tuple((name, read_window(scene, window)) for name, window in scene.alternates),
    )


def read_window(scene: Scene, window: Window) -> WindowReading:
    """The quantities of one window of a scene."""
    w0, w1 = window.start_ns, window.end_ns
    model = scene.model.shift(-w0)
    length, recorded = w1 - w0, scene.recorded_ns - w0
    cut_from = recorded - max(scene.merge_gap_ns, EDGE_ROUNDING_NS)
    begun = model.starting_in(0, length).items
    first = begun[0] if begun else None
    offset = next((end for _, end in model if end >= 0), None)
    offset_cut = offset is not None and offset > cut_from
    return WindowReading(
        length_ns=length,
        recorded_ns=recorded,
        starts_before_recording=w0 < 0,
        spans_ns=model.touching(0, length).items,
        spans_begun=len(begun),
        onset_ns=None if first is None else first[0],
        first_span_ns=None if first is None else first[1] - first[0],
        first_span_cut=first is not None and first[1] > cut_from,
        held_at_w0=model.at(0) is not None,
        first_offset_ns=offset,
        first_offset_cut=offset_cut,
        resumed=_resumed(begun, None if offset_cut else offset,
                         recorded >= length + RECORD_BEYOND_NS),
        overlap_ns=scene.model.intersect(scene.user).clip(w0, w1).total,
        user_speech_ns=scene.user.clip(w0, w1).total,
    )


def _resumed(begun: tuple[Interval, ...], offset: int | None, complete: bool) -> bool | None:
    if offset is None:
        return None
    if any(start >= offset for start, _ in begun):
        return True
    return False if complete else None


def _readback(scene: Scene) -> tuple[Readback | None, bool]:
    target = scene.target_text or ""
    target_tokens = readback_text.tokens(target)
    if not target_tokens or scene.transcript is None:
        return None, bool(target_tokens)
    since = scene.window.start_ns if scene.readback_from_ns is None else scene.readback_from_ns
    words = [piece.text for piece in scene.transcript if piece.start_ns >= since]
    if not words and _speaks_from(scene.model.intersect(scene.wordless), since):
        return None, True  # what it said nobody knows
    said = " ".join(words)
    ordered_target = readback_text.ordered_tokens(target)
    return Readback(
        target_n=len(target_tokens),
        matched_n=readback_text.matched(target_tokens, readback_text.tokens(said)),
        ordered_target_n=len(ordered_target),
        ordered_matched_n=readback_text.ordered_matched(
            ordered_target, readback_text.ordered_tokens(said)),
        heard=_speaks_from(scene.model, since),
    ), True


def _speaks_from(model: Spans, since_ns: int) -> bool:
    return any(end > since_ns for _, end in model)
