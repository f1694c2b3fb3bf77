from __future__ import annotations

import pytest

from audio.spans import Spans
from verifiers.scene import CORE_ACTIONS, Action, Scene, Window


@pytest.mark.parametrize("end", [5, 4])
def test_a_window_needs_a_length(end):
    assert Window(5, 6).end_ns == 6
    with pytest.raises(ValueError, match="window must end after it starts"):
        Window(5, end)


def test_the_core_is_four_of_nine_actions():
    assert [str(action) for action in CORE_ACTIONS] == ["LISTEN", "READBACK", "TAKE_TURN", "YIELD"]
    assert len(Action) == 9


def test_spans_are_merged_below_300_ms_unless_the_scene_says_otherwise():
    scene = Scene(Action.LISTEN, Window(0, 1), Spans(), Spans(), 1)
    assert scene.merge_gap_ns == 300_000_000
