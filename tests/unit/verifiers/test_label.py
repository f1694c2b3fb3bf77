from __future__ import annotations

import pytest

from verifiers.label import label, silent_begun
from verifiers.measurement import measure

MS = 1_000_000
S = 1000 * MS


@pytest.mark.parametrize(("model", "recorded", "expected", "begun_reading"), [
    ((), 10 * S, "silent", True),
    ((), 3500 * MS - 1, None, None),
    ((), -1, None, None),
    (((-S, 0),), 10 * S, "silent", True),
    (((3 * S, 4 * S),), 10 * S, "silent", True),
    (((-S, 1),), 10 * S, "floor_take", True),
    (((-S, 1),), 3 * S, None, None),                            # one may still begin
    (((S, 2 * S - 1),), 10 * S, "backchannel", False),
    (((S, 2 * S),), 10 * S, "floor_take", False),
    (((S, 2 * S + 1),), 10 * S, "floor_take", False),
    (((2900 * MS, 3800 * MS),), 10 * S, "backchannel", False),  # whole length, not its part inside
    (((2900 * MS, 3900 * MS),), 10 * S, "floor_take", False),
    (((-S, 500 * MS), (S, 1500 * MS)), 10 * S, "backchannel", False),
    (((0, 500 * MS), (S, 3 * S)), 10 * S, "backchannel", False),  # the first begun one decides
    (((0, 2 * S), (2500 * MS, 2600 * MS)), 10 * S, "floor_take", False),
    (((S, 1400 * MS),), 1500 * MS, None, False),                # cut: no length
    (((S, 2 * S),), 2 * S, "floor_take", False),                # cut, but long enough already
])
def test_label(make, model, recorded, expected, begun_reading):
    reading = measure(make("LISTEN").scene(*model, recorded=recorded)).scored
    assert label(reading, S) == expected
    assert silent_begun(reading) is begun_reading


def test_a_window_before_the_recording_has_no_label(make):
    reading = measure(make("LISTEN").scene((S, 2 * S), shift=-11 * S)).scored
    assert label(reading, S) is None
    assert silent_begun(reading) is None
