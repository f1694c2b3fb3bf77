"""Where detected speech really begins and ends: edges from the sound, or the detector's corrected.

`refined` looks at the sound around each edge (`audio.band_edges`). Where the sound tells nothing,
and under `detector` everywhere, the detector's edge is corrected by its measured bias, that of
clean speech at the default threshold: see `START_LATE_NS` and `END_LATE_NS`. `bare` leaves the
edges as they are, for the figure that other tools give.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from audio.band_edges import BandEdges
from audio.spans import Interval, Spans
from audio.timebase import ANALYSIS_RATE_HZ, NS_PER_MS, n_to_ns
from audio.vad import VadSettings
from rig.field.ingest import DETECTOR_FRAME_NS, SideFeatures
from rig.field.sounds import music, tones

Edges = Literal["refined", "detector", "bare"]

START_LATE_NS = 3 * NS_PER_MS
END_LATE_NS = 74 * NS_PER_MS
"""Median bias of the detector's edges with the default pad of 30 ms (docs/vad.md): a start is 3 ms
late, an end 74 ms. The pad moves both outwards, so another pad shifts them by the difference."""
_BIAS_PAD_MS = 30.0
_LEAST_NS = 20 * NS_PER_MS


def edges_late_ns(vad: VadSettings) -> tuple[int, int]:
    """How late the detector's starts and ends are under a setting, ns: what is taken off them."""
    pad_ns = round((vad.speech_pad_ms - _BIAS_PAD_MS) * NS_PER_MS)
    return START_LATE_NS - pad_ns, END_LATE_NS + pad_ns


def finder(side: SideFeatures, leak_frames: NDArray[np.bool_] | None) -> BandEdges:
    """What finds the edges of a side. `leak_frames`: where the other side is what is heard. Tones
    and music are no speech either."""
    ignored = np.zeros(len(side.probabilities), np.bool_) if leak_frames is None else (
        leak_frames.copy())
    for start, end in (*tones(side), *music(side)):
        ignored[start // DETECTOR_FRAME_NS:end // DETECTOR_FRAME_NS] = True
    return BandEdges(side.bands, side.probabilities, ignored)


def placed(spans: Spans, vad: VadSettings, edges: BandEdges | None, samples_n: int, *,
           bare: bool = False) -> tuple[Spans, int]:
    """Merged spans (samples at 16 kHz) with their edges corrected, nanoseconds; and how many edges
    rest on the detector: not told by the sound, or on the bound (`audio.band_edges.Edge`). Of `vad`
    the pad alone counts."""
    if bare:
        return spans.to_ns(ANALYSIS_RATE_HZ), 0
    merged = spans.items
    start_ns, end_ns = edges_late_ns(vad)
    pad_n = round(vad.speech_pad_ms * ANALYSIS_RATE_HZ / 1000)
    moved: list[Interval] = []
    bounded_n = 0
    for k, (start_n, end_n) in enumerate(merged):
        start = max(0, n_to_ns(start_n, ANALYSIS_RATE_HZ) - start_ns)
        end = n_to_ns(end_n, ANALYSIS_RATE_HZ) - end_ns
        if edges is not None:
            before_n = merged[k - 1][1] if k else 0
            after_n = merged[k + 1][0] if k + 1 < len(merged) else samples_n
            found = edges.start(start_n + pad_n, before_n)
            if found is not None:
                start = n_to_ns(found.at_n, ANALYSIS_RATE_HZ)
            bounded_n += found is None or found.bounded
            found = edges.end(end_n - pad_n, after_n)
            if found is not None:
                end = n_to_ns(found.at_n, ANALYSIS_RATE_HZ)
            bounded_n += found is None or found.bounded
            if moved and start <= moved[-1][1]:
                # Both reach into the pause between them: it is the detector's.
                last_end = n_to_ns(before_n, ANALYSIS_RATE_HZ) - end_ns
                moved[-1] = (moved[-1][0], max(last_end, moved[-1][0] + _LEAST_NS))
                start = n_to_ns(start_n, ANALYSIS_RATE_HZ) - start_ns
        moved.append((start, max(end, start + _LEAST_NS)))
    return Spans.of(moved), bounded_n
