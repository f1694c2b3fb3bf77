"""The timing certificate against lateness written by hand."""

from __future__ import annotations

import pytest

from rig.timing import certify

MS = 1_000_000
S = 1_000_000_000


def test_punctual_frames_are_certified():
    c = certify([0] * 1000, (5 * S, 8 * S))
    assert (c.frames_n, c.late_max_ms, c.void, c.drift_ppm) == (1000, 0.0, False, 0.0)


def test_percentiles_are_frames_that_happened():
    c = certify([k * MS // 100 for k in range(1, 1001)], None)
    assert (c.late_p50_ms, c.late_p99_ms, c.late_p999_ms, c.late_max_ms) == (5.0, 9.9, 9.99, 10.0)


@pytest.mark.parametrize(("frame", "void"), [(199, False), (200, True), (449, True), (451, False)])
def test_a_frame_more_than_40_ms_late_near_the_window_voids(frame, void):
    # window 5 to 8 s: frames whose 20 ms touch 4 to 9 s are near it, frame k ends at (k+1)*20 ms
    late = [0] * 1000
    late[frame] = 41 * MS
    assert certify(late, (5 * S, 8 * S)).void is void


def test_exactly_40_ms_is_within_budget():
    late = [0] * 1000
    late[300] = 40 * MS
    assert certify(late, (5 * S, 8 * S)).void is False


def test_p99_over_15_ms_voids():
    assert certify([0] * 985 + [16 * MS] * 15, None).void is True
    assert certify([0] * 985 + [15 * MS] * 15, None).void is False


def test_drift_is_the_slope_of_lateness():
    # 20 us later each frame of 20 ms is 1000 ppm
    c = certify([k * 20_000 for k in range(500)], None)
    assert c.drift_ppm == pytest.approx(1000.0)


def test_no_frames_is_void():
    c = certify([], None)
    assert c.void
    assert c.void_reason == "no frame was sent"
