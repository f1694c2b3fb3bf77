"""How a local model kept up, from what its session's record says."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from adapters.worker_session import WORKER_FRAMES
from rig.record import AudioEvent, StateEvent
from rig.worker_load import worker_load


def record(*compute_us: list[int], frame_ms: float = 80.0) -> SimpleNamespace:
    events, first = [], 0
    for some in compute_us:
        events.append(StateEvent(seq=len(events), t_ns=0, name=WORKER_FRAMES, detail=json.dumps({
            "first": first, "frame_ms": frame_ms, "compute_us": some, "waiting": [0] * len(some)})))
        first += len(some)
    return SimpleNamespace(events=events, clock="virtual")


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


@pytest.mark.parametrize(("held_up_ms", "rig_ms", "late_ms", "slow"), [
    (0.0, 1.0, 1.0, False), (81.0, 1.0, 80.0, False), (81.1, 1.0, 80.1, True),
    (500.0, 1.0, 499.0, True), (500.0, 430.0, 70.0, False)])
def test_on_a_real_clock_an_answer_that_came_late_is_seen_whatever_held_it_up(
        held_up_ms: float, rig_ms: float, late_ms: float, slow: bool) -> None:
    """Frames of 80 ms, computed in 1 ms; the process stood still before the third. What the rig was
    late by itself is not the model's."""
    told = record([1_000] * 4)
    came_ms = [82.0, 162.0, 240.0 + max(2.0, held_up_ms), 320.0 + max(2.0, held_up_ms - 80)]
    audio = [AudioEvent(seq=k, t_ns=round(ms * 1e6), n=1920) for k, ms in enumerate(came_ms)]
    load = worker_load(SimpleNamespace(events=[*told.events, *audio], clock="real",
                                       timing=SimpleNamespace(late_max_ms=rig_ms)))
    assert load is not None
    assert load.late_ms == pytest.approx(late_ms)
    assert load.slow is slow
    assert worker_load(told).late_ms is None


def test_audio_that_is_no_answer_to_a_frame_is_no_measure() -> None:
    """A system on a network may name an event as it likes."""
    told = record([1_000] * 4)
    audio = [AudioEvent(seq=k, t_ns=k * 10**9, n=1920) for k in range(3)]
    load = worker_load(SimpleNamespace(events=[*told.events, *audio], clock="real",
                                       timing=SimpleNamespace(late_max_ms=0.0)))
    assert load is not None
    assert load.late_ms is None
    assert worker_load(record([1_000], frame_ms=1e308)) is None
