"""Real time: how late frames are with many sessions and live speech detection, and how far off a
measured latency is.

    python bench/bench_realtime.py [--json] [--sessions N ...] [--repeats K] [--rounds R]

Sessions run on one event loop against the known peer, which is another process of this machine and
talks without a pause; the system does not report the end of a response, so the schedule asks live
speech detection with every frame once turn 1 is over. Recordings are written while other sessions
run. On the same loop runs a reference client that sleeps 20 ms after each frame: what a client
without absolute deadlines would have done at that moment on that machine.

Errors of latency are those of `rig selftest`. The load average of the machine stands in the table:
a busy machine makes everything late.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from adapters.base import SessionConfig
from adapters.known_peer.adapter import PEER
from adapters.known_peer.launch import started
from audio.errors import InfrastructureError
from audio.synthesis import DEFAULT_ENGINE
from audio.timebase import FRAME_NS, NS_PER_MS, NS_PER_S, SESSION_RATE_HZ
from audio.vad import VadSettings
from probes.expand import expand, select
from probes.loader import load_suite
from probes.manifest import Case, Stream
from probes.render import build_suite, load_built
from rig.clock import SessionClock, loop_factory, punctual
from rig.handover import SessionWriter
from rig.job import Job, job_plan
from rig.live import LiveDetection
from rig.orchestrator import Played, play
from rig.recorder import adapter_facts, certificate
from rig.rendering import EngineRenderer
from rig.schedule import FRAME_N, Bounds, Plan
from rig.selftest import run, scenarios
from rig.selftest_readings import Errors, Reading, errors, summarise
from rig.settings import load_average
from rig.store import RunFolder
from rig.timing import drift_ppm

BUDGETS_MS = {16: (3.0, None), 60: (10.0, 30.0)}
"""Sessions: lateness p99 and p99.9 (issue)."""
DRIFT_BUDGET_PPM = 10.0
CASE = "R1-C1-1-L2"
SPREAD_S = 3.0
"""Sessions begin over this time, so that some end, and are written, while others run."""
REFERENCE_S = 25.0
BOUNDS = Bounds(turn2_reply_s=25.0)
"""The peer talks on to this bound, and live detection listens. Sessions of 50 s: the slope of a
shorter one says less than the budget asks for."""


@dataclass(frozen=True, slots=True)
class Ran:
    """One run: lateness of all frames in milliseconds, and of the reference client's."""

    late_ms: np.ndarray
    drifts_ppm: tuple[float, ...]
    peer_drifts_ppm: tuple[float, ...]
    lag_ms: float
    behind_ms: float
    void_n: int
    failed_n: int
    reference_ms: np.ndarray


@dataclass(frozen=True, slots=True)
class Work:
    """What every session plays: one case of the built-in suite."""

    case: Case
    stream: Stream
    plan: Plan


def one_case(folder: Path) -> Work:
    """Renders the case."""
    suite = load_suite("dsb-ifeval")
    build_suite(suite, folder, EngineRenderer(DEFAULT_ENGINE),
                select=select(expand(suite), ("L2",), f"case={CASE}"))
    built = load_built(folder)
    case, = built.cases
    stream = built.streams[case.stream_id]
    return Work(case, stream, job_plan(Job(
        case, stream, 1, folder, RunFolder(folder), "peer", {}, "real", BOUNDS, VadSettings())))


def play_many(url: str, sessions: int, work: Work, folder: Path) -> Ran:
    """Play `sessions` sessions side by side, with the reference client beside them."""
    adapter = PEER.build(PEER.effective({"url": url, "agent": "reply", "reply_s": "60",
                                        "report_done": "false"}))
    facts = adapter_facts(adapter)
    run = RunFolder(folder)
    run.rec_dir.mkdir(parents=True, exist_ok=True)

    async def one(number: int, live: LiveDetection, writer: SessionWriter) -> Played | None:
        # The golden section spreads the phases of the frames, as connecting to a network does.
        await asyncio.sleep(SPREAD_S * (number * 0.618034 % 1.0))
        config = SessionConfig(f"bench{number}", 1, "", number)
        try:
            played = await play(work.plan, adapter, config, vad=VadSettings(), live=live,
                                bounds=BOUNDS)
        except InfrastructureError:
            return None  # a machine too busy to play at all; counted
        await writer.write(run, work.case, work.stream, number, number, facts, played)
        return played

    played: list[Played] = []
    references: list[np.ndarray] = []

    async def together() -> None:
        # Nothing is returned: asyncio's runner writes a result out as text, which takes seconds.
        with LiveDetection() as live, SessionWriter() as writer:
            await writer.start()
            reference = asyncio.create_task(sleeping_client(url))
            ended = await asyncio.gather(*(one(i, live, writer) for i in range(sessions)))
            played.extend(p for p in ended if p is not None)
            references.append(await reference)

    with punctual(), asyncio.Runner(loop_factory=loop_factory("real")) as runner:
        runner.run(together())
    reference, = references
    timings = [certificate(p, SESSION_RATE_HZ, None) for p in played]
    return Ran(
        np.asarray([late_ns for p in played for late_ns in p.late_ns]) / NS_PER_MS,
        tuple(t.drift_ppm for t in timings if t.drift_ppm is not None),
        tuple(t.peer.drift_ppm for t in timings
              if t.peer is not None and t.peer.drift_ppm is not None),
        max((t.loop_lag_max_ms or 0.0 for t in timings), default=0.0),
        max((t.detection_behind_ms or 0.0 for t in timings), default=0.0),
        sum(t.void for t in timings), sessions - len(played), reference)


async def sleeping_client(url: str) -> np.ndarray:
    """Send, sleep 20 ms, send: lateness of each frame against the deadlines of a microphone."""
    adapter = PEER.build(PEER.effective({"url": url, "agent": "silent"}))
    clock = SessionClock()
    silence = np.zeros(FRAME_N, dtype=np.float32)
    late_ns: list[int] = []
    async with adapter.session(SessionConfig("reference", 1, "", 1), clock) as session:
        clock.start()
        for k in range(int(REFERENCE_S * NS_PER_S) // FRAME_NS):
            await asyncio.sleep(FRAME_NS / NS_PER_S)
            await session.send(silence)
            late_ns.append(clock.now_ns() - (k + 1) * FRAME_NS)
    return np.asarray(late_ns) / NS_PER_MS


def lateness_rows(sessions: int, every_run: Sequence[Ran]) -> list[dict[str, object]]:
    """What is printed of the runs with one number of sessions. A run on a machine so busy that no
    session ended has no lateness; its sessions are counted."""
    runs = [r for r in every_run if len(r.late_ms) and r.drifts_ppm and r.peer_drifts_ppm]
    p99, p999 = BUDGETS_MS.get(sessions, (None, None))
    name = f"{sessions} sessions, live VAD"

    def row(what: str, unit: str, values: list[float],
            budget: float | None = None) -> dict[str, object]:
        line: dict[str, object] = {"what": f"{name}: {what}", "unit": unit, "values": values}
        return line if budget is None else {**line, "budget": budget}

    def quantile(q: float) -> list[float]:
        return [float(np.quantile(r.late_ms, q, method="inverted_cdf")) for r in runs]

    rows = [
        row("lateness p50", "ms", quantile(0.5)),
        row("lateness p99", "ms", quantile(0.99), p99),
        row("lateness p99.9", "ms", quantile(0.999), p999),
        row("latest frame", "ms", [float(r.late_ms.max()) for r in runs]),
        row("drift, worst session", "ppm", [max(r.drifts_ppm, key=abs) for r in runs],
            DRIFT_BUDGET_PPM),
        row("drift, median session", "ppm", [float(np.median(r.drifts_ppm)) for r in runs]),
        row("drift by the peer's clock, worst session", "ppm",
            [max(r.peer_drifts_ppm, key=abs) for r in runs]),
        row("loop lag, longest", "ms", [r.lag_ms for r in runs]),
        row("live VAD behind, longest", "ms", [r.behind_ms for r in runs]),
        row("void sessions", "", [float(r.void_n) for r in runs]),
        row("sessions that did not end", "", [float(r.failed_n) for r in every_run]),
        row("sleeping client beside them: last frame late", "ms",
            [float(r.reference_ms[-1]) for r in runs]),
        row("sleeping client beside them: drift", "ppm",
            [drift_ppm(r.reference_ms) or 0.0 for r in runs]),
    ]
    return [r for r in rows if r["values"]]


def error_rows(url: str, rounds: int) -> list[dict[str, object]]:
    """Latency errors by the self-test; void sessions count for nothing."""
    with tempfile.TemporaryDirectory(prefix="bench-realtime-") as folder:
        tested = run(url, scenarios(50.0), rounds, Path(folder))
    summary = summarise(tested)
    rows: list[dict[str, object]] = []
    for method in ("arrival", "energy"):
        found = summary.by_method[method]
        if found is not None:
            rows += [
                {"what": f"error by {method}: median size of {found.n}", "unit": "ms",
                 "values": [found.median_ms], "budget": 5},
                {"what": f"error by {method}: p95 size", "unit": "ms", "values": [found.p95_ms],
                 "budget": 15}]
    clean = [r for t in tested for r in t.readings if r.scenario.injected is None]
    rows += [row for quantity in ("reply", "yield", "backchannel")
             for row in vad_rows(quantity, [r for r in clean if r.scenario.quantity == quantity])]
    rows += [{"what": f"{s.injected_ms:g} ms put into the {s.where}: seen as", "unit": "ms",
              "values": [s.shown_ms]} for s in summary.shifts if s.shown_ms is not None]
    rows.append({"what": "self-test sessions without a result (void or failed)", "unit": "",
                 "values": [len(summary.problems)]})
    return rows


def vad_rows(quantity: str, readings: Sequence[Reading]) -> list[dict[str, object]]:
    """Bias and spread of detection on one quantity."""
    found: Errors | None = errors(readings, "vad")
    if found is None:
        return []
    return [{"what": f"error by VAD, {quantity}: bias of {found.n}", "unit": "ms",
             "values": [found.bias_ms]},
            {"what": f"error by VAD, {quantity}: p5 and p95", "unit": "ms",
             "values": [found.p5_ms, found.p95_signed_ms]}]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--sessions", nargs="+", type=int, default=[16, 60])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3, help="of the self-test; 0: none")
    options = parser.parse_args()
    loads = [load_average() or 0.0]
    rows: list[dict[str, object]] = []
    with (started() as url,
          tempfile.TemporaryDirectory(prefix="bench-realtime-") as folder):
        work = one_case(Path(folder) / "suite")
        for sessions in options.sessions:
            rows += lateness_rows(sessions, [play_many(url, sessions, work, Path(folder) / "run")
                                             for _ in range(options.repeats)])
            loads.append(load_average() or 0.0)
        if options.rounds:
            rows += error_rows(url, options.rounds)
            loads.append(load_average() or 0.0)
    rows.insert(0, {"what": "load average of the machine", "unit": "", "values": loads})
    if options.json:
        sys.stdout.write(json.dumps({"bench": "realtime", "rows": rows}) + "\n")
    else:
        for row in rows:
            values = row["values"]
            assert isinstance(values, list)
            text = ", ".join(f"{v:.2f}" for v in values)
            budget = f" (budget {row['budget']:g})" if "budget" in row else ""
            sys.stdout.write(f"{row['what']}: {text} {row['unit']}{budget}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
