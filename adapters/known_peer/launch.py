"""Starts the known peer in a process of its own and ends it."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from audio.errors import InfrastructureError

START_S = 120.0
"""How long it may take to say its address: it synthesises its speech first (seconds). Ours."""
END_S = 10.0


@contextmanager
def started() -> Iterator[str]:
    """Run `python -m adapters.known_peer` while the block lasts; gives its address.

    Raises `InfrastructureError` when it does not start. The process ends when this one does.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "adapters.known_peer", "--until-eof"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield _address(process)
    finally:
        process.stdin.close()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    if sys.platform != "win32":  # pipes cannot be waited for there
        ready, _, _ = select.select([process.stdout], [], [], START_S)
        if not ready:
            process.kill()
            raise InfrastructureError(f"known peer: no address within {START_S:g} s")
    line = process.stdout.readline()
    try:
        return str(json.loads(line)["url"])
    except (ValueError, KeyError, TypeError):
        raise InfrastructureError(f"known peer: expected its address, got {line[:80]!r}; see its "
                                  "messages above") from None
