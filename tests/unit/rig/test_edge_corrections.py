"""Corrections of edges: off unless asked for, named where they are on, never mixed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rig_testkit as kit

from audio.errors import InputError
from audio.vad import VadSettings
from rig.settings import scoring_settings


def lines(run: Path) -> dict[str, Any]:
    found = (json.loads(line) for line in (run / "measurements.jsonl").read_text().splitlines())
    return {line["case_id"]: line for line in found if line["playout"] == "hold"}


def test_they_are_off_and_leave_no_trace() -> None:
    assert VadSettings().corrections == ()
    assert "onset_refine" not in VadSettings().facts()
    assert scoring_settings(["onset_refine=0"])[1] == VadSettings()
    both = scoring_settings(["onset_refine=1", "offset_refine=1"])[1]
    assert both.corrections == ("onset_refine", "offset_refine")
    assert both.key() == VadSettings().key() + "-onset_refine-offset_refine"
    assert {**VadSettings().facts(), "onset_refine": True, "offset_refine": True} == both.facts()


@pytest.mark.parametrize("value", ["2", "yes", "", "true"])
def test_they_are_on_or_off(value: str) -> None:
    with pytest.raises(InputError, match=r"0 \(off\) or 1 \(on\)"):
        scoring_settings([f"onset_refine={value}"])
    with pytest.raises(InputError, match="true or false"):
        VadSettings(onset_refine=1)  # type: ignore[arg-type]


def test_scores_name_them_and_only_edges_move(
    random_run: Path, tmp_path: Path, call_rig: Callable[..., Any]
) -> None:
    run = shutil.copytree(random_run, tmp_path / "run")
    assert call_rig("score", run, "--jobs", 1, "--set", "onset_refine=1").code == 0
    assert kit.scores(run)["vad"] == {**kit.scores(random_run)["vad"], "onset_refine": True}
    before, after = lines(random_run), lines(run)
    moved = 0
    for case_id, line in after.items():
        spans, old = line["model_spans_s"], before[case_id]["model_spans_s"]
        assert [end for _, end in spans] == [end for _, end in old]
        for (start, _), (old_start, _) in zip(spans, old, strict=True):
            assert abs(start - old_start) <= 0.26
            moved += start != old_start
    assert moved > 9
    error = call_rig("compare", random_run, run).error
    assert error.endswith("scored alike, as " + str(random_run)
                          + "; got vad.onset_refine not set and True")


def test_rescore_takes_them(
    random_run: Path, tmp_path: Path, call_rig: Callable[..., Any]
) -> None:
    wav = next((random_run / "rec").glob("*.wav"))
    manifest = tmp_path / "m.jsonl"
    manifest.write_text(json.dumps({"id": "a", "wav": wav.name, "expected_action": "LISTEN",
                                    "window": {"start_s": 1.0, "end_s": 5.0}}) + "\n")
    found = {}
    for value in (0, 1):
        out = tmp_path / f"out{value}"
        assert call_rig("rescore", manifest, "--audio", wav.parent, "--out", out, "--set",
                        f"onset_refine={value}", "--set", f"offset_refine={value}").code == 0
        found[value] = lines(out)["a"]["model_spans_s"]
    assert len(found[0]) == len(found[1]) > 0
    assert all(a[0] != b[0] and a[1] > b[1] for a, b in zip(found[0], found[1], strict=True))
