"""A program of tests/tools as a peer in Pipecat's own environment, which `make test-peers` makes.

DUPLEXRIG_PIPECAT_PYTHON names its Python; without it the tests that ask for a peer are skipped.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

PYTHON = os.environ.get("DUPLEXRIG_PIPECAT_PYTHON", "")
LIMIT_S = 60.0


@contextmanager
def running(program: str, folder: Path) -> Iterator[tuple[int, IO[bytes]]]:
    """Its port, and what it prints from then on; it ends with its standard input."""
    if not PYTHON:
        pytest.skip("DUPLEXRIG_PIPECAT_PYTHON names no Python that has pipecat-ai 1.14.0; "
                    "make test-peers")
    server = subprocess.Popen([PYTHON, str(Path(__file__).with_name(program)), str(folder)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        yield int(server.stdout.readline()), server.stdout
    finally:
        server.stdin.close()
        server.wait(LIMIT_S)
        server.stdout.close()
