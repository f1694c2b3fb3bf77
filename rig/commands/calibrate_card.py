"""`rig calibrate-card`: the round trip of a sound card, measured with chirps."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path

import click

from adapters import registry
from adapters.sound_card.adapter import SoundCardAdapter
from adapters.sound_card.calibrate import measure
from adapters.sound_card.loopback import REPEATABLE_MS, Summary, calibration_text
from audio.files import atomic_write_text
from rig.clock import SessionClock, loop_factory, punctual
from rig.console import Output
from rig.finite_option import Finite
from rig.settings import key_values


@click.command("calibrate-card")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Setting of the "
              "adapter sound_card; may be repeated.")
@click.option("--openings", type=click.IntRange(1, 50), default=5, show_default=True,
              help="How often the stream is opened anew, as for every session.")
@click.option("--chirps", type=click.IntRange(1, 100), default=5, show_default=True,
              help="Chirps an opening.")
@click.option("--level", type=Finite(0.001, 1.0), default=0.3, show_default=True,
              help="Peak of a chirp, 1 is full scale.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write it for "
              "--set calibration=FILE.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(settings: tuple[str, ...], openings: int, chirps: int, level: float,
            out: Path | None, as_json: bool) -> int:
    """Play chirps on the output, find them on the input, and say how long they take.

    Connect the output to the input first (a cable; on a software device its monitor). With the
    agent's own wiring it measures the echo instead: how loud the user comes back where the agent
    is recorded. Exit code 3 when a chirp is not heard, or when the round trip differs by over 5 ms
    between openings: then nothing is written, and only a reference channel helps.

    \b
    Example:
      rig calibrate-card --set input=USB --set output=USB --out card.json
      rig check --adapter sound_card --set input=USB --set output=USB --set calibration=card.json
    """
    output = Output(as_json=as_json)
    adapter = registry.create("sound_card", key_values(settings, "--set"))
    assert isinstance(adapter, SoundCardAdapter)

    async def run() -> Summary:
        with output.progress("calibrate", openings * chirps) as progress:
            return await measure(adapter, SessionClock(), openings=openings, chirps=chirps,
                                 level=level, on_chirp=lambda n: progress.update(n, ""))

    with punctual(), asyncio.Runner(loop_factory=loop_factory("real")) as runner:
        found = runner.run(run())
    output.line(f"round trip   {found.round_trip_ms:.2f} ms median, {found.p95_ms:.2f} ms p95, "
                f"{found.chirps_n} chirps")
    output.line(f"repeatable   within {found.within_ms:.2f} ms inside an opening, within "
                f"{found.between_ms:.2f} ms between {len(found.openings_ms)} openings")
    output.line(f"level        {found.level_db:+.1f} dB against what was sent (open air: the echo)")
    output.document({"ok": found.repeatable, **asdict(found), "settings": adapter.settings,
                     "out": str(out) if out is not None and found.repeatable else None})
    if not found.repeatable:
        output.note(f"problem: the round trip is not repeatable within {REPEATABLE_MS:g} ms"
                    + (f"; {out} was not written" if out is not None else "")
                    + "; --set reference_channel measures it for each session")
        return 3
    if out is not None:
        atomic_write_text(out, calibration_text(found, adapter.settings))
        output.line(f"written      {out}")
    return 0
