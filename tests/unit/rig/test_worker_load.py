"""How a local model kept up, from what its session's record says."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from adapters.worker_session import WORKER_FRAMES
from rig.record import StateEvent
from rig.worker_load import worker_load


def record(*compute_us: list[int], frame_ms: float = 80.0) -> SimpleNamespace:
    events, first = [], 0
    for some in compute_us:
        events.append(StateEvent(seq=len(events), t_ns=0, name=WORKER_FRAMES, detail=json.dumps({
            "first": first, "frame_ms": frame_ms, "compute_us": some, "waiting": [0] * len(some)})))
        first += len(some)
    return SimpleNamespace(events=events)


def test_what_is_computed_is_counted_over_all_of_the_session() -> None:
    load = worker_load(record([20_000] * 30, [60_000] * 10))
    assert load is not None
    assert (load.frames_n, load.compute_p50_ms, load.compute_max_ms) == (40, 20, 60)
    assert load.real_time_factor == pytest.approx((30 * 20 + 10 * 60) / (40 * 80))
    assert not load.slow


def test_a_worker_that_does_not_measure_is_not_infinitely_fast() -> None:
    assert worker_load(record([0] * 25, [0] * 25)) is None
    assert worker_load(record()) is None
    load = worker_load(record([0] * 24 + [1]))  # a frame of less than a microsecond is one
    assert load is not None
    assert load.real_time_factor == pytest.approx(1e-3 / (25 * 80))


@pytest.mark.parametrize(("late", "slow"), [(5, False), (6, True)])
def test_one_frame_in_twenty_is_the_limit(late: int, slow: bool) -> None:
    """Of 101 the 96th is the 95th percentile, to the frame."""
    load = worker_load(record([80_001] * late + [1_000] * (101 - late)))
    assert load is not None
    assert load.slow is slow
