"""What has been heard of the model so far, live: the `hold` track and the facts drawn from it.

Speech is found by the same detector as in scoring, streamed, and only while the schedule asks for
it: a system that reports the end of its responses needs no inference outside barge-ins.
"""

from __future__ import annotations

import bisect
from collections import deque

import numpy as np

from audio.buffers import Float32
from audio.resample import StreamResampler
from audio.timebase import ANALYSIS_RATE_HZ, n_to_ns, ns_to_n, s_to_ns
from audio.vad import StreamingVad, VadSettings
from rig.playout import Arrival, Placement, PlayoutQueue

REPLY_END_SILENCE_S = 1.0
"""A system without a "done" has ended its reply after this much heard silence. Ours: the yield
silence of the field study, longer than any pause inside a synthesised sentence."""


class HeardTrack:
    """Implements `rig.schedule.Heard` from arrivals, response events and streaming VAD."""

    def __init__(self, rate_hz: int, *, reports_done: bool, settings: VadSettings) -> None:
        self._rate_hz = rate_hz
        self._reports_done = reports_done
        self._settings = settings
        self._queue = PlayoutQueue(rate_hz)
        self._received_n = 0
        self._open: set[str] = set()
        self._last_done_ns: int | None = None
        self._last_audio_end_ns: int | None = None
        self._pending: deque[tuple[int, Float32]] = deque()
        self._live: LiveSpeech | None = None

    # what the receiver tells us

    def audio(self, t_ns: int, samples: Float32, response_id: str | None) -> None:
        """A chunk arrived."""
        if len(samples) == 0:
            return
        placement: Placement = self._queue.add(
            Arrival(t_ns, len(samples), response_id), self._received_n)
        self._received_n += len(samples)
        self._last_audio_end_ns = self._queue.end_ns
        self._pending.append((ns_to_n(placement.start_ns, self._rate_hz), samples))

    def response_started(self, response_id: str) -> None:
        self._open.add(response_id)

    def response_done(self, t_ns: int, response_id: str) -> None:
        self._open.discard(response_id)
        self._last_done_ns = t_ns

    # what the schedule asks

    def replying(self, now_ns: int) -> bool:
        """A response is open, or what was received has not been heard to its end."""
        return bool(self._open) or self._queue.end_ns > now_ns

    def reply_end_ns(self, after_ns: int, now_ns: int) -> int | None:
        """End of the reply that was going on or began after `after_ns`, once it is over."""
        if self.replying(now_ns):
            return None
        if self._reports_done:
            if self._last_done_ns is None:
                return None
            end_ns = max(self._last_done_ns, self._last_audio_end_ns or 0)
            return end_ns if end_ns > after_ns else None
        last_ns = self._speech(now_ns).last_speech_end_ns(now_ns)
        if last_ns is None or last_ns <= after_ns:
            return None
        return last_ns if now_ns - last_ns >= s_to_ns(REPLY_END_SILENCE_S) else None

    def onset_ns(self, after_ns: int, now_ns: int) -> int | None:
        """First confirmed onset at or after `after_ns`, as the detector places it."""
        return self._speech(now_ns).onset_after(after_ns)

    def speaking_since_before(self, t_ns: int, now_ns: int) -> bool:
        """Speech that covers `t_ns` and has not ended by now."""
        return self._speech(now_ns).speaking_through(t_ns)

    def _speech(self, now_ns: int) -> LiveSpeech:
        if self._live is None:
            self._live = LiveSpeech(self._rate_hz, self._settings)
        self._live.advance(self._pending, now_ns)
        return self._live


class LiveSpeech:
    """The heard track, streamed through the detector up to now and no further."""

    def __init__(self, rate_hz: int, settings: VadSettings) -> None:
        self._rate_hz = rate_hz
        self._resampler = StreamResampler(rate_hz, ANALYSIS_RATE_HZ, quality="HQ")
        self._vad = StreamingVad(settings)
        self._at_n = 0

    def advance(self, pending: deque[tuple[int, Float32]], now_ns: int) -> None:
        """Feed everything heard before `now_ns`; what is still queued stays in `pending`."""
        until_n = ns_to_n(now_ns, self._rate_hz)
        parts: list[Float32] = []
        while self._at_n < until_n:
            if not pending or pending[0][0] >= until_n:
                parts.append(np.zeros(until_n - self._at_n, dtype=np.float32))
                self._at_n = until_n
                break
            start_n, samples = pending.popleft()
            # Rounding of run starts may overlap a neighbour by one sample; the earlier one wins.
            samples = samples[max(0, self._at_n - start_n):]
            start_n = max(start_n, self._at_n)
            if start_n > self._at_n:
                parts.append(np.zeros(start_n - self._at_n, dtype=np.float32))
            taken = samples[: until_n - start_n]
            parts.append(taken)
            self._at_n = start_n + len(taken)
            if len(taken) < len(samples):
                pending.appendleft((self._at_n, samples[len(taken):]))
        if parts:
            self._vad.push(self._resampler.push(np.concatenate(parts)))

    def onset_after(self, t_ns: int) -> int | None:
        """Onset in nanoseconds, or `None` while none is confirmed."""
        onset_n = self._vad.onset_after(ns_to_n(t_ns, ANALYSIS_RATE_HZ))
        return None if onset_n is None else n_to_ns(onset_n, ANALYSIS_RATE_HZ)

    def last_speech_end_ns(self, now_ns: int) -> int | None:
        """End of the latest speech, `now_ns` while it goes on, `None` before any."""
        spans = list(self._vad.spans_so_far())
        if not spans:
            return None
        if self._vad.speaking:
            return now_ns
        return n_to_ns(spans[-1][1], ANALYSIS_RATE_HZ)

    def speaking_through(self, t_ns: int) -> bool:
        """Whether the speech that covers `t_ns` is still going on."""
        spans = list(self._vad.spans_so_far())
        if not spans or not self._vad.speaking:
            return False
        starts = [start for start, _ in spans]
        index = bisect.bisect_right(starts, ns_to_n(t_ns, ANALYSIS_RATE_HZ)) - 1
        return index == len(spans) - 1 and index >= 0
