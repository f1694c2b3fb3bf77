"""Live speech detection: what the detector says of a channel that is still being heard.

In virtual time a channel is advanced where it is asked (`InlineChannel`): deterministic, and time
stands still meanwhile. In real time inference would make frames late, so channels are advanced by
one worker thread (`LiveDetection`), all that wait in one batched step, and a question gets the
newest finished answer, with the moment up to which it holds. onnxruntime gives the interpreter's
lock free while it works; docs/realtime.md has the measurement of thread against process.
"""

from __future__ import annotations

import bisect
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

import numpy as np

from audio.buffers import Float32
from audio.errors import InfrastructureError
from audio.resample import StreamResampler
from audio.silero import load_model
from audio.spans import Spans
from audio.timebase import ANALYSIS_RATE_HZ, NS_PER_MS, n_to_ns, ns_to_n, s_to_ns
from audio.vad import StreamingVad, VadSettings, push_together

STEP_PERIOD_S = 0.06
"""The worker starts a step at most this often: about two detector frames a channel, so that steps
are batches and not single calls. Ours (docs/realtime.md)."""
MAX_BEHIND_S = 1.0
"""A worker further behind makes the session an infrastructure error. Ours: the first decision that
hangs on live detection comes 1.0 s after the speech it is about (end of a reply), barge-ins 2.0 s
and more."""

Pending = deque[tuple[int, Float32]]
"""What has been received and not been taken yet: (sample at which it is heard, samples)."""


@dataclass(frozen=True, slots=True)
class Speech:
    """What is known of a channel up to `as_of_ns`."""

    as_of_ns: int = 0
    spans: Spans = Spans()  # noqa: RUF009 - immutable
    """Confirmed speech in samples at 16 kHz."""
    speaking: bool = False

    def onset_after(self, t_ns: int) -> int | None:
        """Onset in nanoseconds, or `None` while none is confirmed."""
        t_n = ns_to_n(t_ns, ANALYSIS_RATE_HZ)
        onset_n = next((start for start, _ in self.spans if start >= t_n), None)
        return None if onset_n is None else n_to_ns(onset_n, ANALYSIS_RATE_HZ)

    def last_speech_end_ns(self) -> int | None:
        """End of the latest speech, `as_of_ns` while it goes on, `None` before any."""
        if not self.spans:
            return None
        if self.speaking:
            return self.as_of_ns
        return n_to_ns(self.spans.items[-1][1], ANALYSIS_RATE_HZ)

    def speaking_through(self, t_ns: int) -> bool:
        """Whether the speech that covers `t_ns` is still going on."""
        if not self.spans or not self.speaking:
            return False
        starts = [start for start, _ in self.spans]
        index = bisect.bisect_right(starts, ns_to_n(t_ns, ANALYSIS_RATE_HZ)) - 1
        return index == len(starts) - 1 and index >= 0


class Channel(Protocol):
    """One live channel."""

    def advance(self, pending: Pending, now_ns: int) -> Speech:
        """Take everything heard before `now_ns` out of `pending`; what is known by now."""
        ...

    @property
    def most_behind_ns(self) -> int | None:
        """The longest that an answer lagged behind its question, `None` where none can."""
        ...


class _Heard:
    """Cuts the heard track, silence included, out of what was received: gapless, in order."""

    def __init__(self, rate_hz: int) -> None:
        self._rate_hz = rate_hz
        self._at_n = 0

    def until(self, pending: Pending, now_ns: int) -> Float32 | None:
        """Samples from where the last call ended to `now_ns`; later ones stay in `pending`."""
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
        return np.concatenate(parts) if parts else None


class InlineChannel:
    """Advanced where it is asked, for virtual time."""

    most_behind_ns: int | None = None

    def __init__(self, rate_hz: int, settings: VadSettings) -> None:
        self._heard = _Heard(rate_hz)
        self._resampler = StreamResampler(rate_hz, ANALYSIS_RATE_HZ, quality="HQ")
        self._vad = StreamingVad(settings)

    def advance(self, pending: Pending, now_ns: int) -> Speech:
        heard = self._heard.until(pending, now_ns)
        if heard is not None:
            self._vad.push(self._resampler.push(heard))
        return Speech(now_ns, self._vad.spans_so_far(), self._vad.speaking)


class LiveDetection:
    """The channels of one process, advanced by one worker thread. Used as a context."""

    def __init__(self) -> None:
        load_model()  # here, and not at the first question inside a session
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._closed = threading.Event()
        self._waiting: list[LiveChannel] = []
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="live-detection")
        self._worker: Future[None] | None = None

    def channel(self, rate_hz: int, settings: VadSettings) -> LiveChannel:
        """A new channel of samples at `rate_hz`."""
        return LiveChannel(self, rate_hz, settings)

    def post(self, channel: LiveChannel) -> None:
        """`channel` has something to take. Raises what the worker has died of."""
        if self._closed.is_set():
            raise InfrastructureError("live speech detection has ended")
        if self._worker is None:
            self._worker = self._executor.submit(self._work)
        if self._worker.done():
            self._worker.result()
        with self._lock:
            if channel not in self._waiting:
                self._waiting.append(channel)
        self._news.set()

    def _work(self) -> None:
        while not self._closed.is_set():
            self._news.wait()
            self._news.clear()
            with self._lock:
                channels, self._waiting = self._waiting, []
            if channels:
                step(channels)
                self._closed.wait(STEP_PERIOD_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._closed.set()
        self._news.set()
        self._executor.shutdown(wait=True, cancel_futures=True)


class LiveChannel:
    """Advanced by the worker; asked and fed by the event loop."""

    def __init__(self, detection: LiveDetection, rate_hz: int, settings: VadSettings) -> None:
        self._detection = detection
        self._heard = _Heard(rate_hz)
        self._posted: deque[tuple[int, Float32]] = deque()
        self._speech = Speech()
        self._unanswered: deque[int] = deque()
        self.most_behind_ns: int | None = 0
        # The worker's own:
        self.resampler = StreamResampler(rate_hz, ANALYSIS_RATE_HZ, quality="HQ")
        self.vad = StreamingVad(settings)

    def advance(self, pending: Pending, now_ns: int) -> Speech:
        """Raises `InfrastructureError` when the worker has fallen behind or died."""
        heard = self._heard.until(pending, now_ns)
        if heard is not None:
            self._posted.append((now_ns, heard))
            self._unanswered.append(now_ns)
            self._detection.post(self)
        speech = self._speech
        while self._unanswered and self._unanswered[0] <= speech.as_of_ns:
            self._unanswered.popleft()
        behind_ns = now_ns - self._unanswered[0] if self._unanswered else 0
        self.most_behind_ns = max(self.most_behind_ns or 0, behind_ns)
        if behind_ns > s_to_ns(MAX_BEHIND_S):
            raise InfrastructureError(f"live speech detection is {behind_ns // NS_PER_MS} ms "
                                      f"behind, expected at most {MAX_BEHIND_S * 1000:g} ms")
        return speech

    def take(self) -> tuple[int, Float32] | None:
        """The worker takes all that was posted: up to which moment, and the samples."""
        parts: list[Float32] = []
        as_of_ns = 0
        while self._posted:
            as_of_ns, part = self._posted.popleft()
            parts.append(part)
        return (as_of_ns, np.concatenate(parts)) if parts else None

    def answer(self, as_of_ns: int) -> None:
        """The worker publishes what is known now."""
        self._speech = Speech(as_of_ns, self.vad.spans_so_far(), self.vad.speaking)


def step(channels: list[LiveChannel]) -> None:
    """Advance the channels together by what each has been given."""
    taken = [(channel, *piece) for channel in channels if (piece := channel.take()) is not None]
    push_together([channel.vad for channel, _, _ in taken],
                  [channel.resampler.push(samples) for channel, _, samples in taken])
    for channel, as_of_ns, _ in taken:
        channel.answer(as_of_ns)
