"""`rig worker`: local models, how each is started, and what this machine lacks for it."""

from __future__ import annotations

import shlex
from dataclasses import asdict

import click

from adapters import registry
from adapters.local_models import MODELS
from audio.errors import InputError
from audio.suggest import unknown_name
from rig.commands.doctor import show_checks
from rig.console import Output
from rig.doctor import healthy
from rig.settings import key_values
from rig.worker_doctor import examine


@click.command("worker")
@click.argument("name", required=False)
@click.option("--doctor", is_flag=True, help="Look at GPU, disk, token and packages.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Setting of the "
              "adapter; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(name: str | None, doctor: bool, settings: tuple[str, ...], as_json: bool) -> int:
    """List the local models, or show how one is started and what it needs.

    Nothing is loaded and nothing downloaded. Exit code 2 when --doctor finds something missing.

    \b
    Example:
      rig worker
      rig worker moshi --doctor
    """
    output = Output(as_json=as_json)
    if name is None:
        if doctor:
            raise InputError(f"--doctor: expected a model, one of {', '.join(MODELS)}")
        output.table("local models", ["name", "what", "unverified"],
                     [[m.name, m.summary, m.unverified or ""] for m in MODELS.values()])
        output.document({"models": [{"name": m.name, "summary": m.summary, "script": str(m.path),
                                     "needs": asdict(m.needs), "unverified": m.unverified}
                                    for m in MODELS.values()]})
        return 0
    model = MODELS.get(name.replace("-", "_"))
    if model is None:
        raise unknown_name("rig worker", name, tuple(MODELS))
    effective = registry.spec(model.name).effective(key_values(settings, "--set"))
    checks = examine(model, effective) if doctor else []
    started: str | None = None
    try:
        started = shlex.join(model.command(effective))
        shown = started
    except InputError as error:
        shown = "(see environment below)" if doctor else f"(not yet: {error})"
    output.line(f"{model.name}  {model.summary}")
    output.line(f"    unverified: {model.unverified}" if model.unverified else "    verified")
    output.line(f"    Python {model.needs.python}; packages: at the top of {model.path}")
    output.line(f"    page: {model.page}")
    output.line(f"    started by: {shown}")
    if checks:
        output.line()
        show_checks(output, "This machine", checks)
    good = healthy(checks)
    output.document({"name": model.name, "script": str(model.path), "page": model.page,
                     "command": started,
                     "needs": asdict(model.needs), "unverified": model.unverified,
                     "ok": good if doctor else None, "checks": [asdict(c) for c in checks]})
    return 0 if good else 2
