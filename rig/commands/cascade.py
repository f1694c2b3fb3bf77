"""`rig cascade`: the built-in voice agent, served on this machine for any client."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

import click

from rig.console import Output
from rig.finite_option import Finite


@click.command("cascade")
@click.option("--port", type=click.IntRange(0, 65_535), default=0, show_default=True,
              help="Port on 127.0.0.1; 0 takes a free one.")
@click.option("--pace", type=Finite(0, 1000), default=4.0, show_default=True,
              help="Seconds of audio sent a second; 0 sends a reply at once.")
@click.option("--json", "as_json", is_flag=True,
              help="One JSON document on standard output, once it is ready.")
def command(port: int, pace: float, as_json: bool) -> int:
    """Serve the built-in voice agent over the OpenAI Realtime protocol, until Ctrl-C.

    It listens on 127.0.0.1 alone and wants no key. For `rig run` it needs no serving: `--adapter
    cascade` starts one for each session.

    \b
    Example:
      rig cascade --port 8765
      OPENAI_API_KEY=none rig check --adapter openai-realtime --set base_url=ws://127.0.0.1:8765/v1
    """
    output = Output(as_json=as_json)
    with suppress(KeyboardInterrupt):  # how it is meant to end
        asyncio.run(_serve(port, pace, output))
    return 0


async def _serve(port: int, pace: float, output: Output) -> None:
    from adapters.cascade.server import serving

    async with serving(port, pace) as address:
        output.line(f"serving {address.url}")
        output.line(f"base_url for clients and adapters: {address.base_url}; Ctrl-C ends it")
        output.document({"url": address.url, "base_url": address.base_url})
        sys.stdout.flush()  # a script that started it waits for this
        await asyncio.Event().wait()
