"""One conversation through a sound card: the session's time is the card's sample count.

Sample 0 of the user is put on one output sample of the card; user sample `m` leaves as card sample
`zero + m`. What comes in as card sample `zero + m + round_trip` is what would have come back from
user sample `m` at once, and is stamped with the time of `m`. So the two tracks lie on one clock,
the card's, for as long as the card drops nothing; how that clock runs against the rig's is fitted
and logged, and changes no stamp.

Rules for trouble (ours)
------------------------
- An xrun that the card reports shifts the tracks against each other by an unknown amount: the
  session ends as infrastructure, from the `max_xruns + 1`st on; those before are transparent.
- User sound that came too late for the card is not played: silence in its place is transparent, up
  to `MAX_HOLE_MS` of sound in all as well; more is infrastructure.
- With a reference channel the user's own sound is looked for in it, once a second: a shift of more
  than `MAX_SHIFT_MS` since the session began, which software devices do not report, is
  infrastructure.
- No callback for `STALL_S`, or a stream that has ended: infrastructure, the device is gone.
- A card that has gained or lost more than `MAX_GAINED_MS` against the rig's clock, as the fitted
  line has it, runs at another rate than it was opened with: infrastructure.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from adapters.base import PEER_FRAMES, AgentEvent, AudioReceived, Clock, Fault, StateChanged
from adapters.sound_card.bridge import XRUN, Bridge, Callback, xrun_names
from adapters.sound_card.card_clock import base_offset_ns, fit, reported_round_trip_ms
from adapters.sound_card.loopback import find
from adapters.sound_card.stream import POLL_NS, CardStream, rig_now_ns
from audio.buffers import Float32
from audio.errors import InfrastructureError
from audio.timebase import FRAMES_PER_S, NS_PER_MS, NS_PER_S, n_to_ns, s_to_ns

STALL_S = 1.0
"""No callback for so long: the device is gone. Ours: PulseAudio may pause for some 100 ms."""
MAX_HOLE_MS = 5.0
"""User sound that may be lost in all. Ours: what a listener does not notice, and the bound that
recorded tracks are held to."""
CLOCK_LOG_NS = 5 * NS_PER_S
"""How often the fitted clock is logged. Ours."""
MAX_GAINED_MS = 150
"""Against the rig, over the callbacks that are remembered. Ours: more than a software device's
latency wanders (100 ms); a card that takes 44.1 kHz for 48 needs two seconds for it."""
TIMING_FRAMES = 50
"""Frames whose times at the DAC are logged together: a second. Ours."""
MAX_SHIFT_MS = 3.0
"""How far the reference may move: what is left of the 5 ms that recorded tracks are held to when
the rest is the detector's and the machine's. Ours."""
WATCH_FRAMES = 10
"""Length of user sound that is looked for: 0.2 s, in which speech is unlike itself. Ours."""
WATCH_SEARCH_MS = 20
WATCH_MIN_DB = -50.0
"""Quieter user sound is not looked for (RMS against full scale). Ours."""


@dataclass(frozen=True, slots=True)
class Correction:
    """The round trip that recorded audio is corrected by, and where it is known from."""

    samples: int
    source: str
    """`calibration`, `reference_channel` or `reported` (uncalibrated)."""


class CardSession:
    """Made by `adapter.SoundCardAdapter.session` once the card is steady."""

    def __init__(self, bridge: Bridge, stream: CardStream, clock: Clock, correction: Correction, *,
                 lead_n: int, max_xruns: int, clean_from_n: int) -> None:
        """`lead_n`: how far ahead of the card the first frame is put. `clean_from_n`: xruns count
        from this card sample on."""
        self._bridge = bridge
        self._stream = stream
        self._clock = clock
        self._correction = correction
        self._lead_n = lead_n
        self._max_xruns = max_xruns
        self._clean_from_n = self._seen_n = clean_from_n
        self._rate_hz = bridge.rate_hz
        self._frame_n = bridge.rate_hz // FRAMES_PER_S
        self._zero_n: int | None = None
        self._sent_n = 0
        self._given_n = 0
        self._timed_frames = 0
        self._xruns = 0
        self._lost_sound_n = 0
        self._late_frames = 0
        self._clock_due_ns = 0
        self._watched: list[Float32] = []
        self._watched_at = 0
        self._shift_ms = 0.0
        self._troubles: list[Fault] = []
        self._failure: str | None = None

    # what the rig does

    async def send(self, frame: Float32) -> None:
        """Put the next 20 ms behind the last. Raises `InfrastructureError` once the session is
        over, `ValueError` for a frame of another shape."""
        if frame.shape != (self._frame_n,):
            raise ValueError(f"send: expected a frame of shape ({self._frame_n},), got "
                             f"{frame.shape}")
        if self._failure is not None:
            raise InfrastructureError(self._failure)
        if self._zero_n is None:
            self._zero_n = self._bridge.done_n + self._lead_n
        try:
            late_n = self._bridge.play(self._zero_n + self._sent_n, frame)
        except ValueError:
            # The card has all but stopped taking samples; the watch says so within a second.
            late_n = self._frame_n
        if self._correction.source == "reference_channel":
            self._remember(frame)
        self._sent_n += self._frame_n
        self._account(late_n, frame)

    async def events(self) -> AsyncIterator[AgentEvent]:
        """What the agent says, in pieces of 20 ms, and everything that is logged; the last event
        is the fault that ended the session."""
        for event in self._opening():
            yield event
        while True:
            for event in self._news():
                yield event
            if self._failure is not None:
                yield Fault(self._clock.now_ns(), "infrastructure", self._failure)
                return
            await self._clock.sleep_until(self._clock.now_ns() + POLL_NS)

    def cue(self, name: str) -> None:
        """Nothing: a real system is told nothing of the schedule."""

    # what happens between

    def _account(self, late_n: int, frame: Float32) -> None:
        if not late_n:
            self._late_frames = 0
            return
        lost_n = int(np.count_nonzero(frame[:late_n]))
        self._lost_sound_n += lost_n
        lost_ms = self._lost_sound_n * 1000 / self._rate_hz
        if lost_ms > MAX_HOLE_MS:
            self._end(f"{lost_ms:.1f} ms of user sound came too late for the sound card, expected "
                      f"at most {MAX_HOLE_MS:g} ms; a longer --set lead_ms helps")
        elif lost_n or not self._late_frames:
            self._troubles.append(Fault(
                self._clock.now_ns(), "transparent",
                f"a user frame came {late_n * 1000 / self._rate_hz:.1f} ms too late for the sound "
                f"card; {lost_n * 1000 / self._rate_hz:.1f} ms of sound were not played"))
        self._late_frames += 1

    def _end(self, reason: str) -> None:
        self._failure = self._failure or reason

    def _opening(self) -> list[AgentEvent]:
        log = list(self._bridge.log)[-FRAMES_PER_S * 2:]
        round_trip_ms = self._correction.samples * 1000 / self._rate_hz
        t_ns = 0
        found: list[AgentEvent] = [
            StateChanged(t_ns, "sound_card", json.dumps(self._stream.facts())),
            StateChanged(t_ns, "round_trip", json.dumps({
                "ms": round(round_trip_ms, 3), "source": self._correction.source,
                "reported_ms": round(reported_round_trip_ms(log), 3) if log else None}))]
        if self._correction.source == "reported":
            found.append(StateChanged(
                t_ns, "uncalibrated", "the round trip is what the card says of itself; measure it "
                "with rig calibrate-card"))
        return found

    def _news(self) -> list[AgentEvent]:
        now_ns = self._clock.now_ns()
        found: list[AgentEvent] = list(self._troubles)
        self._troubles.clear()
        # `list` of a deque holds the interpreter's lock: the audio thread cannot append meanwhile.
        log = list(self._bridge.log)
        found += self._watch(log, now_ns)
        if self._zero_n is not None:
            found += self._heard(self._zero_n)
            found += self._reference(self._zero_n)
            found += self._timing(log, self._zero_n, now_ns)
        if now_ns >= self._clock_due_ns:
            self._judge_rate([c for c in log if c.first_n >= self._clean_from_n])
            found += self._clock_facts(log, now_ns)
            self._clock_due_ns = now_ns + CLOCK_LOG_NS
        return found

    def _watch(self, log: list[Callback], now_ns: int) -> list[AgentEvent]:
        found: list[AgentEvent] = []
        for callback in reversed(log):
            if callback.first_n < self._seen_n:
                break
            if callback.flags & XRUN:
                self._xruns += 1
                names = xrun_names(callback.flags)
                if self._xruns > self._max_xruns:
                    self._end(f"the sound card reported an xrun ({names}): user and agent are "
                              "shifted against each other by an unknown amount; a longer --set "
                              "latency_ms helps")
                    break
                found.append(Fault(now_ns, "transparent", f"xrun {self._xruns} of at most "
                                   f"{self._max_xruns}: {names}"))
        self._seen_n = self._bridge.done_n if not log else log[-1].first_n + log[-1].frames_n
        silent_ns = rig_now_ns(self._clock) - log[-1].rig_ns if log else 0
        if not self._stream.active:
            self._end("the sound card's stream ended by itself: the device is gone or was taken")
        elif silent_ns > s_to_ns(STALL_S):
            self._end(f"the sound card has exchanged nothing for {silent_ns / NS_PER_S:.1f} s: the "
                      "device is gone")
        return found

    def _heard(self, zero_n: int) -> list[AgentEvent]:
        """Whole pieces of what came in since the last call, stamped with the user's time."""
        found: list[AgentEvent] = []
        first_n = zero_n + self._correction.samples
        while self._bridge.done_n >= first_n + self._given_n + self._frame_n:
            at_n = first_n + self._given_n
            piece = self._bridge.take(at_n, at_n + self._frame_n)
            if piece is None:
                self._end("the rig read the sound card's input too slowly: samples were "
                          "overwritten")
                break
            found.append(AudioReceived(n_to_ns(self._given_n, self._rate_hz),
                                       np.ascontiguousarray(piece[:, 0])))
            self._given_n += self._frame_n
        return found

    def _remember(self, frame: Float32) -> None:
        """Keep the first frames of every second, for the watch on the reference channel."""
        k = self._sent_n // self._frame_n
        if k % FRAMES_PER_S == 0:
            self._watched, self._watched_at = [], k
        if k - self._watched_at == len(self._watched) < WATCH_FRAMES:
            self._watched.append(frame)

    def _reference(self, zero_n: int) -> list[AgentEvent]:
        """Where the remembered user sound is on the reference channel, once it must have come."""
        margin_n = WATCH_SEARCH_MS * self._rate_hz // 1000
        at_n = zero_n + self._watched_at * self._frame_n + self._correction.samples
        end_n = at_n + WATCH_FRAMES * self._frame_n + margin_n
        if len(self._watched) < WATCH_FRAMES or self._bridge.done_n < end_n:
            return []
        sent, self._watched = np.concatenate(self._watched), []
        level = float(np.sqrt(np.mean(sent.astype(np.float64) ** 2)))
        heard = self._bridge.take(at_n - margin_n, end_n)
        if heard is None or level < 10 ** (WATCH_MIN_DB / 20):
            return []
        found = find(np.ascontiguousarray(heard[:, 1]), sent)
        if found is None:
            self._end("the user's own sound is not where it was on the reference channel: the card "
                      f"shifted by more than {WATCH_SEARCH_MS} ms, or the channel is cut off")
            return []
        before_ms = self._shift_ms
        self._shift_ms = (found.at_n - margin_n) * 1000 / self._rate_hz
        if abs(self._shift_ms) > MAX_SHIFT_MS:
            self._end(f"the card shifted by {self._shift_ms:.1f} ms during the session (reference "
                      f"channel), expected at most {MAX_SHIFT_MS:g} ms")
        if abs(self._shift_ms - before_ms) < 0.1:
            return []
        return [StateChanged(self._clock.now_ns(), "reference_shift", f"{self._shift_ms:.2f} ms")]

    def _timing(self, log: list[Callback], zero_n: int, now_ns: int) -> list[AgentEvent]:
        """When frames were at the DAC, by the card's own times: for the timing certificate."""
        ends_n = zero_n + (self._timed_frames + TIMING_FRAMES) * self._frame_n
        line = None if self._bridge.done_n <= ends_n else fit(log, self._rate_hz, "dac")
        if line is None or line.source != "card":
            return []
        base_ns = base_offset_ns(log)
        firsts = np.array([c.first_n for c in log])
        received: list[int] = []
        for k in range(self._timed_frames, self._timed_frames + TIMING_FRAMES):
            end_n = zero_n + (k + 1) * self._frame_n
            at = log[max(0, int(np.searchsorted(firsts, end_n, "right")) - 1)]
            received.append(round(base_ns + at.dac_s * NS_PER_S
                                  + (end_n - at.first_n) * NS_PER_S / self._rate_hz))
        first, self._timed_frames = self._timed_frames, self._timed_frames + TIMING_FRAMES
        return [StateChanged(now_ns, PEER_FRAMES,
                             json.dumps({"first": first, "received_ns": received}))]

    def _clock_facts(self, log: list[Callback], now_ns: int) -> list[AgentEvent]:
        facts: dict[str, Any] = {"callbacks_n": len(log), "xruns_n": self._xruns}
        origin_ns = self._clock.origin_ns or 0
        for which in ("adc", "dac"):
            line = fit(log, self._rate_hz, which)
            if line is not None:
                # Where the line is at the session's sample 0, on the session's clock.
                at_zero_ns = line.offset_ns - origin_ns + round(
                    (self._zero_n or 0) * NS_PER_S / self._rate_hz * (1 + line.drift_ppm / 1e6))
                facts[which] = {**line.facts(), "offset_ns": line.offset_ns - origin_ns,
                                "user_zero_ms": round(at_zero_ns / NS_PER_MS, 3)}
        return [StateChanged(now_ns, "card_clock", json.dumps(facts))] if len(facts) > 2 else []

    def _judge_rate(self, log: list[Callback]) -> None:
        """`log`: of the steady stream alone; software devices stumble before."""
        line = fit(log, self._rate_hz, "adc")
        if line is None:
            return
        longer = line.drift_ppm / 1e6
        if abs(longer) * (log[-1].rig_ns - log[0].rig_ns) > MAX_GAINED_MS * NS_PER_MS:
            self._end(f"the sound card exchanges {self._rate_hz / (1 + longer):.0f} samples a "
                      f"second, expected {self._rate_hz}: all times would be wrong; another --set "
                      "rate_hz may be its own")
