"""`rig calibrate`: the bias of the detector's edges on a suite's own speech."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

import click

from audio.active_level import active_level
from audio.condition_text import parse_all
from audio.conditions import Echo
from audio.errors import InputError
from audio.files import atomic_write_text, check_targets
from audio.timebase import SESSION_RATE_HZ, n_to_s
from probes.built import load_built
from rig.calibrating import DETECTORS, GAINS_DB, TRUTHS, calibrate, document, turns_of
from rig.console import Output
from rig.finite_option import Finite
from rig.ledger import dumps
from rig.sent import needs_voices
from rig.settings import default_jobs, detector_settings
from rig.workers import Workers

REAL_TIMES = 200
"""Audio a core and second, all detectors together (docs/instrument.md)."""


@click.command("calibrate")
@click.argument("suite_dir", metavar="SUITE_DIR", type=click.Path(path_type=Path))
@click.option("--gain", "gains", type=Finite(-60, 20), multiple=True, metavar="DB",
              help="Play the speech at this gain; may be repeated. Default: "
              + ", ".join(f"{g:g}" for g in GAINS_DB) + ".")
@click.option("--condition", "conditions", multiple=True, metavar="KIND=VALUE",
              help="A line condition, as for rig run; not echo and not babble.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
              help="Detector setting, as for rig score; may be repeated.")
@click.option("--turns", type=click.IntRange(1), help="At most so many turns, evenly chosen.")
@click.option("--jobs", type=click.IntRange(1, 1024), help="Processes. Default: the cores.")
@click.option("--out", type=click.Path(path_type=Path), help="Also write the JSON document here.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(suite_dir: Path, gains: tuple[float, ...], conditions: tuple[str, ...],
            settings: tuple[str, ...], turns: int | None, jobs: int | None, out: Path | None,
            as_json: bool) -> int:
    """Say how early or late the detector hears speech begin and end, each end apart.

    The user audio of a built suite has known edges. It is played to the detector at several gains;
    beside the detector of rig score stand the same edges refined by energy, and an energy detector.
    Nothing is corrected by this: rig score --set onset_refine=1 is a choice. (The sound card is
    measured by rig calibrate-card.)

    \b
    Example:
      rig calibrate suite
      rig calibrate suite --gain 0 --condition noise=white:20 --json
    """
    output = Output(as_json=as_json)
    check_targets(out)
    vad = detector_settings(settings)
    chosen = parse_all(conditions)
    if needs_voices(chosen) or any(isinstance(c, Echo) for c in chosen):
        raise InputError("--condition: expected one that needs no other voice and no system, got "
                         + ", ".join(c.text for c in chosen))
    played = tuple(dict.fromkeys(gains)) or GAINS_DB
    found = list(turns_of(load_built(suite_dir), vad.merge_gap_s, turns))
    seconds = sum(n_to_s(len(t.samples), SESSION_RATE_HZ) for t in found) * len(played)
    processes = jobs or default_jobs()
    output.note(f"{len(found)} turns, {seconds / 60:.0f} min of sound over {len(played)} gain(s): "
                f"about {seconds / REAL_TIMES / processes:.0f} s on {processes} free core(s)")
    with (output.progress("calibrate", len(found)) as progress, Workers(processes) as workers):
        readings = calibrate(found, played, vad, chosen, workers,
                             lambda done, total: progress.update(done, total=total))
    levels = [level.level_dbov for t in found
              if (level := active_level(t.samples, SESSION_RATE_HZ)) is not None]
    told: dict[str, Any] = {
        "schema_version": 1, "turns_n": len(found),
        "skipped_n": sum(t.skipped_n for t in found),
        "speech_dbov_at_0_db": median(levels) if levels else None,
        "conditions": [c.text for c in chosen], "vad": vad.facts(), **document(readings)}
    _print(output, told)
    if out is not None:
        atomic_write_text(out, dumps(told) + "\n")
    output.document(told)
    return 0


def _print(output: Output, told: dict[str, Any]) -> None:
    level = told["speech_dbov_at_0_db"]
    output.line(f"{told['turns_n']} turns"
                + ("" if level is None else f", speech at {level:.0f} dBov at 0 dB (median)")
                + (f", {', '.join(told['conditions'])}" if told["conditions"] else ""))
    if told["skipped_n"]:
        output.line(f"{told['skipped_n']} utterances hold no speech at an edge and are left out")
    for truth in TRUTHS:
        rows = [[f"{e['detector']} {e['edge']}", f"{e['gain_db']:g}", e["n"], e["without"],
                 *(_ms(e[f"{k}_ms"]) for k in ("p5", "p50", "p95", "p95_abs", "max_abs"))]
                for e in sorted((e for e in told["edges"] if e["truth"] == truth),
                                key=lambda e: (e["edge"] != "onset",
                                               DETECTORS.index(e["detector"])))]
        output.table(f"detected - {truth}, milliseconds, positive is late",
                     ["", "gain, dB", "n", "no edge", "p5", "median", "p95", "p95 of distance",
                      "largest"], rows)
    output.table("utterances", ["", "gain, dB", "n", "missed", "joined", "split", "spurious"],
                 [[c["detector"], f"{c['gain_db']:g}", c["utterances_n"], c["missed_n"],
                   c["joined_n"], c["split_n"], c["spurious_n"]] for c in told["counts"]])
    rows = []
    for detector in DETECTORS:
        for edge in ("onset", "offset"):
            medians = sorted((v["p50_ms"], v["voice"]) for v in told["by_voice"]
                             if (v["detector"], v["edge"]) == (detector, edge) and v["n"])
            if medians:
                rows.append([f"{detector} {edge}", len(medians),
                             f"{medians[0][0]:+.1f} ({medians[0][1]})",
                             f"{medians[len(medians) // 2][0]:+.1f}",
                             f"{medians[-1][0]:+.1f} ({medians[-1][1]})"])
    output.table(f"medians by voice at {told['gains_db'][0]:g} dB, milliseconds",
                 ["", "voices", "earliest", "middle", "latest"], rows)


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:+.1f}"
