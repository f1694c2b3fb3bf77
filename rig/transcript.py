"""When the model's own words were heard, estimated from its audio.

A hosted system gives the text of a response without times. Its words are spread over the
response's audio in proportion to their characters, and a word is heard when the middle of its
share is (contract: a read-back counts only transcript whose audio was heard under the chosen
playout). Text of a system without responses is tied to the audio that had arrived with it, or to
the place in its audio that the system names.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audio.errors import AudioFileError
from audio.spans import Spans
from audio.timebase import NS_PER_S, n_to_ns
from rig.playout import Placement
from rig.record import AudioEvent, SessionRecord, TextEvent
from verifiers.scene import TimedText

Int64 = NDArray[np.int64]
_NEVER = np.iinfo(np.int64).min
_FAR = 1 << 62  # behind all audio: a record may name any place
_MOST_N = 1 << 32  # two days; twice the nanoseconds of more, at 1 Hz, go beyond 64 bits
_NONE = np.zeros(0, np.int64)
_WORD = re.compile(r"\S+")


class _Heard:
    """Maps received samples to the moments they were heard, `_NEVER` where they were not."""

    def __init__(self, placements: Sequence[Placement], rate_hz: int, recorded_ns: int) -> None:
        ordered = sorted(placements, key=lambda p: p.source_n)
        self._source_n = np.array([p.source_n for p in ordered], np.int64)
        self._n = np.array([p.n for p in ordered], np.int64)
        self._start_ns = np.array([p.start_ns for p in ordered], np.int64)
        if self._n.max(initial=0) >= _MOST_N:
            raise OverflowError
        self._rate_hz = rate_hz
        self._recorded_ns = recorded_ns

    def at_ns(self, source_n: Int64) -> Int64:
        out = np.full(len(source_n), _NEVER, np.int64)
        if not len(self._source_n):
            return out
        place = np.searchsorted(self._source_n, source_n, side="right") - 1
        behind_n = source_n - self._source_n[place]
        inside = (place >= 0) & (behind_n < self._n[place])
        # As `n_to_ns`: to the nearest nanosecond.
        after_ns = (2 * behind_n * NS_PER_S + self._rate_hz) // (2 * self._rate_hz)
        found = self._start_ns[place] + after_ns
        inside &= found < self._recorded_ns
        out[inside] = found[inside]
        return out


class _Audio:
    """Source samples of one response, in order, as ranges."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []

    @property
    def total_n(self) -> int:
        return sum(end - start for start, end in self.ranges)

    def source_n(self, position_n: Int64) -> Int64:
        """Received samples at places in the response, each below `total_n`."""
        starts = np.array([start for start, _ in self.ranges], np.int64)
        before = np.cumsum(np.array([0] + [end - start for start, end in self.ranges], np.int64))
        place = np.searchsorted(before, position_n, side="right") - 1
        found: Int64 = starts[place] + position_n - before[place]
        return found


@dataclass(frozen=True, slots=True)
class _Words:
    """The first heard words of one response or stream, and when each began and ended; `more_n` were
    heard after them."""

    texts: Sequence[str]
    start_ns: Int64
    end_ns: Int64
    more_n: int = 0


def heard_transcript(
    record: SessionRecord, placements: Sequence[Placement], recorded_ns: int
) -> tuple[TimedText, ...] | None:
    """Words heard under the playout that `placements` describe, in order of time.

    `None` when the system gives no text at all; empty when it said nothing that was heard.
    """
    found = first_words(record, placements, recorded_ns, None)
    return None if found is None else found[0]


def first_words(
    record: SessionRecord, placements: Sequence[Placement], recorded_ns: int, most_n: int | None
) -> tuple[tuple[TimedText, ...], int] | None:
    """The first `most_n` words of `heard_transcript`, and how many more there are. Raises
    `AudioFileError` for a record with numbers that no session has."""
    mode = record.adapter.capabilities.get("transcript", "none")
    if mode == "none":
        return None
    rate_hz = int(record.adapter.capabilities["output_rate_hz"])
    try:
        heard = _Heard(placements, rate_hz, recorded_ns)
        stream = mode == "stream"
        found = ([_by_stream(record, heard, most_n)] if stream
                 else _by_response(record, heard, most_n))
    except OverflowError as error:
        raise AudioFileError.expected(
            "times and counts of samples of a session", got="one beyond all sessions",
            where=f"the record of {record.case_id} t{record.trial}") from error
    texts = [text for words in found for text in words.texts]
    start_ns = np.concatenate([_NONE, *(words.start_ns for words in found)])
    end_ns = np.concatenate([_NONE, *(words.end_ns for words in found)])
    order = np.arange(len(texts)) if stream else np.argsort(start_ns, kind="stable")
    chosen = order[:most_n]
    more_n = len(order) - len(chosen) + sum(words.more_n for words in found)
    return tuple(TimedText(texts[i], start, end) for i, start, end in zip(
        chosen.tolist(), start_ns[chosen].tolist(), end_ns[chosen].tolist(), strict=True,
    )), more_n


def heard_wordless(record: SessionRecord, placements: Sequence[Placement]) -> Spans:
    """Where, in nanoseconds, audio was heard whose words never came although the system gives
    text: of responses without any, or all of it where no text is tied to responses and none came.
    """
    mode = record.adapter.capabilities.get("transcript", "none")
    if mode == "none":
        return Spans()
    told = {event.response_id for event in record.events
            if isinstance(event, TextEvent) and event.text.strip()}
    if mode == "stream" and told:
        return Spans()
    rate_hz = int(record.adapter.capabilities["output_rate_hz"])
    return Spans.of((p.start_ns, p.start_ns + n_to_ns(p.n, rate_hz)) for p in placements
                    if p.n and (mode == "stream" or p.response_id not in told))


def _by_response(record: SessionRecord, heard: _Heard, most_n: int | None) -> list[_Words]:
    """Of each response the first `most_n`: later words of it are heard later."""
    texts: dict[str | None, list[str]] = defaultdict(list)
    audio: dict[str | None, _Audio] = defaultdict(_Audio)
    received_n = 0
    for event in record.events:
        if isinstance(event, AudioEvent):  # first: these come in their hundreds
            ranges = audio[event.response_id].ranges
            end_n = received_n + event.n
            if ranges and ranges[-1][1] == received_n:
                ranges[-1] = (ranges[-1][0], end_n)
            else:
                ranges.append((received_n, end_n))
            received_n = end_n
        elif isinstance(event, TextEvent):
            texts[event.response_id].append(event.text)
    out: list[_Words] = []
    for response_id, parts in texts.items():
        spoken = audio[response_id]
        total_n = spoken.total_n
        words = "".join(parts).split()
        if total_n == 0 or not words:
            continue  # text without sound was not heard
        done = np.cumsum([0, *map(len, words)])
        share = done / done[-1]
        def at_ns(share: NDArray[np.float64], spoken: _Audio = spoken,
                  total_n: int = total_n) -> Int64:
            return heard.at_ns(spoken.source_n(
                np.minimum(total_n - 1, (total_n * share).astype(np.int64))))

        middle_ns = at_ns((share[:-1] + share[1:]) / 2)
        was = np.flatnonzero(middle_ns != _NEVER)
        first = was[:most_n]
        middle_ns, start_ns, end_ns = (
            middle_ns[first], at_ns(share[:-1][first]), at_ns(share[1:][first]))
        out.append(_Words([words[i] for i in first.tolist()],
                          np.where(start_ns == _NEVER, middle_ns, start_ns),
                          np.where(end_ns == _NEVER, middle_ns, end_ns), len(was) - len(first)))
    return out


def _by_stream(record: SessionRecord, heard: _Heard, most_n: int | None) -> _Words:
    """Deltas may cut words; a word is heard when the delta that began it was."""
    parts: list[str] = []
    at_n: list[int] = []
    begins: list[int] = []  # of each delta, in characters of all
    length = 0
    for event in record.events:
        if isinstance(event, TextEvent) and event.text:
            parts.append(event.text)
            place_n = max(0, event.received_n - 1) if event.audio_n is None else event.audio_n
            at_n.append(min(place_n, _FAR))
            begins.append(length)
            length += len(event.text)
    text = "".join(parts)
    starts = np.fromiter((match.start() for match in _WORD.finditer(text)), np.int64)
    if not len(starts):
        return _Words((), _NONE, _NONE)
    delta = np.searchsorted(begins, starts, side="right") - 1
    at_ns = heard.at_ns(np.array(at_n, np.int64)[delta])
    was = np.flatnonzero(at_ns != _NEVER)
    first = was[:most_n]
    words = text.split()
    return _Words([words[i] for i in first.tolist()], at_ns[first], at_ns[first],
                  len(was) - len(first))
