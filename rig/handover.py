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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
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
from rig.workers import DeadWorkerError, Workers, awaited

PIECE_N = 200
"""Events or chunks in a piece: pickling 200 events takes half a millisecond. Ours."""
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
        async with self._ahead:
            loop = asyncio.get_running_loop()
            pieces = await loop.run_in_executor(self._packer, _packed, played)
            about = (pieces, run, case, stream, trial, seed, adapter)
            process = self._process
            try:
                return await awaited(process.submit(_write, *about))
            except DeadWorkerError:
                # The session is still here, and whole files are all that is ever written.
                if self._process is process:
                    self._process = Workers(1, nice=NICE)
                process.__exit__(None, None, None)
            return await awaited(self._process.submit(_write, *about))

    def __enter__(self) -> Self:
        self._process.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._packer.shutdown(wait=True, cancel_futures=True)
        self._process.__exit__(kind, error, trace)


def _packed(played: Played) -> list[bytes]:
    """The head, then audio of the user, audio received, events: one or more pieces each."""
    head = replace(played, user=_NOTHING, received=[], events=[])
    pieces = [pickle.dumps(head), played.user.tobytes()]
    received: list[bytes] = []
    for chunks in _parts(played.received):
        received.append(np.concatenate(chunks).tobytes())
        pause(BREATH_S)
    pieces += [pickle.dumps(len(received)), *received]
    for events in _parts(played.events):
        pieces.append(pickle.dumps(events))
        pause(BREATH_S)
    return pieces


def _unpacked(pieces: Sequence[bytes]) -> Played:
    """The session again; received chunks may have grown together."""
    head: Played = pickle.loads(pieces[0])  # noqa: S301  packed by this program, a moment ago
    received_n: int = pickle.loads(pieces[2])  # noqa: S301
    first_events = 3 + received_n
    events = [e for piece in pieces[first_events:] for e in pickle.loads(piece)]  # noqa: S301
    return replace(head, user=_floats(pieces[1]), events=events,
                   received=[_floats(piece) for piece in pieces[3:first_events]])


def _parts(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for first in range(0, len(items), PIECE_N):
        yield items[first : first + PIECE_N]


def _floats(piece: bytes) -> Float32:
    return np.frombuffer(piece, dtype=np.float32)


def _write(pieces: Sequence[bytes], run: RunFolder, case: Case, stream: Stream, trial: int,
           seed: int, adapter: AdapterFacts) -> Written:
    record = write_session(run, case, stream, trial, seed, adapter, _unpacked(pieces), "real")
    return Written(record.timing.void_reason if record.timing.void else None)


def _nothing() -> None:
    """Its import has done the work."""
