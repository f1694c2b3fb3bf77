"""Plays agents of known behaviour over a whole suite: what no skill at all is worth on each action.

An identical session is played once: what the session function receives (the samples of both turns,
the bounds of the schedule, and of the configuration what the agent reads) is the same for many
cases, and the verdicts of all of them are decided from one recording. Sessions run in virtual time,
a few at a time into a folder that is removed once they are measured, so the disk holds one such
batch a process.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from adapters import registry
from adapters.base import Adapter, SessionConfig
from adapters.simulated.reads import READS, as_read
from audio.errors import AudioFileError, InputError
from audio.vad import VadSettings
from probes.built import BuiltSuite
from probes.manifest import Case, Stream
from rig.activity import detected_ns
from rig.clock import loop_factory
from rig.job import Job, case_hint, job_plan, session_seed, window_end_s
from rig.ledger import dumps
from rig.orchestrator import play
from rig.record import CaseFacts, SessionRecord
from rig.recorder import absolute_windows, adapter_facts, write_session
from rig.scenes import case_params, scene_of
from rig.schedule import Bounds
from rig.store import RunFolder, make_folder
from rig.tracks import analyse_tracks, make_track, track_channel
from rig.workers import Workers
from verifiers.decide import decide
from verifiers.measurement import measure
from verifiers.scene import Action
from verifiers.thresholds import Thresholds, effective_limits
from verifiers.verdict import Outcome

AGENTS = tuple(READS)
BATCH = 16
"""Sessions measured together: one batch of the detector (`rig.activity.BATCH`)."""


@dataclass(frozen=True, slots=True)
class Shared:
    """One session, and the cases that it stands for; the first one is played."""

    cases: tuple[Case, ...]
    stream: Stream
    config: SessionConfig


@dataclass(frozen=True, slots=True)
class Batch:
    """Sessions of one agent; everything a worker process needs."""

    agent: str
    sessions: tuple[Shared, ...]
    suite_dir: Path
    bounds: Bounds
    vad: VadSettings
    thresholds: Thresholds


@dataclass(frozen=True, slots=True)
class BatchResult:
    """Outcomes by case id. `peak_bytes` is the most memory its process ever held, `None` where the
    system does not say; `disk_bytes` what its folder held."""

    agent: str
    outcomes: dict[str, Outcome]
    pid: int
    peak_bytes: int | None
    disk_bytes: int


@dataclass(frozen=True, slots=True)
class Played:
    """Outcomes by agent and case id; sessions played by agent. `peak_bytes` adds the peaks of all
    processes, this one included, so it is an upper bound; `disk_bytes` likewise."""

    outcomes: dict[str, dict[str, Outcome]]
    sessions: dict[str, int]
    peak_bytes: int | None
    disk_bytes: int


def shared_sessions(agent: str, built: BuiltSuite, cases: Sequence[Case]) -> list[Shared]:
    """The distinct sessions of an agent over some cases, in order of first use."""
    adapter = registry.create(agent, {})
    groups: dict[str, list[Case]] = {}
    configs: dict[str, SessionConfig] = {}
    for case in cases:
        config = as_read(agent, _config(case, adapter))
        stream = built.streams[case.stream_id]
        # All that `rig.orchestrator.play` is given, but what is the same for a whole suite: the
        # four fields of a `Plan`, and the configuration.
        key = dumps([stream.turn1.audio_sha256, stream.turn2.audio_sha256, window_end_s(case),
                     case.delivery.barge_in_after_s, asdict(config)])
        groups.setdefault(key, []).append(case)
        configs[key] = config
    return [Shared(tuple(found), built.streams[found[0].stream_id], configs[key])
            for key, found in groups.items()]


def _config(case: Case, adapter: Adapter) -> SessionConfig:
    return SessionConfig(case_id=case.case_id, trial=1, system_prompt=case.system_prompt,
                         seed=session_seed(case.case_id, 1), settings=adapter.settings,
                         hint=case_hint(case) if adapter.capabilities.wants_hint else None)


def play_batch(batch: Batch) -> BatchResult:
    """Play some sessions, decide all cases that they stand for, and remove the recordings."""
    adapter = registry.create(batch.agent, {})
    outcomes: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="rig-floors-") as name:
        run = RunFolder(Path(name))
        make_folder(run.rec_dir)
        records = [_play_one(run, batch, adapter, shared) for shared in batch.sessions]
        tracks = [make_track(record, "hold") for record in records]
        for shared, track, activity in zip(batch.sessions, tracks, analyse_tracks(run, tracks),
                                           strict=True):
            if isinstance(activity, AudioFileError):
                raise activity
            if track.record.interruptions():
                raise InputError.expected("an agent whose two playouts are alike",
                                          got="interruptions", where=batch.agent)
            model = detected_ns(activity, track_channel(run, track), batch.vad)
            for case in shared.cases:
                record = for_case(track.record, case)
                scene = scene_of(record, replace(track, record=record), model, batch.vad)
                action = Action(case.expected_action)
                limits = effective_limits(batch.thresholds, case_params(case.params), action)
                outcomes[case.case_id] = decide(action, measure(scene), limits).outcome
        disk_bytes = sum(p.stat().st_size for p in run.path.rglob("*") if p.is_file())
    return BatchResult(batch.agent, outcomes, os.getpid(), _peak_bytes(), disk_bytes)


def _play_one(run: RunFolder, batch: Batch, adapter: Adapter, shared: Shared) -> SessionRecord:
    case = shared.cases[0]
    job = Job(case, shared.stream, 1, batch.suite_dir, run, batch.agent, {}, "virtual",
              batch.bounds, batch.vad)
    with asyncio.Runner(loop_factory=loop_factory("virtual")) as runner:
        played = runner.run(play(job_plan(job), adapter, shared.config, vad=batch.vad,
                                 bounds=batch.bounds))
    return write_session(run, case, shared.stream, 1, shared.config.seed, adapter_facts(adapter),
                         played, "virtual")


def for_case(record: SessionRecord, case: Case) -> SessionRecord:
    """The record of the same session, had it been played for another of its cases."""
    return record.model_copy(update={
        "case_id": case.case_id,
        "case": CaseFacts.model_validate({n: getattr(case, n) for n in CaseFacts.model_fields}),
        "windows": absolute_windows(case, record.turns[1].onset_n)})


def play_floors(built: BuiltSuite, cases: Sequence[Case], *, agents: Sequence[str] = AGENTS,
                vad: VadSettings, thresholds: Thresholds, bounds: Bounds, workers: Workers,
                progress: Callable[[int, int], None] = lambda _done, _total: None) -> Played:
    """Play every agent over some cases of a suite, each distinct session once.

    Raises `InputError` for audio that has changed, and what a session raises.
    """
    built.verify_audio({case.stream_id for case in cases})
    shared = {agent: shared_sessions(agent, built, cases) for agent in agents}
    batches = [Batch(agent, tuple(found[i : i + BATCH]), built.path, bounds, vad, thresholds)
               for agent, found in shared.items() for i in range(0, len(found), BATCH)]
    outcomes: dict[str, dict[str, Outcome]] = {agent: {} for agent in agents}
    peaks: dict[int, int | None] = {os.getpid(): None}
    disk_bytes = done = 0
    total = sum(len(found) for found in shared.values())
    for batch, found in zip(batches, workers.in_order([partial(play_batch, batch)
                                                       for batch in batches]), strict=True):
        outcomes[found.agent] |= found.outcomes
        peaks[found.pid] = found.peak_bytes
        disk_bytes = max(disk_bytes, found.disk_bytes)
        done += len(batch.sessions)
        progress(done, total)
    peaks[os.getpid()] = _peak_bytes()
    known = [peak for peak in peaks.values() if peak is not None]
    return Played({agent: {c.case_id: found[c.case_id] for c in cases}
                   for agent, found in outcomes.items()},
                  {agent: len(found) for agent, found in shared.items()},
                  sum(known) if len(known) == len(peaks) else None, disk_bytes * workers.jobs)


if sys.platform == "win32":
    def _peak_bytes() -> int | None:
        return None
else:
    import resource

    def _peak_bytes() -> int | None:
        """Most memory that this process has held."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
