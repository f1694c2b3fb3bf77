"""Processes that work for one `rig`: they leave Ctrl-C to it and end when it ends."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from audio.errors import InfrastructureError
from audio.processes import end_with_parent, give_way

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

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Like `Executor.submit`. Raises like `result`."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                self.jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_begin,
                initargs=(self._nice,))
        with _interrupts_held_back(), _dead_worker():
            return self._pool.submit(function, *args, **kwargs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


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
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _frame: came.append(number))
    can_block = hasattr(signal, "pthread_sigmask")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if can_block else set()
    try:
        yield
    finally:
        if can_block:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGINT, handler)
        if came:
            signal.raise_signal(signal.SIGINT)


def _begin(nice: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    give_way(nice)
