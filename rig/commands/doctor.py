"""`rig doctor`: what works on this machine, what does not, and how to mend it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from rig.console import Output
from rig.doctor import Check, examine, healthy


def show_checks(output: Output, title: str, checks: list[Check]) -> None:
    """One line a check, and how to mend it."""
    output.line(title)
    width = max(len(check.name) for check in checks)
    for check in checks:
        output.line(f"  {check.status:8} {check.name:{width}}  {check.detail}")
        if check.fix is not None:
            output.line(f"  {'':8} {'':{width}}  -> {check.fix}")


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(as_json: bool) -> int:
    """Check that everything needed works, and say how to mend what does not.

    Speech engines, voice activity detection, alignment and audio files are really used, each in a
    process of its own. Of API keys only whether they are set is looked at. Exit code 2 when
    something needed is missing or broken.

    \b
    Example:
      rig doctor
      rig doctor --json
    """
    output = Output(as_json=as_json)
    checks = examine(Path.cwd())
    good = healthy(checks)
    show_checks(output, "Needed", [check for check in checks if check.needed])
    output.line()
    show_checks(output, "Optional", [check for check in checks if not check.needed])
    output.line()
    bad = sum(check.needed and check.status != "ok" for check in checks)
    output.line("everything needed works" if good else f"{bad} needed "
                f"{'thing does' if bad == 1 else 'things do'} not work")
    output.document({"ok": good, "checks": [asdict(check) for check in checks]})
    return 0 if good else 2
