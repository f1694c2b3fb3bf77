"""The user's schedule against models whose behaviour is written down."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from rig.schedule import FRAME_N, Bounds, Plan, UserSchedule

S = 1_000_000_000
RATE = 24_000


@dataclass
class Model:
    """What will be heard, in seconds; the schedule may only learn of it when it has happened."""

    reply_ends_s: tuple[float, ...] = ()
    onsets_s: tuple[float, ...] = ()
    speaks_until_s: float | None = None
    replying_until_s: float = 0.0

    def reply_end_ns(self, after_ns: int, now_ns: int) -> int | None:
        ends = [int(e * S) for e in self.reply_ends_s]
        return next((e for e in ends if after_ns < e <= now_ns), None)

    def onset_ns(self, after_ns: int, now_ns: int) -> int | None:
        onsets = [int(o * S) for o in self.onsets_s]
        return next((o for o in onsets if after_ns <= o <= now_ns), None)

    def speaking_since_before(self, t_ns: int, now_ns: int) -> bool:
        return self.speaks_until_s is not None and now_ns < self.speaks_until_s * S

    def replying(self, now_ns: int) -> bool:
        return now_ns < self.replying_until_s * S


def speech(seconds: float) -> np.ndarray:
    return np.full(round(seconds * RATE), 0.5, dtype=np.float32)


def play(plan: Plan, model: Model) -> tuple[UserSchedule, np.ndarray]:
    schedule = UserSchedule(plan, model)
    frames = []
    for k in range(10_000):
        frame = schedule.frame(k, k * 20_000_000)
        if frame is None:
            break
        frames.append(frame)
    else:
        pytest.fail("the schedule never ended")
    user = np.concatenate(frames)
    assert len(user) / RATE <= schedule.longest_s
    return schedule, user


def onset_s(schedule: UserSchedule) -> float:
    assert schedule.turn2_onset_n is not None
    return schedule.turn2_onset_n / RATE


def test_turn_2_comes_settle_after_the_reply_and_is_played_whole():
    plan = Plan(speech(2.01), speech(3.0), window_end_s=3.0)
    schedule, user = play(plan, Model(reply_ends_s=(4.0, 12.0)))
    assert onset_s(schedule) == pytest.approx(4.6, abs=1 / RATE)
    first = schedule.turn2_onset_n
    assert (user[: round(2.01 * RATE)] == 0.5).all()
    assert not user[round(2.01 * RATE) : first].any()
    assert (user[first : first + 3 * RATE] == 0.5).all()
    assert not user[first + 3 * RATE :].any()
    assert schedule.flags == set()


def test_a_reply_that_never_comes_is_waited_for_five_seconds():
    schedule, _ = play(Plan(speech(2.0), speech(1.0), window_end_s=1.0), Model())
    assert onset_s(schedule) == pytest.approx(2.0 + 5.0 + 0.6, abs=1 / RATE)
    assert schedule.flags == {"turn1_no_reply", "turn2_no_reply"}


def test_a_reply_that_outlasts_the_bound_is_flagged():
    schedule, _ = play(Plan(speech(2.0), speech(1.0), window_end_s=1.0),
                       Model(reply_ends_s=(9.5,), replying_until_s=9.5))
    assert onset_s(schedule) == pytest.approx(7.6, abs=1 / RATE)
    assert "turn1_overrun" in schedule.flags


def test_recording_lasts_half_a_second_beyond_the_window():
    # user offset 1.0 s after onset, window to +11 s; nobody replies (8 s wait + 1.5 s trailing)
    schedule, user = play(Plan(speech(2.0), speech(1.0), window_end_s=11.0), Model())
    assert len(user) / RATE == pytest.approx(7.6 + 11.5, abs=0.02)
    assert len(user) / RATE >= onset_s(schedule) + 11.5


def test_end_comes_trailing_after_the_reply_to_turn_2():
    # turn 2 ends at 5.6, its tail at 6.1; the reply ends at 7.0; 1.5 s trailing
    schedule, user = play(Plan(speech(2.0), speech(1.0), window_end_s=1.0),
                          Model(reply_ends_s=(4.0, 7.0)))
    assert len(user) / RATE == pytest.approx(8.5, abs=0.021)
    assert schedule.flags == set()


@pytest.mark.parametrize("delay_s", [3.0, 2.0])
def test_barge_in_is_sample_exact_after_the_heard_onset(delay_s):
    onset = 3.123456
    plan = Plan(speech(2.0), speech(1.0), window_end_s=3.0, barge_in_after_s=delay_s)
    schedule, user = play(plan, Model(onsets_s=(onset,)))
    assert onset_s(schedule) == pytest.approx(onset + delay_s, abs=1 / RATE)
    assert onset_s(schedule) >= onset + delay_s
    assert user[schedule.turn2_onset_n] == 0.5
    assert user[schedule.turn2_onset_n - 1] == 0.0
    assert "forced" not in schedule.flags


def test_barge_in_without_an_onset_is_forced_at_the_bound():
    plan = Plan(speech(2.0), speech(1.0), window_end_s=3.0, barge_in_after_s=3.0)
    schedule, _ = play(plan, Model())
    assert onset_s(schedule) == pytest.approx(12.0, abs=0.02)
    assert "forced" in schedule.flags


def test_a_model_that_never_stops_is_barged_in_on_from_the_end_of_turn_1():
    plan = Plan(speech(2.0), speech(1.0), window_end_s=3.0, barge_in_after_s=3.0)
    schedule, _ = play(plan, Model(speaks_until_s=60.0, onsets_s=(0.5,)))
    assert onset_s(schedule) == pytest.approx(5.0, abs=0.02)
    assert schedule.flags >= {"spoke_over_turn1"}


def test_a_model_that_speaks_over_turn_1_but_stops_counts_from_its_next_onset():
    plan = Plan(speech(2.0), speech(1.0), window_end_s=3.0, barge_in_after_s=3.0)
    schedule, _ = play(plan, Model(speaks_until_s=3.0, onsets_s=(0.5, 4.0)))
    assert onset_s(schedule) == pytest.approx(7.0, abs=1 / RATE)
    assert "spoke_over_turn1" not in schedule.flags


def test_frames_are_whole_and_asked_for_in_order():
    schedule = UserSchedule(Plan(speech(0.05), speech(0.05), window_end_s=0.05), Model())
    first = schedule.frame(0, 0)
    assert first is not None
    assert len(first) == FRAME_N
    with pytest.raises(ValueError, match="in order: expected 1, got 0"):
        schedule.frame(0, 0)


def test_bounds_carry_the_published_constants():
    b = Bounds()
    assert (b.turn1_reply_s, b.settle_s, b.tail_s, b.turn2_reply_s, b.trailing_s) == (
        5.0, 0.6, 0.5, 8.0, 1.5)
