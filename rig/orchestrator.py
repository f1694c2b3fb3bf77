"""Plays one case to one session, on whichever clock the running loop has.

The sender keeps absolute deadlines (`n * 20 ms`), the receiver stamps and logs; the schedule
decides what the user says. The orchestrator never suppresses, cuts or delays model output.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from adapters.base import (
    Adapter,
    Fault,
    Identified,
    Session,
    SessionConfig,
    Settling,
    SlowToOpen,
)
from adapters.usage import Metered
from audio.buffers import Float32
from audio.errors import InfrastructureError, RigError
from audio.timebase import FRAME_NS, NS_PER_MS, SESSION_RATE_HZ, n_to_ns, ns_to_s, s_to_n
from audio.vad import VadSettings
from rig.clock import SessionClock
from rig.event_log import EventLog
from rig.heard import HeardTrack
from rig.live import LiveDetection
from rig.record import Event
from rig.schedule import FRAME_N, Bounds, Plan, UserSchedule
from rig.sent import LineFacts, LineUser, UserAudio, WireUser
from rig.spending import Meter, Spent

SESSION_SLACK_S = 30.0
"""A session that has not ended this long after its schedule must have is a fault of ours or of
the connection: a send hangs."""
CLOSE_S = 10.0
"""How long a session may take to close. Nothing is recorded any more by then."""
SLICE_NS = NS_PER_MS
"""How long events are taken before everything else on the loop gets a turn, in real time. Ours: a
twentieth of the time between two frames."""


Admit = Callable[[dict[str, Any]], None]


@dataclass(slots=True)
class Played:
    """What happened in one session, before anything is written or measured."""

    # Python 3.11 takes the repr of a finished task's result when its signal handler is set back:
    # of thousands of arrays that took twenty times as long as the session.
    user: Float32 = field(repr=False)
    events: list[Event] = field(repr=False)
    received: list[Float32] = field(repr=False)
    flags: set[str]
    turn1_end_n: int
    turn2_onset_n: int
    turn2_end_n: int
    model_onset_ns: int | None
    late_ns: list[int] = field(default_factory=list)
    """Lateness of every frame, measured after the send."""
    wake_ns: list[int] = field(default_factory=list)
    """How late the event loop came back to the sender for it: part of its lateness."""
    ready_ns: int = 0
    """From the first attempt to connect to the session's being ready."""
    origin_ns: int | None = None
    """Zero of the session clock as `time.perf_counter_ns`; `None` in virtual time."""
    detection_behind_ns: int | None = None
    sent: list[Float32] = field(default_factory=list, repr=False)
    """What the system was sent under line conditions; empty without any."""
    line: LineFacts | None = None
    events_per_s: int | None = None
    """Events of the system in its busiest second; `None` in virtual time, where nobody counts and
    nothing is late."""
    all_events_per_s: int | None = None
    """The same of all systems of the run, while this session was played."""


class SessionFailedError(InfrastructureError):
    """The session broke off; `played` holds what was recorded until then."""

    def __init__(self, reason: str, played: Played | None,
                 *causes: InfrastructureError | Fault | None) -> None:
        super().__init__(reason)
        self.played = played
        for cause in causes:
            if cause is not None:
                self.retry_after_s = self.retry_after_s or cause.retry_after_s
                self.hopeless = self.hopeless or cause.hopeless
                self.throttled = self.throttled or cause.throttled


async def play(
    plan: Plan,
    adapter: Adapter,
    config: SessionConfig,
    *,
    vad: VadSettings,
    bounds: Bounds | None = None,
    live: LiveDetection | None = None,
    on_progress: Callable[[int], None] | None = None,
    meter: Meter | None = None,
    line: LineUser | None = None,
    admit: Admit | None = None,
) -> Played:
    """Play one case. Raises `SessionFailedError` for trouble that is not the model's behaviour.

    In real time `live` detects speech beside the event loop, for all sessions that run on it.
    `meter` is told what the session used, also when it fails. What the system hears comes through
    `line`, made for this session, where there are line conditions. `admit` is told what the system
    says that it is, before its clock starts, and raises `InfrastructureError` for another one.
    """
    capabilities = adapter.capabilities
    clock = SessionClock()
    if capabilities.realtime_only and clock.kind == "virtual":
        raise InfrastructureError(f"adapter {adapter.name}: speaks to a real peer and cannot run "
                                  "in virtual time; expected --clock real")
    heard = HeardTrack(capabilities.output_rate_hz,
                       reports_done=capabilities.reports_response_done, settings=vad,
                       live=live if clock.kind == "real" else None,
                       behind_ms=capabilities.heard_behind_ms)
    schedule = UserSchedule(plan, heard, bounds)
    meter = Meter() if meter is None else meter
    log = EventLog(heard, clock, meter)
    if line is not None:
        heard.listener = line.heard.add
    wire = WireUser(plan, capabilities.input_rate_hz) if line is None else line
    state = _Progress(np.zeros(s_to_n(schedule.longest_s, SESSION_RATE_HZ) + 2 * FRAME_N,
                               dtype=np.float32))
    limit_s = schedule.longest_s + SESSION_SLACK_S
    if isinstance(adapter, SlowToOpen):
        limit_s += adapter.opening_s
    failure: str | None = None
    cause: InfrastructureError | None = None
    ready: Session | None = None
    closing = AsyncExitStack()
    try:
        async with asyncio.timeout(limit_s):
            with _foreign("opening the session"):
                session = await closing.enter_async_context(adapter.session(config, clock))
            if admit is not None and isinstance(session, Identified):
                await _admitted(admit, session.identity, clock)
            state.ready_ns = clock.now_ns()
            clock.start()
            ready = session
            async with _receiving(session, log, clock) as receiver:
                await _send(session, schedule, log, clock, wire, state, receiver, on_progress)
                if isinstance(session, Settling) and log.failure is None:
                    with _foreign("the end of the session"):
                        await session.settle()
    except TimeoutError:
        failure = (f"the session had not ended after {limit_s:.0f} s: a send or the connection "
                   "hangs, or this machine does not keep up")
    except InfrastructureError as error:
        failure, cause = str(error), error
    finally:
        await _close(closing, log, clock)
        log.finish(clock.now_ns())
        if ready is not None:
            # After the close: until then the provider counts, and may still say what it counted.
            meter.spent = Spent(
                ns_to_s(clock.now_ns()), state.user_n / SESSION_RATE_HZ,
                log.received_n / capabilities.output_rate_hz, _usage(ready))
    failure = failure or log.failure
    played = _played(schedule, log, state, clock, heard)
    if failure is not None:
        raise SessionFailedError(failure, played, cause, log.fault)
    assert played is not None
    if line is not None:
        played.sent, played.line = state.wire, line.facts()
    return played


async def _admitted(admit: Admit, identity: dict[str, Any], clock: SessionClock) -> None:
    if clock.kind == "real":  # it reads a file, and other sessions run on the loop
        await asyncio.to_thread(admit, identity)
    else:
        admit(identity)


def _usage(session: Session) -> dict[str, float] | None:
    usage = session.usage if isinstance(session, Metered) else None
    return None if usage is None else {str(unit): float(n) for unit, n in usage.items()}


@contextmanager
def _foreign(what: str) -> Iterator[None]:
    """Whatever an adapter raises is a fault of its session, never of the model or of the rig.

    Our own errors pass: an adapter that says `InputError` is configured wrongly, and trying again
    will not help.
    """
    try:
        yield
    except RigError:
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise InfrastructureError(f"{what} failed: CancelledError inside the adapter") from error
    except Exception as error:
        detail = f": {error}" if str(error) else ""
        raise InfrastructureError(f"{what} failed: {type(error).__name__}{detail}") from error


@asynccontextmanager
async def _receiving(session: Session, log: EventLog,
                     clock: SessionClock) -> AsyncIterator[asyncio.Task[None]]:
    """The receiver runs beside the block; a defect of ours in it is raised, never lost."""
    receiver = asyncio.create_task(_receive(session, log, clock))
    try:
        yield receiver
    finally:
        receiver.cancel()
        await asyncio.wait([receiver], timeout=CLOSE_S)
    if receiver.done() and not receiver.cancelled():
        receiver.result()


async def _close(closing: AsyncExitStack, log: EventLog, clock: SessionClock) -> None:
    """Close the session. What goes wrong here touches nothing that was recorded: it is logged."""
    try:
        async with asyncio.timeout(CLOSE_S):
            with _foreign("closing the session"):
                await closing.aclose()
    except TimeoutError:
        log.trouble(clock.now_ns(), f"the session was not closed after {CLOSE_S:g} s")
    except RigError as error:
        log.trouble(clock.now_ns(), str(error))


@dataclass(slots=True)
class _Progress:
    """What was sent so far. `track` has room for the longest schedule: memory is taken as it is
    filled, and nothing has to be put together at the end, while other sessions wait."""

    track: Float32
    user_n: int = 0
    late_ns: list[int] = field(default_factory=list)
    wake_ns: list[int] = field(default_factory=list)
    ready_ns: int = 0
    wire: list[Float32] = field(default_factory=list)
    """Behind line conditions alone: elsewhere it is the track at another rate."""

    def sent(self, frame: Float32) -> None:
        end_n = self.user_n + len(frame)
        self.track[self.user_n : end_n] = frame
        self.user_n = end_n


def _played(schedule: UserSchedule, log: EventLog, state: _Progress, clock: SessionClock,
            heard: HeardTrack) -> Played | None:
    if schedule.turn2_onset_n is None or schedule.turn2_end_n is None:
        return None
    return Played(user=state.track[: state.user_n], events=log.events, received=log.received,
                  flags=set(schedule.flags), turn1_end_n=schedule.turn1_end_n,
                  turn2_onset_n=schedule.turn2_onset_n,
                  turn2_end_n=schedule.turn2_end_n, model_onset_ns=schedule.model_onset_ns,
                  late_ns=state.late_ns, wake_ns=state.wake_ns, ready_ns=state.ready_ns,
                  origin_ns=clock.origin_ns, detection_behind_ns=heard.detection_behind_ns,
                  events_per_s=log.most_per_s(), all_events_per_s=log.most_per_s_of_all())


async def _receive(session: Session, log: EventLog, clock: SessionClock) -> None:
    try:
        with _foreign("receiving"):
            events = aiter(session.events())
        sliced = clock.kind == "real"
        turn_ns = clock.now_ns() + SLICE_NS
        while True:
            with _foreign("receiving"):
                event = await anext(events, None)
            if event is None:
                break
            log.agent(event)
            if sliced and clock.now_ns() >= turn_ns:
                await asyncio.sleep(0)
                turn_ns = clock.now_ns() + SLICE_NS
    except RigError as error:
        log.fail(clock.now_ns(), str(error))
        return
    log.fail(clock.now_ns(), "the session ended before the schedule did")


async def _send(
    session: Session,
    schedule: UserSchedule,
    log: EventLog,
    clock: SessionClock,
    wire: UserAudio,
    state: _Progress,
    receiver: asyncio.Task[None],
    on_progress: Callable[[int], None] | None,
) -> None:
    cues = _Cues(schedule, session, log)
    keeps_sent = isinstance(wire, LineUser)
    waiting: tuple[Float32, Float32] | None = None
    k = 0
    while True:
        deadline_ns = k * FRAME_NS
        await clock.sleep_until(deadline_ns)
        if log.failure is not None or receiver.done():
            return
        if waiting is not None:
            state.wake_ns.append(clock.now_ns() - deadline_ns)
            with _foreign("sending"):
                await session.send(waiting[1])
            state.late_ns.append(clock.now_ns() - deadline_ns)
            state.sent(waiting[0])
            if keeps_sent:
                state.wire.append(waiting[1])
        # The frame is made when its media time begins and sent when it is complete, like a
        # microphone's: a decision never reaches back, and audio never arrives before it was said.
        frame = schedule.frame(k, deadline_ns)
        cues.until((k + 1) * FRAME_N)
        if frame is None:
            log.user(deadline_ns, "end")
            return
        waiting = frame, wire.frame(k, schedule.turn2_onset_n)
        if on_progress is not None:
            on_progress(k)
        k += 1


class _Cues:
    """Logs the schedule's moments once each and tells the oracle agents of them."""

    def __init__(self, schedule: UserSchedule, session: Session, log: EventLog) -> None:
        self._schedule = schedule
        self._session = session
        self._log = log
        self._names = ["turn1_start", "turn1_end", "turn2_start", "turn2_end"]

    def _at_n(self, name: str) -> int | None:
        schedule = self._schedule
        return {"turn1_start": 0, "turn1_end": schedule.turn1_end_n,
                "turn2_start": schedule.turn2_onset_n, "turn2_end": schedule.turn2_end_n}[name]

    def until(self, end_n: int) -> None:
        """Give every cue whose moment lies before sample `end_n`."""
        while self._names:
            at_n = self._at_n(self._names[0])
            if at_n is None or at_n >= end_n:
                return
            self._log.user(n_to_ns(at_n, SESSION_RATE_HZ), self._names[0])
            with _foreign("a cue"):
                self._session.cue(self._names.pop(0))

