"""The event log of one session: what the system and the schedule did, in order.

Whatever a peer sends, the log stays readable: trouble that changes nothing is told
`MAX_TOLD` times in the same words, and then counted.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from adapters.base import (
    AgentEvent,
    AudioReceived,
    Fault,
    Interrupted,
    ResponseDone,
    ResponseStarted,
    StateChanged,
    TextDelta,
    Throttled,
)
from audio.buffers import Float32
from rig.clock import SessionClock
from rig.flow import Flow
from rig.heard import HeardTrack
from rig.record import (
    AudioEvent,
    Event,
    FaultEvent,
    InterruptedEvent,
    ResponseDoneEvent,
    ResponseStartedEvent,
    StateEvent,
    TextEvent,
    UserEvent,
)
from rig.spending import Meter

MAX_SAMPLE = 10.0
"""Samples beyond this (20 dB over full scale) are no audio; PCM16 numbers taken for floats are.
Ours."""

MAX_TOLD = 100
"""Events in the same words, of those that change nothing; the others are counted. Ours."""
MAX_KINDS = 1_000
"""Different words that are remembered for that. Ours."""
_OTHER = "other", "something else that changes nothing"


class EventLog:
    """Events with sequence numbers; feeds the heard track as it grows."""

    def __init__(self, heard: HeardTrack, clock: SessionClock, meter: Meter) -> None:
        self.events: list[Event] = []
        self.received: list[Float32] = []
        self.received_n = 0
        self.failure: str | None = None
        self.fault: Fault | None = None
        """The one that the system ended the session with."""
        self._heard = heard
        self._clock = clock
        self._meter = meter
        self._last_audio_ns = 0
        self._told: Counter[tuple[str, str]] = Counter()
        """How often something that changes nothing happened, by its name and words."""
        self._flow = Flow()
        """Events of this system, in the same seconds as those of all systems of the run."""

    def user(self, t_ns: int, name: str) -> None:
        self.events.append(UserEvent(seq=len(self.events), t_ns=t_ns, name=name))

    def agent(self, event: AgentEvent) -> None:
        """Something that the system did."""
        now_ns, origin_ns = self._clock.now_ns(), self._clock.origin_ns
        if origin_ns is not None:
            self._flow.count(origin_ns + now_ns)
            self._meter.flow.count(origin_ns + now_ns)
        seq = len(self.events)
        match event:
            case AudioReceived(t_ns, samples, response_id):
                problem = self._refusal(t_ns, samples)
                if problem is not None:
                    self.fail(t_ns, problem)
                    return
                self._last_audio_ns = t_ns
                self.received.append(samples)
                self.received_n += len(samples)
                self._heard.audio(t_ns, samples, response_id)
                self.events.append(AudioEvent(seq=seq, t_ns=t_ns, n=len(samples),
                                              response_id=response_id))
            case TextDelta(t_ns, text, response_id, audio_n):
                self.events.append(TextEvent(seq=seq, t_ns=t_ns, text=text,
                                             response_id=response_id,
                                             received_n=self.received_n, audio_n=audio_n))
            case ResponseStarted(t_ns, response_id):
                self._heard.response_started(response_id)
                self.events.append(ResponseStartedEvent(seq=seq, t_ns=t_ns,
                                                        response_id=response_id))
            case ResponseDone(t_ns, response_id, status):
                self._heard.response_done(t_ns, response_id)
                self.events.append(ResponseDoneEvent(seq=seq, t_ns=t_ns, response_id=response_id,
                                                     status=status))
            case Interrupted(t_ns, response_id):
                self.events.append(InterruptedEvent(seq=seq, t_ns=t_ns, response_id=response_id))
            case StateChanged(t_ns, name, detail):
                if self._is_told(name, detail):
                    self.events.append(StateEvent(seq=seq, t_ns=t_ns, name=name, detail=detail))
            case Throttled(t_ns, wait_s, reason):
                self._meter.hold(wait_s, reason)
                self.events.append(StateEvent(seq=seq, t_ns=t_ns, name="throttled", detail=reason))
            case Fault(t_ns, severity, reason):
                if severity == "infrastructure":
                    self.fault = self.fault or event
                    self.fail(t_ns, reason)
                else:
                    self.trouble(t_ns, reason)

    def _refusal(self, t_ns: int, samples: Float32) -> str | None:
        """Why a chunk cannot be placed on the heard track; a wrong place is a wrong number."""
        now_ns = self._clock.now_ns()
        if not isinstance(samples, np.ndarray):
            return f"the adapter gave audio as {type(samples).__name__}, expected a float32 array"
        if samples.dtype != np.float32 or samples.ndim != 1:
            return (f"the adapter gave audio of type {samples.dtype} and shape {samples.shape}, "
                    "expected float32 (n,)")
        if not np.isfinite(samples).all():
            return "the system sent non-finite samples"
        if len(samples) and float(np.abs(samples).max()) > MAX_SAMPLE:
            return f"the system sent samples beyond {MAX_SAMPLE:g} times full scale"
        if not self._last_audio_ns <= t_ns <= now_ns:
            return (f"the adapter gave audio stamped {t_ns} ns, expected a time from "
                    f"{self._last_audio_ns} (the audio before it) to {now_ns} (now)")
        return None

    def fail(self, t_ns: int, reason: str) -> None:
        self.events.append(FaultEvent(seq=len(self.events), t_ns=t_ns, severity="infrastructure",
                                      reason=reason))
        self.failure = self.failure or reason

    def trouble(self, t_ns: int, reason: str) -> None:
        """Something went wrong that no verdict depends on."""
        if self._is_told("", reason):
            self._append_trouble(t_ns, reason)

    def _append_trouble(self, t_ns: int, reason: str) -> None:
        self.events.append(FaultEvent(seq=len(self.events), t_ns=t_ns, severity="transparent",
                                      reason=reason))

    def _is_told(self, name: str, words: str) -> bool:
        """Count it; whether it happened seldom enough for a line of its own."""
        key = name, words
        if key not in self._told and len(self._told) >= MAX_KINDS:
            key = _OTHER
        self._told[key] += 1
        return self._told[key] <= MAX_TOLD

    def finish(self, t_ns: int) -> None:
        """The session is over: say how often more what was not told each time."""
        for (name, words), n in self._told.items():
            if n <= MAX_TOLD:
                continue
            more = f"{words} (and {n - MAX_TOLD} more)"
            if name and (name, words) != _OTHER:
                self.events.append(StateEvent(seq=len(self.events), t_ns=t_ns, name=name,
                                              detail=more))
            else:
                self._append_trouble(t_ns, more)
        self._told.clear()

    def most_per_s(self) -> int | None:
        """Events of this system in its busiest second; `None` in virtual time."""
        return None if self._clock.origin_ns is None else self._flow.most_per_s()

    def most_per_s_of_all(self) -> int | None:
        """The same of all systems of the run, since this session began."""
        origin_ns = self._clock.origin_ns
        return None if origin_ns is None else self._meter.flow.most_per_s(origin_ns)


