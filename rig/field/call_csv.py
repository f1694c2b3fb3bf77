"""`rig field --calls-csv`: one line a call. A figure that is not there is an empty cell, and why it
is not stands in a column beside."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from audio.files import atomic_write_text
from rig.comparison_text import csv_cell

COLUMNS: Mapping[str, str] = {
    "file": "file", "duration_s": "duration_s", "caller_channel": "caller_channel",
    "agent_channel": "agent_channel", "left_out_of_totals": "left_out_of_totals",
    "l1_n": "l1.n", "l1_p50_ms": "l1.p50_ms", "l1_p90_ms": "l1.p90_ms",
    "l1_over_1s": "l1.over_1s.rate", "l1_missing_n": "l1.missing_n", "l1_reason": "l1.reason",
    "interruption_n": "interruption_rate.n", "interruption_rate": "interruption_rate.rate",
    "turn_take_n": "turn_take.n", "turn_take_rate": "turn_take.rate",
    "overlapped_n": "turn_take.overlapped", "fast_n": "turn_take.fast",
    "talk_ratio": "talk_ratio",
    "l2_n": "l2.n", "l2_p50_ms": "l2.p50_ms", "filler_tax_ms": "l2.filler_tax_ms",
    "filler_n": "filler_rate.n", "filler_rate": "filler_rate.rate", "l2_reason": "l2.reason",
    "words": "words",
    "u1_n": "u1.n", "u1_wrong_n": "u1.count", "u1_rate": "u1.rate", "u1_wer": "u1.wer",
    "u1_reference_tokens_n": "u1.reference_tokens_n", "u1_ratio_to_wer": "u1.ratio_to_wer",
    "u1_reason": "u1.reason", "u1_ratio_to_wer_reason": "u1.ratio_to_wer_reason",
    "voiced_s": "prosody.voiced_s", "f0_median_hz": "prosody.f0_median_hz",
    "f0_iqr_st": "prosody.f0_iqr_st", "pauses_n": "prosody.pauses_n",
    "pauses_per_min": "prosody.pauses_per_min", "energy_range_db": "prosody.energy_range_db",
    "tilt_db_per_octave": "prosody.tilt_db_per_octave", "centroid_hz": "prosody.centroid_hz",
    "cluster": "prosody.cluster", "prosody_reason": "prosody.reason",
}
"""Each column and where it stands in a call of the document; rates are in 0..1."""


def write_calls_csv(path: Path, document: Mapping[str, Any]) -> None:
    """One line a call, warnings last. Text that a spreadsheet would run as a formula is quoted."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*COLUMNS, "warnings"])
    for call in document["calls"]:
        writer.writerow([
            *(csv_cell(origin_of_words(call) if where == "words" else _at(call, where))
              for where in COLUMNS.values()),
            csv_cell(" ".join(sorted({w["code"] for w in call["warnings"]})))])
    atomic_write_text(path, out.getvalue())


def origin_of_words(call: Mapping[str, Any]) -> str:
    """Where a call's words are from: `supplied`, `recognised: ENGINE`, or nothing."""
    words = call["l2"]["words"]
    return ", ".join([*(f"recognised: {by}" for by in words.get("recognised_by", ())),
                      *(origin for origin in words["origin"] if origin != "recognised")])


def _at(value: Any, where: str) -> Any:
    for name in where.split("."):
        value = None if value is None else value.get(name)
    return value
