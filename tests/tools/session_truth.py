"""What a session's own record knows of its turns: to compare with what is found in its recording.

User speech is the schedule's, from construction, less the pauses inside sentences: the schedule
knows turns and their parts, a rendered sentence also stops at its commas, for 0.3 s and more. They
are told by the power of the clean speech (`audio.edges`). Model speech is what arrived, placed by
the playout model of the `hold` track: for every response its first and its last sample that is not
exactly zero (simulated agents send exact zeros around what they say). No detector takes part.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from audio.buffers import Float32
from audio.edges import HOP_MS, MIN_RUN_WINDOWS, WINDOW_MS, active_windows, runs_of
from audio.files import read_channel
from audio.spans import Spans
from audio.timebase import NS_PER_MS, n_to_ns
from rig.record import SessionRecord
from rig.tracks import make_track

HEARD_AS_ONE_NS = 300 * NS_PER_MS
"""Silences below it are bridged (`merge_gap_s`)."""
ALSO_HEARD_NS = 30 * NS_PER_MS
"""Two ways to tell where a sound ends differ by so much: silences so near to the limit may be
bridged or not."""


@dataclass(frozen=True)
class SessionTruth:
    """Seconds are of the session clock, which is the recording's. `user`: silences bridged that are
    shorter than `HEARD_AS_ONE_NS` by more than `ALSO_HEARD_NS`. `model`: one span a response."""

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
    stereo = run / "rec" / record.stereo.path
    user = _heard(read_channel(stereo, 0), record.rate_hz, Spans.of(
        piece for turn in record.turns for piece in turn.speech_n))
    return SessionTruth(record, stereo,
                        user.merge_gaps(HEARD_AS_ONE_NS - ALSO_HEARD_NS),
                        _model(run, record).merge_gaps(HEARD_AS_ONE_NS))


def as_bridged(user: Spans, found: Spans) -> Spans:
    """`user` with the silences that may be bridged or not as they are in `found`."""
    out = list(user.items[:1])
    for start, end in user.items[1:]:
        silence_ns = start - out[-1][1]
        either = silence_ns < HEARD_AS_ONE_NS + ALSO_HEARD_NS
        if either and found.at((start + out[-1][1]) // 2) is not None:
            out[-1] = (out[-1][0], end)
        else:
            out.append((start, end))
    return Spans(tuple(out))


def _heard(samples: Float32, rate_hz: int, pieces: Spans) -> Spans:
    """The pieces of speech (samples), cut where they are silent inside, ns."""
    out = []
    for first_n, past_n in pieces:
        runs = runs_of(active_windows(samples[first_n:past_n], rate_hz))
        runs = runs[runs[:, 1] - runs[:, 0] >= MIN_RUN_WINDOWS]
        edges_n = [first_n + round((k * HOP_MS + WINDOW_MS / 2) * rate_hz / 1000)
                   for k in runs.ravel()[1:-1]]
        cut = [first_n, *edges_n, past_n]
        out += [(n_to_ns(a, rate_hz), n_to_ns(b, rate_hz))
                for a, b in zip(cut[::2], cut[1::2], strict=True)]
    return Spans.of(out)


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
