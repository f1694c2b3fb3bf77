"""What was found by trying to break the rig: each kind of damage stays mended."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audio.errors import InputError
from audio.files import atomic_write_text
from rig.activity import Channel, analyse
from rig.console import plain
from rig.store import RunFolder, read_text
from rig.stored import load_table


def test_edited_cases_are_not_scored(oracle_run: Path, tmp_path: Path, call_rig: Any) -> None:
    copy = tmp_path / "run"
    shutil.copytree(oracle_run, copy)
    path = copy / "cases.jsonl"
    path.write_text(path.read_text().replace('"TAKE_TURN"', '"LISTEN"'))
    with pytest.raises(InputError, match=r"cases\.jsonl: expected the cases that run\.json"):
        RunFolder(copy).read_cases()


def _channel(samples: np.ndarray, name: str) -> Channel:
    return Channel(name, lambda: samples)


def test_a_cache_file_of_another_recording_or_a_damaged_one_counts_as_missing(
        tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.normal(0, 0.05, 16_000).astype(np.float32) for _ in range(2))
    first = analyse([_channel(a, "a"), _channel(b, "b")], tmp_path)
    one, two = sorted(tmp_path.iterdir())
    swapped = two.read_bytes()
    two.write_bytes(one.read_bytes())
    one.write_bytes(swapped)
    again = analyse([_channel(a, "a"), _channel(b, "b")], tmp_path)
    for before, after in zip(first, again, strict=True):
        assert np.array_equal(before.probabilities, after.probabilities)
    for path in tmp_path.iterdir():
        with np.load(path) as data:
            seal, n = data["seal"], data["samples_n"]
            zeros = np.zeros_like(data["probabilities"])
        with path.open("wb") as file:
            np.savez(file, probabilities=zeros, samples_n=n, seal=seal)
    for before, after in zip(first, analyse([_channel(a, "a"), _channel(b, "b")], tmp_path),
                             strict=True):
        assert np.array_equal(before.probabilities, after.probabilities)


def test_figures_of_an_earlier_state_are_refused(oracle_run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(oracle_run, copy)
    scores = json.loads((copy / "scores.json").read_text())
    scores["attempts"] = {"done": 1}
    (copy / "scores.json").write_text(json.dumps(scores))
    with pytest.raises(InputError, match="an earlier state"):
        load_table(RunFolder(copy))


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no devices here")
def test_devices_are_neither_read_nor_replaced(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no regular file"):
        read_text(Path("/dev/zero"), "text")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="a regular file to write"):
        atomic_write_text(pipe, "x")
    assert pipe.is_fifo()


def test_a_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "target").write_text("old")
    atomic_write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


def test_control_characters_never_reach_the_terminal() -> None:
    assert plain("\x1b[2Jid\x07") == "\\x1b[2Jid\\x07"


def test_a_suite_is_not_built_into_a_run_and_a_run_not_rescored_into(
        oracle_run: Path, tmp_path: Path, call_rig: Any) -> None:
    copy = tmp_path / "run"
    shutil.copytree(oracle_run, copy)
    before = sorted(p.name for p in copy.rglob("*"))
    done = call_rig("build", "dsb-ifeval", "--filter", "case=R1-C1-1-L2", "--out", copy)
    assert done.code == 2
    assert "expected an empty folder or an earlier suite" in done.err
    manifest = tmp_path / "m.jsonl"
    manifest.write_text(json.dumps({"id": "a", "wav": "a.wav", "expected_action": "LISTEN",
                                    "window": {"start_s": 0, "end_s": 1}}) + "\n")
    done = call_rig("rescore", manifest, "--audio", tmp_path, "--out", copy)
    assert done.code == 2
    assert "a run folder" in done.err
    assert sorted(p.name for p in copy.rglob("*")) == before


def test_settings_that_are_not_the_defaults_are_said(oracle_run: Path, tmp_path: Path,
                                                      call_rig: Any) -> None:
    copy = tmp_path / "run"
    shutil.copytree(oracle_run, copy)
    said = call_rig("score", copy, "--jobs", 1, "--set", "yield_max_latency_ms=1500",
                    "--set", "vad_threshold=0.6")
    assert "not the default settings: yield_max_latency_ms=1500, threshold=0.6" in said.out
    call_rig("report", copy, "--out", tmp_path / "r.html")
    assert "yield_max_latency_ms=1500" in (tmp_path / "r.html").read_text().split("<h2>")[0]
    assert "not the default" not in call_rig("score", copy, "--jobs", 1).out
