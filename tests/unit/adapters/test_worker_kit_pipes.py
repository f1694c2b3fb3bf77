"""What a model does to standard input and output beside the kit takes nothing of the protocol."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import numpy as np
import pytest
from lockstep_clock import Lockstep

from adapters import registry
from adapters.base import AudioReceived, Fault, SessionConfig
from adapters.workers import worker_kit
from audio.timebase import FRAME_NS

SCRIPT = f"""
import multiprocessing, os, subprocess, sys
sys.path.insert(0, {str(Path(worker_kit.__path__[0]).parent)!r})
from worker_kit.protocol import Hello
from worker_kit.serve import Model, serve

class Mine(Model):
    def hello(self):
        return Hello("mine", "1", 24_000, 24_000, 1920, 1920, True, True)
    def reset(self, system_prompt, seed):
        pass
    def step(self, samples):
        ACTION
        return samples, ""

serve(Mine)
"""


def heard(tmp_path: Path, action: str, frames: int = 24) -> tuple[int, list[str]]:
    """Samples that came back of so many frames of 20 ms, all of them 0.5, and every fault."""
    script = tmp_path / "mine.py"
    script.write_text(SCRIPT.replace("ACTION", action))
    adapter = registry.create("worker", {"command": f"{sys.executable} {script}",
                                         "transcript": "none", "answer_timeout_s": "20"})

    async def play() -> tuple[int, list[str]]:
        clock = Lockstep()
        async with adapter.session(SessionConfig("case", 1, "", 1), clock) as session:
            for k in range(frames):
                clock.t_ns = (k + 1) * FRAME_NS
                await session.send(np.full(480, 0.5, np.float32))
            samples_n, faults = 0, []
            async for event in session.events():
                if isinstance(event, AudioReceived):
                    np.testing.assert_array_equal(event.samples, np.float32(0.5))
                    samples_n += len(event.samples)
                if isinstance(event, Fault):
                    faults.append(event.reason)
                if faults or samples_n == frames * 480:
                    break
            return samples_n, faults

    return asyncio.run(play())


@pytest.mark.parametrize("action", [
    # A program that reads what it can, as ffmpeg does: some bytes, or everything to the end.
    'subprocess.run([sys.executable, "-c", "import os; os.read(0, 100)"], check=True)',
    'subprocess.run([sys.executable, "-c", "import sys; sys.stdin.read()"], check=True)',
    # It is started anew and runs the script again, which has no guard.
    'p = multiprocessing.get_context("spawn").Process(target=print); p.start(); p.join(); '
    "assert p.exitcode == 0",
    'print("x" * 5000); os.write(1, b"raw"); subprocess.run(["echo", "from a program"])',
])
def test_what_a_model_starts_takes_no_audio(tmp_path: Path, action: str) -> None:
    assert heard(tmp_path, action) == (24 * 480, [])


def test_a_question_to_nobody_is_a_fault_and_no_wait(tmp_path: Path) -> None:
    """As of code from a hub that wants to be trusted."""
    samples_n, faults = heard(tmp_path, 'input("trust? [y/N] ")')
    assert samples_n == 0
    assert faults == ["worker: the model failed: EOFError: EOF when reading a line"]
