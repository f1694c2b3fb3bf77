"""The worker's end: a script makes a `Model` and calls `serve`. Standard library and numpy alone.

    class Mine(Model):
        def hello(self): ...
        def reset(self, system_prompt, seed): ...
        def step(self, samples): return samples_out, "text"

    if __name__ == "__main__":
        serve(Mine)

Messages go over standard input and output; whatever a library prints goes to standard error.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import BinaryIO

from .protocol import (
    Bye,
    Decoder,
    Float32,
    Frame,
    Hello,
    Message,
    Out,
    ProtocolError,
    Ready,
    Reset,
    WorkerFault,
    encode,
)

READ_BYTES = 1 << 16
ORPHAN_S = 10.0
"""A worker whose rig is gone ends so long after it at the latest, whatever its model is doing."""


class HopelessError(RuntimeError):
    """The model cannot run here: no second try."""


class Model(ABC):
    """One model. Loading is its constructor; every session begins with `reset`."""

    @abstractmethod
    def hello(self) -> Hello:
        """What it is."""

    @abstractmethod
    def reset(self, system_prompt: str, seed: int) -> None:
        """Fresh state: nothing of an earlier session may be left."""

    @abstractmethod
    def step(self, samples: Float32) -> tuple[Float32, str]:
        """`(frame_in_n,)` of the user in, `(frame_out_n,)` of the model and its text out: an array
        of floats of one dimension (float64 will do), full scale 1.0, anything else is a fault."""


def serve(make: Callable[[], Model]) -> None:
    """Load, say hello, answer until the rig says goodbye or is gone. In a process that the model
    has started by `multiprocessing`, which runs the script once more, it does nothing."""
    if multiprocessing.parent_process() is not None:
        return
    asked, answers = _claim_pipes()
    try:
        model = make()
        _write(answers, model.hello())
        _answer(model, asked, answers)
    except BrokenPipeError:
        pass
    except HopelessError as error:
        _write(answers, WorkerFault(str(error), hopeless=True))
        sys.exit(1)
    except Exception as error:  # the rig is told, the traceback is in the log
        _write(answers, WorkerFault(f"{type(error).__name__}: {error}"))
        raise


def _answer(model: Model, asked: int, answers: BinaryIO) -> None:
    messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(asked, messages), daemon=True).start()
    while not isinstance(message := messages.get(), Bye | None):
        begin_ns = time.perf_counter_ns()
        match message:
            case Reset(session, system_prompt, seed):
                model.reset(system_prompt, seed)
                _write(answers, Ready(session, (time.perf_counter_ns() - begin_ns) / 1e6))
            case Frame(index, samples):
                said, text = model.step(samples)
                compute_us = (time.perf_counter_ns() - begin_ns) // 1000
                _write(answers, Out(index, said, text, compute_us, messages.qsize()))
            case _:
                raise ProtocolError(f"expected Reset, Frame or Bye, got {type(message).__name__}")


def _read(asked: int, messages: queue.SimpleQueue[Message | None]) -> None:
    """Everything that comes, in order; `None` when nothing more can."""
    decoder = Decoder()
    try:
        while data := os.read(asked, READ_BYTES):
            for message in decoder.feed(data):
                messages.put(message)
    except ProtocolError as error:
        sys.stderr.write(f"worker: {error}\n")
    finally:
        messages.put(None)
        last = threading.Timer(ORPHAN_S, os._exit, (1,))
        last.daemon = True
        last.start()


def _claim_pipes() -> tuple[int, BinaryIO]:
    """Standard input for the rig's messages and standard output for answers alone. Whatever the
    model asks of standard input, or a program that it starts (ffmpeg reads there), finds the end of
    a file, and takes nothing of the user's audio."""
    asked, answers = os.dup(0), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return asked, answers


def _write(answers: BinaryIO, message: Message) -> None:
    answers.write(encode(message))
    answers.flush()
