"""`rig floors`: agents of known behaviour over a whole suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from adapters import registry
from audio.errors import InputError
from audio.files import atomic_write_text, check_targets
from probes.built import load_built
from rig.clock import Stopwatch
from rig.comparing import as_case
from rig.comparison_text import RATE_TITLE, levels_of, rate_cells
from rig.console import Output
from rig.floor_data import floor_file
from rig.floor_page import floor_page
from rig.floors import AGENTS, play_floors
from rig.schedule import Bounds
from rig.settings import default_jobs, scoring_settings
from rig.tables import changed_settings
from rig.workers import Workers
from sweeps.comparison import System, compare


@click.command("floors")
@click.argument("suite_dir", type=click.Path(path_type=Path))
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
              help="Threshold or detector setting; may be repeated.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the verdicts here, for `rig "
              "compare --floors`.")
@click.option("--page", type=click.Path(path_type=Path), help="Write the tables and what they say "
              "here, in Markdown.")
@click.option("--jobs", type=click.IntRange(1, 1024), help="Processes. Default: the cores.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(suite_dir: Path, settings: tuple[str, ...], out: Path | None, page: Path | None,
            jobs: int | None, as_json: bool) -> int:
    """Play every agent of known behaviour over a built suite, in virtual time, and say what an IAS
    is worth beside them. An identical session is played once; no recording is kept.

    \b
    Example:
      rig floors suite --out floors.json
      rig compare runs/mine --floors floors.json
    """
    output = Output(as_json=as_json)
    if out is not None and page is not None and out.resolve() == page.resolve():
        raise InputError("expected different files for --out and --page, got one twice")
    check_targets(out, page)
    thresholds, vad = scoring_settings(settings)
    built = load_built(suite_dir)
    bounds = Bounds()
    watch = Stopwatch()
    with (output.progress("floors", 1) as progress, Workers(jobs or default_jobs()) as workers):
        played = play_floors(built, built.cases, vad=vad, thresholds=thresholds, bounds=bounds,
                             workers=workers,
                             progress=lambda done, total: progress.update(done, total=total))
    took_s = watch.elapsed_s
    made_with = registry.create(AGENTS[0], {}).version
    file = floor_file(built, built.cases, played, made_with=made_with, bounds=bounds, vad=vad,
                      thresholds=thresholds)
    document = compare([System(agent, tuple(as_case(c, found[c.case_id]) for c in built.cases),
                               floor=True) for agent, found in played.outcomes.items()])
    systems = document["systems"]
    levels = levels_of(systems)
    output.table(f"floors: {RATE_TITLE}", ["agent", "pool", *levels],
                 [[name, pool, *(cells.get(level, "-") for level in levels)]
                  for name, s in systems.items() for pool in s["ias"]
                  for cells in (rate_cells(s["ias"][pool]),)])
    if out is not None:
        # A line an entry: a change of one verdict is a change of one line.
        atomic_write_text(out, file.model_dump_json(indent=1) + "\n")
        output.line(f"{out}: verdicts of {len(file.verdicts)} agents on {len(file.cases)} cases")
    if page is not None:
        changed = changed_settings({"thresholds": file.thresholds, "vad": file.vad})
        atomic_write_text(page, floor_page(
            document, suite=file.suite, construction_sha256=file.suite_construction_sha256,
            cases_n=len(file.cases), sessions=file.sessions, made_with=made_with,
            settings=[f"{file.vad['model']} {file.vad.get('version', '')}".strip(),
                      f"not the default settings: {changed}" if changed else "default settings"]))
        output.line(f"{page}: tables, and which actions an IAS can be trusted on")
    cost: dict[str, Any] = {
        "seconds": round(took_s, 1), "sessions": sum(played.sessions.values()),
        "peak_memory_bytes": played.peak_bytes, "peak_disk_bytes": played.disk_bytes}
    memory = ("unknown memory" if played.peak_bytes is None
              else f"at most {played.peak_bytes / 1e6:.0f} MB of memory in all processes")
    output.line(f"{cost['sessions']} sessions for {len(file.cases) * len(file.verdicts)} verdicts "
                f"in {took_s:.0f} s, {memory}, at most {played.disk_bytes / 1e6:.0f} MB of "
                "recordings at a time, none kept")
    output.document({**cost, "floors": file.model_dump(mode="json"),
                     "ias": {name: s["ias"] for name, s in systems.items()}})
    return 0
