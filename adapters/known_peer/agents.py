"""The peer's agents: what it does and when, on its own clock, and what it knows of it afterwards.

No I/O. Time is the peer's session clock in nanoseconds: zero when the session was opened. A frame
of user audio that was received at `r` holds `[r - 20 ms, r)`, as it does for a listener on a line
without delay; so every lateness of the sender is lateness of the user for the agent, and no error
of the agent's.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from adapters.base import AgentEvent, AudioReceived, ResponseDone
from adapters.known_peer.protocol import Behaviour
from adapters.simulated import voice
from adapters.simulated.agent import Ear, Mouth, Speech
from audio.buffers import Float32, float_to_pcm16
from audio.timebase import FRAME_NS, NS_PER_MS, SESSION_RATE_HZ, n_to_ns, s_to_ns

FLOOR_HZ = 120.0
FLOOR_LEVEL = 0.008
"""A tone at -45 dB of full scale under everything that is said. Speech has closures of tens of
milliseconds; with the tone the first and the last sample of an utterance can be heard wherever it
is cut, and truth and measurement are about the same instant."""


def prepare() -> None:
    """Synthesise all that will be said: doing so inside a running session would delay its clock."""
    voice.prepare()
    _talk_on()


def _floored(speech: Speech) -> Speech:
    phase = np.arange(1, len(speech.samples) + 1) * (2 * np.pi * FLOOR_HZ / SESSION_RATE_HZ)
    tone = (FLOOR_LEVEL * np.cos(phase)).astype(np.float32)
    return Speech(speech.samples + tone, speech.words, speech.loop)


@functools.cache
def _talk_on() -> Speech:
    return _floored(voice.talk_on())


class Listener:
    """The user as heard: when, on the peer's clock, the latest stretch began and ended."""

    def __init__(self) -> None:
        self._ear = Ear()
        self._frames = 0
        self.onset_ns: int | None = None
        self.offset_ns: int | None = None

    @property
    def sounding(self) -> bool:
        """Whether the latest frame held sound."""
        return self._ear.sounding

    def hear(self, frame: Float32, received_ns: int) -> bool:
        """Take the next frame; true when a new stretch of speech begins in it."""
        media_end_ns = (self._frames + 1) * FRAME_NS
        self._frames += 1
        new = self._ear.hear(frame)
        if self._ear.sounding:
            assert self._ear.last_ns is not None
            self.offset_ns = received_ns - (media_end_ns - self._ear.last_ns)
        if new:
            assert self._ear.onset_ns is not None
            self.onset_ns = received_ns - (media_end_ns - self._ear.onset_ns)
        return new


class PeerAgent:
    """Answers every stretch of the user's speech `latency_s` after its last sound.

    `reply` says `reply_s` of talk, `backchannel` something short; `hold` first talks on until it is
    spoken to, breaks off `yield_s` after that, and then answers like `reply`. User speech while it
    speaks is answered afterwards.
    """

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self._latency_ns = s_to_ns(behaviour.latency_s)
        self._yield_ns = s_to_ns(behaviour.yield_s)
        self._listener = Listener()
        self._mouth = Mouth()
        self._unanswered = False
        self._said = 0
        self.log = TruthLog()

    def hear(self, frame: Float32, received_ns: int) -> None:
        """One frame of user audio, float32 `(480,)`, received at `received_ns`."""
        new = self._listener.hear(frame, received_ns)
        self._unanswered |= self._listener.sounding
        holding = self._behaviour.agent == "hold" and self._said == 1 and self._mouth.busy
        if new and holding:
            assert self._listener.onset_ns is not None
            self._mouth.stop(self._listener.onset_ns + self._yield_ns)
            self.log.barged_in(self._listener.onset_ns)

    def tick(self, t_ns: int) -> list[AgentEvent]:
        """What is said in the 20 ms from `t_ns` on."""
        offset_ns = self._listener.offset_ns
        if (self._unanswered and offset_ns is not None and not self._listener.sounding
                and not self._mouth.busy and self._behaviour.agent != "silent"
                and offset_ns + self._latency_ns < t_ns + FRAME_NS):
            self._unanswered = False
            self._mouth.say(self._speech(), offset_ns + self._latency_ns)
            self.log.begins(self._kind, offset_ns)
            self._said += 1
        return self._mouth.step(t_ns)

    @property
    def _kind(self) -> str:
        return "hold" if self._behaviour.agent == "hold" and self._said == 0 else (
            "backchannel" if self._behaviour.agent == "backchannel" else "reply")

    def _speech(self) -> Speech:
        if self._kind == "hold":
            return _talk_on()
        length_s = (self._behaviour.backchannel_s if self._kind == "backchannel"
                    else self._behaviour.reply_s)
        return _floored(voice.talk(length_s, self._said))


@dataclass(slots=True)
class _Utterance:
    kind: str
    user_offset_ns: int
    barge_in_ns: int | None = None
    onset_ns: int | None = None
    handed_ns: int | None = None
    end_ns: int | None = None
    underrun_ns: int = 0


class TruthLog:
    """When the sound of each utterance really was, given when its chunks were handed over.

    `play_start = max(handed over, end of what was handed over before)`, as a listener on a line
    without delay hears it; onsets and ends are those of the first and last sample that is not zero
    in PCM16.
    """

    def __init__(self) -> None:
        self._now: _Utterance | None = None
        self._queue_end_ns = 0

    def begins(self, kind: str, user_offset_ns: int) -> None:
        """An utterance was decided on, in answer to what ended at `user_offset_ns`."""
        self._now = _Utterance(kind, user_offset_ns)

    def barged_in(self, at_ns: int) -> None:
        """The user began to speak into the current utterance."""
        if self._now is not None:
            self._now.barge_in_ns = at_ns

    def handed(self, event: AgentEvent, t_ns: int) -> dict[str, Any] | None:
        """`event` was handed over at `t_ns`. Gives the truth of an utterance that is over."""
        now = self._now
        if now is None:
            return None
        if isinstance(event, AudioReceived):
            start_ns = max(t_ns, self._queue_end_ns)
            if now.onset_ns is not None:
                now.underrun_ns += start_ns - self._queue_end_ns
            self._queue_end_ns = start_ns + n_to_ns(len(event.samples), SESSION_RATE_HZ)
            sound = np.flatnonzero(float_to_pcm16(event.samples))
            if sound.size:
                if now.onset_ns is None:
                    now.handed_ns = t_ns
                    now.onset_ns = start_ns + n_to_ns(int(sound[0]), SESSION_RATE_HZ)
                now.end_ns = start_ns + n_to_ns(int(sound[-1]) + 1, SESSION_RATE_HZ)
        elif isinstance(event, ResponseDone):
            self._now = None
            return _truth(event, now)
        return None


def _truth(event: ResponseDone, said: _Utterance) -> dict[str, Any] | None:
    if said.onset_ns is None or said.end_ns is None:
        return None
    yielded = said.barge_in_ns is not None and event.status == "cancelled"
    return {
        "response_id": event.response_id, "kind": said.kind, "status": event.status,
        "user_offset_ns": said.user_offset_ns, "handed_ns": said.handed_ns,
        "onset_ns": said.onset_ns, "end_ns": said.end_ns,
        "latency_ms": (said.onset_ns - said.user_offset_ns) / NS_PER_MS,
        "length_ms": (said.end_ns - said.onset_ns) / NS_PER_MS,
        "barge_in_ns": said.barge_in_ns,
        "yield_ms": (said.end_ns - said.barge_in_ns) / NS_PER_MS
        if yielded and said.barge_in_ns is not None else None,
        "underrun_ms": said.underrun_ns / NS_PER_MS,
    }
