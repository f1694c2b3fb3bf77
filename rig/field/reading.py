"""Stretches of one channel of a recording, in order, without the rest of it in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from audio.buffers import Float32
from audio.recording import Recording
from audio.spans import Interval
from audio.timebase import NS_PER_S


def read_stretches(file: Recording, channel: int,
                   stretches: Sequence[Interval]) -> Iterator[tuple[Interval, Float32]]:
    """Each stretch (ns, sorted, disjoint) that the file holds a sample of, with its samples at the
    file's own rate; what is not finite is 0. Raises `AudioFileError`."""
    rate_hz, frames_n = file.info.rate_hz, file.info.frames_n
    wanted = ((stretch, (stretch[0] * rate_hz // NS_PER_S,
                         min(stretch[1] * rate_hz // NS_PER_S, frames_n)))
              for stretch in stretches)
    left = iter([(stretch, n) for stretch, n in wanted if n[0] < n[1]])
    now = next(left, None)
    held: list[Float32] = []
    for at, block in file.decode(0, frames_n):
        samples = block[:, channel]
        while now is not None and now[1][0] < at + len(samples):
            stretch, (first, past) = now
            held.append(np.nan_to_num(samples[max(0, first - at):past - at], nan=0.0, posinf=0.0,
                                      neginf=0.0))
            if past > at + len(samples):
                break
            yield stretch, np.concatenate(held)
            held, now = [], next(left, None)
