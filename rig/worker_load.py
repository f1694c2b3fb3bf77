"""How a local model kept up with the conversation, from its session's record."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from adapters.worker_session import WORKER_FRAMES
from audio.timebase import FRAME_NS, NS_PER_MS
from rig.record import AudioEvent, SessionRecord, StateEvent
from rig.timing import MAX_FRAMES

SLOW = "slower_than_real_time"
"""Flag of a session in which the model computed longer than its frames last: on average, or on one
frame in twenty. On a real clock what it said came late for that reason; in virtual time it would
have. On a real clock also where an answer came more than the length of a frame late (40 ms at
least), whatever held the process up: nothing is dropped, so all that it said from then on was heard
late."""
SLOW_SHARE = 0.05
LEAST_LATE_MS = 40.0
"""Below this an answer is not called late, however short the frames: what a machine may add, as for
the rig's own frames (contract)."""
MAX_US = 24 * 3600 * 1_000_000
"""Longest time over one frame that a worker may tell: a day. Ours."""
MAX_FRAME_MS = 5_000
"""As the protocol has it (docs/workers.md)."""


@dataclass(frozen=True, slots=True)
class WorkerLoad:
    """`real_time_factor`: computing over what was computed, below 1 when it keeps up. `waiting`:
    frames handed over and not yet answered, at most. `late_ms`: from when a frame was said whole to
    its answer, at most, less what the rig's own frames were late at most; `None` in virtual time,
    where the answer is stamped with the frame."""

    frames_n: int
    frame_ms: float
    compute_p50_ms: float
    compute_p95_ms: float
    compute_max_ms: float
    real_time_factor: float
    waiting: int
    late_ms: float | None = None

    @property
    def slow(self) -> bool:
        return (self.real_time_factor > 1 or self.compute_p95_ms > self.frame_ms
                or (self.late_ms is not None and self.late_ms > max(self.frame_ms, LEAST_LATE_MS)))


class _Told(BaseModel):
    model_config = ConfigDict(strict=True)

    first: int = Field(ge=0)
    frame_ms: FiniteFloat = Field(gt=0, le=MAX_FRAME_MS)
    compute_us: list[Annotated[int, Field(ge=0, le=MAX_US)]]
    waiting: list[Annotated[int, Field(ge=0, le=MAX_FRAMES)]]


def _told(detail: str) -> _Told | None:
    """`None` for what is not of that form: a peer on a network may name an event as it likes."""
    try:
        return _Told.model_validate_json(detail)
    except ValidationError:
        return None


def worker_load(record: SessionRecord) -> WorkerLoad | None:
    """From the worker's own account; `None` for a system that gives none, or that says of every
    frame that it took no time: it does not measure, and would look infinitely fast."""
    compute_us: list[int] = []
    waiting = 0
    frame_ms = 0.0
    for event in record.events:
        if isinstance(event, StateEvent) and event.name == WORKER_FRAMES:
            told = _told(event.detail)
            if told is not None:
                compute_us += told.compute_us
                waiting = max([waiting, *told.waiting])
                frame_ms = told.frame_ms
    if not any(compute_us):
        return None
    ms = np.array(compute_us) / 1e3
    p50, p95 = np.percentile(ms, [50, 100 * (1 - SLOW_SHARE)])
    return WorkerLoad(len(ms), frame_ms, float(p50), float(p95), float(ms.max()),
                      float(ms.sum() / (len(ms) * frame_ms)), waiting,
                      _late_ms(record, len(ms), frame_ms))


def _late_ms(record: SessionRecord, frames_n: int, frame_ms: float) -> float | None:
    """A worker gives one piece of audio for each frame, in order; another system may not."""
    came_ns = [e.t_ns for e in record.events if isinstance(e, AudioEvent)]
    if record.clock == "virtual" or len(came_ns) != frames_n:
        return None
    # The user is handed over in frames of the rig: a frame is whole with the last that it needs.
    due_ns = [math.ceil((k + 1) * frame_ms * NS_PER_MS / FRAME_NS) * FRAME_NS
              for k in range(len(came_ns))]
    late_ns = max((t - due for t, due in zip(came_ns, due_ns, strict=True)), default=0)
    return max(0.0, late_ns / NS_PER_MS - record.timing.late_max_ms)
