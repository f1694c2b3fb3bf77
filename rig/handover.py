"""Played sessions on their way to the process that writes their files.

Writing one takes a tenth of a second of computing. On another thread of this process that would
make the frames of all other sessions late: each call to the system gives the interpreter's lock
away, and gets it back only when the other thread lets go (60 sessions that ended together: 1.5 s
late, docs/realtime.md). So another process writes, and a session is taken apart for it in pieces
of about a millisecond.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from types import TracebackType
from typing import Any, Self

import numpy as np

from audio.buffers import Float32
from probes.manifest import Case, Stream
from rig.clock import pause
from rig.orchestrator import Played
from rig.record import AdapterFacts
from rig.recorder import write_session
from rig.store import RunFolder
from rig.workers import DeadWorkerError, Workers, awaited, result

PIECE_AUDIO_N = 48_000
"""Samples of the user's audio in a piece: 2 s, 0.2 MB. Ours."""
PIECE_N = 200
"""Events, or chunks at most, in a piece: pickling 200 events takes half a millisecond. Ours."""
BREATH_S = 0.002
"""Between two pieces: the event loop never waits for more than one of them. Ours."""
NICE = 15
"""Of the process that writes: frames go first where two want the same core. Ours."""
AHEAD_N = 2
"""Sessions that are packed or being written; the next ones wait, so that none is held twice."""
_NOTHING = np.zeros(0, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Written:
    """What the run has to know of a session whose files are written, or left out as `void`."""

    void_reason: str | None


class SessionWriter:
    """One process that writes sessions, in the order in which they end. Used as a context."""

    def __init__(self) -> None:
        self._process = Workers(1, nice=NICE)
        self._packer = ThreadPoolExecutor(1, thread_name_prefix="packer")
        self._ahead = asyncio.Semaphore(AHEAD_N)

    async def start(self) -> None:
        """Start the process and let it import what it needs, before any frame is due."""
        await awaited(self._process.submit(_nothing))

    async def write(self, run: RunFolder, case: Case, stream: Stream, trial: int, seed: int,
                    adapter: AdapterFacts, played: Played) -> Written:
        """`recorder.write_session`, elsewhere. Raises what it raises, and `DeadWorkerError` when
        the process has died of this session twice."""
        about = (run, case, stream, trial, seed, adapter)
        async with self._ahead:
            process = self._process
            try:
                return await self._write_by(process, played, about)
            except DeadWorkerError:
                # The session is still here, and whole files are all that is ever written.
                if self._process is process:
                    self._process = Workers(1, nice=NICE)
                process.__exit__(None, None, None)
            return await self._write_by(self._process, played, about)

    async def _write_by(self, process: Workers, played: Played, about: _About) -> Written:
        # One thread hands over, so the pieces of one session are never between those of another.
        loop = asyncio.get_running_loop()
        return await awaited(await loop.run_in_executor(
            self._packer, _hand_over, process, played, about))

    def __enter__(self) -> Self:
        self._process.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._packer.shutdown(wait=True, cancel_futures=True)
        self._process.__exit__(kind, error, trace)


_About = tuple[RunFolder, Case, Stream, int, int, AdapterFacts]


def _hand_over(process: Workers, played: Played, about: _About) -> Future[Written]:
    """Piece by piece: one object of megabytes would be copied in one go, with the lock held."""
    for number, piece in enumerate(_pieces(played)):
        result(process.submit(_take, number, piece))
        pause(BREATH_S)
    return process.submit(_write, *about)


def _pieces(played: Played) -> Iterator[bytes]:
    """The head, then audio of the user, audio received and events, as many of each as it takes."""
    yield pickle.dumps(replace(played, user=_NOTHING, received=[], events=[], sent=[]))
    for first_n in range(0, len(played.user), PIECE_AUDIO_N):
        yield pickle.dumps(("user", played.user[first_n : first_n + PIECE_AUDIO_N]))
    for audio in _longer(played.received):
        yield pickle.dumps(("received", audio))
    for audio in _longer(played.sent):
        yield pickle.dumps(("sent", audio))
    for events in _parts(played.events):
        yield pickle.dumps(("events", events))


def _longer(chunks: Sequence[Float32]) -> Iterator[Float32]:
    """The same audio in chunks of about `PIECE_AUDIO_N` samples and more, but for the last one."""
    waiting: list[Float32] = []
    waiting_n = 0
    for chunk in chunks:
        waiting.append(chunk)
        waiting_n += len(chunk)
        if waiting_n >= PIECE_AUDIO_N or len(waiting) >= PIECE_N:
            yield np.concatenate(waiting)
            waiting, waiting_n = [], 0
    if waiting:
        yield np.concatenate(waiting)


_taken: list[bytes] = []
"""In the process that writes: the pieces of the session that is being handed over."""


def _take(number: int, piece: bytes) -> None:
    del _taken[number:]  # a hand-over that broke off leaves nothing to the next one
    _taken.append(piece)


def _joined(pieces: Sequence[bytes]) -> Played:
    """The session again; received chunks may have grown together."""
    head: Played = pickle.loads(pieces[0])  # noqa: S301  packed by this program, a moment ago
    parts: dict[str, list[Any]] = {"user": [_NOTHING], "received": [], "events": [],
                                   "sent": []}
    for piece in pieces[1:]:
        kind, part = pickle.loads(piece)  # noqa: S301
        parts[kind].append(part)
    return replace(head, user=np.concatenate(parts["user"]), received=parts["received"],
                   sent=parts["sent"], events=list(chain.from_iterable(parts["events"])))


def _parts(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for first in range(0, len(items), PIECE_N):
        yield items[first : first + PIECE_N]


def _write(*about: *_About) -> Written:
    played = _joined(_taken)
    _taken.clear()
    record = write_session(*about, played, "real")
    return Written(record.timing.void_reason if record.timing.void else None)


def _nothing() -> None:
    """Its import has done the work."""
