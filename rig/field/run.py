"""Many calls over the cores of this machine; results in the order of the calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path

from audio.errors import InfrastructureError
from rig.field.measures import CallMeasures, FieldSettings, Skipped, measure_file
from rig.field.sources import CallSource
from rig.workers import DeadWorkerError, Workers, result

_AHEAD = 4
"""Calls handed out for each process: enough that none waits for the slowest."""
_DEAD_MOST = 3
"""So many calls in a row that each end the process that reads them: it is not the calls."""

_Result = CallMeasures | Skipped


def measure_all(
    sources: Sequence[CallSource], settings: FieldSettings, cache_dir: Path | None, jobs: int
) -> Iterator[_Result]:
    """Measure every call, each as soon as it and all before it are done.

    A call whose process dies over it, as by a decoder that crashes or for want of memory, is
    `Skipped` like any that cannot be read; raises `InfrastructureError` where that happens to
    several in a row. Ended early, processes are ended with what they were reading.
    """
    jobs = min(jobs, len(sources))
    if jobs <= 1:
        for source in sources:
            yield measure_file(source, settings, cache_dir)
        return
    with Workers(jobs) as workers:
        try:
            yield from _shared_out(workers, sources, settings, cache_dir)
        except BaseException:
            workers.stop()  # a call of hours is not waited for
            raise


def _shared_out(workers: Workers, sources: Sequence[CallSource], settings: FieldSettings,
                cache_dir: Path | None) -> Iterator[_Result]:
    running: deque[tuple[CallSource, Future[_Result]]] = deque()
    waiting = deque(sources)
    dead_n = 0
    while waiting or running:
        try:
            while waiting and len(running) < _AHEAD * workers.jobs:
                running.append((waiting[0], workers.submit(measure_file, waiting[0], settings,
                                                           cache_dir)))
                waiting.popleft()
            yield result(running[0][1])
            running.popleft()
        except DeadWorkerError:
            # Whose process it was is not known: each that was handed out is read alone.
            workers.stop()
            for source, future in running:
                found = _finished(future) or _alone(workers, source, settings, cache_dir)
                dead_n = dead_n + 1 if found is None else 0
                if dead_n == _DEAD_MOST:
                    raise InfrastructureError(
                        f"{_DEAD_MOST} calls in a row each ended the process that read them (out "
                        "of memory or killed); what was read is in the cache") from None
                yield found or Skipped(source.name, f"{source.name}: the process that read it "
                                       "died (out of memory, or its decoder crashed)")
            running.clear()


def _finished(future: Future[_Result]) -> _Result | None:
    """What came before the process died."""
    if not future.done() or future.cancelled() or future.exception() is not None:
        return None
    return future.result()


def _alone(workers: Workers, source: CallSource, settings: FieldSettings,
           cache_dir: Path | None) -> _Result | None:
    """A call with no other beside it; `None` when its process dies."""
    try:
        return result(workers.submit(measure_file, source, settings, cache_dir))
    except DeadWorkerError:
        workers.stop()
        return None
