"""Runs the example agent of a page of docs/adapters, as its reader would."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from rig.clock import pause

DOCS = Path(__file__).parents[2] / "docs" / "adapters"
PORT = "8765"
"""Of the examples; here each gets a free one in its place."""
START_S = 20.0


def example_of(name: str) -> str:
    """The first block of Python on the page."""
    found = re.search(r"^```python\n(.*?)^```", (DOCS / f"{name}.md").read_text(), re.M | re.S)
    assert found is not None, name
    return found[1]


def lines_n(name: str) -> int:
    """Lines of the example beside imports and empty ones."""
    lines = [line for line in example_of(name).splitlines() if line.strip()]
    return sum(not line.startswith(("import ", "from ")) for line in lines)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@contextmanager
def running_example(name: str) -> Iterator[str]:
    """The example in a process of its own; gives its address."""
    source, port = example_of(name), free_port()
    assert source.count(PORT) == 1
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "agent.py"
        script.write_text(source.replace(PORT, str(port)), encoding="utf-8")
        agent = subprocess.Popen([sys.executable, str(script)], cwd=folder,
                                 stderr=subprocess.DEVNULL)
        try:
            for _ in range(round(START_S / 0.05)):
                assert agent.poll() is None, "the example ended"
                if _answers(port):
                    break
                pause(0.05)
            else:
                raise AssertionError(f"the example does not listen after {START_S:g} s")
            yield f"ws://127.0.0.1:{port}"
        finally:
            agent.terminate()
            agent.wait(10)


def likeness(part: np.ndarray, whole: np.ndarray) -> tuple[float, int]:
    """The largest normalised correlation of a part with a stretch of the whole, and where that
    begins."""
    n = len(part) + len(whole)
    match = np.fft.irfft(np.fft.rfft(whole, n) * np.conj(np.fft.rfft(part, n)), n)
    at = int(np.argmax(match[:len(whole)]))
    stretch = whole[at:at + len(part)]
    return float(match[at] / np.sqrt(np.sum(part**2) * np.sum(stretch**2))), at
