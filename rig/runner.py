"""Plans a run: jobs, trials, resume, and what one job is. One case is one function call.

`rig.player` decides when each is played.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from adapters import registry
from adapters.base import Adapter, CaseHint, SessionConfig
from audio.conditions import AnyCondition
from audio.errors import InfrastructureError, InputError
from audio.files import read_channel
from audio.timebase import FRAME_NS, NS_PER_S, SESSION_RATE_HZ
from audio.vad import VadSettings
from probes.manifest import Case, Stream, SuiteInfo
from probes.render import load_built
from rig.budget import Budget, Limits, Totals
from rig.clock import ClockKind, loop_factory, utc_now
from rig.handover import SessionWriter
from rig.ledger import Attempt, Ledger, Status, dumps, finished, latest
from rig.live import LiveDetection
from rig.orchestrator import play
from rig.player import Player
from rig.prices import price_book
from rig.recorder import adapter_facts, write_session
from rig.schedule import Bounds, Plan
from rig.sent import (
    LineUser,
    check_conditions,
    conditions_facts,
    needs_voices,
    other_voices,
)
from rig.spending import Meter, Spent
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
from rig.tracks import check_files
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
    seed: int | None = None
    """Of the waits between tries; nobody can foresee them without one."""


@dataclass(frozen=True, slots=True)
class Job:
    """One session to play; everything a worker needs, and nothing global."""

    case: Case
    stream: Stream
    trial: int
    suite_dir: Path
    run: RunFolder
    adapter: str
    settings: dict[str, str]
    clock: ClockKind
    bounds: Bounds
    vad: VadSettings
    conditions: tuple[AnyCondition, ...] = ()
    voices: tuple[Path, ...] = ()
    """Of other people, for babble."""

    @property
    def key(self) -> tuple[str, int]:
        return self.case.case_id, self.trial


@dataclass(frozen=True, slots=True)
class Outcome:
    status: Status
    reason: str | None
    started: str
    ended: str
    retry_after_s: float | None = None
    hopeless: bool = False
    throttled: bool = False
    spent: Spent = Spent()  # noqa: RUF009 - immutable


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


def session_seed(case_id: str, trial: int) -> int:
    """A seed from the case alone, so that order and concurrency never change a session."""
    digest = hashlib.sha256(f"{case_id}\0{trial}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def choose_clock(adapter: Adapter, wanted: ClockKind | None) -> ClockKind:
    """Virtual where the system allows it, unless the user says otherwise."""
    if wanted == "virtual" and adapter.capabilities.realtime_only:
        raise InputError(f"--clock virtual: adapter {adapter.name} speaks to a real peer; expected "
                         "--clock real")
    if wanted == "real" and adapter.capabilities.virtual_only:
        raise InputError(f"--clock real: adapter {adapter.name} runs in virtual time only; "
                         "expected --clock virtual")
    return wanted or ("real" if adapter.capabilities.realtime_only else "virtual")


def plan_minutes(cases: Sequence[Case], streams: Mapping[str, Stream], bounds: Bounds) -> float:
    """Upper estimate of session minutes for one trial: speech plus every wait at its bound."""
    return sum(planned_s(case, streams[case.stream_id], bounds) for case in cases) / 60


def planned_s(case: Case, stream: Stream, bounds: Bounds) -> float:
    """Seconds of a session at its longest, whatever the system does, and a frame more."""
    turn1_s, turn2_s = (t.duration_n / SESSION_RATE_HZ for t in (stream.turn1, stream.turn2))
    wait_s = (bounds.turn1_reply_s + bounds.settle_s if case.delivery.mode == "take_turn"
              else bounds.onset_s + (case.delivery.barge_in_after_s or 0.0))
    after_s = bounds.tail_s + bounds.turn2_reply_s + bounds.trailing_s
    return (turn1_s + wait_s + max(turn2_s + after_s, _window_end_s(case) + bounds.after_window_s)
            + 2 * FRAME_NS / NS_PER_S)


def _window_end_s(case: Case) -> float:
    return max([case.window.end_s, *(w.end_s for w in case.alternate_windows.values())])


def play_job(job: Job) -> Outcome:
    """Play one case on a loop of its own and write its files."""
    with asyncio.Runner(loop_factory=loop_factory(job.clock)) as runner:
        return runner.run(play_job_async(job))


async def play_beside(job: Job, meter: Meter, live: LiveDetection | None,
                      writer: SessionWriter | None) -> Outcome:
    """`play_job_async`, as the player calls it."""
    return await play_job_async(job, live, writer, meter)


async def play_job_async(job: Job, live: LiveDetection | None = None,
                         writer: SessionWriter | None = None,
                         meter: Meter | None = None) -> Outcome:
    """Play one case on the running loop and write its files; trouble becomes an outcome.

    In real time files are read beside the loop, on which other sessions run, and written by
    `writer`.
    """
    meter = Meter() if meter is None else meter
    started = utc_now()
    adapter = registry.create(job.adapter, job.settings)
    case = job.case
    here = job.clock == "virtual"
    plan = job_plan(job) if here else await asyncio.to_thread(job_plan, job)
    line = (job_line(job, plan, adapter) if here
            else await asyncio.to_thread(job_line, job, plan, adapter))
    seed = session_seed(case.case_id, job.trial)
    config = SessionConfig(case_id=case.case_id, trial=job.trial,
                           system_prompt=case.system_prompt, seed=seed,
                           settings=adapter.settings,
                           hint=_hint(case) if adapter.capabilities.wants_hint else None)
    try:
        played = await play(plan, adapter, config, vad=job.vad, bounds=job.bounds, live=live,
                            line=line, meter=meter)
    except InfrastructureError as error:
        return Outcome("infra_error", str(error), started, utc_now(), error.retry_after_s,
                       error.hopeless, error.throttled, meter.spent)
    facts = adapter_facts(adapter)
    if writer is None:
        timing = write_session(job.run, case, job.stream, job.trial, seed, facts, played,
                               job.clock).timing
        void_reason = timing.void_reason if timing.void else None
    else:
        written = await writer.write(job.run, case, job.stream, job.trial, seed, facts, played)
        void_reason = written.void_reason
    status: Status = "done" if void_reason is None else "void"
    return Outcome(status, void_reason, started, utc_now(), spent=meter.spent)


def job_plan(job: Job) -> Plan:
    """The user's side of a case, read from the suite folder."""
    case = job.case
    return Plan(
        turn1=read_channel(job.suite_dir / job.stream.turn1.path, 0),
        turn2=read_channel(job.suite_dir / job.stream.turn2.path, 0),
        window_end_s=_window_end_s(case),
        barge_in_after_s=case.delivery.barge_in_after_s,
    )


def job_line(job: Job, plan: Plan, adapter: Adapter) -> LineUser | None:
    """The user's side behind line conditions, for one session; `None` without any."""
    if not job.conditions:
        return None
    return LineUser(job.conditions, plan, adapter.capabilities, job.case.case_id, job.trial,
                    job.voices)


def _hint(case: Case) -> CaseHint:
    return CaseHint(expected_action=case.expected_action, window_start_s=case.window.start_s,
                    window_end_s=case.window.end_s, user_offset_s=case.user_offset_s,
                    target_text=case.target_text, barge_in=case.delivery.mode == "barge_in")


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
    make_folder(request.run.path)
    # Looked at again under the lock: another rig may have come first.
    with FolderLock(request.run.path), _opened(request, info) as ledger:
        settled = finished(ledger.attempts)

        def voices(case: Case, trial: int) -> tuple[Path, ...]:
            return other_voices(request.suite_dir, built.streams, case.stream_id, case.case_id,
                                trial) if babbles else ()

        jobs = [
            Job(case, built.streams[case.stream_id], trial, request.suite_dir, request.run,
                request.adapter, request.settings, clock, request.bounds, request.vad,
                request.conditions, voices(case, trial))
            for trial in range(1, request.trials + 1) for case in request.cases
        ]
        todo = [job for job in jobs if not _is_settled(job, settled)]
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
                                lambda case_id: by_id.get(case_id, max(by_id.values())))
            player = Player(
                jobs=request.jobs, retries=request.retries, ledger=ledger, starts=starts,
                budget=budget, planned_s=_planned_s, total=len(jobs),
                already=len(jobs) - len(todo), play=play_job, play_beside=play_beside,
                on_attempt=on_attempt, note=note, workers=workers,
                starts_per_minute=request.starts_per_minute, seed=request.seed)
            interrupted = player.play(todo, clock)
            if interrupted and starts is not None:
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


def _is_settled(job: Job, settled: dict[tuple[str, int], Attempt]) -> bool:
    attempt = settled.get(job.key)
    if attempt is None:
        return False
    # A done case whose files are gone or damaged has nothing to score: play it again.
    try:
        check_files(job.run, job.run.read_record(*job.key))
    except InputError:
        return False
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
        raise InputError(f"{run.path}: cannot resume: {'; '.join(found[:3])}{more}; choose "
                         "another --out")


def _opened(request: RunRequest, info: RunInfo) -> Ledger:
    """The run's ledger, with the plan beside it and what a killed process left removed."""
    _check_folder(request, info)
    request.run.create(info, request.cases)
    remove_leftovers(request.run.rec_dir)
    return Ledger(request.run.ledger_path)
