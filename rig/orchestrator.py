"""Plays one case to one session, on whichever clock the running loop has.

The sender keeps absolute deadlines (`n * 20 ms`), the receiver stamps and logs; the schedule
decides what the user says. The orchestrator never suppresses, cuts or delays model output.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import numpy as np

from adapters.base import (
    Adapter,
    AgentEvent,
    AudioReceived,
    Fault,
    Interrupted,
    ResponseDone,
    ResponseStarted,
    Session,
    SessionConfig,
    StateChanged,
    TextDelta,
    Throttled,
)
from adapters.usage import Metered
from audio.buffers import Float32
from audio.errors import InfrastructureError, RigError
from audio.timebase import FRAME_NS, SESSION_RATE_HZ, n_to_ns, ns_to_s, s_to_n
from audio.vad import VadSettings
from rig.clock import SessionClock
from rig.heard import HeardTrack
from rig.live import LiveDetection
from rig.record import (
    AudioEvent,
    Event,
    FaultEvent,
    InterruptedEvent,
    ResponseDoneEvent,
    ResponseStartedEvent,
    StateEvent,
    TextEvent,
    UserEvent,
)
from rig.schedule import FRAME_N, Bounds, Plan, UserSchedule
from rig.sent import LineFacts, LineUser, UserAudio, WireUser
from rig.spending import Meter, Spent

SESSION_SLACK_S = 30.0
"""A session that has not ended this long after its schedule must have is a fault of ours or of
the connection: a send hangs."""
CLOSE_S = 10.0
"""How long a session may take to close. Nothing is recorded any more by then."""
MAX_SAMPLE = 10.0
"""Samples beyond this (20 dB over full scale) are no audio; PCM16 numbers taken for floats are.
Ours."""


@dataclass(slots=True)
class Played:
    """What happened in one session, before anything is written or measured."""

    user: Float32
    events: list[Event]
    received: list[Float32]
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
    sent: list[Float32] = field(default_factory=list)
    """What the system was sent under line conditions; empty without any."""
    line: LineFacts | None = None


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


class _Log:
    """Event log with sequence numbers; feeds the heard track as it grows."""

    def __init__(self, heard: HeardTrack, clock: SessionClock, meter: Meter) -> None:
        self.events: list[Event] = []
        self.received: list[Float32] = []
        self.received_n = 0
        self.failure: str | None = None
        self.fault: Fault | None = None
        """The one that the system ended the session with."""
        self._heard = heard
        self._clock = clock
        self._meter = meter
        self._last_audio_ns = 0

    def user(self, t_ns: int, name: str) -> None:
        self.events.append(UserEvent(seq=len(self.events), t_ns=t_ns, name=name))

    def agent(self, event: AgentEvent) -> None:
        seq = len(self.events)
        match event:
            case AudioReceived(t_ns, samples, response_id):
                problem = self._refusal(t_ns, samples)
                if problem is not None:
                    self.fail(t_ns, problem)
                    return
                self._last_audio_ns = t_ns
                self.received.append(samples)
                self.received_n += len(samples)
                self._heard.audio(t_ns, samples, response_id)
                self.events.append(AudioEvent(seq=seq, t_ns=t_ns, n=len(samples),
                                              response_id=response_id))
            case TextDelta(t_ns, text, response_id, audio_n):
                self.events.append(TextEvent(seq=seq, t_ns=t_ns, text=text,
                                             response_id=response_id,
                                             received_n=self.received_n, audio_n=audio_n))
            case ResponseStarted(t_ns, response_id):
                self._heard.response_started(response_id)
                self.events.append(ResponseStartedEvent(seq=seq, t_ns=t_ns,
                                                        response_id=response_id))
            case ResponseDone(t_ns, response_id, status):
                self._heard.response_done(t_ns, response_id)
                self.events.append(ResponseDoneEvent(seq=seq, t_ns=t_ns, response_id=response_id,
                                                     status=status))
            case Interrupted(t_ns, response_id):
                self.events.append(InterruptedEvent(seq=seq, t_ns=t_ns, response_id=response_id))
            case StateChanged(t_ns, name, detail):
                self.events.append(StateEvent(seq=seq, t_ns=t_ns, name=name, detail=detail))
            case Throttled(t_ns, wait_s, reason):
                self._meter.hold(wait_s, reason)
                self.events.append(StateEvent(seq=seq, t_ns=t_ns, name="throttled", detail=reason))
            case Fault(t_ns, severity, reason):
                if severity == "infrastructure":
                    self.fault = self.fault or event
                    self.fail(t_ns, reason)
                else:
                    self.trouble(t_ns, reason)

    def _refusal(self, t_ns: int, samples: Float32) -> str | None:
        """Why a chunk cannot be placed on the heard track; a wrong place is a wrong number."""
        now_ns = self._clock.now_ns()
        if not isinstance(samples, np.ndarray):
            return f"the adapter gave audio as {type(samples).__name__}, expected a float32 array"
        if samples.dtype != np.float32 or samples.ndim != 1:
            return (f"the adapter gave audio of type {samples.dtype} and shape {samples.shape}, "
                    "expected float32 (n,)")
        if not np.isfinite(samples).all():
            return "the system sent non-finite samples"
        if len(samples) and float(np.abs(samples).max()) > MAX_SAMPLE:
            return f"the system sent samples beyond {MAX_SAMPLE:g} times full scale"
        if not self._last_audio_ns <= t_ns <= now_ns:
            return (f"the adapter gave audio stamped {t_ns} ns, expected a time from "
                    f"{self._last_audio_ns} (the audio before it) to {now_ns} (now)")
        return None

    def fail(self, t_ns: int, reason: str) -> None:
        self.events.append(FaultEvent(seq=len(self.events), t_ns=t_ns, severity="infrastructure",
                                      reason=reason))
        self.failure = self.failure or reason

    def trouble(self, t_ns: int, reason: str) -> None:
        """Something went wrong that no verdict depends on."""
        self.events.append(FaultEvent(seq=len(self.events), t_ns=t_ns, severity="transparent",
                                      reason=reason))


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
) -> Played:
    """Play one case. Raises `SessionFailedError` for trouble that is not the model's behaviour.

    In real time `live` detects speech beside the event loop, for all sessions that run on it.
    `meter` is told what the session used, also when it fails. What the system hears comes through
    `line`, made for this session, where there are line conditions.
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
    log = _Log(heard, clock, meter)
    if line is not None:
        heard.listener = line.heard.add
    wire = WireUser(plan, capabilities.input_rate_hz) if line is None else line
    state = _Progress(np.zeros(s_to_n(schedule.longest_s, SESSION_RATE_HZ) + 2 * FRAME_N,
                               dtype=np.float32))
    limit_s = schedule.longest_s + SESSION_SLACK_S
    failure: str | None = None
    cause: InfrastructureError | None = None
    ready: Session | None = None
    closing = AsyncExitStack()
    try:
        async with asyncio.timeout(limit_s):
            with _foreign("opening the session"):
                session = await closing.enter_async_context(adapter.session(config, clock))
            state.ready_ns = clock.now_ns()
            clock.start()
            ready = session
            async with _receiving(session, log, clock) as receiver:
                await _send(session, schedule, log, clock, wire, state, receiver, on_progress)
    except TimeoutError:
        failure = (f"the session had not ended after {limit_s:.0f} s: a send or the connection "
                   "hangs, or this machine does not keep up")
    except InfrastructureError as error:
        failure, cause = str(error), error
    finally:
        await _close(closing, log, clock)
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
async def _receiving(session: Session, log: _Log,
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


async def _close(closing: AsyncExitStack, log: _Log, clock: SessionClock) -> None:
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


def _played(schedule: UserSchedule, log: _Log, state: _Progress, clock: SessionClock,
            heard: HeardTrack) -> Played | None:
    if schedule.turn2_onset_n is None or schedule.turn2_end_n is None:
        return None
    return Played(user=state.track[: state.user_n], events=log.events, received=log.received,
                  flags=set(schedule.flags), turn1_end_n=schedule.turn1_end_n,
                  turn2_onset_n=schedule.turn2_onset_n,
                  turn2_end_n=schedule.turn2_end_n, model_onset_ns=schedule.model_onset_ns,
                  late_ns=state.late_ns, wake_ns=state.wake_ns, ready_ns=state.ready_ns,
                  origin_ns=clock.origin_ns, detection_behind_ns=heard.detection_behind_ns)


async def _receive(session: Session, log: _Log, clock: SessionClock) -> None:
    try:
        with _foreign("receiving"):
            events = aiter(session.events())
        while True:
            with _foreign("receiving"):
                event = await anext(events, None)
            if event is None:
                break
            log.agent(event)
    except RigError as error:
        log.fail(clock.now_ns(), str(error))
        return
    log.fail(clock.now_ns(), "the session ended before the schedule did")


async def _send(
    session: Session,
    schedule: UserSchedule,
    log: _Log,
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

    def __init__(self, schedule: UserSchedule, session: Session, log: _Log) -> None:
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

