"""`python -m adapters.known_peer [--port N]`: one JSON line with the port, then serves.

Ends with its standard input when `--until-eof` is given, so that it never outlives who started it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys

from adapters.known_peer.agents import prepare
from adapters.known_peer.server import running


async def _serve(port: int, until_eof: bool) -> None:
    prepare()
    async with running(port=port) as bound:
        sys.stdout.write(json.dumps({"port": bound, "url": f"ws://127.0.0.1:{bound}"}) + "\n")
        sys.stdout.flush()
        if until_eof:
            await asyncio.to_thread(sys.stdin.read)
        else:
            await asyncio.Event().wait()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m adapters.known_peer",
                                     description="A peer of known behaviour on this machine.")
    parser.add_argument("--port", type=int, default=0, help="default: any free one")
    parser.add_argument("--until-eof", action="store_true", help="end with standard input")
    options = parser.parse_args()
    try:
        asyncio.run(_serve(options.port, options.until_eof))
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        sys.stderr.write(f"known peer: cannot serve on port {options.port}: {error.strerror}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
