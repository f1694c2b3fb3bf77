"""Reads `scores.json` and `measurements.jsonl` back: what sweeps, comparisons and the report stand
on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from audio.errors import InputError
from audio.vad import VadSettings
from rig.ledger import dumps, read
from rig.playout import Policy
from rig.recount import check_scores
from rig.scoring import attempt_counts
from rig.settings import VAD_NAMES
from rig.store import RunFolder, read_text
from sweeps.table import MeasurementTable, TableRow
from verifiers.record import from_json
from verifiers.scene import Action, CaseParams
from verifiers.thresholds import Thresholds

_SCORES = ("thresholds", "vad", "playout", "attempts", "ias")


def require_fresh(run: RunFolder) -> None:
    """Raise `InputError` when the run went on after it was scored: its figures are stale."""
    if not run.ledger_path.exists() or not run.scores_path.exists():
        return
    try:
        document = json.loads(run.scores_path.read_text(encoding="utf-8"))
        scored, scored_n = document["attempts"], document.get("attempts_n")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return  # whoever reads the file itself says what is wrong with it
    now = attempt_counts(run)
    if scored != now:
        raise InputError(f"{run.path}: expected scores of the run as it is ({now}), got scores of "
                         f"an earlier state ({scored}); run `{run.score_command}` again")
    # A session whose recording was gone is played again and is done as before: counts alone would
    # not tell. Scores of before did not say how many attempts there were.
    now_n = len(read(run.ledger_path))
    if scored_n is not None and scored_n != now_n:
        raise InputError(f"{run.path}: expected scores of the run as it is (after {now_n} "
                         f"attempts), got scores of an earlier state (after {scored_n}); run "
                         f"`{run.score_command}` again")


def read_scores(run: RunFolder) -> dict[str, Any]:
    """`scores.json` of a run that did not go on since, with cases that it agrees with.

    Raises `InputError` where there is none, the file is no scores, or it contradicts itself
    (`rig.recount`).
    """
    require_fresh(run)
    where = run.scores_path
    text = read_text(where, f"a scored run; run `{run.score_command}` first")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("cases"), list) \
            or any(name not in found for name in _SCORES) \
            or not isinstance(found.get("playout_differences"), list):
        raise InputError.expected("scores as `rig score` writes them", got="something else",
                                  where=where)
    version = found.get("schema_version", 1)
    if version != 1:
        raise InputError.expected("scores of schema version 1", got=f"{str(version)[:40]}, of "
                                  f"another rig; run `{run.score_command}` again", where=where)
    check_scores(found, where)
    return found


def scored_settings(scores: Mapping[str, Any]) -> tuple[Thresholds, VadSettings]:
    """How a run was scored. Raises `ValueError`, `KeyError` or `TypeError` for other settings than
    `rig score` can have had."""
    facts = scores["vad"]
    vad = VadSettings(**{field: facts[field] for field in VAD_NAMES.values()},
                      onset_refine=facts.get("onset_refine", False),
                      offset_refine=facts.get("offset_refine", False))
    if vad.facts() != facts:
        raise ValueError("another detector")
    return Thresholds(**scores["thresholds"]), vad


def load_table(run: RunFolder, playout: Policy = "hold") -> tuple[MeasurementTable, str]:
    """The measured cases of a scored run as columns, and the detector they were measured with.

    Cases without a measurement (not played, unusable recording) are left out: they are unscored
    at every threshold. Raises `InputError` when the run is not scored or a line is damaged.
    """
    require_fresh(run)
    path = run.measurements_path
    rows: dict[tuple[str, int], TableRow] = {}
    vads: set[str] = set()
    for number, data in measurement_lines(run):
        where = f"{path}:{number}"
        try:
            vads.add(dumps(data["vad"]))
            key = (str(data["case_id"]), int(data["trial"]))
            wanted = data["playout"] == playout or (data["playout"] == "hold" and key not in rows)
            if data["measurement"] is None or not wanted:
                continue
            rows[key] = TableRow(
                case_id=key[0], trial=key[1], role=data["role"], level=data["level"],
                action=Action(data["expected_action"]), params=CaseParams(**data["params"]),
                measurement=from_json(data["measurement"], where))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError.expected("a measurement as `rig score` writes it",
                                      got=f"a damaged line ({error})", where=where) from error
    if len(vads) != 1:
        raise InputError.expected("measurements under one detector setting", got=len(vads),
                                  where=path)
    return MeasurementTable.of(list(rows.values())), vads.pop()


def measurement_lines(run: RunFolder) -> list[tuple[int, dict[str, Any]]]:
    """Every line of `measurements.jsonl` and its number, counted from 1."""
    path = run.measurements_path
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError.expected(f"a scored run; run `{run.score_command}` first",
                                  got=getattr(error, "strerror", None) or "an unreadable file",
                                  where=path) from error
    out = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line:
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise InputError.expected("one JSON object a line", got=line[:60],
                                      where=f"{path}:{number}") from error
        if not isinstance(value, dict):
            raise InputError.expected("one JSON object a line", got=line[:60],
                                      where=f"{path}:{number}")
        out.append((number, value))
    return out
