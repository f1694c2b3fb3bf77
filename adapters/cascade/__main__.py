"""The server as a child of somebody else: it lives as long as its standard input.

    python -m adapters.cascade [--port 0] [--pace 4]

One line of JSON on standard output says that it is ready and where: `{"base_url": "ws://..."}`, or
`{"error": "..."}`. For people there is `rig cascade`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import threading
from typing import TextIO

from adapters.cascade.server import DEFAULT_PACE, serving
from audio.errors import RigError

END_S = 5.0
"""How long the server may take to end once nobody holds its standard input; then it is ended."""


async def _serve(port: int, pace: float, answers: TextIO) -> None:
    over = asyncio.Event()
    ended = threading.Event()
    threading.Thread(target=_until_stdin_ends, daemon=True,
                     args=(asyncio.get_running_loop(), over, ended)).start()
    try:
        async with serving(port, pace) as address:
            _tell(answers, {"base_url": address.base_url})
            await over.wait()
    except RigError as error:
        _tell(answers, {"error": str(error)})
    ended.set()


def _until_stdin_ends(
    loop: asyncio.AbstractEventLoop, over: asyncio.Event, ended: threading.Event
) -> None:
    while sys.stdin.buffer.read(4096):
        pass
    try:
        loop.call_soon_threadsafe(over.set)
    except RuntimeError:  # the loop is closed: the server has ended by itself
        return
    if not ended.wait(END_S):
        os._exit(1)


def _tell(answers: TextIO, what: dict[str, str]) -> None:
    try:
        answers.write(json.dumps(what) + "\n")
        answers.flush()
    except BrokenPipeError:  # nobody waits any more
        sys.stderr.write("cascade: nobody reads standard output\n")


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(prog="python -m adapters.cascade")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--pace", type=float, default=DEFAULT_PACE)
    given = parser.parse_args()
    # Standard output is for the one line alone; whatever a library prints goes to standard error.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    asyncio.run(_serve(given.port, given.pace, answers))


if __name__ == "__main__":
    main()
