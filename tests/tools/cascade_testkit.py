"""Drives the cascade agent in tests: real speech in, its events out, no socket and no waiting."""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from adapters.cascade.protocol import Job, Output, Recognise, Say, ServerSession
from adapters.cascade.speech import pieces
from audio.buffers import Int16, float_to_pcm16
from audio.edges import trim
from audio.spoken_text import normalise
from audio.synthesis import engine

RATE_HZ = 24_000
FRAME_N = 480
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@functools.cache
def speech(text: str, seed: int = 1) -> Int16:
    """What the built-in voice makes of `text`, PCM16 at 24 kHz, cut to the speech."""
    speaker = engine("hibari")
    samples = speaker.synthesize(normalise(text), speaker.voices()[0], seed)
    return float_to_pcm16(trim(samples, RATE_HZ)[0])


def silence(seconds: float) -> Int16:
    return np.zeros(round(seconds * RATE_HZ), np.int16)


def utterance(text: str, *, before_s: float = 0.5, after_s: float = 1.0, seed: int = 1) -> Int16:
    """Speech with exact silence around it."""
    return np.concatenate([silence(before_s), speech(text, seed), silence(after_s)])


def append(pcm: Int16) -> dict[str, Any]:
    """The event that writes these samples."""
    return {"type": "input_audio_buffer.append",
            "audio": base64.b64encode(pcm.astype("<i2").tobytes()).decode()}


def frames(pcm: Int16, n: int = FRAME_N) -> Iterable[Int16]:
    for at in range(0, len(pcm), n):
        yield pcm[at:at + n]


def spoken_digits(digits: Sequence[int], groups: Sequence[int]) -> str:
    """Digits as words, a comma after each group."""
    words, at, parts = [DIGITS[d] for d in digits], 0, []
    for size in groups:
        parts.append(" ".join(words[at:at + size]))
        at += size
    assert at == len(words)
    return ", ".join(parts)


@dataclass
class Client:
    """A client beside a `ServerSession`, and a brain that answers at once or when it is told."""

    words: Callable[[Recognise], Sequence[str] | None] = field(
        default=lambda job: ("hello",))
    tone_s: float = 1.0
    """Length of every sentence."""
    automatic: bool = True
    """Recognition answers at once, and replies are spoken to their end."""
    events: list[dict[str, Any]] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.session = ServerSession("sess_1")
        self.take(self.session.opening())

    def take(self, output: Output) -> list[dict[str, Any]]:
        """Note what came; with `automatic`, do the work that is asked for."""
        self.events += output.events
        for job in output.jobs:
            self.jobs.append(job)
            if self.automatic:
                self.do(job)
        return list(output.events)

    def do(self, job: Job) -> None:
        if isinstance(job, Recognise):
            self.take(self.session.recognised(job.item_id, self.words(job)))
        else:
            self.say(job)

    def say(self, job: Say, pieces_n: int | None = None) -> None:
        """Speak the reply; only its first `pieces_n` pieces where that is given."""
        tone = np.full(round(self.tone_s * RATE_HZ), 1000, np.int16)
        every = [p for k, s in enumerate(job.sentences) for p in pieces(s, tone, first=not k)]
        for piece in every[:pieces_n]:
            self.take(self.session.deliver(job.response_id, piece))
        if pieces_n is None:
            self.take(self.session.finish(job.response_id))

    def send(self, kind: str, **fields: Any) -> list[dict[str, Any]]:
        """The events in direct answer to this one."""
        return self.take(self.session.receive(json.dumps({"type": kind, **fields})))

    def write(self, pcm: Int16, n: int = 5 * FRAME_N) -> None:
        for frame in frames(pcm, n):
            self.take(self.session.receive(json.dumps(append(frame))))

    @property
    def kinds(self) -> list[str]:
        return [event["type"] for event in self.events]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]

    def forget(self) -> None:
        self.events.clear()
        self.jobs.clear()
