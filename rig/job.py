"""One job of a run: one case and trial, what it will take, and playing it."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from adapters import registry
from adapters.base import Adapter, CaseHint, SessionConfig
from audio.conditions import AnyCondition
from audio.errors import InfrastructureError
from audio.files import read_channel
from audio.timebase import FRAME_NS, NS_PER_S, SESSION_RATE_HZ
from audio.vad import VadSettings
from probes.manifest import Case, Stream
from rig.clock import ClockKind, loop_factory, utc_now
from rig.handover import SessionWriter
from rig.ledger import Status
from rig.live import LiveDetection
from rig.orchestrator import play
from rig.recorder import adapter_facts, write_session
from rig.schedule import Bounds, Plan
from rig.sent import LineUser
from rig.spending import Meter, Spent
from rig.store import RunFolder
from rig.system import admit


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


def session_seed(case_id: str, trial: int) -> int:
    """A seed from the case alone, so that order and concurrency never change a session."""
    digest = hashlib.sha256(f"{case_id}\0{trial}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def planned_s(case: Case, stream: Stream, bounds: Bounds) -> float:
    """Seconds of a session at its longest, whatever the system does, and a frame more."""
    turn1_s, turn2_s = (t.duration_n / SESSION_RATE_HZ for t in (stream.turn1, stream.turn2))
    wait_s = (bounds.turn1_reply_s + bounds.settle_s if case.delivery.mode == "take_turn"
              else bounds.onset_s + (case.delivery.barge_in_after_s or 0.0))
    after_s = bounds.tail_s + bounds.turn2_reply_s + bounds.trailing_s
    return (turn1_s + wait_s + max(turn2_s + after_s, window_end_s(case) + bounds.after_window_s)
            + 2 * FRAME_NS / NS_PER_S)


def window_end_s(case: Case) -> float:
    """Where the last window of a case ends, in seconds from the onset of turn 2."""
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
                           hint=case_hint(case) if adapter.capabilities.wants_hint else None)
    try:
        played = await play(plan, adapter, config, vad=job.vad, bounds=job.bounds, live=live,
                            line=line, meter=meter, admit=partial(admit, job.run))
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
        window_end_s=window_end_s(case),
        barge_in_after_s=case.delivery.barge_in_after_s,
    )


def job_line(job: Job, plan: Plan, adapter: Adapter) -> LineUser | None:
    """The user's side behind line conditions, for one session; `None` without any."""
    if not job.conditions:
        return None
    return LineUser(job.conditions, plan, adapter.capabilities, job.case.case_id, job.trial,
                    job.voices)


def case_hint(case: Case) -> CaseHint:
    """What an oracle agent is told of a case."""
    return CaseHint(expected_action=case.expected_action, window_start_s=case.window.start_s,
                    window_end_s=case.window.end_s, user_offset_s=case.user_offset_s,
                    target_text=case.target_text, barge_in=case.delivery.mode == "barge_in")
