"""Between the rig and the audio thread: samples by their index on the card, nothing else.

One full-duplex stream has one count of samples: the callback that hands over input samples
`[n, n + frames)` takes output samples of the same indices. A sound that leaves as output sample `o`
and comes back as input sample `i` has the round trip `i - o`, whatever any clock says; it stays the
same until the card drops or repeats something (an xrun), which the card reports.

`Bridge.exchange` is all that runs in the audio thread: two copies between rings of fixed size and
one line of a bounded log. No lock, no allocation that grows, no call of anybody else's code but the
clock's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from audio.buffers import Float32

RING_S = 2.0
"""What either ring holds. Ours: a rig that is two seconds behind has failed long before."""
LOG_CALLBACKS = 2048
"""Callbacks that are remembered: 20 s at 10 ms. Ours."""

INPUT_UNDERFLOW, INPUT_OVERFLOW, OUTPUT_UNDERFLOW, OUTPUT_OVERFLOW, PRIMING = 1, 2, 4, 8, 16
"""PortAudio's status flags (portaudio.h, `PaStreamCallbackFlags`)."""
XRUN = INPUT_UNDERFLOW | INPUT_OVERFLOW | OUTPUT_UNDERFLOW | OUTPUT_OVERFLOW
_NAMES = {INPUT_UNDERFLOW: "input underflow", INPUT_OVERFLOW: "input overflow",
          OUTPUT_UNDERFLOW: "output underflow", OUTPUT_OVERFLOW: "output overflow"}


def xrun_names(flags: int) -> str:
    """The xruns of a status word, in PortAudio's words."""
    return ", ".join(name for flag, name in _NAMES.items() if flags & flag)


@dataclass(frozen=True, slots=True)
class Callback:
    """One callback: its first sample, and what was known of time then.

    `rig_ns`: the rig's monotonic clock; `adc_s`, `dac_s`, `current_s`: PortAudio's callback time
    info, on the card's clock, in seconds.
    """

    first_n: int
    frames_n: int
    rig_ns: int
    adc_s: float
    dac_s: float
    current_s: float
    flags: int


class Bridge:
    """Two rings and a log. `now_ns` reads the rig's monotonic clock."""

    def __init__(self, rate_hz: int, now_ns: Callable[[], int], *,
                 input_columns: tuple[int, ...] = (0,), output_column: int = 0) -> None:
        """`input_columns`: the card's channels that are kept, `output_column`: the one that is
        spoken on, counted from 0."""
        self.rate_hz = rate_hz
        self._now_ns = now_ns
        self._capacity_n = int(RING_S * rate_hz)
        self._columns = list(input_columns)
        self._output_column = output_column
        self._out: Float32 = np.zeros(self._capacity_n, dtype=np.float32)
        self._in: Float32 = np.zeros((self._capacity_n, len(input_columns)), dtype=np.float32)
        self.done_n = 0
        """Samples exchanged so far, on both sides."""
        self._read_n = 0
        self.log: deque[Callback] = deque(maxlen=LOG_CALLBACKS)

    # the audio thread

    def exchange(self, indata: Any, outdata: Any, frames: int, adc_s: float, dac_s: float,
                 current_s: float, flags: int) -> None:
        """One callback: float32 `(frames, channels)` in and out."""
        now_ns = self._now_ns()
        first_n = self.done_n
        outdata.fill(0)
        done = 0
        while done < frames:
            at = (first_n + done) % self._capacity_n
            n = min(frames - done, self._capacity_n - at)
            outdata[done:done + n, self._output_column] = self._out[at:at + n]
            self._out[at:at + n] = 0
            self._in[at:at + n] = indata[done:done + n, self._columns]
            done += n
        self.done_n = first_n + frames
        self.log.append(Callback(first_n, frames, now_ns, adc_s, dac_s, current_s, flags))

    # the rig

    def play(self, at_n: int, samples: Float32) -> int:
        """Put samples on the output from card sample `at_n` on; gives how many came too late.

        What is late is not played: what follows keeps its place. Raises `ValueError` beyond the
        ring.
        """
        if at_n + len(samples) > self.done_n + self._capacity_n:
            raise ValueError(f"output sample {at_n + len(samples)} lies more than {RING_S:g} s "
                             f"ahead of the card ({self.done_n})")
        late_n = min(len(samples), max(0, self.done_n - at_n))
        self._put(at_n + late_n, samples[late_n:])
        # The audio thread may have passed meanwhile: what it did not take must not come a whole
        # ring later.
        passed_n = min(len(samples), max(0, self.done_n - at_n))
        if passed_n > late_n:
            self._put(at_n + late_n, np.zeros(passed_n - late_n, dtype=np.float32))
        return passed_n

    def _put(self, at_n: int, samples: Float32) -> None:
        done = 0
        while done < len(samples):
            at = (at_n + done) % self._capacity_n
            n = min(len(samples) - done, self._capacity_n - at)
            self._out[at:at + n] = samples[done:done + n]
            done += n

    def take(self, from_n: int, to_n: int) -> Float32 | None:
        """Input samples `[from_n, to_n)`, float32 `(n, columns)`; `None` where the card has not
        come so far or the ring has been overwritten since."""
        if to_n > self.done_n or from_n < self.oldest_n:
            return None
        parts = []
        while from_n < to_n:
            at = from_n % self._capacity_n
            n = min(to_n - from_n, self._capacity_n - at)
            parts.append(self._in[at:at + n].copy())
            from_n += n
        if from_n - sum(map(len, parts)) < self.oldest_n:
            return None
        return np.concatenate(parts) if parts else np.zeros(
            (0, self._in.shape[1]), dtype=np.float32)

    @property
    def oldest_n(self) -> int:
        """The oldest input sample that is still there."""
        return max(0, self.done_n - self._capacity_n)
