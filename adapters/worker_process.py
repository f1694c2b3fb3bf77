"""The process of a local model: started once, asked by many sessions, one after the other.

Threads of it read and write, so that no pipe ever holds up an event loop, and so that waiting has a
limit on every system. Its standard error is not shown; its last lines are in the reason when it
fails.
"""

from __future__ import annotations

import atexit
import errno
import json
import os
import queue
import select
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import IO

from adapters.children import OWN_GROUP
from adapters.peer import Redactor
from adapters.workers.worker_kit.protocol import (
    Bye,
    Decoder,
    Hello,
    Message,
    Out,
    ProtocolError,
    WorkerFault,
    encode,
)
from audio.errors import InfrastructureError
from audio.key_names import HUB_SETTINGS, HUB_TOKENS, without_keys
from audio.processes import INDEX_NAME, disown, own

READ_BYTES = 1 << 16
MAX_UNREAD = 64
"""Answers that wait to be looked at; then the process waits too. Ours."""
BYE_S = 2.0
"""How long all may take together to end by themselves after a goodbye: nothing of theirs is lost by
force. Ours."""
WAIT_S = 0.1
EXIT_S = 5.0
"""How long a process may run on when it has closed its standard output. Ours."""
GROUP_S = 1.0
"""How long what it has started may take to be gone when it was killed. Ours: where nobody collects
the dead of others, they never are."""
LOOK_S = 0.01
LOOK_MS = 250
"""So often it is looked whether a process has ended of which nothing comes. Ours."""
LAST_WORDS_N = 400
"""Characters of its standard error that a reason has. Ours."""
MAX_UNLOADED = 3
"""Processes in a row that end before their model is loaded, then no further one is tried: a full
disk or a missing file fails every case in the same way, after minutes each. Ours."""
KEPT_BYTES = 4096
"""Of its standard error; keys are taken out of these before they are cut."""


_NEVER = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ENOEXEC, errno.EISDIR})
"""Of a program that cannot be started, now or later; others (no memory) may pass."""


@dataclass(frozen=True, slots=True)
class Gone:
    """Nothing more comes from the process."""

    reason: str


Answer = Message | Gone


def worker_environment() -> dict[str, str]:
    """The rig's own without keys: a worker runs code of others. Those of the hub, which it may
    need for its weights, it gets, and nothing that it says may show them."""
    return without_keys(os.environ, (*HUB_TOKENS, *HUB_SETTINGS))


class WorkerProcess:
    """One process with one model."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start it. Raises `InfrastructureError` when that cannot be done."""
        self.hello: Hello | None = None
        self.sessions_n = 0
        self.owed_n = 0
        """Frames of earlier sessions that it has not answered yet."""
        self.notify: Callable[[], None] | None = None
        """Called by another thread whenever there is something to `take`."""
        self._answers: queue.Queue[Answer] = queue.Queue(MAX_UNREAD)
        self._to_write: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._last_words = b""
        self._clean = Redactor(tuple(v for n in HUB_TOKENS if (v := os.environ.get(n))))
        self._ended = threading.Event()
        self._nothing = threading.Event()
        try:
            self._process = subprocess.Popen(
                tuple(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, env={**worker_environment(), **environment}, bufsize=0,
                **OWN_GROUP)
        except OSError as error:
            refused = InfrastructureError(f"worker: cannot start {command[0]}: "
                                          f"{error.strerror or error}")
            refused.hopeless = error.errno in _NEVER
            raise refused from error
        own(self._process.pid)
        self._stderr = self._start(self._listen, self._process.stderr)
        self._reader = self._start(self._read, self._process.stdout)
        self._writer = self._start(self._write, self._process.stdin)

    @staticmethod
    def _start(work: Callable[[IO[bytes]], None], pipe: IO[bytes] | None) -> threading.Thread:
        assert pipe is not None
        thread = threading.Thread(target=work, args=(pipe,), daemon=True)
        thread.start()
        return thread

    def send(self, message: Message) -> None:
        """Hand a message over; it is written as soon as the process takes it."""
        self._to_write.put(encode(message))

    def take(self, timeout_s: float | None) -> Answer | None:
        """The next answer; `None` when none has come in time. No time given: without waiting."""
        try:
            if timeout_s is None:
                return self._answers.get_nowait()
            return self._answers.get(timeout=timeout_s)
        except queue.Empty:
            return None

    @property
    def alive(self) -> bool:
        return not self._ended.is_set() and self._process.poll() is None

    def has_ended(self, within_s: float) -> bool:
        """Whether it ends by itself within so long; waits for that."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(within_s)
        return self._process.returncode is not None

    def say_bye(self) -> None:
        """Ask it to end."""
        self.notify = None
        self._ended.set()
        self.send(Bye())
        self._to_write.put(None)

    def end(self) -> None:
        """End the process by force, where it has not ended."""
        self.notify = None
        self._ended.set()
        self._to_write.put(None)
        self._kill()
        # A reader that waits for room in the queue is let go, and whoever waits for an answer.
        while self.take(None) is not None:
            pass
        self._answers.put(Gone("it was ended"))

    def _kill(self) -> None:
        """By force, with whatever it has started: `uv run` is the parent of the model."""
        if not hasattr(os, "killpg"):
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()
        else:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
                for _ in range(round(GROUP_S / LOOK_S)):
                    # Until the memory of the GPU is free for the next one.
                    os.killpg(self._process.pid, 0)
                    self._nothing.wait(LOOK_S)
            self._process.wait()
        disown(self._process.pid)

    def _chunks(self, pipe: IO[bytes]) -> Iterator[bytes]:
        """What comes out of it, to its end: also where something that it has started holds the
        pipe open (where this system can wait for a pipe with a limit)."""
        wait_ms = LOOK_MS
        look = select.poll() if hasattr(select, "poll") else None
        if look is not None:
            look.register(pipe.fileno(), select.POLLIN)
        while True:
            if look is not None and not look.poll(wait_ms):
                if wait_ms == 0:
                    return
                if self._process.poll() is not None:
                    wait_ms = 0  # what lies there already is still read
                continue
            data = os.read(pipe.fileno(), READ_BYTES)
            if not data:
                return
            yield data

    def _read(self, pipe: IO[bytes]) -> None:
        decoder = Decoder()
        try:
            for data in self._chunks(pipe):
                for message in decoder.feed(data):
                    self._deliver(message)
            self._deliver(Gone(self._why_gone(decoder.partial_n)))
        except ProtocolError as error:
            self._deliver(Gone(self._clean(str(error))))
        except Exception as error:  # noqa: BLE001 - whoever waits must be told of anything
            self._deliver(Gone(f"reading failed: {type(error).__name__}: {error}"))
        finally:
            pipe.close()

    def _deliver(self, answer: Answer) -> None:
        if self._ended.is_set():
            return
        self._answers.put(self._without_secrets(answer))
        if (notify := self.notify) is not None:
            notify()

    def _without_secrets(self, answer: Answer) -> Answer:
        match answer:
            case WorkerFault(reason):
                return replace(answer, reason=" ".join(self._clean(reason).split())[:LAST_WORDS_N])
            case Out(_, _, text) if text:
                return replace(answer, text=self._clean.exactly(text))
            case Hello(name, version, settings=settings):
                cleaned = json.loads(self._clean.exactly(json.dumps(settings, ensure_ascii=False)))
                return replace(answer, name=self._clean.exactly(name),
                               version=self._clean.exactly(version), settings=cleaned)
        return answer

    def _why_gone(self, partial_n: int) -> str:
        try:
            code = self._process.wait(EXIT_S)
        except subprocess.TimeoutExpired:
            return "it closed its standard output and went on running"
        self._stderr.join(EXIT_S)
        cut = f" in the middle of a message ({partial_n} bytes of it)" if partial_n else ""
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        words = self._clean(" ".join(self._last_words.decode("utf-8", "replace").split()))
        words = words[-LAST_WORDS_N:]
        return f"it ended{cut} with {how}" + (f"; its last words: {words}" if words else "")

    def _write(self, pipe: IO[bytes]) -> None:
        # Whoever does not read is found out by the answers that do not come.
        with suppress(OSError), pipe:
            while (data := self._to_write.get()) is not None:
                view = memoryview(data)
                while view:
                    view = view[os.write(pipe.fileno(), view) :]

    def _listen(self, pipe: IO[bytes]) -> None:
        with suppress(OSError), pipe:
            for data in self._chunks(pipe):
                self._last_words = (self._last_words + data[-KEPT_BYTES:])[-KEPT_BYTES:]


class ModelProcesses:
    """The processes of one command that this interpreter has started, and which are free.

    A model takes minutes to load, a session seconds: the process stays for the next one. It keeps
    nothing of a session, that is what `Reset` is for; after any fault it is ended.
    """

    def __init__(self, command: Sequence[str], devices: Sequence[str]) -> None:
        self._command = tuple(command)
        self._devices = tuple(devices)
        self._lock = threading.Lock()
        self._free: list[tuple[int, WorkerProcess]] = []
        self._used: set[int] = set()
        self._unloaded_n = 0
        atexit.register(self.close)

    @contextmanager
    def one(self) -> Iterator[WorkerProcess]:
        """A process for one session. It is kept for the next unless the block raises."""
        place, process = self._taken()
        good = False
        try:
            yield process
            good = process.alive
        finally:
            if not good:
                process.end()
            with self._lock:
                self._used.discard(place)
                if good:
                    self._free.append((place, process))

    def loaded(self, success: bool) -> bool:
        """Tell whether a process has loaded its model. Returns whether another one is worth a try.
        """
        with self._lock:
            self._unloaded_n = 0 if success else self._unloaded_n + 1
            return self._unloaded_n < MAX_UNLOADED

    def _taken(self) -> tuple[int, WorkerProcess]:
        with self._lock:
            while self._free:
                place, process = self._free.pop()
                if process.alive:
                    self._used.add(place)
                    return place, process
                process.end()
            taken = self._used | {p for p, _ in self._free}
            place = next(i for i in range(len(taken) + 1) if i not in taken)
            self._used.add(place)
        try:
            return place, WorkerProcess(self._command, self._environment(place))
        except BaseException:
            with self._lock:
                self._used.discard(place)
            raise

    def _environment(self, place: int) -> dict[str, str]:
        """The device of this process: they are dealt out one after the other, and again."""
        if not self._devices:
            return {}
        index = int(os.environ.get(INDEX_NAME, "0")) + place
        return {"CUDA_VISIBLE_DEVICES": self._devices[index % len(self._devices)]}

    def close(self) -> None:
        """End all that are free."""
        with self._lock:
            free, self._free = self._free, []
        waits_n = round(BYE_S / WAIT_S)
        try:
            for _, process in free:
                process.say_bye()
            for _, process in free:
                while waits_n > 0 and not process.has_ended(WAIT_S):
                    waits_n -= 1
                process.end()
        except KeyboardInterrupt:
            # At the end of the interpreter nobody takes it: what is left is ended by force.
            for _, process in free:
                process.end()


_STARTED: dict[tuple[tuple[str, ...], tuple[str, ...]], ModelProcesses] = {}


def model_processes(command: Sequence[str], devices: Sequence[str]) -> ModelProcesses:
    """Those of this interpreter; a job brings no object along, and a model is not loaded twice."""
    key = tuple(command), tuple(devices)
    if key not in _STARTED:
        _STARTED[key] = ModelProcesses(*key)
    return _STARTED[key]
