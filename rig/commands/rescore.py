"""`rig rescore`: verdicts for recordings that others made."""

from __future__ import annotations

from pathlib import Path

import click

from audio.errors import InputError
from audio.files import atomic_write_text
from rig.console import Output
from rig.ledger import dumps
from rig.rescore import check_audio_folder, measure_manifest, read_manifest
from rig.scores import decide_all, measurement_lines, scores_document
from rig.settings import scoring_settings
from rig.store import RunFolder, make_folder
from rig.tables import print_scores


@click.command("rescore")
@click.argument("manifest", type=click.Path(path_type=Path))
@click.option("--audio", "audio_dir", required=True, type=click.Path(path_type=Path),
              metavar="DIR", help="Folder that the manifest's wav paths are relative to.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
              help="Threshold or detector setting; may be repeated.")
@click.option("--out", type=click.Path(path_type=Path),
              help="Folder for scores.json and measurements.jsonl. Default: rescored/MANIFEST.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(manifest: Path, audio_dir: Path, settings: tuple[str, ...], out: Path | None,
            as_json: bool) -> int:
    """Score stereo recordings that were made elsewhere, one JSON object a line. Exit code 3 where
    not one recording can be used.

    \b
    Example of a line:
      {"id": "x1", "wav": "x1.wav", "user_channel": 0, "model_channel": 1,
       "expected_action": "YIELD", "window": {"start_s": 6.2, "end_s": 9.2}}
    \b
    Example:
      rig rescore manifest.jsonl --audio recordings --out rescored
    """
    output = Output(as_json=as_json)
    thresholds, vad = scoring_settings(settings)
    lines = read_manifest(manifest)
    check_audio_folder(audio_dir)
    folder = RunFolder(out if out is not None else Path("rescored") / manifest.stem)
    if folder.exists():
        raise InputError.expected("a folder for rescored recordings", got="a run folder (run.json)",
                                  where=folder.path)
    make_folder(folder.path)
    with output.progress("rescore", len(lines)) as progress:
        rows = measure_manifest(lines, audio_dir, vad, folder.cache_dir,
                                lambda done, _total: progress.update(done))
    document = scores_document(decide_all(rows, thresholds, "hold"), thresholds=thresholds,
                               vad=vad, playout="hold")
    atomic_write_text(folder.measurements_path, measurement_lines(rows, vad))
    atomic_write_text(folder.scores_path, dumps(document) + "\n")
    print_scores(output, manifest.stem, document)
    for case in document["cases"]:
        if case["outcome"] == "unscored":
            output.note(f"{case['case_id']}: unscored: {case['reason']}")
    output.line(f"scores: {folder.scores_path}")
    output.document(document)
    if all(row.problem is not None for row in rows):
        output.note(f"no case was scored: none of the {len(rows)} recordings under {audio_dir} can "
                    "be used; see the reasons above")
        return 3
    return 0
