"""The echo worker on a machine that stands still: `python stalling_worker.py WHO MS AT_FRAME FILE`.

When it has answered frame AT_FRAME, processes are stopped for MS milliseconds, once as long as
there is no FILE: `worker` this one alone, `machine` the rig as well. POSIX.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "adapters" / "workers"))

from echo_worker import Echo, Float32
from worker_kit.serve import serve


def stop_and_go(asked: int, pids: list[int], seconds: float) -> None:
    """In a process of its own, which nobody stops: wait for a byte, then stop the others."""
    os.read(asked, 1)
    select.select([], [], [], 0.03)  # the answer is on its way
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        select.select([], [], [], seconds)
    finally:
        for pid in reversed(pids):
            os.kill(pid, signal.SIGCONT)


class Stalling(Echo):
    def __init__(self, at: int, file: Path, ask: int) -> None:
        self._k, self._at, self._file, self._ask = 0, at, file, ask
        super().__init__(3)

    def reset(self, system_prompt: str, seed: int) -> None:
        self._k = 0
        super().reset(system_prompt, seed)

    def step(self, samples: Float32) -> tuple[Float32, str]:
        if self._k == self._at and not self._file.exists():
            self._file.touch()
            os.write(self._ask, b"s")
        self._k += 1
        return super().step(samples)


if __name__ == "__main__":
    who, ms, at, file = sys.argv[1:]
    asked, ask = os.pipe()
    pids = [os.getpid()] if who == "worker" else [os.getppid(), os.getpid()]
    if os.fork() == 0:
        for unused in (0, 1, ask):  # the rig waits for the end of the worker's pipes
            os.close(unused)
        stop_and_go(asked, pids, float(ms) / 1e3)
        os._exit(0)
    serve(lambda: Stalling(int(at), Path(file), ask))
