"""`rig adapters`: the systems that can be tested, what they can do and what they can be set to."""

from __future__ import annotations

from dataclasses import fields

import click

from adapters import registry
from adapters.base import Capabilities
from adapters.spec import Setting
from audio.suggest import unknown_name
from rig.console import Output


def _capabilities(capabilities: Capabilities) -> str:
    """Only what is true or has a value worth reading, in the field's own words."""
    words = []
    for field in fields(capabilities):
        value = getattr(capabilities, field.name)
        if value is True:
            words.append(field.name)
        elif not isinstance(value, bool) and value != 0:
            words.append(f"{field.name}={value}")
    return ", ".join(words)


def _setting(setting: Setting) -> str:
    default = str(setting.default).lower() if setting.kind == "bool" else setting.default
    return f"{setting.name}={default}  ({setting.expectation}) {setting.help}"


@click.command("adapters")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(names: tuple[str, ...], as_json: bool) -> int:
    """List the systems that can be tested; all of them, or those named.

    For each: what it is, its capabilities, its settings with default and bounds (for `rig run
    --set KEY=VALUE`), and what is missing where it cannot run here.

    \b
    Example:
      rig adapters
      rig adapters long_endpoint --json
    """
    output = Output(as_json=as_json)
    known = registry.names()
    for name in names:
        if name not in known:
            raise unknown_name("rig adapters", name, known)
    found = [entry for entry in registry.describe() if not names or entry.name in names]
    for entry in found:
        output.line(f"{entry.name}  {entry.summary}")
        if entry.missing is not None:
            output.line(f"    cannot run here: {entry.missing}")
        if entry.unverified is not None:
            output.line(f"    unverified: {entry.unverified}")
        output.line(f"    can: {_capabilities(entry.capabilities)}")
        for setting in entry.settings:
            output.line(f"    --set {_setting(setting)}")
    output.document({"adapters": [entry.as_dict() for entry in found]})
    return 0
