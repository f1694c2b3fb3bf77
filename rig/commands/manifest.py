"""`rig manifest`: recordings laid out by other benchmarks, as a manifest for `rig rescore`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np

from audio.errors import InputError
from audio.files import atomic_write_text, check_targets, read_analysis_channel, write_wav_pcm16
from audio.suggest import unknown_name
from audio.timebase import ANALYSIS_RATE_HZ
from rig import layout_full_duplex_bench, layout_tau2
from rig.console import Output
from rig.layouts import Found
from rig.ledger import dumps
from rig.rescore import read_manifest
from rig.store import make_folder
from rig.wording import pasteable

LAYOUTS: dict[str, Callable[[Path], Found]] = {
    "full-duplex-bench": lambda root: layout_full_duplex_bench.read(root, v1_5=False),
    "full-duplex-bench-v1.5": lambda root: layout_full_duplex_bench.read(root, v1_5=True),
    "tau2": layout_tau2.read,
}
SHOWN = 20
"""Skipped entries named in the terminal; `--json` names all."""


@click.command("manifest")
@click.argument("root", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--layout", required=True, metavar="|".join(LAYOUTS), help="How DIR is laid out.")
@click.option("--out", required=True, type=click.Path(path_type=Path),
              help="The manifest to write, one JSON object a line.")
@click.option("--audio", "audio_dir", type=click.Path(path_type=Path), metavar="DIR",
              help="Where user and model are put into one file, for layouts that keep them apart. "
                   "Default: beside the manifest.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(root: Path, layout: str, out: Path, audio_dir: Path | None, as_json: bool) -> int:
    """Turn recordings that Full-Duplex-Bench or tau2-bench made into a manifest.

    What maps to which action and window, and what is refused: docs/definitions.md. Entries that
    cannot be mapped are named with the reason.

    \b
    Example:
      rig manifest --layout full-duplex-bench recordings --out fdb.jsonl
      rig rescore fdb.jsonl --audio fdb.audio
    """
    output = Output(as_json=as_json)
    if layout not in LAYOUTS:
        raise unknown_name("--layout", layout, LAYOUTS)
    check_targets(out)
    found = LAYOUTS[layout](root)
    reasons = Counter(reason for _, reason in found.skipped)
    if not found.lines:
        most = "; ".join(f"{n} x {reason}" for reason, n in reasons.most_common(3)) or "it is empty"
        raise InputError.expected(f"recordings laid out as {layout}", got=f"none ({most})",
                                  where=root)
    audio = _write_pairs(output, found, root, audio_dir or out.with_suffix(".audio")) \
        if found.pairs else root
    atomic_write_text(out, "".join(dumps(line) + "\n" for line in found.lines))
    read_manifest(out)  # what is written is what `rig rescore` takes
    actions = Counter(line["expected_action"] for line in found.lines)
    output.line(f"{len(found.lines)} cases: " + ", ".join(
        f"{action} {n}" for action, n in sorted(actions.items())))
    for name, reason in found.skipped[:SHOWN]:
        output.note(f"skipped {name}: {reason}")
    if len(found.skipped) > SHOWN:
        output.note(f"skipped {len(found.skipped) - SHOWN} more; --json names them")
    output.line(f"next: {pasteable('rig', 'rescore', out, '--audio', audio)}")
    output.document({"schema_version": 1, "layout": layout, "manifest": str(out),
                     "audio": str(audio), "cases": len(found.lines),
                     "by_action": dict(sorted(actions.items())),
                     "skipped_by_reason": dict(sorted(reasons.items())),
                     "skipped": [{"name": n, "reason": r} for n, r in found.skipped]})
    return 0


def _write_pairs(output: Output, found: Found, root: Path, audio_dir: Path) -> Path:
    """User left, model right, 16 kHz, as long as the model's file: what was not recorded of it
    must not become silence. A pair that cannot be decoded loses its cases."""
    if audio_dir.resolve().is_relative_to(root.resolve()):
        raise InputError.expected("a folder for audio outside the recordings", got="one inside",
                                  where=audio_dir)
    make_folder(audio_dir)
    lost: set[str] = set()
    with output.progress("manifest", len(found.pairs)) as progress:
        for done, (wav, (user, model)) in enumerate(found.pairs.items(), start=1):
            try:
                heard, said = (read_analysis_channel(path, 0)[0] for path in (model, user))
                both = np.zeros((len(heard), 2), dtype=np.float32)
                both[: len(said), 0] = said[: len(heard)]
                both[:, 1] = heard
                target = audio_dir / wav
                make_folder(target.parent)
                write_wav_pcm16(target, both, ANALYSIS_RATE_HZ)
            except InputError as error:
                lost.add(wav)
                found.skipped.append((wav, str(error)))
            progress.update(done)
    found.lines[:] = [line for line in found.lines if line["wav"] not in lost]
    if not found.lines:
        raise InputError.expected("recordings that can be decoded", got="none", where=root)
    return audio_dir
