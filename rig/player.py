"""Plays the jobs of one run: feeds them, books attempts, decides on another try, keeps the limits.

In virtual time sessions are played one after the other or by worker processes; in real time side by
side on one event loop, at the provider's pace. This process alone writes the ledger.

A job is begun only when the budget has room for it at its longest, in the order of the plan: to
look for a shorter one further on would decide which cases are played. While sessions in flight hold
the room it waits; they are never cut off.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from functools import partial
from typing import Any

from audio.interrupts import held_back
from rig.backoff import full_jitter_s
from rig.budget import Budget
from rig.clock import ClockKind, loop_factory, punctual
from rig.flow import Flow
from rig.handover import SessionWriter
from rig.interrupts import to_its_end
from rig.job import Job, Outcome
from rig.ledger import Attempt, Ledger, Status
from rig.live import LiveDetection
from rig.pace import MAX_ASKED_S, Pace
from rig.spending import Meter
from rig.starts import Start, Starts
from rig.workers import (
    DeadWorkerError,
    Workers,
    ended_as_interrupted,
    result,
    start_tracker,
)

MAX_VOID_RERUNS = 2
"""Contract: a session over its timing budget is run again at most twice."""

INTERRUPT_S = 1.0
"""How long Ctrl-C waits for sessions that worker processes are about to finish. Ours: one in
virtual time takes a fraction of it, one with a model that hangs takes minutes."""

PlayBeside = Callable[[Job, Meter, Any, Any], Awaitable[Outcome]]
"""Plays one job on the running loop; the last two are live detection and session writer."""
Beside = Callable[..., Awaitable[Any]]
"""Calls a function with arguments, and gives what it gives."""


class Player:
    """Plays once. `limit` says which limit kept jobs from being begun, `stopped` what else did."""

    def __init__(
        self, *, jobs: int, retries: int, ledger: Ledger, starts: Starts | None, budget: Budget,
        planned_s: Callable[[Job], float], total: int, already: int,
        play: Callable[[Job], Outcome], play_beside: PlayBeside,
        on_attempt: Callable[[Attempt, int, int], None] | None = None,
        note: Callable[[str], None] = lambda _: None, workers: Workers | None = None,
        starts_per_minute: float | None = None, seed: int | None = None,
        beside: Beside = asyncio.to_thread,
    ) -> None:
        """`already` of `total` jobs were done before; `planned_s` is a job at its longest. `seed`
        makes the waits those of a test; without one nobody can foresee them. `beside` does what
        waits for the disk, in real time, while the frames of other sessions must not."""
        self._jobs = jobs
        self._retries = retries
        self._ledger = ledger
        self._starts = starts
        self._budget = budget
        self._planned_s = planned_s
        self._total = total
        self._settled = already
        self._play_one = play
        self._play_beside = play_beside
        self._on_attempt = on_attempt
        self._note = note
        self._workers = workers
        self._starts_per_minute = starts_per_minute
        self._chance = random.Random(seed)
        self._beside = beside
        self._flow = Flow()
        self._tries: Counter[tuple[tuple[str, int], Status]] = Counter()
        self.stopped: str | None = None
        self.limit: str | None = None

    def play(self, todo: Sequence[Job], clock: ClockKind) -> bool:
        """Play all; true when the user broke it off, or whoever ended this process."""
        try:
            with ended_as_interrupted():
                self._play(todo, clock)
        except KeyboardInterrupt:
            return True
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from group
        return False

    def _play(self, todo: Sequence[Job], clock: ClockKind) -> None:
        if clock == "real":
            start_tracker()
            with punctual(), asyncio.Runner(loop_factory=loop_factory(clock)) as runner:
                runner.get_loop().set_exception_handler(_tell_trouble)
                runner.run(self._play_real(todo))
        elif self._workers is not None and len(todo) > 1:
            self._play_pool(todo, self._workers)
        elif self._jobs > 1 and len(todo) > 1:
            with Workers(min(self._jobs, len(todo))) as workers:
                self._play_pool(todo, workers)
        else:
            self._play_inline(todo)

    # booking

    def _may_begin(self, job: Job) -> bool:
        """Whether the budget has room; once nothing in flight can make any, the limit is set."""
        if self.limit is not None or self.stopped is not None:
            return False
        why = self._budget.refusal(self._planned_s(job))
        if why is not None and self._budget.in_flight == 0:
            self.limit = why
        return why is None

    def _reserve(self, job: Job) -> None:
        self._budget.reserve(job.key, self._planned_s(job))

    def _write_start(self, job: Job) -> None:
        if self._starts is not None:
            self._starts.append(Start(case_id=job.key[0], trial=job.key[1],
                                      attempt=self._ledger.next_attempt(*job.key)))

    def _book(self, job: Job, outcome: Outcome, counts: bool = True,
              then: Callable[[], object] = lambda: None) -> bool:
        """Append the attempt; true when the job should be tried again. `counts`: as one of its
        tries. An interrupt finds it booked, and `then` done, or neither: what the ledger holds is
        what is counted."""
        with held_back():
            attempt, again = self._append(job, outcome, counts)
            then()
        # Outside: what is told may go to a pipe that nobody reads, and that must end by Ctrl-C.
        if self._on_attempt is not None:
            self._on_attempt(attempt, self._settled, self._total)
        return again

    def _append(self, job: Job, outcome: Outcome, counts: bool) -> tuple[Attempt, bool]:
        spent, tariff = outcome.spent, self._budget.tariff
        cost = self._budget.settle(job.key, spent)
        attempt = Attempt(
            case_id=job.case.case_id, trial=job.trial,
            attempt=self._ledger.next_attempt(*job.key), status=outcome.status,
            reason=outcome.reason, started=outcome.started, ended=outcome.ended,
            session_s=round(spent.session_s, 3), sent_s=round(spent.sent_s, 3),
            received_s=round(spent.received_s, 3),
            usage=None if spent.usage is None else dict(spent.usage),
            cost=round(cost.amount, 8) if tariff.known else None, currency=tariff.currency,
            cost_missing=cost.missing or None)
        self._ledger.append(attempt)
        self._tries[job.key, outcome.status] += counts
        if outcome.hopeless:
            self.stopped = outcome.reason
        again = (
            (outcome.status == "infra_error" and not outcome.hopeless
             and self._tries[job.key, "infra_error"] <= self._retries)
            or (outcome.status == "void" and self._tries[job.key, "void"] <= MAX_VOID_RERUNS))
        if not again:
            self._settled += 1
        return attempt, again

    # virtual time

    def _play_inline(self, todo: Sequence[Job]) -> None:
        for job in todo:
            again = True
            while again:
                if not self._may_begin(job):
                    return
                self._reserve(job)
                self._write_start(job)
                again = self._book(job, self._play_one(job))

    def _play_pool(self, todo: Sequence[Job], workers: Workers) -> None:
        queue = deque(todo)
        running: dict[Future[Outcome], Job] = {}
        try:
            while queue or running:
                # Two jobs a worker: enough to keep it busy, few enough to stop quickly.
                while queue and len(running) < 2 * workers.jobs and self._may_begin(queue[0]):
                    job = queue.popleft()
                    self._reserve(job)
                    self._write_start(job)
                    running[workers.submit(self._play_one, job)] = job
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    job = running[future]
                    if self._book(job, result(future), then=partial(running.pop, future)):
                        queue.append(job)
        except BaseException as error:
            try:
                if isinstance(error, KeyboardInterrupt):
                    self._book_what_ends(running)
            finally:
                workers.stop()
            raise

    def _book_what_ends(self, running: dict[Future[Outcome], Job]) -> None:
        """Book the sessions that are over in a moment; the others are lost, as by a kill."""
        for future in running:
            future.cancel()
        for future in wait([f for f in running if not f.cancelled()], INTERRUPT_S).done:
            # What ends this process may have ended them as well: `kill` of a whole group does.
            with suppress(DeadWorkerError):
                self._book(running[future], result(future))

    # real time

    async def _play_real(self, todo: Sequence[Job]) -> None:
        with LiveDetection() as live, SessionWriter() as writer:
            await writer.start()
            await self.play_side_by_side(todo, live, writer)

    async def play_side_by_side(self, todo: Sequence[Job], live: Any = None,
                                writer: Any = None) -> None:
        """Up to `jobs` sessions at a time on the running loop, whatever its kind of time."""
        pace = Pace(self._jobs, self._starts_per_minute, self._chance, self._note)
        booking = asyncio.Lock()
        # Locks are fair: jobs begin in the order in which they came here, that of the plan.
        gate = asyncio.Lock()
        jobs = iter(todo)

        async def work() -> None:
            for job in jobs:
                if not await self._until_settled(job, pace, gate, booking, live, writer):
                    return

        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._jobs, len(todo))):
                group.create_task(work())
        if self.limit is None:
            self.stopped = self.stopped or pace.stopped

    async def _until_settled(self, job: Job, pace: Pace, gate: asyncio.Lock,
                             booking: asyncio.Lock, live: Any, writer: Any) -> bool:
        """Play a job until it needs no other try; false when nothing may begin any more."""
        failures = 0
        while True:
            async with gate:
                if not await self._admitted(job, pace):
                    return False
                began_ns = pace.begin()
                self._reserve(job)
            async with booking:
                await self._beside(self._write_start, job)
            outcome = await self._play_beside(job, Meter(pace.hold, self._flow), live, writer)
            ready = outcome.spent.session_s > 0
            asked_s = outcome.retry_after_s or 0.0
            pace.ended(began_ns, ready=ready, throttled=outcome.throttled, asked_s=asked_s,
                       why=outcome.reason or "")
            # That the provider turned it away is no try of the case; the pace bounds how often.
            turned_away = outcome.throttled and not ready
            again = await to_its_end(self._book_beside(job, outcome, not turned_away, booking))
            pace.changed()
            if self.stopped is not None:
                pace.stop(self.stopped)
            if not again:
                return pace.stopped is None
            if not outcome.throttled:
                failures += 1
                await asyncio.sleep(full_jitter_s(failures, min(asked_s, MAX_ASKED_S),
                                                  self._chance))

    async def _book_beside(self, job: Job, outcome: Outcome, counts: bool,
                           booking: asyncio.Lock) -> bool:
        async with booking:
            again: bool = await self._beside(self._book, job, outcome, counts)
            return again

    async def _admitted(self, job: Job, pace: Pace) -> bool:
        """Wait until provider and budget have room, in this order of asking: between the budget's
        word and the reservation nothing else runs."""
        while pace.stopped is None and self.stopped is None and self.limit is None:
            wait_s = pace.wait_s()
            if wait_s == 0 and self._may_begin(job):
                return True
            if self.limit is not None:
                pace.stop(self.limit)
                break
            await pace.rest(wait_s or None)
        return False


def _tell_trouble(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The loop's way, but for the user's own Ctrl-C: a second one ends tasks that nobody asks how
    they ended."""
    if not isinstance(context.get("exception"), KeyboardInterrupt):
        loop.default_exception_handler(context)
