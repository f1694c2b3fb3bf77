"""Edges of detected speech moved to where the energy rises and falls.

The network answers once in 32 ms, and its spans are padded: a start may lie in silence, an end
behind it. Around each edge the sound itself is looked at.

Definition, the windows and levels of `audio.edges`:

- Power in windows of 5 ms every 1 ms. The level of a span is the mean power of its windows within
  30 dB of the loudest.
- A window is active when it lies less than 35 dB below that level and more than `NOISE_MARGIN_DB`
  above the noise beside the edge: the median power of up to 300 ms outside the reach.
- The start becomes the centre of the first window of the first run of at least 8 active windows
  that begins within `OUTSIDE_MS` before and `INSIDE_MS` after the detected start; the end is the
  mirror image.
- Where there is no such run, or it goes on beyond the reach, the energy does not tell where the
  speech begins: the detected edge stays.

Only edges move. Which sounds belong to one span is the detector's word; a span never shrinks to
nothing or reaches its neighbour.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from audio.buffers import Float32
from audio.edges import (
    ACTIVE_RANGE_DB,
    EDGE_BELOW_LEVEL_DB,
    HOP_MS,
    MIN_RUN_WINDOWS,
    WINDOW_MS,
    runs_of,
    window_power,
)
from audio.spans import Spans
from audio.timebase import ANALYSIS_RATE_HZ

OUTSIDE_MS = 250
"""How far outside the detected edge is looked. Ours: quiet speech is detected up to 190 ms late
(docs/instrument.md); less than the gap between two spans."""
INSIDE_MS = 250
"""How far inside. Ours: the padding, and ends up to 170 ms late (docs/agents.md)."""
NOISE_MS = 300
LEAST_NOISE_MS = 50
"""Less than this beside an edge says nothing of the noise. Ours."""
NOISE_MARGIN_DB = 6.0
"""Ours: windows of 5 ms of white noise spread by 0.7 dB, of a narrow band by about 3."""

_HOP_N = round(ANALYSIS_RATE_HZ * HOP_MS / 1000)
_WINDOW_N = round(ANALYSIS_RATE_HZ * WINDOW_MS / 1000)
_Power = NDArray[np.float64]


def refined(x16k: Float32, spans: Spans, *, onset: bool = True, offset: bool = True) -> Spans:
    """The same spans with their starts (`onset`) and ends (`offset`) moved.

    Args:
        x16k: float32 `(n,)` at 16 kHz, the channel in which `spans` were detected.
        spans: merged spans, in samples at 16 kHz, inside the channel.
    """
    if not spans or not (onset or offset):
        return spans
    power = window_power(x16k, _WINDOW_N, _HOP_N)
    out: list[tuple[int, int]] = []
    for index, (start_n, end_n) in enumerate(spans):
        before_n = out[-1][1] if out else 0
        after_n = spans.items[index + 1][0] if index + 1 < len(spans) else len(x16k)
        span_power = power[-(-start_n // _HOP_N):end_n // _HOP_N]
        if not span_power.size or span_power.max() <= 0.0:
            out.append((start_n, end_n))
            continue
        loud = span_power[span_power >= span_power.max() * 10 ** (-ACTIVE_RANGE_DB / 10)]
        threshold = float(loud.mean()) * 10 ** (-EDGE_BELOW_LEVEL_DB / 10)
        new_start_n, new_end_n = start_n, end_n
        if onset:
            found = _first_active(power, start_n, before_n, end_n, threshold)
            new_start_n = start_n if found is None else found
        if offset:
            # The same on the time-reversed channel: its sample k is our n - 1 - k.
            n = (len(power) - 1) * _HOP_N + _WINDOW_N
            found = _first_active(power[::-1], n - end_n, n - after_n, n - start_n, threshold)
            new_end_n = end_n if found is None else n - found
        if before_n < new_start_n < new_end_n or (not out and 0 <= new_start_n < new_end_n):
            out.append((new_start_n, new_end_n))
        else:
            out.append((start_n, end_n))
    return Spans(tuple(out))


def _first_active(power: _Power, edge_n: int, from_n: int, to_n: int,
                  threshold: float) -> int | None:
    """Where sound begins around `edge_n`, not before `from_n` nor after `to_n`; in samples."""
    first = max(0, -(-from_n // _HOP_N), (edge_n // _HOP_N) - round(OUTSIDE_MS / HOP_MS))
    last = min(len(power), to_n // _HOP_N, (edge_n // _HOP_N) + round(INSIDE_MS / HOP_MS))
    beside = power[max(0, -(-from_n // _HOP_N), first - round(NOISE_MS / HOP_MS)):first]
    if beside.size >= round(LEAST_NOISE_MS / HOP_MS):
        threshold = max(threshold, float(np.median(beside)) * 10 ** (NOISE_MARGIN_DB / 10))
    active = power[first:last] > threshold
    runs = runs_of(active)
    # A run at the border of the reach has begun outside it, unless the recording begins there.
    for begin, past in runs:
        if past - begin < MIN_RUN_WINDOWS:
            continue
        if begin == 0 and first > 0:
            return None
        return (first + int(begin)) * _HOP_N + _WINDOW_N // 2
    return None
