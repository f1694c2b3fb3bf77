"""Where detected speech really begins and ends: edges from the sound, or the detector's corrected.

`refined` looks at the sound around each edge (`audio.band_edges`). Where the sound tells nothing,
and under `detector` everywhere, the detector's edge is corrected by its measured bias, that of
clean speech at the default threshold: see `START_LATE_NS` and `END_LATE_NS`. `bare` leaves the
edges as they are, for the figure that other tools give.
"""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Placed:
    """Every span of the detector between its corrected edges, ns, before pauses are bridged.

    silences_ns: how long the silence before each is heard; where the sound fills the pause, how
    long the detector's is. bounded: whether its start and its end rest on the detector: not told by
    the sound, or on the bound (`audio.band_edges.Edge`).
    """

    items: tuple[Interval, ...]
    silences_ns: tuple[int, ...]
    bounded: tuple[tuple[bool, bool], ...]

    def bridged(self, gap_ns: int) -> tuple[Spans, int]:
        """Speech with silences shorter than `gap_ns` bridged, and how many of the edges that are
        left rest on the detector.

        Silences as heard: the detector's are some 70 ms shorter, and a reply in one that is bridged
        would begin inside speech.
        """
        out: list[Interval] = []
        bounded_n = 0
        end_bounded = False
        for span, silence_ns, (first, last) in zip(self.items, self.silences_ns, self.bounded,
                                                   strict=True):
            # Settings without least lengths may leave spans that meet.
            if out and (silence_ns < gap_ns or span[0] <= out[-1][1]):
                out[-1] = (out[-1][0], max(out[-1][1], span[1]))
                bounded_n += last - end_bounded
            else:
                out.append(span)
                bounded_n += first + last
            end_bounded = last
        return Spans(tuple(out)), bounded_n


def placed(spans: Spans, vad: VadSettings, edges: BandEdges | None, samples_n: int, *,
           bare: bool = False) -> Placed:
    """Spans of the detector (samples at 16 kHz, none merged) with their edges corrected. Of `vad`
    the pad alone counts."""
    items = spans.items
    silences_ns = [n_to_ns(start_n - (items[k - 1][1] if k else 0), ANALYSIS_RATE_HZ)
                   for k, (start_n, _) in enumerate(items)]
    if bare:
        return Placed(spans.to_ns(ANALYSIS_RATE_HZ).items, tuple(silences_ns),
                      ((False, False),) * len(items))
    start_ns, end_ns = edges_late_ns(vad)
    pad_n = round(vad.speech_pad_ms * ANALYSIS_RATE_HZ / 1000)
    moved: list[Interval] = []
    bounded: list[tuple[bool, bool]] = []
    for k, (start_n, end_n) in enumerate(items):
        start = max(0, n_to_ns(start_n, ANALYSIS_RATE_HZ) - start_ns)
        end = n_to_ns(end_n, ANALYSIS_RATE_HZ) - end_ns
        first = last = False
        before_n = items[k - 1][1] if k else 0
        if edges is not None:
            found = edges.start(start_n + pad_n, before_n)
            if found is not None:
                start = n_to_ns(found.at_n, ANALYSIS_RATE_HZ)
            first = found is None or found.bounded
            found = edges.end(end_n - pad_n, items[k + 1][0] if k + 1 < len(items) else samples_n)
            if found is not None:
                end = n_to_ns(found.at_n, ANALYSIS_RATE_HZ)
            last = found is None or found.bounded
        if moved:
            begun, ended = moved[-1]
            if start > ended:
                silences_ns[k] = start - ended
            else:
                # Sound fills the pause between them: it is the detector's.
                ended = max(n_to_ns(before_n, ANALYSIS_RATE_HZ) - end_ns, begun + _LEAST_NS)
                start = n_to_ns(start_n, ANALYSIS_RATE_HZ) - start_ns
                moved[-1] = (begun, ended)
                bounded[-1] = (bounded[-1][0], True)
                first = True
        moved.append((start, max(end, start + _LEAST_NS)))
        bounded.append((first, last))
    return Placed(tuple(moved), tuple(silences_ns), tuple(bounded))
