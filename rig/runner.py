"""Plans a run: jobs, trials, resume. `rig.job` plays one, `rig.player` decides when."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from adapters import registry
from adapters.base import Adapter, Cautioned
from audio.conditions import AnyCondition
from audio.errors import InputError
from audio.vad import VadSettings
from probes.manifest import Case, Stream, SuiteInfo
from probes.render import load_built
from rig.at_a_time import capped
from rig.budget import Budget, Limits, Totals, longest_known
from rig.clock import ClockKind
from rig.job import Job, planned_s, play_beside, play_job
from rig.ledger import Attempt, Ledger, dumps, finished, latest
from rig.planned import write_streams
from rig.player import Player
from rig.prices import price_book
from rig.recorder import adapter_facts
from rig.schedule import Bounds
from rig.sent import (
    check_conditions,
    conditions_facts,
    needs_voices,
    other_voices,
)
from rig.starts import Starts, lost
from rig.store import (
    FolderLock,
    RunFolder,
    RunInfo,
    cases_text,
    differences,
    make_folder,
    remove_leftovers,
    software_versions,
)
from rig.system import adopt, check_record, read_system
from rig.tracks import checked_record
from rig.workers import Workers

DEFAULT_RETRIES = 2
"""Further attempts after an infrastructure error. Ours."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What the user asked for."""

    suite_dir: Path
    run: RunFolder
    adapter: str
    settings: dict[str, str]
    cases: tuple[Case, ...]
    trials: int = 1
    jobs: int = 1
    clock: ClockKind | None = None
    retries: int = DEFAULT_RETRIES
    resume: bool = False
    bounds: Bounds = field(default_factory=Bounds)
    vad: VadSettings = field(default_factory=VadSettings)
    conditions: tuple[AnyCondition, ...] = ()
    starts_per_minute: float | None = None
    at_a_time: int | None = None
    """What the provider lets be open together, in place of what is stated: `rig.at_a_time`."""
    seed: int | None = None
    """Of the waits between tries; nobody can foresee them without one."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """Counts over cases and trials; `failed` names what did not end in `done`; `stopped` says why
    the rest was not tried, `limit` which limit kept `n_unplayed` sessions from being begun.
    `totals` are over all attempts, earlier runs included."""

    n_planned: int
    n_skipped: int
    counts: dict[str, int]
    failed: tuple[tuple[str, int, str, str], ...]
    repaired_ledger: str | None
    interrupted: bool
    totals: Totals
    stopped: str | None = None
    limit: str | None = None
    n_unplayed: int = 0

    @property
    def complete(self) -> bool:
        return not self.failed and not self.interrupted and self.limit is None


def choose_clock(adapter: Adapter, wanted: ClockKind | None) -> ClockKind:
    """Virtual where the system allows it, unless the user says otherwise."""
    if wanted == "virtual" and adapter.capabilities.realtime_only:
        raise InputError(f"--clock virtual: adapter {adapter.name} speaks to a real peer; expected "
                         "--clock real")
    if wanted == "real" and adapter.capabilities.virtual_only:
        raise InputError(f"--clock real: adapter {adapter.name} runs in virtual time only; "
                         "expected --clock virtual")
    return wanted or ("real" if adapter.capabilities.realtime_only else "virtual")


def run_info(request: RunRequest, suite: SuiteInfo, streams: Mapping[str, Stream],
             adapter: Adapter, clock: ClockKind) -> RunInfo:
    """The fingerprint of a run."""
    used = sorted({c.stream_id for c in request.cases})
    audio = dumps([[s, streams[s].turn1.audio_sha256, streams[s].turn2.audio_sha256]
                   for s in used])
    return RunInfo(
        suite=suite.suite, suite_version=suite.suite_version,
        suite_construction_sha256=suite.construction_sha256,
        suite_audio_sha256=_sha256(audio), adapter=adapter_facts(adapter), clock=clock,
        trials=request.trials, n_cases=len(request.cases),
        cases_sha256=_sha256(cases_text(request.cases)),
        bounds=asdict(request.bounds), vad=request.vad.facts(), software=software_versions(),
        conditions=_conditions(request, streams))


def _conditions(request: RunRequest, streams: Mapping[str, Stream]) -> dict[str, dict[str, Any]]:
    facts = conditions_facts(request.conditions)
    if needs_voices(request.conditions):
        voices = dumps([[s, streams[s].turn2.audio_sha256] for s in sorted(streams)])
        facts["noise"]["voices_sha256"] = _sha256(voices)
    return facts


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def run(request: RunRequest, on_attempt: Callable[[Attempt, int, int], None] | None = None,
        workers: Workers | None = None, budget: Budget | None = None,
        note: Callable[[str], None] = lambda _: None) -> RunResult:
    """Play every case that is not done yet and that `budget` has room for.

    `on_attempt(attempt, settled, total)` is progress, `note(line)` what else is worth telling.
    `workers` play in virtual time; without them `request.jobs` processes are started and ended
    here. Without a budget nothing is limited, and everything counted by the prices at hand.
    """
    if not request.cases:
        raise InputError("no case is left to play; loosen --level or --filter")
    built = load_built(request.suite_dir)
    babbles = needs_voices(request.conditions)
    built.verify_audio(None if babbles else {c.stream_id for c in request.cases})
    adapter = registry.create(request.adapter, request.settings)
    clock = choose_clock(adapter, request.clock)
    check_conditions(request.conditions, adapter.capabilities, built.streams)
    info = run_info(request, built.info, built.streams, adapter, clock)
    _check_folder(request, info)
    if request.resume and not request.run.exists():
        note(f"{request.run.path}: no run is there to go on with; a new one begins")
    make_folder(request.run.path)
    # Looked at again under the lock: another rig may have come first.
    used = sorted({case.stream_id for case in request.cases})
    if isinstance(adapter, Cautioned) and (caution := adapter.caution) is not None:
        note(caution)
    with (FolderLock(request.run.path),
          _opened(request, info, [built.streams[s] for s in used]) as ledger):
        settled = finished(ledger.attempts)
        adopt(request.run, ledger.attempts)
        said = read_system(request.run)

        def voices(case: Case, trial: int) -> tuple[Path, ...]:
            return other_voices(request.suite_dir, built.streams, case.stream_id, case.case_id,
                                trial) if babbles else ()

        jobs = [
            Job(case, built.streams[case.stream_id], trial, request.suite_dir, request.run,
                request.adapter, request.settings, clock, request.bounds, request.vad,
                request.conditions, voices(case, trial))
            for trial in range(1, request.trials + 1) for case in request.cases
        ]
        todo = [job for job in jobs if not _is_settled(job, settled, said)]
        before_n = len(ledger.attempts)
        if budget is None:
            budget = Budget(price_book(None).tariff(adapter), Limits())
        with ExitStack() as stack:
            # Where money can be spent, a kill must not hide what was in flight.
            starts = (stack.enter_context(Starts(request.run.starts_path))
                      if clock == "real" or budget.limits != Limits() else None)
            by_id = {job.case.case_id: _planned_s(job) for job in jobs}
            budget.count_before(ledger.attempts,
                                lost(starts.before, ledger.attempts) if starts else (),
                                longest_known(by_id))
            jobs_n, fewer = capped(request.jobs, adapter, request.at_a_time)
            if fewer is not None:
                note(fewer)
            player = Player(
                jobs=jobs_n, retries=request.retries, ledger=ledger, starts=starts,
                budget=budget, planned_s=_planned_s, total=len(jobs),
                already=len(jobs) - len(todo), play=play_job, play_beside=play_beside,
                on_attempt=on_attempt, note=note, workers=workers,
                starts_per_minute=request.starts_per_minute, seed=request.seed)
            interrupted = player.play(todo, clock)
            if interrupted:
                remove_leftovers(request.run.rec_dir)
                if starts is not None:
                    budget.count_abandoned()
        keys = {job.key for job in jobs}
        # A session that is played again because its files are lost is done no longer.
        again = {job.key for job in todo}
        before = {k: a for k, a in latest(ledger.attempts[:before_n]).items()
                  if k in keys and not (k in again and a.status == "done")}
        final = before | latest(ledger.attempts[before_n:])
        failed = tuple((a.case_id, a.trial, a.status, a.reason or "") for a in final.values()
                       if a.status in ("infra_error", "void"))
        return RunResult(
            n_planned=len(jobs), n_skipped=len(jobs) - len(todo),
            counts=dict(Counter(a.status for a in final.values())), failed=failed,
            repaired_ledger=ledger.repaired, interrupted=interrupted, totals=budget.totals(),
            stopped=player.stopped, limit=player.limit, n_unplayed=len(jobs) - len(final))


def _planned_s(job: Job) -> float:
    return planned_s(job.case, job.stream, job.bounds)


def _is_settled(job: Job, settled: dict[tuple[str, int], Attempt],
                said: dict[str, Any] | None) -> bool:
    """Raises `InputError` where its system is not the one that the run says it has."""
    attempt = settled.get(job.key)
    if attempt is None:
        return False
    # A done case whose files are gone or damaged has nothing to score: play it again.
    try:
        record = checked_record(job.run, *job.key)
    except InputError:
        return False
    check_record(job.run, record, said)
    return True


def _check_folder(request: RunRequest, info: RunInfo) -> None:
    """Raise `InputError` unless the folder is free, or holds this very run and may be resumed."""
    run = request.run
    if not run.exists():
        run.check_free()
        return
    if not request.resume:
        raise InputError(f"{run.path}: holds a run already; add --resume to go on with it, or "
                         "choose another --out")
    found = differences(run.read_info(), info)
    if found:
        more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""
        raise InputError(f"{run.path}: cannot resume: {'; '.join(found[:3])}{more}; give the "
                         "settings of the run, or choose another --out")


def _opened(request: RunRequest, info: RunInfo, streams: Sequence[Stream]) -> Ledger:
    """The run's ledger, with the plan beside it and what a killed process left removed."""
    _check_folder(request, info)
    write_streams(request.run, streams)
    request.run.create(info, request.cases)
    remove_leftovers(request.run.rec_dir)
    return Ledger(request.run.ledger_path)
