"""How a local model kept up with the conversation, from its session's record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from adapters.worker_session import WORKER_FRAMES
from rig.record import SessionRecord, StateEvent

SLOW = "slower_than_real_time"
"""Flag of a session in which the model computed longer than its frames last: on average, or on one
frame in twenty. On a real clock what it said came late for that reason; in virtual time it would
have."""
SLOW_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class WorkerLoad:
    """`real_time_factor`: computing over what was computed, below 1 when it keeps up. `waiting`:
    frames handed over and not yet answered, at most."""

    frames_n: int
    frame_ms: float
    compute_p50_ms: float
    compute_p95_ms: float
    compute_max_ms: float
    real_time_factor: float
    waiting: int

    @property
    def slow(self) -> bool:
        return self.real_time_factor > 1 or self.compute_p95_ms > self.frame_ms


class _Told(BaseModel):
    model_config = ConfigDict(strict=True)

    first: int = Field(ge=0)
    frame_ms: FiniteFloat = Field(gt=0)
    compute_us: list[Annotated[int, Field(ge=0)]]
    waiting: list[Annotated[int, Field(ge=0)]]


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
                      float(ms.sum() / (len(ms) * frame_ms)), waiting)
