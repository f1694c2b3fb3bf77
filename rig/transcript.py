"""When the model's own words were heard, estimated from its audio.

A hosted system gives the text of a response without times. Its words are spread over the
response's audio in proportion to their characters, and a word is heard when the middle of its
share is (contract: a read-back counts only transcript whose audio was heard under the chosen
playout). Text of a system without responses is tied to the audio that had arrived with it, or to
the place in its audio that the system names.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from audio.timebase import n_to_ns
from rig.playout import Placement
from rig.record import AudioEvent, SessionRecord, TextEvent
from verifiers.scene import TimedText


class _Heard:
    """Maps a received sample to the moment it was heard, if it was."""

    def __init__(self, placements: Sequence[Placement], rate_hz: int, recorded_ns: int) -> None:
        self._placements = sorted(placements, key=lambda p: p.source_n)
        self._starts = [p.source_n for p in self._placements]
        self._rate_hz = rate_hz
        self._recorded_ns = recorded_ns

    def at_ns(self, source_n: int) -> int | None:
        index = bisect.bisect_right(self._starts, source_n) - 1
        if index < 0:
            return None
        p = self._placements[index]
        if source_n >= p.source_n + p.n:
            return None
        t_ns = p.start_ns + n_to_ns(source_n - p.source_n, self._rate_hz)
        return t_ns if t_ns < self._recorded_ns else None


@dataclass(slots=True)
class _Audio:
    """Source samples of one response, in order, as ranges."""

    ranges: list[tuple[int, int]]

    @property
    def total_n(self) -> int:
        return sum(end - start for start, end in self.ranges)

    def source_n(self, position_n: int) -> int:
        for start, end in self.ranges:
            if position_n < end - start:
                return start + position_n
            position_n -= end - start
        return self.ranges[-1][1] - 1


def heard_transcript(
    record: SessionRecord, placements: Sequence[Placement], recorded_ns: int
) -> tuple[TimedText, ...] | None:
    """Words heard under the playout that `placements` describe, in order of time.

    `None` when the system gives no text at all; empty when it said nothing that was heard.
    """
    mode = record.adapter.capabilities.get("transcript", "none")
    if mode == "none":
        return None
    rate_hz = int(record.adapter.capabilities["output_rate_hz"])
    heard = _Heard(placements, rate_hz, recorded_ns)
    if mode == "stream":
        return _by_stream(record, heard)
    return _by_response(record, heard)


def _by_response(record: SessionRecord, heard: _Heard) -> tuple[TimedText, ...]:
    texts: dict[str | None, list[str]] = defaultdict(list)
    audio: dict[str | None, _Audio] = {}
    received_n = 0
    for event in record.events:
        if isinstance(event, TextEvent):
            texts[event.response_id].append(event.text)
        elif isinstance(event, AudioEvent):
            ranges = audio.setdefault(event.response_id, _Audio([])).ranges
            if ranges and ranges[-1][1] == received_n:
                ranges[-1] = (ranges[-1][0], received_n + event.n)
            else:
                ranges.append((received_n, received_n + event.n))
            received_n += event.n
    out: list[TimedText] = []
    for response_id, parts in texts.items():
        spoken = audio.get(response_id)
        if spoken is None or spoken.total_n == 0:
            continue  # text without sound was not heard
        words = "".join(parts).split()
        characters = sum(len(word) for word in words)
        done = 0
        for word in words:
            share = (done / characters, (done + len(word)) / characters)
            done += len(word)
            first, middle, last = (
                spoken.source_n(min(spoken.total_n - 1, int(spoken.total_n * f)))
                for f in (share[0], sum(share) / 2, share[1]))
            middle_ns = heard.at_ns(middle)
            if middle_ns is None:
                continue
            start_ns, end_ns = heard.at_ns(first), heard.at_ns(last)
            out.append(TimedText(word, middle_ns if start_ns is None else start_ns,
                                 middle_ns if end_ns is None else end_ns))
    return tuple(sorted(out, key=lambda t: t.start_ns))


def _by_stream(record: SessionRecord, heard: _Heard) -> tuple[TimedText, ...]:
    """Deltas may cut words; a word is heard when the delta that began it was."""
    characters: list[tuple[str, int]] = []
    for event in record.events:
        if isinstance(event, TextEvent):
            at_n = max(0, event.received_n - 1) if event.audio_n is None else event.audio_n
            characters.extend((c, at_n) for c in event.text)
    out: list[TimedText] = []
    word = ""
    first_n = 0
    for character, source_n in (*characters, (" ", 0)):
        if not character.isspace():
            if not word:
                first_n = source_n
            word += character
            continue
        at_ns = heard.at_ns(first_n) if word else None
        if at_ns is not None:
            out.append(TimedText(word, at_ns, at_ns))
        word = ""
    return tuple(out)
