"""Processes that work for one `rig`: they leave Ctrl-C to it and end when it ends."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized
from types import FrameType, TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from audio.errors import InfrastructureError
from audio.interrupts import held_back
from audio.processes import INDEX_NAME, end_own, end_with_parent, give_way

P = ParamSpec("P")
T = TypeVar("T")


class DeadWorkerError(InfrastructureError):
    """A worker process has ended by itself, or was ended."""


class Workers:
    """Up to `jobs` fresh interpreters, started when first needed; nothing is inherited but what a
    job carries. Used as a context, so that they never outlive it; one set may serve many runs.
    `nice` is how far they give way to this process, where the system knows that."""

    def __init__(self, jobs: int, *, nice: int = 0) -> None:
        self.jobs = jobs
        self._nice = nice
        self._pool: ProcessPoolExecutor | None = None
        self._lines: tuple[Any, Any] | None = None
        """Both ends of a pipe that says nothing; when it is closed here, the processes end."""

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Like `Executor.submit`. Raises like `result`."""
        if self._pool is None:
            start_tracker()
            spawn = multiprocessing.get_context("spawn")
            self._lines = spawn.Pipe(duplex=False)
            self._pool = ProcessPoolExecutor(
                self.jobs, mp_context=spawn, initializer=_begin,
                initargs=(self._nice, spawn.Value("i", 0), self._lines[0]))
        with _interrupts_held_back(), _dead_worker():
            return self._pool.submit(function, *args, **kwargs)

    def in_order(self, calls: Sequence[Callable[[], T]]) -> Iterator[T]:
        """The result of each call, in their order, each as soon as it and all before it are there.
        A single call, or calls for a single process, are made here. Raises like `result`."""
        if self.jobs <= 1 or len(calls) <= 1:
            for call in calls:
                yield call()
            return
        futures = [self.submit(call) for call in calls]
        try:
            for future in futures:
                yield result(future)
        finally:
            for future in futures:
                future.cancel()

    def stop(self) -> None:
        """End the processes at once, whatever they do, with what they have started; what they were
        computing is lost. A job that is given later is done by new ones."""
        pool, self._pool = self._pool, None
        self._hang_up()
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)

    def _hang_up(self) -> None:
        lines, self._lines = self._lines, None
        for line in lines or ():
            line.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._hang_up()


def result(future: Future[T]) -> T:
    """Like `future.result()`. Raises `DeadWorkerError` when the process has died."""
    with _dead_worker():
        return future.result()


async def awaited(future: Future[T]) -> T:
    """Like `await`. Raises like `result`."""
    with _dead_worker():
        return await asyncio.wrap_future(future)


@contextmanager
def _dead_worker() -> Iterator[None]:
    try:
        yield
    except BrokenProcessPool as error:
        raise DeadWorkerError("a worker process died (out of memory or killed); what was "
                              "finished is kept, a run goes on with --resume") from error


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Ctrl-C waits until the block is over.

    A terminal sends it to every process. A worker that is still importing would die of it with a
    traceback, so it inherits a blocked signal. In this process it would leave a half-started
    worker behind; as any thread may receive it, it is not enough to block it in this one.
    """
    with held_back():
        if threading.current_thread() is not threading.main_thread() \
                or not hasattr(signal, "pthread_sigmask"):
            yield
            return
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(nice: int, begun_n: Synchronized[int], line: Connection[Any, Any]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end_now)
    with begun_n.get_lock():
        os.environ[INDEX_NAME] = str(begun_n.value)
        begun_n.value += 1
    end_with_parent()
    threading.Thread(target=_end_with, args=(line,), daemon=True, name="stop-watch").start()
    give_way(nice)


def _end_with(line: Connection[Any, Any]) -> None:
    with suppress(EOFError, OSError):
        line.recv()
    _end_now()


def _end_now(_number: int = 0, _frame: FrameType | None = None) -> None:
    """What is written half here was never there: all files get their names when they are whole."""
    end_own()
    os._exit(1)


@contextmanager
def ended_as_interrupted() -> Iterator[None]:
    """Whoever ends this process by SIGTERM, or by closing its terminal, ends it as Ctrl-C does:
    what it has started ends too, and what was finished is kept."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        # An event loop has its own way of taking Ctrl-C; in the background there is none.
        if callable(signal.getsignal(signal.SIGINT)):
            signal.raise_signal(signal.SIGINT)
        else:
            raise KeyboardInterrupt

    numbers = [n for name in ("SIGTERM", "SIGHUP") if (n := getattr(signal, name, None)) is not None
               and signal.getsignal(n) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def start_tracker() -> None:
    """Before the first process. Python's resource tracker, which all of them share, heeds no Ctrl-C
    and no SIGTERM, but would end with its terminal and leave a page of tracebacks: it inherits that
    it does not."""
    if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            resource_tracker.ensure_running()
        finally:
            signal.signal(signal.SIGHUP, signal.SIG_DFL if before is None else before)
