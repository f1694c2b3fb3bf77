"""What a self-test session says about the instrument: truth, measurements, errors, injected delays.

Definitions are at the head of `rig.selftest`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from adapters.known_peer.wire import PEER_TRUTH
from audio.buffers import Float32
from audio.files import read_analysis_channel, read_channel, write_wav_pcm16
from audio.spans import Spans
from audio.timebase import ANALYSIS_RATE_HZ, NS_PER_MS, SESSION_RATE_HZ, n_to_ns
from audio.vad import VadSettings, speech_spans
from rig.orchestrator import Played
from rig.record import StateEvent
from rig.recorder import certificate, heard_track, hold_placements
from rig.timing import TimingCertificate

Quantity = Literal["reply", "yield", "backchannel"]
Where = Literal["peer", "rig"]
METHODS = ("arrival", "energy", "vad")

MAX_MEDIAN_MS = 5.0
MAX_P95_MS = 15.0
"""Budgets on the size of the error by arrival and by energy. Ours."""
MAX_SHIFT_ERROR_MS = 5.0
"""How far the shown size of an injected delay may lie from its true one. Ours."""
ENERGY_DB = -66.0
"""Of full scale. The recorded track is exact zero where nothing is heard; the agents never fall
below -45 dB while they speak."""
STRETCH_GAP_MS = 250
"""Sound less than this apart belongs to one utterance; the agents' own pauses are longer."""
NEAR_MS = 300
"""Speech found within this of an utterance belongs to it. Detection widens it by some 50 ms."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of session. `settings` are the peer's; the injected delay is not among them."""

    name: str
    quantity: Quantity
    settings: Mapping[str, str]
    injected: Where | None = None
    delay_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Reading:
    """One quantity of one utterance: truth and measurements, `None` where not found."""

    scenario: Scenario
    truth_ms: float
    measured_ms: Mapping[str, float | None]

    def error_ms(self, method: str) -> float | None:
        """Measured minus true."""
        value = self.measured_ms[method]
        return None if value is None else value - self.truth_ms


@dataclass(frozen=True, slots=True)
class Meeting:
    """One session: what was read from it, or why nothing was."""

    scenario: Scenario
    readings: tuple[Reading, ...]
    timing: TimingCertificate | None
    problem: str | None = None


def session_window_ns(played: Played) -> tuple[int, int]:
    """The whole session: no frame of it may be very late."""
    return 0, n_to_ns(len(played.user), SESSION_RATE_HZ)


def measure(scenario: Scenario, played: Played, path: Path, *, keep_void: bool) -> Meeting:
    """Write the recording to `path`, read it back, and compare with the peer's truth."""
    timing = certificate(played, SESSION_RATE_HZ, session_window_ns(played))
    if timing.void and not keep_void:
        return Meeting(scenario, (), timing, f"void: {timing.void_reason}")
    truths = [json.loads(e.detail) for e in played.events
              if isinstance(e, StateEvent) and e.name == PEER_TRUTH]
    model = heard_track(played, SESSION_RATE_HZ)
    write_wav_pcm16(path, np.column_stack([played.user, model]), SESSION_RATE_HZ)
    stretches = energy_stretches_ns(read_channel(path, 1), SESSION_RATE_HZ)
    spans = speech_spans(read_analysis_channel(path, 1)[0], VadSettings()).to_ns(ANALYSIS_RATE_HZ)
    arrivals = [arrival_edges_ns(played, truth["response_id"]) for truth in truths]
    if len(stretches) != len(truths) or None in arrivals:
        return Meeting(scenario, (), timing, f"the peer said {len(truths)} utterances, "
                      f"{len(stretches)} stretches of sound were recorded")
    readings = []
    for truth, stretch, arrival in zip(truths, stretches, arrivals, strict=True):
        assert arrival is not None
        edges = {"arrival": arrival, "energy": stretch, "vad": _span_near(spans, stretch)}
        reading = _reading(scenario, truth, edges, played)
        if reading is not None:
            readings.append(reading)
    problem = None if readings else "nothing of what is tested was said"
    return Meeting(scenario, tuple(readings), timing, problem)


def arrival_edges_ns(played: Played, response_id: str) -> tuple[int, int] | None:
    """When the first and the last sample that is not zero of a response were heard."""
    source = np.concatenate(played.received) if played.received else np.zeros(0, np.float32)
    edges: list[int] = []
    for p in hold_placements(played, SESSION_RATE_HZ):
        if p.response_id != response_id:
            continue
        sound = np.flatnonzero(source[p.source_n : p.source_n + p.n])
        if sound.size:
            edges += [p.start_ns + n_to_ns(int(sound[0]), SESSION_RATE_HZ),
                      p.start_ns + n_to_ns(int(sound[-1]) + 1, SESSION_RATE_HZ)]
    return (min(edges), max(edges)) if edges else None


def energy_stretches_ns(track: Float32, rate_hz: int) -> list[tuple[int, int]]:
    """Stretches of milliseconds above `ENERGY_DB`, joined across gaps below `STRETCH_GAP_MS`."""
    window_n = rate_hz // 1000
    windows = track[: len(track) // window_n * window_n].reshape(-1, window_n)
    power = (windows.astype(np.float64) ** 2).mean(axis=1)
    active = np.flatnonzero(power > 10 ** (ENERGY_DB / 10))
    if not active.size:
        return []
    spans = Spans.of((int(i), int(i) + 1) for i in active).merge_gaps(STRETCH_GAP_MS)
    return [(start * NS_PER_MS, end * NS_PER_MS) for start, end in spans]


def _span_near(spans: Spans, stretch: tuple[int, int]) -> tuple[int, int] | None:
    """First onset and last end of the speech found where `stretch` lies."""
    margin_ns = NEAR_MS * NS_PER_MS
    near = [(a, b) for a, b in spans if a < stretch[1] + margin_ns and b > stretch[0] - margin_ns]
    return (near[0][0], near[-1][1]) if near else None


def _reading(scenario: Scenario, truth: Mapping[str, Any],
             edges: Mapping[str, tuple[int, int] | None], played: Played) -> Reading | None:
    turn2_onset_ns = n_to_ns(played.turn2_onset_n, SESSION_RATE_HZ)
    true_ms = truth[{"reply": "latency_ms", "yield": "yield_ms",
                     "backchannel": "length_ms"}[scenario.quantity]]
    if true_ms is None:
        return None
    first = (edges["arrival"] or (0, 0))[0] < turn2_onset_ns
    user_end_ns = n_to_ns(played.turn1_end_n if first else played.turn2_end_n, SESSION_RATE_HZ)

    def measured_ms(edge: tuple[int, int]) -> float:
        since_ns = {"reply": edge[0] - user_end_ns, "yield": edge[1] - turn2_onset_ns,
                    "backchannel": edge[1] - edge[0]}[scenario.quantity]
        return since_ns / NS_PER_MS

    return Reading(scenario, true_ms, {
        method: None if edge is None else measured_ms(edge) for method, edge in edges.items()})


@dataclass(frozen=True, slots=True)
class Errors:
    """Error of one method in milliseconds. `bias` is signed; `median` and `p95` are of its size."""

    n: int
    bias_ms: float
    p5_ms: float
    p95_signed_ms: float
    median_ms: float
    p95_ms: float

    @classmethod
    def of(cls, errors_ms: Sequence[float]) -> Errors | None:
        """`None` for no errors at all."""
        if not errors_ms:
            return None
        signed = sorted(errors_ms)
        size = sorted(abs(e) for e in errors_ms)
        return cls(len(signed), _rank(signed, 0.5), _rank(signed, 0.05), _rank(signed, 0.95),
                   _rank(size, 0.5), _rank(size, 0.95))


def _rank(ordered: Sequence[float], q: float) -> float:
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)]


def errors(readings: Sequence[Reading], method: str) -> Errors | None:
    """Over all readings that the method could make."""
    return Errors.of([e for r in readings if (e := r.error_ms(method)) is not None])


@dataclass(frozen=True, slots=True)
class Shift:
    """An injected delay and the size at which it was seen, by arrival."""

    where: Where
    injected_ms: float
    shown_ms: float | None

    @property
    def good(self) -> bool:
        return (self.shown_ms is not None
                and abs(self.shown_ms - self.injected_ms) <= MAX_SHIFT_ERROR_MS)


def shifts(readings: Sequence[Reading]) -> tuple[Shift, ...]:
    """For each injected delay: bias with it less bias of the same agent without it."""
    found = []
    for scenario in dict.fromkeys(r.scenario.name for r in readings if r.scenario.injected):
        with_delay = [r for r in readings if r.scenario.name == scenario]
        chosen = with_delay[0].scenario
        without = [r for r in readings if r.scenario.injected is None
                   and r.scenario.settings == chosen.settings]
        a, b = errors(with_delay, "arrival"), errors(without, "arrival")
        assert chosen.injected is not None
        found.append(Shift(chosen.injected, chosen.delay_ms,
                           None if a is None or b is None else a.bias_ms - b.bias_ms))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Summary:
    """The outcome. `failures` says in words what lies outside the budgets."""

    by_method: Mapping[str, Errors | None]
    shifts: tuple[Shift, ...]
    failures: tuple[str, ...]
    problems: tuple[str, ...]


def summarise(tested: Sequence[Meeting], *, max_median_ms: float = MAX_MEDIAN_MS,
              max_p95_ms: float = MAX_P95_MS) -> Summary:
    """Errors of the sessions without an injected delay, and the delays as they were seen."""
    readings = [r for t in tested for r in t.readings]
    clean = [r for r in readings if r.scenario.injected is None]
    by_method = {method: errors(clean, method) for method in METHODS}
    failures: list[str] = []
    for method in ("arrival", "energy"):
        found = by_method[method]
        if found is None:
            failures.append(f"by {method}: nothing was measured")
            continue
        for name, value, limit in (("median", found.median_ms, max_median_ms),
                                   ("p95", found.p95_ms, max_p95_ms)):
            if value > limit:
                failures.append(f"by {method}: {name} error {value:.1f} ms, budget {limit:g} ms")
    seen = shifts(readings)
    failures += [f"{s.injected_ms:g} ms injected into the {s.where} were seen as "
                 f"{'nothing' if s.shown_ms is None else f'{s.shown_ms:.1f} ms'}"
                 for s in seen if not s.good]
    problems = tuple(f"{t.scenario.name}: {t.problem}" for t in tested if t.problem is not None)
    return Summary(by_method, seen, tuple(failures), problems)
