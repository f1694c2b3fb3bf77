"""Is the recorded track where the model's audio was? Three comparisons with what is known apart.

- Sample for sample with a recomputation of `hold` from the session's own arrival log, written here
  from the definition (play_start = max(arrival, end of what is queued)) and from nothing of ours.
- In time with the peer: a loopback server on this machine says when it handed each piece to its
  socket, on the clock that the rig reads too. Or, where it has a clock of its own (a sound card),
  when each reply began, on that clock and from the first sound of the user that it heard.
- The flush point with the moment at which the server said that the user interrupts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import soundfile
import stalls
from fault_suite import FaultSuite, Seen, play_plays
from faults import PeerLog, Plays, Subject
from session_harness import spoken

from audio.buffers import Float32
from audio.resample import resample
from audio.timebase import n_to_ns
from rig.record import AudioEvent, InterruptedEvent, SessionRecord
from rig.tracks import make_track

NS = 10**9
RATE_HZ = 24_000
TRACK_MS, FLUSH_MS = 5.0, 20.0
"""Bounds of the project: p95 against the peer's clock, and the flush point."""


def hold_again(arrivals: list[tuple[int, int]], source: Float32, rate_hz: int,
               track_n: int) -> np.ndarray:
    """The `hold` track, int16, 24 kHz: `arrivals` are (nanoseconds, samples of `source`).

    A stretch begins on the sample next to its arrival and goes on without a gap while what arrives
    comes before what is queued has been heard. A stretch at another rate is resampled as a whole.
    """
    stretches: list[tuple[int, list[Float32]]] = []
    end, taken = Fraction(0), 0
    for t_ns, n in arrivals:
        if not stretches or t_ns > end:
            end = Fraction(t_ns)
            stretches.append((round(end * RATE_HZ / NS), []))
        stretches[-1][1].append(source[taken:taken + n])
        end, taken = end + Fraction(n * NS, rate_hz), taken + n
    track = np.zeros(track_n, dtype=np.int16)
    for at_n, pieces in stretches:
        whole = np.concatenate(pieces)
        heard = whole if rate_hz == RATE_HZ else resample(whole, rate_hz, RATE_HZ)
        room = track[at_n:at_n + len(heard)]
        room[:] = np.clip(np.rint(heard[:len(room)] * 32768.0), -32768, 32767)
    return track


def arrivals_of(record: SessionRecord) -> list[tuple[int, int]]:
    return [(e.t_ns, e.n) for e in record.events if isinstance(e, AudioEvent) and e.n]


def output_rate_hz(record: SessionRecord) -> int:
    return int(record.adapter.capabilities["output_rate_hz"])


def differing_samples(suite: FaultSuite, seen: Seen) -> int:
    """Samples in which the track on disk is not the recomputed one."""
    record, played = seen.record, seen.result.played
    assert record is not None
    assert played is not None
    stereo, rate_hz = soundfile.read(suite.run.rec_dir / record.stereo.path, dtype="int16")
    assert rate_hz == RATE_HZ
    source = np.concatenate([np.zeros(0, dtype=np.float32), *played.received])
    again = hold_again(arrivals_of(record), source, output_rate_hz(record), len(stereo))
    return int((again != stereo[:, 1]).sum())


@dataclass(frozen=True)
class Shown:
    """Milliseconds. `lag`: of every piece, from the server's hand to the rig's stamp; `place`: of
    every piece, from where it would be heard by the server's clock to where it was recorded, the
    declared delay taken off."""

    adapter: str
    pieces_n: int
    differing_n: int
    lag_p95_ms: float | None
    """`None` of a peer that does not read this machine's clock, and behind a jitter buffer."""
    place_p95_ms: float
    loop_lag_p95_ms: float
    """How late this process came back to its sender, meanwhile: its share of the machine."""
    flush_ms: float | None
    flush_end_ms: float | None
    """From the flush point to the end of what is heard of the reply under `flush`."""
    rate_hz: int
    """Of the agent's audio: what is heard ends on one of its samples."""


def _placed(arrivals: list[tuple[int, int]], rate_hz: int) -> np.ndarray:
    """Start of every piece in nanoseconds, by the definition of `hold`."""
    starts, end = [], 0.0
    for t_ns, n in arrivals:
        starts.append(max(float(t_ns), end))
        end = starts[-1] + n * NS / rate_hz
    return np.array(starts)


def _by_its_clock(sent: list[tuple[int, int]], rate_hz: int) -> np.ndarray:
    """Start of every piece by the clock of a sender that paces them: what was handed over late is
    not meant to be heard late. Where more than half a second passes it begins anew."""
    at_ns = np.array([t_ns for t_ns, _ in sent], dtype=np.float64)
    before_ns = np.cumsum([0, *(n for _, n in sent[:-1])]) * (NS / rate_hz)
    runs = np.split(np.arange(len(sent)), np.flatnonzero(np.diff(at_ns) > NS / 2) + 1)
    return np.concatenate([before_ns[run] + (at_ns - before_ns)[run].min() for run in runs])


def compared(sent: list[tuple[int, int]], came: list[tuple[int, int]], rate_hz: int,
             placed: Callable[[list[tuple[int, int]], int], np.ndarray] = _placed,
             ) -> tuple[np.ndarray, np.ndarray]:
    """Of every piece that came: from the server's hand to the rig, and from the place that its
    first sample has by the server's clock to the one that it has by the rig's; nanoseconds.

    Pieces may be cut otherwise on the way: samples are counted.
    """
    sent_end = np.cumsum([n for _, n in sent])
    came_end = np.cumsum([n for _, n in came])
    came_from = came_end - [n for _, n in came]
    assert came_end[-1] <= sent_end[-1]  # what was sent while the session closed is not recorded
    with_last = np.searchsorted(sent_end, came_end)
    lag_ns = np.array([t for t, _ in came]) - np.array([t for t, _ in sent])[with_last]
    with_first = np.searchsorted(sent_end, came_from, side="right")
    begun = sent_end - [n for _, n in sent]
    there = placed(sent, rate_hz)[with_first] + (came_from - begun[with_first]) * (NS / rate_hz)
    return lag_ns, _placed(came, rate_hz) - there


def _p95(values: np.ndarray) -> float:
    return float(np.sort(values)[max(0, int(np.ceil(0.95 * len(values))) - 1)])


def show(subject: Subject, folder: Path) -> Shown:
    """Play a calm session and, where the protocol has it, an interrupted one, each alone."""
    plays = {"calm": Plays(subject.calm)}
    if isinstance(subject.barge_in, Plays):
        plays["barge_in"] = subject.barge_in
    suite = play_plays(subject, plays, folder, at_once=1)
    calm = suite.seen["calm"]
    stalls.skip_where_void(calm.outcome.status, calm.outcome.reason)
    assert calm.outcome.status == "done", calm.outcome
    assert calm.record is not None
    assert calm.result.played is not None
    origin_ns = calm.result.played.origin_ns
    log = suite.server.peer_log("calm")
    assert log is not None
    came = arrivals_of(calm.record)
    rate_hz = output_rate_hz(calm.record)
    if log.onsets_ns:
        lag_ns = None
        onsets_ns = [t_ns for t_ns, _ in spoken(calm.result, rate_hz)]
        assert len(onsets_ns) == len(log.onsets_ns)
        place_ns = np.array(onsets_ns) - np.array(log.onsets_ns)
    else:
        lag_ns, place_ns = compared([(t_ns - origin_ns, n) for t_ns, n in log.audio], came, rate_hz,
                                    _by_its_clock if subject.jitter_ms else _placed)
        assert lag_ns.min() >= 0
        if subject.jitter_ms:  # the stamp of a piece is no longer that of its arrival
            lag_ns, place_ns = None, place_ns - subject.jitter_ms * 1e6
    flush_ms, flush_end_ms = _flush(suite) if "barge_in" in plays else (None, None)
    return Shown(subject.adapter, len(came), sum(
        differing_samples(suite, seen) for seen in suite.seen.values()),
        None if lag_ns is None else _p95(lag_ns) / 1e6, _p95(np.abs(place_ns)) / 1e6,
        _p95(np.array(calm.result.played.wake_ns)) / 1e6, flush_ms, flush_end_ms, rate_hz)


def _flush(suite: FaultSuite) -> tuple[float, float]:
    seen = suite.seen["barge_in"]
    stalls.skip_where_void(seen.outcome.status, seen.outcome.reason)
    assert seen.outcome.status == "done", seen.outcome
    assert seen.record is not None
    assert seen.result.played is not None
    stops = [e for e in seen.record.events if isinstance(e, InterruptedEvent)]
    assert len(stops) == 1
    log: PeerLog | None = suite.server.peer_log("barge_in")
    assert log is not None
    told_ns = [t_ns - seen.result.played.origin_ns for t_ns in log.interruptions]
    before = [t_ns for t_ns in told_ns if t_ns <= stops[0].t_ns]
    track = make_track(seen.record, "flush")
    first = track.placements[0].response_id
    rate_hz = output_rate_hz(seen.record)
    end_ns = max(p.start_ns + n_to_ns(p.n, rate_hz) for p in track.placements
                 if p.response_id == first and p.start_ns <= stops[0].t_ns)
    return (stops[0].t_ns - before[-1]) / 1e6, abs(end_ns - stops[0].t_ns) / 1e6
