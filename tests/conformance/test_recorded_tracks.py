"""The recorded track of every adapter: sample for sample, in time, and cut where it must be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from faults import NotApplicable, subjects
from recorded_tracks import (
    FLUSH_MS,
    RATE_HZ,
    TRACK_MS,
    _by_its_clock,
    compared,
    hold_again,
    show,
)

SUBJECTS = subjects()


def test_the_recomputation_itself_is_the_definition() -> None:
    """By hand: 3 samples at 10 samples, 2 that come while they are heard, 2 after a gap."""
    at_ns = [round(n * 10**9 / RATE_HZ) for n in (10, 11, 20)]
    source = (np.arange(1, 8) / 32768).astype(np.float32)
    track = hold_again(list(zip(at_ns, (3, 2, 2), strict=True)), source, RATE_HZ, 21)
    assert track.tolist() == [0] * 10 + [1, 2, 3, 4, 5] + [0] * 5 + [6]


def test_pieces_that_are_cut_on_the_way_are_compared_by_their_samples() -> None:
    """24 samples are a millisecond: sent in two pieces of 2 ms, received in four of 1 ms."""
    sent = [(0, 48), (10_000_000, 48)]
    came = [(3_000_000, 24), (3_000_000, 24), (11_000_000, 24), (12_500_000, 24)]
    lag_ns, place_ns = compared(sent, came, RATE_HZ)
    assert lag_ns.tolist() == [3_000_000, 3_000_000, 1_000_000, 2_500_000]
    assert place_ns.tolist() == [3_000_000, 3_000_000, 1_000_000, 1_500_000]


def test_a_sender_that_paces_its_pieces_is_placed_by_its_own_clock() -> None:
    """Pieces of 20 ms; the third is handed over 7 ms late, the fourth after a pause."""
    sent = [(1_000_000, 480), (21_000_000, 480), (48_000_000, 480), (900_000_000, 480)]
    assert _by_its_clock(sent, RATE_HZ).tolist() == [1e6, 21e6, 41e6, 900e6]


@pytest.mark.parametrize("adapter", [
    pytest.param(adapter, marks=[pytest.mark.slow, *([pytest.mark.peer] if subject.needs else []),
                                 pytest.mark.skipif(subject.missing is not None,
                                                    reason=str(subject.missing))])
    for adapter, subject in SUBJECTS.items()])
def test_the_track_is_where_the_peer_put_it(adapter: str, tmp_path: Path) -> None:
    subject = SUBJECTS[adapter]
    shown = show(subject, tmp_path)
    assert shown.differing_n == 0
    # What this process was late for its own frames, it is late for the peer's as well.
    if shown.lag_p95_ms is not None:
        assert shown.lag_p95_ms <= TRACK_MS + shown.loop_lag_p95_ms
    assert shown.place_p95_ms <= TRACK_MS + shown.loop_lag_p95_ms
    if isinstance(subject.barge_in, NotApplicable):
        assert shown.flush_ms is None
    else:
        assert shown.flush_ms <= FLUSH_MS + shown.loop_lag_p95_ms
        assert shown.flush_end_ms <= 1000 / min(RATE_HZ, shown.rate_hz)
