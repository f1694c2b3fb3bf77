"""The user's schedule: what is spoken when, decided from what has been heard. No I/O, no clock.

The orchestrator asks for one frame after the other. The user stream never stops and never yields;
silence is streamed from start to end. Source of the constants: DSB-IFEval, appendix F.1; where the
paper is silent the choice and its reason stand beside the value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np

from audio.buffers import Float32
from audio.timebase import FRAME_NS, SESSION_RATE_HZ, n_to_ns, s_to_n, s_to_ns

FRAME_N = 480
"""20 ms at 24 kHz."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long the schedule waits for the model, in seconds."""

    turn1_reply_s: float = 5.0
    """The whole reply to turn 1, counted from the end of its streaming."""
    settle_s: float = 0.6
    tail_s: float = 0.5
    turn2_reply_s: float = 8.0
    """Counted from the end of the tail."""
    trailing_s: float = 1.5
    onset_s: float = 10.0
    """Barge-in: with no heard onset by then the turn is injected anyway (`forced`). Ours: the
    longest reply latency seen in the field is below it (seed 000, appendix A)."""
    after_window_s: float = 0.5
    """The recording outlasts the scored window by this much (room for the VAD to close a span)."""


class Phase(StrEnum):
    TURN1 = "turn1"
    WAIT_REPLY = "wait_reply"
    WAIT_ONSET = "wait_onset"
    SETTLE = "settle"
    TURN2 = "turn2"
    WAIT_END = "wait_end"
    TRAILING = "trailing"
    DONE = "done"


class Heard(Protocol):
    """What can be known of the model's side by now, on the heard `hold` track."""

    def reply_end_ns(self, after_ns: int, now_ns: int) -> int | None:
        """End of the reply heard after `after_ns`, once it has ended."""
        ...

    def onset_ns(self, after_ns: int, now_ns: int) -> int | None:
        """First confirmed speech onset at or after `after_ns`."""
        ...

    def speaking_since_before(self, t_ns: int, now_ns: int) -> bool:
        """Whether speech that began before `t_ns` has gone on without a break until now."""
        ...

    def replying(self, now_ns: int) -> bool:
        """Whether a reply is under way: a response is open or the queue is not empty."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """One case as the schedule needs it. Times are relative to the onset of turn 2."""

    turn1: Float32
    turn2: Float32
    window_end_s: float
    barge_in_after_s: float | None = None


class UserSchedule:
    """Streams turn 1, waits as the delivery says, streams turn 2, waits, and ends.

    `frame(k, now_ns)` gives user samples `[k*480, (k+1)*480)`; it must be asked for in order and
    at `now_ns == k * 20 ms`, before the frame's media time begins, so that no decision reaches
    back in time.
    """

    def __init__(self, plan: Plan, heard: Heard, bounds: Bounds | None = None) -> None:
        self.plan = plan
        self._heard = heard
        self._bounds = bounds or Bounds()
        self._next_frame = 0
        self._deadline_ns = 0
        self._end_n: int | None = None
        self.phase = Phase.TURN1
        self.flags: set[str] = set()
        self.turn1_end_n = len(plan.turn1)
        self.turn2_onset_n: int | None = None
        self.model_onset_ns: int | None = None
        """Barge-in: the heard onset from which the delay was counted."""

    @property
    def turn1_end_ns(self) -> int:
        return n_to_ns(self.turn1_end_n, SESSION_RATE_HZ)

    @property
    def turn2_end_n(self) -> int | None:
        if self.turn2_onset_n is None:
            return None
        return self.turn2_onset_n + len(self.plan.turn2)

    @property
    def longest_s(self) -> float:
        """No schedule lasts longer than this, whatever the model does."""
        b = self._bounds
        wait_s = max(b.turn1_reply_s + b.settle_s,
                     b.onset_s + (self.plan.barge_in_after_s or 0.0))
        turn2_s = max(len(self.plan.turn2) / SESSION_RATE_HZ, self.plan.window_end_s)
        after_s = b.tail_s + b.turn2_reply_s + b.trailing_s + b.after_window_s
        return len(self.plan.turn1) / SESSION_RATE_HZ + wait_s + turn2_s + after_s + 1.0

    def frame(self, k: int, now_ns: int) -> Float32 | None:
        """The next 480 samples, or `None` when the session is over."""
        if k != self._next_frame:
            raise ValueError(f"frames must be asked for in order: expected {self._next_frame}, "
                             f"got {k}")
        start_n = k * FRAME_N
        self._advance(start_n, now_ns)
        if self.phase is Phase.DONE:
            return None
        self._next_frame += 1
        out = np.zeros(FRAME_N, dtype=np.float32)
        mix(out, start_n, self.plan.turn1, 0)
        if self.turn2_onset_n is not None:
            mix(out, start_n, self.plan.turn2, self.turn2_onset_n)
        return out

    def _advance(self, start_n: int, now_ns: int) -> None:
        if self.phase is Phase.TURN1 and start_n >= self.turn1_end_n:
            self._after_turn1()
        if self.phase is Phase.WAIT_REPLY:
            self._wait_reply(start_n, now_ns)
        elif self.phase is Phase.WAIT_ONSET:
            self._wait_onset(start_n, now_ns)
        if self.phase is Phase.SETTLE:
            # A sample-exact onset known in advance: it may fall inside the coming frame.
            assert self.turn2_onset_n is not None
            if start_n + FRAME_N > self.turn2_onset_n:
                self.phase = Phase.TURN2
        if self.phase is Phase.TURN2:
            assert self.turn2_end_n is not None
            if start_n >= self.turn2_end_n:
                self.phase = Phase.WAIT_END
                self._deadline_ns = (n_to_ns(self.turn2_end_n, SESSION_RATE_HZ)
                                     + s_to_ns(self._bounds.tail_s + self._bounds.turn2_reply_s))
        if self.phase is Phase.WAIT_END:
            self._wait_end(start_n, now_ns)
        if self.phase is Phase.TRAILING:
            assert self._end_n is not None
            if start_n >= self._end_n:
                self.phase = Phase.DONE

    def _after_turn1(self) -> None:
        if self.plan.barge_in_after_s is None:
            self.phase = Phase.WAIT_REPLY
            bound_s = self._bounds.turn1_reply_s
        else:
            self.phase = Phase.WAIT_ONSET
            bound_s = self._bounds.onset_s
        self._deadline_ns = self.turn1_end_ns + s_to_ns(bound_s)

    def _wait_reply(self, start_n: int, now_ns: int) -> None:
        settle_ns = s_to_ns(self._bounds.settle_s)
        ended_ns = self._heard.reply_end_ns(self.turn1_end_ns, now_ns)
        if ended_ns is not None:
            self._begin_turn2_at(ended_ns + settle_ns, start_n)
        elif now_ns >= self._deadline_ns:
            self.flags.add("turn1_overrun" if self._heard.replying(now_ns) else "turn1_no_reply")
            self._begin_turn2_at(self._deadline_ns + settle_ns, start_n)

    def _wait_onset(self, start_n: int, now_ns: int) -> None:
        assert self.plan.barge_in_after_s is not None
        delay_ns = s_to_ns(self.plan.barge_in_after_s)
        onset_ns = self._heard.onset_ns(self.turn1_end_ns, now_ns)
        over_ns = self.turn1_end_ns + delay_ns
        if onset_ns is not None:
            self.model_onset_ns = onset_ns
            self._begin_turn2_at(onset_ns + delay_ns, start_n)
        elif now_ns >= over_ns and self._heard.speaking_since_before(self.turn1_end_ns, now_ns):
            self.flags.add("spoke_over_turn1")
            self._begin_turn2_at(now_ns, start_n)
        elif now_ns >= self._deadline_ns:
            self.flags.add("forced")
            self._begin_turn2_at(now_ns, start_n)

    def _begin_turn2_at(self, t_ns: int, start_n: int) -> None:
        """Place turn 2 at `t_ns`, or at the coming frame when that moment has passed."""
        at_n = -(-t_ns * SESSION_RATE_HZ // 1_000_000_000)
        self.turn2_onset_n = max(at_n, start_n)
        self.phase = Phase.SETTLE

    def _wait_end(self, start_n: int, now_ns: int) -> None:
        assert self.turn2_end_n is not None
        assert self.turn2_onset_n is not None
        end_ns = n_to_ns(self.turn2_end_n, SESSION_RATE_HZ)
        if now_ns < end_ns + s_to_ns(self._bounds.tail_s):
            return
        ended = self._heard.reply_end_ns(end_ns, now_ns) is not None
        if not ended and now_ns < self._deadline_ns:
            return
        if not ended:
            self.flags.add("turn2_overrun" if self._heard.replying(now_ns) else "turn2_no_reply")
        window_end_n = self.turn2_onset_n + s_to_n(
            self.plan.window_end_s + self._bounds.after_window_s, SESSION_RATE_HZ)
        trailing_n = start_n + s_to_n(self._bounds.trailing_s, SESSION_RATE_HZ)
        self._end_n = math.ceil(max(window_end_n, trailing_n) / FRAME_N) * FRAME_N
        self.phase = Phase.TRAILING


def mix(frame: Float32, frame_start_n: int, turn: Float32, turn_start_n: int) -> None:
    """Add the part of `turn` that falls into the frame."""
    first = max(frame_start_n, turn_start_n)
    last = min(frame_start_n + len(frame), turn_start_n + len(turn))
    if first < last:
        frame[first - frame_start_n : last - frame_start_n] += turn[
            first - turn_start_n : last - turn_start_n]


assert FRAME_N * 1_000_000_000 == FRAME_NS * SESSION_RATE_HZ
