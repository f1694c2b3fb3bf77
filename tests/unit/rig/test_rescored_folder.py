"""A folder that `rig rescore` made: what its exit code says, and which commands take it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rig_testkit as kit
import soundfile


def _rescore(call_rig: Any, folder: Path, recordings: Mapping[str, bool]) -> Any:
    """Rescores a manifest of two-channel noise, of which some recordings are not there."""
    (folder / "audio").mkdir()
    lines = []
    for name, there in recordings.items():
        if there:
            noise = np.random.default_rng(1).standard_normal((48_000, 2)) * [0.01, 0.001]
            soundfile.write(folder / "audio" / f"{name}.wav", noise, 16_000)
        lines.append({"id": name, "wav": f"{name}.wav", "expected_action": "LISTEN",
                      "window": {"start_s": 0.5, "end_s": 1.5}})
    manifest = folder / "manifest.jsonl"
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return call_rig("rescore", manifest, "--audio", folder / "audio", "--out", folder / "out")


def test_no_recording_that_can_be_used_is_exit_code_3(tmp_path: Path, call_rig: Any) -> None:
    called = _rescore(call_rig, tmp_path, {"a": False, "b": False})
    assert called.code == 3
    assert f"no case was scored: none of the 2 recordings under {tmp_path / 'audio'} can be used" \
        in " ".join(called.err.split())
    assert [c["outcome"] for c in kit.scores(tmp_path / "out")["cases"]] == ["unscored"] * 2


def test_one_that_can_be_used_is_enough(tmp_path: Path, call_rig: Any) -> None:
    called = _rescore(call_rig, tmp_path, {"a": False, "b": True})
    assert called.code == 0
    assert "no case was scored" not in called.err
    assert [c["outcome"] for c in kit.scores(tmp_path / "out")["cases"]] == ["unscored", "pass"]


@pytest.mark.parametrize("command", [("inspect", "b"), ("score",)])
def test_what_needs_sessions_names_the_report_instead(
    command: tuple[str, ...], tmp_path: Path, call_rig: Any
) -> None:
    assert _rescore(call_rig, tmp_path, {"b": True}).code == 0
    out = tmp_path / "out"
    called = call_rig(command[0], out, *command[1:])
    assert called.code == 2
    assert "got what `rig rescore` scored, which has no sessions to go back to; `rig report " \
        f"{out}` shows it" in called.error
    assert call_rig("report", out, "--out", tmp_path / "r.html").code == 0, "the advice works"


def test_a_run_that_lost_its_fingerprint_is_no_rescored_folder(
    tmp_path: Path, call_rig: Any
) -> None:
    (tmp_path / "attempts.jsonl").write_text("")
    (tmp_path / "scores.json").write_text("{}")
    error = call_rig("inspect", tmp_path, "b").error
    assert "expected a run folder with run.json; make one with" in error
