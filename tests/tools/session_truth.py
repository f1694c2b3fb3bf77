"""What a session's own record knows of its turns: to compare with what is found in its recording.

User speech is the schedule's, from construction. Model speech is what arrived, placed by the
playout model of the `hold` track: for every response its first and its last sample that is not
exactly zero (simulated agents send exact zeros around what they say). No detector takes part.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from audio.files import read_channel
from audio.spans import Spans
from audio.timebase import NS_PER_MS, n_to_ns
from rig.record import SessionRecord
from rig.tracks import make_track

HEARD_AS_ONE_NS = 300 * NS_PER_MS
"""Gaps below it are bridged by the detector's merge gap."""


@dataclass(frozen=True)
class SessionTruth:
    """Seconds are of the session clock, which is the recording's. `model`: one span a response."""

    record: SessionRecord
    stereo: Path
    user: Spans
    model: Spans

    @property
    def recorded_ns(self) -> int:
        return n_to_ns(self.record.recorded_n, self.record.rate_hz)


def session_truths(run: Path) -> list[SessionTruth]:
    """Every recorded session of a run folder, by name."""
    return [session_truth(run, SessionRecord.model_validate_json(path.read_text()))
            for path in sorted((run / "rec").glob("*.rec.json"))]


def session_truth(run: Path, record: SessionRecord) -> SessionTruth:
    user = Spans.of((n_to_ns(a, record.rate_hz), n_to_ns(b, record.rate_hz))
                    for turn in record.turns for a, b in turn.speech_n)
    return SessionTruth(record, run / "rec" / record.stereo.path,
                        user.merge_gaps(HEARD_AS_ONE_NS),
                        _model(run, record).merge_gaps(HEARD_AS_ONE_NS))


def _model(run: Path, record: SessionRecord) -> Spans:
    if record.arrivals is None:
        return Spans()
    rate_hz = record.arrivals.rate_hz
    received = read_channel(run / "rec" / record.arrivals.path, 0)
    sounds: dict[str | None, list[tuple[int, int]]] = {}
    for piece in make_track(record, "hold").placements:
        heard = np.flatnonzero(received[piece.source_n:piece.source_n + piece.n])
        if len(heard):
            sounds.setdefault(piece.response_id, []).append(
                (piece.start_ns + n_to_ns(int(heard[0]), rate_hz),
                 piece.start_ns + n_to_ns(int(heard[-1]) + 1, rate_hz)))
    return Spans.of((pieces[0][0], pieces[-1][1]) for pieces in sounds.values())
