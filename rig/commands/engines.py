"""`rig engines`: the speech engines, what they can do and what they can be set to."""

from __future__ import annotations

import click

from audio import engines
from rig.console import Output


def _capabilities(can: engines.EngineCapabilities) -> str:
    words = [
        "same samples from the same seed" if can.deterministic else "not deterministic: the "
        "stored segments are what counts",
        "sends the text to a server" if can.needs_network else "no network",
        "in a process of its own" if can.own_process else "in the rig's process",
        "/".join(can.languages)]
    if can.max_chars is not None:
        words.append(f"at most {can.max_chars} characters at once")
    return ", ".join(words)


@click.command("engines")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(names: tuple[str, ...], as_json: bool) -> int:
    """List the speech engines for `rig build --tts`; all of them, or those named.

    For each: what may be relied on, its licence, its settings (for `--tts-set KEY=VALUE`), whether
    its real speech was ever measured, and what is missing where it cannot run here. Nothing is
    loaded and nobody is asked.

    \b
    Example:
      rig engines
      rig engines piper --json
    """
    output = Output(as_json=as_json)
    found = [engines.entry(name) for name in dict.fromkeys(names)] or [*engines.ENGINES.values()]
    for entry in found:
        output.line(f"{entry.name}  {entry.summary}")
        if (missing := entry.missing()) is not None:
            output.line(f"    cannot run here: {missing}")
        output.line(f"    {_capabilities(entry.capabilities)}")
        output.line(f"    licence: {entry.capabilities.licence}")
        if not entry.capabilities.verified:
            output.line(f"    unverified: {entry.capabilities.unverified}")
        for setting in entry.settings:
            value = setting.default or ("..." if setting.required else "")
            needed = "required: " if setting.required else ""
            output.line(f"    --tts-set {setting.name}={value}  {needed}{setting.help}")
    output.document({"engines": [entry.as_dict() for entry in found]})
    return 0
