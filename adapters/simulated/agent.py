"""What every simulated agent is made of: an ear, a mouth, and a step every 20 ms.

An agent is a synchronous state machine. It hears and says samples and nothing else: no verdict,
window or threshold of the scoring is known to it.

Time of the user's audio is media time: frame k holds `[k*20 ms, (k+1)*20 ms)` of the session
clock and is delivered at its end. Time of the agent's audio is playout time: a chunk emitted at
`t_ns` is heard from `max(t_ns, end of what was emitted before)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from adapters.base import AgentEvent, AudioReceived, ResponseDone, ResponseStarted, TextDelta
from audio.buffers import Float32
from audio.timebase import FRAME_NS, NS_PER_S, SESSION_RATE_HZ, n_to_ns, ns_to_n

FRAME_N = FRAME_NS * SESSION_RATE_HZ // NS_PER_S
"""480 samples: 20 ms at 24 kHz."""
NEW_STRETCH_SILENCE_NS = 300_000_000
"""Exact zeros for this long end a stretch of user speech. Rendered speech holds a few
milliseconds of exact zeros in closures; the shortest pause that a suite injects is 1.2 s."""
CUT_FADE_N = 240
"""10 ms: speech that is stopped on the way fades out before the cut instead of clicking."""


class Agent(Protocol):
    """The synchronous core of one session."""

    def step(self, frame: Float32, t_ns: int) -> list[AgentEvent]:
        """Hear one frame of user audio, float32 `(480,)`, delivered at `t_ns`; act.

        Emitted chunks are float32 `(480,)`, only while the agent speaks, zero-padded inside so
        that onsets and ends are exact to the sample.
        """
        ...

    def cue(self, name: str, t_ns: int) -> None:
        """A moment of the user's schedule, given at most one frame before it happens."""
        ...


@dataclass(frozen=True, slots=True)
class Speech:
    """Something to say: float32 `(n,)` at 24 kHz and when each word begins (sample index).

    `loop`: begins again at its end, without a gap, until it is stopped.
    """

    samples: Float32
    words: tuple[tuple[str, int], ...]
    loop: bool = False

    @property
    def duration_ns(self) -> int:
        return n_to_ns(len(self.samples), SESSION_RATE_HZ)


class Ear:
    """User audio as stretches of speech: a sample of exact zero is silence, any other is speech."""

    def __init__(self) -> None:
        self._frames = 0
        self.onset_ns: int | None = None
        """Begin of the latest stretch, in media time."""
        self.last_ns: int | None = None
        """End of the latest sample that was not zero."""
        self.sounding = False
        """Whether the latest frame held speech."""

    def hear(self, frame: Float32) -> bool:
        """Take the next frame; true when a new stretch of speech begins in it."""
        start_ns = self._frames * FRAME_NS
        self._frames += 1
        active = np.flatnonzero(frame)
        self.sounding = active.size > 0
        if not self.sounding:
            return False
        first_ns = start_ns + n_to_ns(int(active[0]), SESSION_RATE_HZ)
        new = self.last_ns is None or first_ns - self.last_ns >= NEW_STRETCH_SILENCE_NS
        if new:
            self.onset_ns = first_ns
        self.last_ns = start_ns + n_to_ns(int(active[-1]) + 1, SESSION_RATE_HZ)
        return new


@dataclass(slots=True)
class _Utterance:
    speech: Speech
    start_ns: int
    response_id: str
    stop_ns: int | None = None
    said_n: int = 0
    words_said: int = 0


class Mouth:
    """Says what is planned, 20 ms at a time, at exact moments.

    Every utterance is one response: started with its first chunk, done with its last, and its
    words are given when their sound begins. A planned start that has passed is made up for at
    once, from the first sample; utterances never overlap, the later one waits.
    """

    def __init__(self) -> None:
        self._heard_until_ns = 0
        self._planned: list[_Utterance] = []
        self._count = 0
        self.last_end_ns: int | None = None
        """When the latest utterance was over, in playout time."""

    @property
    def busy(self) -> bool:
        """Whether something is being said or planned."""
        return bool(self._planned)

    def say(self, speech: Speech, at_ns: int) -> None:
        """Plan an utterance to begin at `at_ns`."""
        self._count += 1
        self._planned.append(_Utterance(speech, at_ns, f"r{self._count}"))
        self._planned.sort(key=lambda u: u.start_ns)

    def stop(self, at_ns: int) -> None:
        """End what is being said or planned to begin by `at_ns` there, faded out."""
        for utterance in self._planned:
            if utterance.start_ns <= at_ns:
                utterance.stop_ns = at_ns

    def step(self, t_ns: int) -> list[AgentEvent]:
        """What is emitted at `t_ns`: at most one chunk of 480 samples, and its events."""
        base_ns = max(t_ns, self._heard_until_ns)
        while self._planned:
            utterance = self._planned[0]
            if utterance.stop_ns is None or utterance.stop_ns > max(base_ns, utterance.start_ns):
                break
            # Cut before the coming chunk: nothing more of it is heard.
            self._planned.pop(0)
            if utterance.said_n:
                self.last_end_ns = base_ns
                return [ResponseDone(t_ns, utterance.response_id, "cancelled")]
        if not self._planned or self._planned[0].start_ns >= base_ns + FRAME_NS:
            return []
        return self._chunk(self._planned[0], t_ns, base_ns)

    def _chunk(self, utterance: _Utterance, t_ns: int, base_ns: int) -> list[AgentEvent]:
        rid = utterance.response_id
        events: list[AgentEvent] = []
        first_n = 0
        if utterance.said_n == 0:
            first_n = min(FRAME_N - 1, max(0, ns_to_n(utterance.start_ns - base_ns,
                                                       SESSION_RATE_HZ)))
            events.append(ResponseStarted(t_ns, rid))
        piece = self._take(utterance, FRAME_N - first_n)
        out = np.zeros(FRAME_N, dtype=np.float32)
        out[first_n : first_n + len(piece)] = piece
        end_n = first_n + len(piece)
        status = None if utterance.speech.loop or self._left_n(utterance) else "completed"
        if utterance.stop_ns is not None:
            stop_n = ns_to_n(utterance.stop_ns - base_ns, SESSION_RATE_HZ)
            left = (stop_n - np.arange(FRAME_N)) / CUT_FADE_N
            out *= np.clip(left, 0.0, 1.0).astype(np.float32)
            if stop_n < end_n:
                end_n, status = max(first_n, stop_n), "cancelled"
        for word in self._new_words(utterance):
            events.append(TextDelta(t_ns, word + " ", rid))
        events.append(AudioReceived(t_ns, out, rid))
        self._heard_until_ns = base_ns + FRAME_NS
        if status is not None:
            self._planned.pop(0)
            self.last_end_ns = base_ns + n_to_ns(end_n, SESSION_RATE_HZ)
            events.append(ResponseDone(t_ns, rid, status))
        return events

    @staticmethod
    def _left_n(utterance: _Utterance) -> int:
        return len(utterance.speech.samples) - utterance.said_n

    @staticmethod
    def _take(utterance: _Utterance, n: int) -> Float32:
        samples = utterance.speech.samples
        at = utterance.said_n
        if utterance.speech.loop:
            piece = samples[np.arange(at, at + n) % len(samples)]
        else:
            piece = samples[at : at + n]
        utterance.said_n += len(piece)
        return piece

    @staticmethod
    def _new_words(utterance: _Utterance) -> list[str]:
        """Words whose sound began in what has been said by now and was not before."""
        words = utterance.speech.words
        new: list[str] = []
        while words and (utterance.speech.loop or utterance.words_said < len(words)):
            rounds, index = divmod(utterance.words_said, len(words))
            onset_n = rounds * len(utterance.speech.samples) + words[index][1]
            if onset_n >= utterance.said_n:
                break
            new.append(words[index][0])
            utterance.words_said += 1
        return new
