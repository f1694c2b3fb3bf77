"""What has been heard of the model so far, live: the `hold` track and the facts drawn from it.

Speech is found by the same detector as in scoring, streamed (`rig.live`), and only while the
schedule asks for it: a system that reports the end of its responses needs no inference outside
barge-ins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from audio.buffers import Float32
from audio.timebase import NS_PER_MS, ns_to_n, s_to_ns
from audio.vad import VadSettings
from rig.live import Channel, InlineChannel, LiveDetection, Pending, Speech
from rig.playout import Arrival, Placement, PlayoutQueue

REPLY_END_SILENCE_S = 1.0
"""A system without a "done" has ended its reply after this much heard silence. Ours: the yield
silence of the field study, longer than any pause inside a synthesised sentence."""

PIECES_PER_S = 50
"""Chunks shorter than this part of a second are put together while they wait. Ours: a frame."""


class HeardTrack:
    """Implements `rig.schedule.Heard` from arrivals, response events and streaming VAD.

    With `live` (real time) speech is detected beside the event loop, and facts about it are as of
    the newest finished answer; without it (virtual time) they are as of now.
    """

    def __init__(self, rate_hz: int, *, reports_done: bool, settings: VadSettings,
                 live: LiveDetection | None = None, behind_ms: int = 0) -> None:
        """`behind_ms`: how far stamps may lie back (`Capabilities.heard_behind_ms`)."""
        self._rate_hz = rate_hz
        self._behind_ns = behind_ms * NS_PER_MS
        self._reports_done = reports_done
        self._settings = settings
        self._detection = live
        self._queue = PlayoutQueue(rate_hz)
        self._received_n = 0
        self._open: set[str] = set()
        self._last_done_ns: int | None = None
        self._last_audio_end_ns: int | None = None
        self._pending: Pending = deque()
        self._channel: Channel | None = None
        self.listener: Callable[[int, Float32], None] | None = None
        """Told of every chunk when it will be heard, and its samples."""

    # what the receiver tells us

    def audio(self, t_ns: int, samples: Float32, response_id: str | None) -> None:
        """A chunk arrived."""
        if len(samples) == 0:
            return
        placement: Placement = self._queue.add(
            Arrival(t_ns, len(samples), response_id), self._received_n)
        self._received_n += len(samples)
        self._last_audio_end_ns = self._queue.end_ns
        self._append(ns_to_n(placement.start_ns, self._rate_hz), samples)
        if self.listener is not None:
            self.listener(placement.start_ns, samples)

    def _append(self, start_n: int, samples: Float32) -> None:
        """Tiny chunks grow together: whoever listens takes all that waits in one go, and a peer may
        send one sample at a time."""
        piece_n = self._rate_hz // PIECES_PER_S
        if self._pending and len(samples) < piece_n:
            last_n, last = self._pending[-1]
            if last_n + len(last) == start_n and len(last) < piece_n:
                self._pending[-1] = last_n, np.concatenate([last, samples])
                return
        self._pending.append((start_n, samples))

    def response_started(self, response_id: str) -> None:
        self._open.add(response_id)

    def response_done(self, t_ns: int, response_id: str) -> None:
        self._open.discard(response_id)
        self._last_done_ns = t_ns

    # what the schedule asks

    def replying(self, now_ns: int) -> bool:
        """A response is open, or what was received has not been heard to its end.

        A system without a "done" may stream silence as well (GPT-Live), so what it has queued says
        nothing: it replies while it is heard to speak, pauses included.
        """
        if self._reports_done or self._open:
            return bool(self._open) or self._queue.end_ns > now_ns
        last_ns, as_of_ns = self._last_speech(now_ns)
        return last_ns is not None and as_of_ns - last_ns < s_to_ns(REPLY_END_SILENCE_S)

    def reply_end_ns(self, after_ns: int, now_ns: int) -> int | None:
        """End of the reply that was going on or began after `after_ns`, once it is over."""
        if self.replying(now_ns):
            return None
        if self._reports_done:
            if self._last_done_ns is None:
                return None
            end_ns = max(self._last_done_ns, self._last_audio_end_ns or 0)
            return end_ns if end_ns > after_ns else None
        last_ns, _ = self._last_speech(now_ns)
        return last_ns if last_ns is not None and last_ns > after_ns else None

    def onset_ns(self, after_ns: int, now_ns: int) -> int | None:
        """First confirmed onset at or after `after_ns`, as the detector places it."""
        return self._speech(now_ns).onset_after(after_ns)

    def speaking_since_before(self, t_ns: int, now_ns: int) -> bool:
        """Speech that covers `t_ns` and has not ended by now."""
        return self._speech(now_ns).speaking_through(t_ns)

    @property
    def detection_behind_ns(self) -> int | None:
        """The longest that live detection lagged, `None` where it was not asked or cannot lag."""
        return None if self._channel is None else self._channel.most_behind_ns

    def _last_speech(self, now_ns: int) -> tuple[int | None, int]:
        """End of the latest speech, and how far has been listened: silence is known no further."""
        speech = self._speech(now_ns)
        return speech.last_speech_end_ns(), speech.as_of_ns

    def _speech(self, now_ns: int) -> Speech:
        if self._channel is None:
            self._channel = (InlineChannel(self._rate_hz, self._settings)
                             if self._detection is None
                             else self._detection.channel(self._rate_hz, self._settings))
        return self._channel.advance(self._pending, max(0, now_ns - self._behind_ns))
