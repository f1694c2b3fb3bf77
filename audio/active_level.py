"""Active speech level: how loud speech is while it is spoken, pauses left out.

Definition: ITU-T P.56 (12/2011), method B, with its constants: the envelope is |x|
smoothed twice with a time constant of 30 ms; for each of 15 thresholds, a factor of 2 apart, a
sample is active while the envelope is at the threshold or was within the last 200 ms; the active
level is the energy over the active time at the threshold that lies 15.9 dB below it, found by
interpolation in dB between the two thresholds around it.

One deviation, ours: the thresholds are placed relative to the signal's own long-term level and not
to full scale, so that a gain of g dB moves the result by exactly g dB (with fixed ones by up to
0.1 dB more or less; by up to 1.1 dB, measured, where two turns lie 20 dB apart).

Levels are in dBov: 0 dB is the power of a full-scale square wave, as in P.56 and ITU-T G.100.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audio.buffers import Float32
from audio.timebase import s_to_n

TIME_CONSTANT_S = 0.03
HANGOVER_S = 0.2
MARGIN_DB = 15.9
THRESHOLDS_N = 15
_PLACED_AT = 10 ** (-26 / 20)
"""The long-term level at which the thresholds 2**-15 to 2**-1 lie as they do in the software tools
of ITU-T G.191, whose speech is at -26 dBov."""
_BLOCK_N = 256


@dataclass(frozen=True, slots=True)
class ActiveLevel:
    """`level_dbov` over the active time, `activity` (0 to 1) its share of the whole."""

    level_dbov: float
    activity: float


def active_level(samples: Float32, rate_hz: int) -> ActiveLevel | None:
    """Active level of `samples`, float32 `(frames,)`, finite; `None` for digital silence.

    A signal that is never active by the definition (a few clicks) is taken as active throughout.
    """
    x = np.asarray(samples, dtype=np.float64)
    total = float(np.square(x).sum())
    if total == 0.0:
        return None
    scale = _PLACED_AT / float(np.sqrt(total / len(x)))
    envelope = _smoothed(_smoothed(np.abs(x) * scale, rate_hz), rate_hz)
    hangover_n = s_to_n(HANGOVER_S, rate_hz)
    energy = total * scale * scale
    levels: list[float] = []
    margins: list[float] = []
    for power in range(-THRESHOLDS_N, 0):
        active_n = _active_n(envelope >= 2.0**power, hangover_n)
        if active_n == 0:
            break
        levels.append(10 * float(np.log10(energy / active_n)))
        margins.append(levels[-1] - 20 * float(np.log10(2.0**power)))
    level = _at_margin(levels, margins, fallback=10 * float(np.log10(energy / len(x))))
    activity = energy / len(x) / 10 ** (level / 10)
    return ActiveLevel(level - 20 * float(np.log10(scale)), min(1.0, activity))


def rms_dbov(samples: Float32) -> float | None:
    """Power over the whole of `samples` in dBov; `None` for digital silence or no samples."""
    power = float(np.square(samples, dtype=np.float64).mean()) if len(samples) else 0.0
    return None if power == 0.0 else 10 * float(np.log10(power))


def _at_margin(levels: list[float], margins: list[float], fallback: float) -> float:
    """The level where it lies `MARGIN_DB` above its threshold. Margins fall with the threshold."""
    for j in range(1, len(levels)):
        if margins[j - 1] > MARGIN_DB >= margins[j]:
            part = (margins[j - 1] - MARGIN_DB) / (margins[j - 1] - margins[j])
            return levels[j - 1] + part * (levels[j] - levels[j - 1])
    return fallback


def _active_n(above: NDArray[np.bool_], hangover_n: int) -> int:
    """Samples at the threshold, or less than `hangover_n` + 1 after one that was."""
    change = np.flatnonzero(np.diff(np.concatenate(([False], above, [False])).astype(np.int8)))
    if not change.size:
        return 0
    starts, ends = change[::2], change[1::2]
    gaps = np.concatenate((starts[1:], [len(above)])) - ends
    return int((ends - starts).sum() + np.minimum(gaps, hangover_n).sum())


def _smoothed(x: NDArray[np.float64], rate_hz: int) -> NDArray[np.float64]:
    """`y[n] = g*y[n-1] + (1-g)*x[n]`: in all blocks at once as if each came after silence, then
    with what the block before has left."""
    g = float(np.exp(-1 / (rate_hz * TIME_CONSTANT_S)))
    blocks_n = -(-len(x) // _BLOCK_N)
    padded = np.zeros(blocks_n * _BLOCK_N)
    padded[: len(x)] = x
    y = np.ascontiguousarray(padded.reshape(blocks_n, _BLOCK_N).T) * (1 - g)
    for i in range(1, _BLOCK_N):
        y[i] += g * y[i - 1]
    carried = np.zeros(blocks_n)
    fade = g**_BLOCK_N
    for b in range(1, blocks_n):
        carried[b] = fade * carried[b - 1] + y[-1, b - 1]
    y += carried[None, :] * g ** np.arange(1, _BLOCK_N + 1)[:, None]
    return np.ascontiguousarray(y.T).reshape(-1)[: len(x)]
