"""A worker with frames of a second, which says that it computed 1.5 s on each."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "adapters" / "workers"))

import numpy as np
import worker_kit.serve
from worker_kit.protocol import Hello, Message, Out

RATE_HZ = 24_000
real_write = worker_kit.serve._write


def write(answers: object, message: Message) -> None:
    if isinstance(message, Out):
        message = Out(message.index, message.samples, message.text, 1_500_000, message.waiting)
    real_write(answers, message)


class Second(worker_kit.serve.Model):
    def hello(self) -> Hello:
        return Hello("second", "1", RATE_HZ, RATE_HZ, RATE_HZ, RATE_HZ, full_duplex=True,
                     persona_prompt=False, transcript="stream")

    def reset(self, system_prompt: str, seed: int) -> None:
        pass

    def step(self, samples: np.ndarray) -> tuple[np.ndarray, str]:
        return np.zeros(RATE_HZ, np.float32), ""


if __name__ == "__main__":
    worker_kit.serve._write = write
    worker_kit.serve.serve(Second)
