"""The smallest worker: says what it hears, some frames later. An example, and the rig's own test.

    python adapters/workers/echo_worker.py --frames 3
"""

from __future__ import annotations

import argparse
from collections import deque

import numpy as np
from worker_kit.protocol import Float32, Hello
from worker_kit.serve import Model, serve

FRAME_N = 1920  # 80 ms at 24 kHz


class Echo(Model):
    def __init__(self, frames: int) -> None:
        self._frames = frames
        self.reset("", 0)

    def hello(self) -> Hello:
        return Hello("echo", "1", 24_000, 24_000, FRAME_N, FRAME_N, full_duplex=True,
                     persona_prompt=False, transcript="stream", settings={"frames": self._frames})

    def reset(self, system_prompt: str, seed: int) -> None:
        self._line = deque([np.zeros(FRAME_N, np.float32)] * self._frames)
        self._was_loud = False

    def step(self, samples: Float32) -> tuple[Float32, str]:
        self._line.append(samples)
        said = self._line.popleft()
        loud = bool(np.abs(said).max() > 0.01)
        text = " echo" if loud and not self._was_loud else ""
        self._was_loud = loud
        return said, text


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--frames", type=int, default=3)
    frames = parser.parse_args().frames
    serve(lambda: Echo(frames))
