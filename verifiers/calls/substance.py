"""L2: caller speech offset to the agent's first meaningful word; filler rate and filler tax.

Definition (CallScreenBench, appendix A): "substance latency, to the first meaningful word, so
L2 - L1 is the filler tax"; the filler rate is the share of replies that open with a filler
(`verifiers.calls.fillers`). One answer is a `reply` and the `continuation`s that follow it, up to
the agent's next turn of another kind (backchannels pass).

Words come from a transcript, times from the waveform: a word whose middle lies outside the agent's
detected speech is dropped and counted, a word that begins before its span begins where the sound
does, and so does the first word of a span that a transcript places up to `SNAP_NS` late. Words of
punctuation alone are passed over. A reply
without a word is in neither figure and counted: nothing is known of it.

Bias: a filler that the transcriber left out ("um" often is) counts as no filler, and the words
after it up to `SNAP_NS` early.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from audio.spans import Interval
from audio.timebase import NS_PER_MS
from verifiers.calls.fillers import fillers_n, is_spoken
from verifiers.calls.turns import DOUBT_MARGIN_NS, CallTurns, Kind, Turn

SNAP_NS = 300 * NS_PER_MS
"""Ours: the transcript's first word of a span is the span's first sound if it is no further off.
Recognisers place words some tens of ms off, at times 200 ms and more; "um" lasts about 300 ms."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word of one side, as a transcript has it: text and time, ns, half-open."""

    text: str
    span_ns: Interval


@dataclass(frozen=True, slots=True)
class Opening:
    """How a reply with words begins: its onset and both latencies, ns. `l2_ns` is `None` where it
    has no meaningful word; `filler`: its first word is a filler."""

    agent_start_ns: int
    l1_ns: int
    l2_ns: int | None
    filler: bool


@dataclass(frozen=True, slots=True)
class Substance:
    """The additive parts.

    replies: those with words. without_words_n: replies in which the transcript has nothing.
    dropped_n: words outside detected speech, of given_n. doubtful_n: replies that lie where a
    channel could not be trusted.
    """

    replies: tuple[Opening, ...]
    without_words_n: int
    dropped_n: int
    given_n: int
    doubtful_n: int

    @property
    def l1_ns(self) -> tuple[int, ...]:
        """L1 of the replies that have an L2."""
        return tuple(r.l1_ns for r in self.replies if r.l2_ns is not None)

    @property
    def l2_ns(self) -> tuple[int, ...]:
        """L2, one a reply with a meaningful word."""
        return tuple(r.l2_ns for r in self.replies if r.l2_ns is not None)

    @property
    def words_n(self) -> int:
        """Replies with words."""
        return len(self.replies)

    @property
    def opens_n(self) -> int:
        """Replies that open with a filler."""
        return sum(r.filler for r in self.replies)

    @property
    def filler_only_n(self) -> int:
        """Replies without a meaningful word."""
        return sum(r.l2_ns is None for r in self.replies)


def substance(call: CallTurns, words: Sequence[Word]) -> Substance:
    """L2 and fillers of one call from the agent's words, in any order."""
    held, dropped = words_by_turn(call, words)
    replies: list[Opening] = []
    without = doubtful = 0
    for reply, members in answers(call.turns):
        if any(call.turns[k].doubtful for k in members):
            doubtful += 1
            continue
        said = [w for k in members for w in held.get(k, ())]
        if not said:
            without += 1
            continue
        assert reply.latency_ns is not None
        onset = reply.agent_ns[0]
        first = fillers_n([text for text, _ in said])
        l2 = said[first][1] - onset + reply.latency_ns if first < len(said) else None
        replies.append(Opening(onset, reply.latency_ns, l2, first > 0))
    return Substance(tuple(replies), without, dropped, len(words), doubtful)


def words_by_turn(
    call: CallTurns, words: Sequence[Word]
) -> tuple[dict[int, list[tuple[str, int]]], int]:
    """The agent's words by the place of their turn, each with its onset (ns), and how many others
    lie outside detected speech. Words of punctuation alone are in neither."""
    spans = [turn.agent_ns for turn in call.turns]
    starts = [start for start, _ in spans]
    held: dict[int, list[tuple[str, int]]] = {}
    dropped = 0
    for word in sorted(words, key=lambda w: w.span_ns):
        if not is_spoken(word.text):
            continue
        at = _span_of(word, spans, starts)
        if at is None:
            dropped += 1
            continue
        begins = max(word.span_ns[0], spans[at][0])
        if at not in held and begins - spans[at][0] <= SNAP_NS:
            begins = spans[at][0]
        held.setdefault(at, []).append((word.text, min(begins, spans[at][1])))
    return held, dropped


def _span_of(word: Word, spans: Sequence[Interval], starts: Sequence[int]) -> int | None:
    """The agent span in which the middle of a word lies, edges `DOUBT_MARGIN_NS` wide."""
    middle = (word.span_ns[0] + word.span_ns[1]) // 2
    at = bisect_right(starts, middle + DOUBT_MARGIN_NS) - 1
    for k in (at - 1, at):
        if k >= 0 and middle < spans[k][1] + DOUBT_MARGIN_NS:
            return k
    return None


def answers(turns: Sequence[Turn]) -> list[tuple[Turn, list[int]]]:
    """Each reply with the places of its spans: its own and those of its continuations."""
    out: list[tuple[Turn, list[int]]] = []
    going = False
    for k, turn in enumerate(turns):
        if turn.kind is Kind.REPLY:
            out.append((turn, [k]))
            going = True
        elif turn.kind is Kind.CONTINUATION:
            if going:
                out[-1][1].append(k)
        elif turn.kind is not Kind.BACKCHANNEL:
            going = False
    return out
