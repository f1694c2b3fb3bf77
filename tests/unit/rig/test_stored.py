"""Measurements read back: the same verdicts as `rig score` gave, from numbers alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rig_testkit as kit

from audio.errors import InputError
from rig.store import RunFolder
from rig.stored import load_table


@pytest.fixture
def copied(random_run: Path, tmp_path: Path) -> Path:
    return shutil.copytree(random_run, tmp_path / "run")


def test_a_sweep_at_the_default_gives_what_score_gave(
    random_run: Path, tmp_path: Path, call_rig: Any
) -> None:
    out = tmp_path / "sweep.json"
    called = call_rig("sweep", random_run, "--out", out, "--json")
    assert called.code == 0
    document = json.loads(out.read_text())
    assert json.loads(called.out) == document
    assert "180" in json.dumps(document) or len(document["configs"]) == 180
    counted = {c["case_id"]: c["outcome"] for c in kit.scores(random_run)["cases"]}
    passed = sum(outcome == "pass" for outcome in counted.values())
    assert 0 < passed < 9
    table, _ = load_table(RunFolder(random_run))
    assert len(table) == 9
    shown = call_rig("sweep", random_run).out
    line = next(row for row in shown.splitlines() if row.startswith("ias_all L2"))
    assert f"{100 * passed / 9:.1f}" in line


def test_it_needs_no_recording(copied: Path, call_rig: Any) -> None:
    before = call_rig("sweep", copied, "--json").out
    shutil.rmtree(copied / "rec")
    shutil.rmtree(copied / "cache")
    assert call_rig("sweep", copied, "--json").out == before.replace("random", "run")


def test_cases_without_a_measurement_are_left_out(copied: Path, call_rig: Any) -> None:
    lines = (copied / "attempts.jsonl").read_text().splitlines(keepends=True)
    (copied / "attempts.jsonl").write_text("".join(lines[2:]))
    assert call_rig("score", copied, "--jobs", 1).code == 0
    assert len((copied / "measurements.jsonl").read_text().splitlines()) == 9
    table, _ = load_table(RunFolder(copied))
    assert len(table) == 7


def test_runs_measured_differently_are_not_compared(
    random_run: Path, copied: Path, call_rig: Any
) -> None:
    assert call_rig("score", copied, "--jobs", 1, "--set", "merge_gap_s=0.2").code == 0
    line = call_rig("sweep", random_run, copied).error
    assert "expected runs measured with one detector and setting" in line
    assert "twice" in call_rig("sweep", random_run, random_run.parent / "." / random_run.name).error


def _edit(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        lines = path.read_text().split("\n")
        value = json.loads(lines[1])
        change(value)
        lines[1] = json.dumps(value)
        path.write_text("\n".join(lines))
    return spoil


@pytest.mark.parametrize(("spoil", "message"), [
    (Path.unlink, r"expected a scored run; run `rig score .*` first"),
    (lambda p: p.write_text(""), "expected measurements under one detector setting, got 0"),
    (lambda p: p.write_text("{\n"), r"measurements\.jsonl:1: expected one JSON object a line"),
    (lambda p: p.write_text("\n[]\n"), r"measurements\.jsonl:2: expected one JSON object a line"),
    (lambda p: p.write_bytes(b"\xff\n"), "expected a scored run"),
    (_edit(lambda v: v.pop("level")), r"measurements\.jsonl:2: expected a measurement"),
    (_edit(lambda v: v["measurement"].pop("scored")), r"measurements\.jsonl:2"),
    (_edit(lambda v: v["measurement"].update(model_speaks="maybe")), r"measurements\.jsonl:2"),
    (_edit(lambda v: v["params"].update(surprise=1)), r"measurements\.jsonl:2: expected"),
    (_edit(lambda v: v.update(expected_action="SHOUT")), "SHOUT"),
])
def test_damaged_measurements_name_their_line(
    spoil: Callable[[Path], Any], message: str, copied: Path, call_rig: Any
) -> None:
    spoil(copied / "measurements.jsonl")
    with pytest.raises(InputError, match=message):
        load_table(RunFolder(copied))
    assert call_rig("sweep", copied).code == 2


def test_runs_of_one_name_in_two_folders_are_two_systems(
    random_run: Path, tmp_path: Path, call_rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(random_run, tmp_path / "a" / "random")
    shutil.copytree(random_run, tmp_path / "random")
    monkeypatch.chdir(tmp_path)
    document = json.loads(call_rig("sweep", "a/random", "random", "--json").out)
    assert len(document["systems"]) == 2
