"""Edges of detected speech found in line noise: where the spectrum rises out of the noise.

The network's spans are padded, answer once in 32 ms, and in noise begin up to 0.4 s late. Around
each edge the power in `BANDS_HZ` is compared with that of the noise between the words, so that a
final "s" is heard that in the whole band lies under the noise.

Definition:

- Power of `BANDS_HZ` in Hann windows of 20 ms every 8 ms, kept in half decibels.
- Noise: the median power of each band over the channel's quiet windows, those with no probability
  of speech of `QUIET_BELOW` or more within `QUIET_AWAY_S`; breaths and clicks do not count.
- Rise of a window: the sum of `r - 1 - ln r` over the bands with `r > 1`, `r` being the power, mean
  of three windows, over the noise: the log-likelihood ratio of a noise that has grown (Sohn et al.,
  "A statistical model-based voice activity detection", IEEE Signal Processing Letters, 1999). A
  window is active when its rise is above `LEAST_RISE` and above that of 80 % of the quiet windows,
  and its power less than 35 dB below that of the speech in the second inside the edge
  (`audio.edges`).
- The start is that of the run of active windows (24 ms and more) at the detected start, and runs
  before it at most `CHAIN_MS` away belong to it. Further than `NEAR_MS` outside the detected
  start only windows count that are less than `FAR_BELOW_DB` below the speech and stand above the
  noise, so that a breath before the words is none of them. Where such sound goes on beyond
  `START_OUTSIDE_MS` the start is not told. The end is the mirror image.
- An edge never lies further inside than the detector is known to err (`START_INSIDE_MS`,
  `END_INSIDE_MS`), whatever the noise covers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audio.buffers import Float32
from audio.edges import ACTIVE_RANGE_DB, EDGE_BELOW_LEVEL_DB, runs_of
from audio.silero_graph import FRAME_N
from audio.timebase import ANALYSIS_RATE_HZ

BANDS_HZ = (100, 400, 700, 1000, 1400, 1800, 2300, 2800, 3300, 3900, 5000, 6200, 7800)
"""Borders. Ours: the telephone band in nine, its upper half in parts that a fricative fills; above
it three for wide-band speech."""
WINDOW_N = 320
HOP_N = 128
"""8 ms; four to a frame of the detector."""
QUIET_BELOW = 0.1
QUIET_AWAY_S = 0.4
"""Ours: longer than the detector's latest start in noise, 0.36 s."""
LEAST_QUIET_N = 125
"""1 s of quiet windows; with less nothing is known of the noise."""
QUIET_SHARE = 0.8
LEAST_RISE = 1.3
"""Ours: the rise of stationary noise, white or pink, is below 1.3 in 97 % of its windows and below
1.8 in 99 %."""
NOISE_MEDIAN = 0.9
"""Median over mean of the power of stationary noise in one band (a few bins of one window)."""
MIN_RUN_N = 3
CHAIN_MS = 60
"""Ours: the closure of a stop inside a word is shorter in fluent speech."""
NEAR_MS = 100
FAR_BELOW_DB = 20.0
"""Ours: breaths lie 30 dB and more under the speech, vowels that the detector misses within 15."""
START_OUTSIDE_MS = 500
END_OUTSIDE_MS = 250
START_INSIDE_MS = 32
"""One frame inside the detector's own edge, before padding: its starts are 13 ms late and more
(docs/vad.md, pad 0)."""
END_INSIDE_MS = 60
"""Its ends are 19 to 61 ms late (docs/vad.md, pad 0). On a real call the sound ends up to 114 ms
before them; the bound holds there too."""

_POWER = np.concatenate(([0.0], 10 ** ((np.arange(1, 256) - 255) / 20))).astype(np.float32)
"""Power of each step: 0 is nothing, 255 full scale."""
_TOGETHER_N = 128
"""Windows taken together: what is worked out in between stays in the processor's cache."""
_SPEECH = 0.5
_LEVEL_N = 125
"""1 s inside the edge gives the level of the speech there."""
_SAMPLE_N = 20_000
"""As many quiet windows at most are looked at for the threshold: bounds memory for hours."""
_LEAST_NOISE_DB = 60.0
"""Noise further under the speech than this is taken to lie there: what a resampler leaves in empty
bands says nothing."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A sample at 16 kHz, and whether it lies on the bound that the detector's error sets: the
    sound begins later or ends earlier, or noise covers it."""

    at_n: int
    bounded: bool


class BandPowers:
    """The powers of one channel, taken piece by piece.

    Window `k` covers the samples `[k * HOP_N - 192, k * HOP_N + 128)` of the channel; before it
    lies silence.
    """

    def __init__(self) -> None:
        self._held = np.zeros(WINDOW_N - HOP_N, np.float32)
        self._hann = np.hanning(WINDOW_N + 2)[1:-1].astype(np.float32)
        hz = np.fft.rfftfreq(WINDOW_N, 1 / ANALYSIS_RATE_HZ)
        self._borders = np.searchsorted(hz, BANDS_HZ)
        self._scale = np.float32(2 / (float((self._hann ** 2).sum()) * WINDOW_N))

    def push(self, x16k: Float32) -> NDArray[np.uint8]:
        """Float32 `(n,)` at 16 kHz, `n` a multiple of `HOP_N`; gives uint8 `(n / HOP_N, bands)`:
        half decibels under full scale, 255 for 0 dB and 0 for nothing."""
        if len(x16k) % HOP_N:
            raise ValueError(f"expected whole hops of {HOP_N} samples, got {len(x16k)}")
        whole = np.concatenate([self._held, x16k])
        self._held = whole[len(whole) - (WINDOW_N - HOP_N):]
        out = np.empty((len(x16k) // HOP_N, len(BANDS_HZ) - 1), np.uint8)
        if not len(x16k):
            return out
        windows = np.lib.stride_tricks.sliding_window_view(whole, WINDOW_N)[::HOP_N]
        for at in range(0, len(windows), _TOGETHER_N):
            out[at:at + _TOGETHER_N] = self._steps(windows[at:at + _TOGETHER_N])
        return out

    def _steps(self, windows: Float32) -> NDArray[np.uint8]:
        spectrum = np.fft.rfft(windows * self._hann, axis=1)
        # Not as a product of matrices: its threads would wait busily, and take a core for nothing.
        each = spectrum.real ** 2 + spectrum.imag ** 2
        power = self._scale * np.add.reduceat(each, self._borders, axis=1)[:, :-1]
        steps = np.rint(255 + 20 * np.log10(power + np.float32(1e-14)))
        return np.asarray(np.clip(steps, 0, 255), np.uint8)


class BandEdges:
    """Edges of one channel.

    Args:
        bands: uint8 `(windows, bands)` of `BandPowers`.
        probabilities: float32 `(windows / 4,)`, the detector's.
        ignored: True for each of the detector's frames in which what is heard is not this side.
    """

    def __init__(self, bands: NDArray[np.uint8], probabilities: Float32,
                 ignored: NDArray[np.bool_] | None = None) -> None:
        per_frame = FRAME_N // HOP_N
        if len(bands) != per_frame * len(probabilities):
            raise ValueError(f"expected {per_frame} windows a frame, got {len(bands)} for "
                             f"{len(probabilities)} frames")
        self._bands = bands
        self._ignored = (np.zeros(len(bands), np.bool_) if ignored is None
                         else np.repeat(ignored, per_frame))
        self._noise: Float32 | None = None
        self._rise = 0.0
        self._known: dict[tuple[bool, int, int], Edge | None] = {}
        self._learn(probabilities, per_frame)

    @property
    def usable(self) -> bool:
        """Is the noise between the words known? Without it no edge is found."""
        return self._noise is not None

    def _learn(self, probabilities: Float32, per_frame: int) -> None:
        """Noise and threshold from the quiet windows."""
        away = round(QUIET_AWAY_S * ANALYSIS_RATE_HZ / FRAME_N)
        near = np.convolve(probabilities >= QUIET_BELOW, np.ones(2 * away + 1), "same") > 0
        quiet = np.repeat(~near[:len(probabilities)], per_frame) & ~self._ignored
        at = np.flatnonzero(quiet[:-2] & quiet[1:-1] & quiet[2:]) + 1 if len(quiet) > 2 else (
            np.zeros(0, np.int64))
        speech = np.flatnonzero(np.repeat(probabilities >= _SPEECH, per_frame) & ~self._ignored)
        if len(at) < LEAST_QUIET_N or not len(speech):
            return
        at, speech = (k[np.linspace(0, len(k) - 1, min(len(k), _SAMPLE_N)).astype(np.int64)]
                      for k in (at, speech))
        level = _level(_POWER[self._bands[speech]].sum(axis=1))
        noise = np.median(_POWER[self._bands[at]], axis=0) / NOISE_MEDIAN
        self._noise = np.maximum(noise, level * 10 ** (-_LEAST_NOISE_DB / 10)).astype(np.float32)
        smooth = (_POWER[self._bands[at - 1]] + _POWER[self._bands[at]]
                  + _POWER[self._bands[at + 1]]) / 3
        self._rise = max(LEAST_RISE, float(np.quantile(_rise(smooth, self._noise), QUIET_SHARE)))

    def start(self, detected_n: int, not_before_n: int) -> Edge | None:
        """The start of speech that the detector begins (before padding) at sample `detected_n`;
        `None` where the sound does not tell it. Never before `not_before_n`."""
        return self._found(False, detected_n, not_before_n)

    def end(self, detected_n: int, not_after_n: int) -> Edge | None:
        """The end of speech that the detector ends (before padding) at sample `detected_n`;
        `None` where the sound does not tell it. Never after `not_after_n`."""
        return self._found(True, detected_n, not_after_n)

    def _found(self, end: bool, detected_n: int, limit_n: int) -> Edge | None:
        if self._noise is None:
            return None
        # The same edge is asked for under many settings.
        outside_n = round((END_OUTSIDE_MS if end else START_OUTSIDE_MS) * ANALYSIS_RATE_HZ / 1000)
        limit_n = (min(limit_n, detected_n + outside_n) if end
                   else max(limit_n, detected_n - outside_n, 0))
        key = (end, detected_n, limit_n)
        if key not in self._known:
            self._known[key] = self._search(end, detected_n, limit_n)
        return self._known[key]

    def _search(self, end: bool, detected_n: int, limit_n: int) -> Edge | None:
        # Windows by their middle; reversed for an end, so that outside is always before.
        edge = _window_at(detected_n)
        if end:
            first, past = edge - _LEVEL_N, min(len(self._bands), _window_at(limit_n))
        else:
            first, past = max(0, _window_at(limit_n)), edge + _LEVEL_N
        first, past = max(0, first), min(len(self._bands), past)
        if not first <= edge < past:
            return None
        assert self._noise is not None
        power = _POWER[self._bands[first:past]]
        ignored = self._ignored[first:past]
        place = edge - first
        if end:
            power, ignored, place = power[::-1], ignored[::-1], past - 1 - edge
        level = _level(power.sum(axis=1)[place:])
        found = self._outermost(power, ignored, place, level)
        if found is None:
            return None
        at = _middle(past - 1 - found if end else first + found)
        # The middle of a window may lie just outside of where it may be looked.
        at = min(at, limit_n) if end else max(at, limit_n)
        inside_ms = END_INSIDE_MS if end else START_INSIDE_MS
        inside_n = round(inside_ms * ANALYSIS_RATE_HZ / 1000)
        bound = detected_n - inside_n if end else detected_n + inside_n
        bounded = at < bound if end else at > bound
        return Edge(bound if bounded else at, bounded)

    def _outermost(self, power: Float32, ignored: NDArray[np.bool_], edge: int,
                   level: float) -> int | None:
        """The first window of the speech that begins around window `edge`."""
        assert self._noise is not None
        smooth = power.copy()
        smooth[1:-1] = (power[:-2] + power[1:-1] + power[2:]) / 3
        total = power.sum(axis=1)
        active = ((_rise(smooth, self._noise) > self._rise) & ~ignored
                  & (total > level * 10 ** (-EDGE_BELOW_LEVEL_DB / 10)))
        near = max(0, edge - _windows(NEAR_MS))
        loud = total > level * 10 ** (-FAR_BELOW_DB / 10) + float(self._noise.sum())
        active[:near] &= loud[:near]
        runs = [(int(a), int(b)) for a, b in runs_of(active) if b - a >= MIN_RUN_N]
        at = [a for a, b in runs if b > edge]
        outside = [(a, b) for a, b in runs if b <= edge]
        if at:
            found = at[0]
        elif outside:
            found = outside.pop()[0]
        else:
            return None
        for begin, past in reversed(outside):
            if found - past > _windows(CHAIN_MS):
                break
            found = begin
        return found or None


def _rise(smooth: NDArray[Any], noise: Float32) -> NDArray[np.float64]:
    ratio = np.maximum(smooth.astype(np.float64) / noise, 1.0)
    return np.asarray((ratio - 1 - np.log(ratio)).sum(axis=1))


def _level(power: Float32) -> float:
    """Mean power of the windows within `ACTIVE_RANGE_DB` of the loudest; 0 for none."""
    if not len(power):
        return 0.0
    return float(power[power >= power.max() * 10 ** (-ACTIVE_RANGE_DB / 10)].mean())


def _windows(milliseconds: float) -> int:
    return round(milliseconds * ANALYSIS_RATE_HZ / 1000 / HOP_N)


def _middle(window: int) -> int:
    """The sample in the middle of a window."""
    return max(0, (window + 1) * HOP_N - WINDOW_N // 2)


def _window_at(sample: int) -> int:
    """The window whose middle lies nearest to a sample."""
    return round((sample + WINDOW_N // 2) / HOP_N) - 1
