"""The timing certificate against lateness written by hand."""

from __future__ import annotations

import json

import pytest

from rig.playout import Placement
from rig.timing import (
    PeerTiming,
    TimingCertificate,
    certify,
    heard_without_a_gap,
    model_underruns,
    peer_timing,
)

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


WINDOW_NS = 10 * S, 12 * S


@pytest.mark.parametrize(("heard_ns", "carried_ms"), [
    # frames 99 to 102 were 100 to 40 ms late: the rig stalled from 2.0 to 2.1 s
    ([(S, 2 * S), (2 * S + 100 * MS, 30 * S)], 100.0),  # a stream that never catches up
    ([(S, 2 * S), (2 * S + 180 * MS, 30 * S)], 100.0),  # its next frame took as long
    ([(2 * S + 50 * MS, 30 * S)], 100.0),  # a reply that began meanwhile
    ([(S, 2 * S), (2 * S + 201 * MS, 30 * S)], 0.0),  # a reply after a pause of its own
    ([(2 * S + 200 * MS, 9 * S + 1)], 0.0),  # the rig had caught up
    ([(S, 30 * S)], 0.0),  # it had begun before, and went on: nothing of it was late
    ([(3 * S + 101 * MS, 30 * S)], 0.0),  # it began long after
    ([(2 * S + 100 * MS, 9 * S), (9 * S + 1, 30 * S)], 0.0),  # there was a pause since
    ([(2 * S + 100 * MS, 9 * S), (14 * S, 30 * S)], None),  # nothing near the window
    ([], None),
])
def test_a_late_frame_voids_where_what_was_heard_carries_it_to_the_window(heard_ns, carried_ms):
    late = [0] * 2000
    late[99:103] = [ms * MS for ms in (100, 80, 60, 40)]
    c = certify(late, WINDOW_NS, heard_ns=heard_ns)
    assert (c.late_p99_ms, c.late_max_near_window_ms) == (0.0, 0.0)
    assert c.late_carried_ms == carried_ms
    assert c.void is (carried_ms == 100.0)
    assert c.void_reason == (
        "a frame was 100.0 ms late (budget 40 ms), and all that was heard from then until the "
        "window came as late" if c.void else None)


def test_what_is_carried_has_the_same_budget():
    late = [0] * 1000
    late[99] = 40 * MS
    c = certify(late, WINDOW_NS, heard_ns=[(2 * S, 30 * S)])
    assert (c.late_carried_ms, c.void) == (40.0, False)


def test_pieces_without_a_gap_are_one_stretch():
    placements = [Placement(0, 0, 480, 0), Placement(20 * MS, 480, 480, 0),
                  Placement(43 * MS, 960, 480, 1), Placement(80 * MS, 1440, 240, 2)]
    assert heard_without_a_gap(placements, 24_000) == [
        (0, 40 * MS), (43 * MS, 63 * MS), (80 * MS, 90 * MS)]
    assert heard_without_a_gap([], 24_000) == []


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


def test_late_frames_are_lateness_and_no_drift():
    # Every fifth frame of the second half 30 ms late: a busy machine, and a clock that keeps time.
    late = [100_000 + (30 * MS if k > 500 and k % 5 == 0 else 0) for k in range(1000)]
    assert certify(late, None).drift_ppm == 0.0


def test_a_client_that_sleeps_between_frames_drifts():
    # 20 ms of sleep and 0.24 ms of work a frame, jitter of up to 0.5 ms: 12 000 ppm.
    late = [k * 240_000 + (k * 7919 % 500) * 1000 for k in range(1500)]
    assert certify(late, None).drift_ppm == pytest.approx(12_000, rel=0.01)


@pytest.mark.parametrize(("frames", "known"), [(99, False), (100, True), (149, True)])
def test_drift_needs_two_whole_seconds(frames, known):
    assert (certify([k * 1000 for k in range(frames)], None).drift_ppm is not None) is known


def test_drift_of_hours_is_fitted_as_well():
    assert certify([k * 200 for k in range(200_000)], None).drift_ppm == pytest.approx(10.0)


def test_loop_lag_is_a_part_of_lateness_and_told_apart():
    c = certify([5 * MS] * 100, None, wake_ns=[1 * MS] * 98 + [2 * MS, 3 * MS])
    assert (c.loop_lag_p99_ms, c.loop_lag_max_ms) == (2.0, 3.0)
    assert (certify([5 * MS], None).loop_lag_p99_ms, certify([5 * MS], None).loop_lag_max_ms) == (
        None, None)


def test_a_frame_over_its_own_length_late_is_an_underrun():
    late = [0] * 100
    late[7], late[9] = 20 * MS, 20 * MS + 1
    assert certify(late, None).user_underruns_n == 1


def test_silence_inside_a_response_is_an_underrun_of_the_model():
    placements = [
        Placement(0, 0, 480, 0, "a"),
        Placement(20 * MS, 480, 480, 0, "a"),
        Placement(43 * MS, 960, 480, 1, "a"),  # 3 ms after the end of what was heard
        Placement(80 * MS, 1440, 480, 2, "b"),  # another response: its own beginning
        Placement(150 * MS, 1920, 480, 3, None),
        Placement(190 * MS, 2400, 480, 4, None),  # nobody says that these belong together
    ]
    gaps = model_underruns(placements, 24_000)
    assert gaps == [3 * MS]
    c = certify([0] * 10, None, underruns_ns=[*gaps, 5 * MS])
    assert (c.model_underruns_n, c.model_underrun_total_ms, c.model_underrun_max_ms) == (2, 8.0,
                                                                                        5.0)
    assert model_underruns([], 24_000) == []


def test_how_far_detection_lagged_is_kept():
    assert certify([0], None, detection_behind_ns=60 * MS).detection_behind_ms == 60.0
    assert certify([0], None).detection_behind_ms is None


def report(first, received, **more):
    return ("peer_frames", json.dumps({"first": first, "received_ns": received, **more}))


ORIGIN_NS = 7_000_000_000_000


def received(frames, late_ms, first=0):
    return [ORIGIN_NS + (k + 1) * 20 * MS + round(late_ms(k) * MS)
            for k in range(first, first + frames)]


def test_lateness_by_the_peers_clock():
    found = peer_timing([("ready", "{}"), report(0, received(50, lambda k: 1.0)),
                         report(50, received(100, lambda k: 1.0 + (k == 120), 50))], ORIGIN_NS)
    assert found == PeerTiming(frames_n=150, late_p50_ms=1.0, late_p99_ms=1.0, late_max_ms=2.0,
                               drift_ppm=0.0)


def test_a_peer_with_another_clock_says_drift_alone():
    frames = [t + 10**15 for t in received(500, lambda k: 1.0 + k * 20e-6 * 50)]
    found = peer_timing([report(0, frames)], ORIGIN_NS)
    assert found is not None
    assert (found.late_p50_ms, found.late_p99_ms, found.late_max_ms) == (None, None, None)
    assert found.drift_ppm == pytest.approx(50.0, rel=0.01)
    before = peer_timing([report(0, [t - 10**12 for t in frames])], ORIGIN_NS)
    assert before is not None
    assert before.late_p50_ms is None


@pytest.mark.parametrize("states", [
    [], [("peer_truth", "{}")], [("peer_frames", "no JSON")], [("peer_frames", "[" * 100_000)],
    [("peer_frames", "[]")], [report(1, [1])], [report(True, [1])], [report(0, "x")],
    [report(0, [1.5])], [report(0, [True])], [report(0, [2**62])], [report(0, [None])],
    [report(0, [])], [report(0, [1]), report(5, [2])],
    [report(0, [0] * 100)], [report(0, [0] * 50 + [2**61] * 50)]])
def test_what_a_peer_says_wrongly_counts_for_nothing(states):
    assert peer_timing(states, ORIGIN_NS) is None


def test_in_virtual_time_a_peer_says_nothing():
    assert peer_timing([report(0, [1])], None) is None


def test_a_certificate_of_the_first_version_can_be_read():
    old = {"frames_n": 3, "late_p50_ms": 0.0, "late_p99_ms": 0.0, "late_p999_ms": 0.0,
           "late_max_ms": 0.0, "late_max_near_window_ms": None, "drift_ppm": None, "void": False,
           "void_reason": None}
    read = TimingCertificate.model_validate(old)
    assert read.loop_lag_p99_ms is None
    assert read.peer is None
