"""One session with a local model in its own process, on either clock: docs/workers.md.

In virtual time the model and the session run in lockstep: a frame is handed over when it is
complete, the clock stands still until the answer is there, and the answer is stamped with that
moment: as a machine would do that computes in no time. In real time frames are handed over when
they are complete and answers stamped when they come.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from adapters.base import (
    AgentEvent,
    AudioReceived,
    Capabilities,
    Clock,
    Fault,
    SessionConfig,
    StateChanged,
    TextDelta,
)
from adapters.event_queue import EventQueue
from adapters.worker_process import (
    MAX_UNLOADED,
    Answer,
    Gone,
    ModelProcesses,
    WorkerProcess,
)
from adapters.workers.worker_kit.protocol import (
    DECLARED,
    Frame,
    Hello,
    Out,
    Ready,
    Reset,
    WorkerFault,
)
from audio.buffers import Float32
from audio.errors import InfrastructureError
from audio.timebase import FRAME_NS, NS_PER_S

WORKER_HELLO = "worker_hello"
"""Name of a `StateChanged` with the worker's own account of itself, as JSON."""
WORKER_FRAMES = "worker_frames"
"""Name of a `StateChanged` on how the model kept up: JSON, `{"first": k, "frame_ms": ms,
"compute_us": [...], "waiting": [...]}` for frames k, k+1, ...; `waiting` are frames that had been
handed over and not answered when the answer came."""
TOLD_EVERY_S = 2.0
"""Of audio in one such event. Ours."""
SLICE_S = 0.2
"""In lockstep nothing else runs while an answer is waited for: so often it is looked whether the
user has had enough. Ours."""
MAX_TURNS = 100
"""Turns of the loop that a reader is given for what lies before it at the end. Ours."""
MAX_SAMPLE = 10.0
"""As of `rig.event_log`: PCM16 numbers taken for floats are no audio."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the process may take, in seconds of real time."""

    load_s: float
    prompt_s: float
    answer_s: float


class WorkerError(InfrastructureError):
    """The process did not do what the protocol says."""


def _failed(what: str, *, hopeless: bool = False) -> WorkerError:
    error = WorkerError(f"worker: {what}")
    error.hopeless = hopeless
    return error


class WorkerSession:
    """`send` cuts the user's audio into the model's frames; `events` gives what it answered."""

    def __init__(self, process: WorkerProcess, hello: Hello, clock: Clock,
                 patience: Patience) -> None:
        self._process = process
        self._hello = hello
        self._clock = clock
        self._patience = patience
        self._lockstep = clock.kind == "virtual"
        self._frame_n = hello.input_rate_hz * FRAME_NS // NS_PER_S
        self._waiting = np.zeros(0, dtype=np.float32)
        self._sent_n = 0
        self._answered_n = 0
        self._handed_over_ns: deque[int] = deque()
        self._told: list[tuple[int, int]] = []
        self._told_from = 0
        self._queue = EventQueue()
        self._failure: WorkerError | None = None

    @property
    def failed(self) -> bool:
        return self._failure is not None

    @property
    def identity(self) -> dict[str, Any]:
        """The worker's own account of itself: versions, weights, decoding."""
        return _facts(self._hello)

    async def send(self, frame: Float32) -> None:
        """20 ms of the user at the worker's input rate, float32 `(n,)`.

        Raises `ValueError` for another shape, `InfrastructureError` after the end.
        """
        if frame.shape != (self._frame_n,):
            raise ValueError(f"send: expected a frame of shape ({self._frame_n},), got "
                             f"{frame.shape}")
        if self._queue.closed:
            raise InfrastructureError("send: the session is closed")
        self._waiting = np.concatenate([self._waiting, frame])
        size_n = self._hello.frame_in_n
        if self._lockstep:
            self.drain()  # what comes before it is asked for is no answer
        while len(self._waiting) >= size_n and not self.failed:
            self._process.send(Frame(self._sent_n, self._waiting[:size_n]))
            self._waiting = self._waiting[size_n:]
            self._sent_n += 1
            self._handed_over_ns.append(self._clock.now_ns())
            if self._lockstep:
                self._look_at(_waited(self._process, self._patience.answer_s))
        self._check_patience()

    async def settle(self) -> None:
        """The schedule is over: wait for the answers that are due, and tell how they were computed.

        Without this a model that hangs or has died would be taken for a silent one, where the
        session is shorter than the patience with it. Raises `InfrastructureError` for it.
        """
        while self._handed_over_ns and not self.failed:
            self.drain()
            self._check_patience()
            if self._handed_over_ns and not self.failed:
                await self._clock.sleep_until(self._clock.now_ns() + FRAME_NS)
        if self._told:
            self._tell()
        for _ in range(MAX_TURNS):  # of the loop, for whoever reads the events
            if not self._queue:
                break
            await asyncio.sleep(0)
        if self._failure is not None:
            # Also where nobody has read so far as the fault.
            raise self._failure

    def _check_patience(self) -> None:
        """In real time: whether the answer that is due has been waited for long enough."""
        if self.failed or not self._handed_over_ns:
            return
        if not self._process.alive:
            self.drain()
        limit_ns = self._patience.answer_s * NS_PER_S
        if self._handed_over_ns and self._clock.now_ns() - self._handed_over_ns[0] > limit_ns:
            self._look_at(None)

    def drain(self) -> None:
        """Look at every answer that has come."""
        while not self.failed and (answer := self._process.take(None)) is not None:
            self._look_at(answer)

    def _look_at(self, answer: Answer | None) -> None:
        match answer:
            case Out():
                problem = self._refusal(answer)
                if problem is None:
                    self._heard(answer)
                    return
                self._fail(problem)
            case None:
                self._fail(f"no answer to frame {self._answered_n} within "
                           f"{self._patience.answer_s:g} s; it hangs, or computes too long "
                           "(--set answer_timeout_s)")
            case _:
                self._fail(*_trouble(answer))

    def _refusal(self, out: Out) -> str | None:
        """Why an answer is none; a frame of another length or place would shift everything after
        it."""
        if out.index != self._answered_n:
            return f"an answer to frame {out.index}, expected one to frame {self._answered_n}"
        if out.index >= self._sent_n:
            given = f"frame {self._sent_n - 1} was the last one" if self._sent_n else "none was"
            return f"an answer to frame {out.index} before it was given: {given}"
        if len(out.samples) != self._hello.frame_out_n:
            return (f"frame {out.index} has {len(out.samples)} samples, expected "
                    f"{self._hello.frame_out_n}")
        if not np.isfinite(out.samples).all():
            return f"frame {out.index} holds samples that are not finite"
        if float(np.abs(out.samples).max(initial=0.0)) > MAX_SAMPLE:
            return f"frame {out.index} holds samples beyond {MAX_SAMPLE:g} times full scale"
        return None

    def _heard(self, out: Out) -> None:
        t_ns = self._clock.now_ns()
        self._handed_over_ns.popleft()
        if out.text and self._hello.transcript != "none":
            self.emit(TextDelta(t_ns, out.text, audio_n=self._answered_n * len(out.samples)))
        self._answered_n += 1
        self.emit(AudioReceived(t_ns, out.samples))
        # What the process has not read is in `out.waiting`, what lies in between is not.
        self._told.append((out.compute_us, max(out.waiting, self._sent_n - self._answered_n)))
        if len(self._told) * self._hello.frame_s >= TOLD_EVERY_S:
            self._tell()

    def _tell(self) -> None:
        self.emit(StateChanged(self._clock.now_ns(), WORKER_FRAMES, json.dumps({
            "first": self._told_from, "frame_ms": 1e3 * self._hello.frame_s,
            "compute_us": [c for c, _ in self._told], "waiting": [w for _, w in self._told]})))
        self._told_from += len(self._told)
        self._told.clear()

    def _fail(self, what: str, hopeless: bool = False) -> None:
        self._failure = _failed(what, hopeless=hopeless)
        if self._told:
            self._tell()
        self.emit(Fault(self._clock.now_ns(), "infrastructure", f"worker: {what}", hopeless))

    def emit(self, event: AgentEvent) -> None:
        self._queue.put((event,))

    def events(self) -> AsyncIterator[AgentEvent]:
        """Everything the model does; ends when the session is closed."""
        return self._queue.events()

    def cue(self, name: str) -> None:
        """Moments of the schedule are not for models."""

    def close(self) -> None:
        """The session is over; what the process still owes belongs to nobody."""
        if not self._queue.closed:
            self._process.owed_n += len(self._handed_over_ns)
        self._queue.close()


@asynccontextmanager
async def open_session(processes: ModelProcesses, config: SessionConfig, clock: Clock,
                       patience: Patience, capabilities: Capabilities,
                       ) -> AsyncIterator[WorkerSession]:
    """A session in a process of its own or in one that is free, ready when its prompt is taken in.

    Raises `InfrastructureError` when the process cannot be brought to that.
    """
    def ready() -> Hello:
        if process.hello is None:
            _load(processes, process, patience, capabilities)
        return _ready(process, config, patience)

    with processes.one() as process:
        # Beside the loop in real time: other sessions run on it.
        hello = ready() if clock.kind == "virtual" else await asyncio.to_thread(ready)
        session = WorkerSession(process, hello, clock, patience)
        session.emit(StateChanged(clock.now_ns(), WORKER_HELLO, json.dumps(_facts(hello))))
        loop = asyncio.get_running_loop()
        if clock.kind == "real":
            process.notify = _wake(loop, session)
            session.drain()  # what came before anybody was told
        try:
            yield session
        finally:
            process.notify = None
            session.close()
        if session.failed and clock.kind == "real":
            # Beside the loop: a process on a GPU takes its time to go.
            await asyncio.to_thread(process.end)
        elif session.failed:
            process.end()


def _waited(process: WorkerProcess, limit_s: float) -> Answer | None:
    """The next answer, waited for in slices: a user who interrupts is heard between them.

    Raises `CancelledError` when the session has been cancelled meanwhile.
    """
    slices = max(1, math.ceil(limit_s / SLICE_S))
    for k in range(slices):
        answer = process.take(min(SLICE_S, limit_s - k * SLICE_S))
        if answer is not None:
            return answer
        if _cancelled():
            raise asyncio.CancelledError
    return None


def _cancelled() -> bool:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # in a thread beside the loop, which `end` wakes
        return False
    return task is not None and task.cancelling() > 0


def _wake(loop: asyncio.AbstractEventLoop, session: WorkerSession) -> Callable[[], None]:
    def wake() -> None:
        try:
            loop.call_soon_threadsafe(session.drain)
        except RuntimeError:
            return  # the loop is closed: the session is over
    return wake


def _facts(hello: Hello) -> dict[str, Any]:
    return {"name": hello.name, "version": hello.version, "settings": hello.settings,
            "frame_ms": 1e3 * hello.frame_s}


def _load(processes: ModelProcesses, process: WorkerProcess, patience: Patience,
          capabilities: Capabilities) -> None:
    """Wait until the model is loaded; blocks."""
    answer = _waited(process, patience.load_s)
    again = processes.loaded(isinstance(answer, Hello))
    if not isinstance(answer, Hello):
        error = _unexpected(answer, "a hello", patience.load_s, "load_timeout_s")
        if again or error.hopeless:
            raise error
        raise _failed(f"{MAX_UNLOADED} processes in a row did not load their model, the last one: "
                      f"{str(error).removeprefix('worker: ')}", hopeless=True)
    process.hello = answer
    _check_hello(answer, capabilities)


def _ready(process: WorkerProcess, config: SessionConfig, patience: Patience) -> Hello:
    """Wait until a loaded model has taken in the prompt; blocks."""
    assert process.hello is not None
    process.sessions_n += 1
    process.send(Reset(process.sessions_n, config.system_prompt, config.seed))
    answer = _waited(process, patience.prompt_s)
    while isinstance(answer, Out) and process.owed_n:
        process.owed_n -= 1
        answer = _waited(process, patience.prompt_s)
    if not isinstance(answer, Ready) or answer.session != process.sessions_n:
        raise _unexpected(answer, f"that session {process.sessions_n} is ready", patience.prompt_s,
                          "prompt_timeout_s")
    return process.hello


def _check_hello(hello: Hello, capabilities: Capabilities) -> None:
    """What the run counts on is what the worker is; another is a mistake in the settings."""
    for name in DECLARED:
        is_, expected = getattr(hello, name), getattr(capabilities, name)
        if is_ != expected:
            raise _failed(f"{hello.name} says {name} {is_}, expected {expected}, as its settings "
                          "or the rig's own script say", hopeless=True)


def _trouble(answer: Answer) -> tuple[str, bool]:
    match answer:
        case Gone(reason):
            return reason, False
        case WorkerFault(_, hopeless):
            return f"the model failed: {answer.reason}", hopeless
    return f"an unexpected {type(answer).__name__}", False


def _unexpected(answer: Answer | None, wanted: str, limit_s: float, setting: str) -> WorkerError:
    if answer is None:
        return _failed(f"expected {wanted} within {limit_s:g} s, nothing came (--set {setting})")
    what, hopeless = _trouble(answer)
    return _failed(f"expected {wanted}: {what}", hopeless=hopeless)
