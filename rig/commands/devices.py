"""`rig devices`: the sound devices of this machine, as the sound card adapter names them."""

from __future__ import annotations

from dataclasses import asdict

import click

from adapters.sound_card.devices import listed
from rig.console import Output


@click.command("devices")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(as_json: bool) -> int:
    """List sound devices: index, name, channels, default rate. For `--set input=` and `--set
    output=` of the adapter sound_card. Exit code 2 where PortAudio is missing.

    \b
    Example:
      rig devices
      rig devices --json
    """
    output = Output(as_json=as_json)
    found = listed()
    output.table("sound devices", ["device", "host", "inputs", "outputs", "rate_hz", "default"],
                 [(f"{d.index} {d.name}", d.host, d.inputs_n, d.outputs_n, f"{d.rate_hz:g}",
                   " ".join(["input"] * d.is_default_input + ["output"] * d.is_default_output))
                  for d in found])
    if not found:
        output.note("PortAudio knows no sound device on this machine")
    output.document({"devices": [asdict(d) for d in found]})
    return 0
