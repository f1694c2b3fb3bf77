"""Two runs of the same inputs in virtual time are the same bytes, whatever processes played them,
and so is everything that is computed from them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rig_testkit as kit

ONLY_TIMES_DIFFER = ("started", "ended")


def content(run: Path) -> dict[str, bytes]:
    """Everything but the ledger; the lock is empty, the cache may be deleted."""
    return {name: data for name, data in kit.files(run).items()
            if name not in ("attempts.jsonl", ".lock")}


def attempts(run: Path) -> list[dict[str, Any]]:
    return [{k: v for k, v in line.items() if k not in ONLY_TIMES_DIFFER}
            for line in kit.ledger(run)]


@pytest.fixture(scope="module")
def played(small_suite: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The agent that throws dice, two trials: 18 sessions, so that scoring has two chunks."""
    from rig import cli

    run = tmp_path_factory.mktemp("one") / "run"
    assert cli.main(["run", str(small_suite), "--adapter", "random", "--trials", "2", "--jobs",
                     "1", "--out", str(run)]) == 0
    assert cli.main(["score", str(run), "--jobs", "1"]) == 0
    return run


def test_one_process_or_two(played: Path, small_suite: Path, tmp_path: Path, call_rig: Any) -> None:
    run = tmp_path / "run"
    assert call_rig("run", small_suite, "--adapter", "random", "--trials", 2, "--jobs", 2,
                    "--out", run).code == 0
    assert call_rig("score", run, "--jobs", 2).code == 0
    assert content(run) == content(played)
    by_key = {(a["case_id"], a["trial"]): a for a in attempts(run)}
    assert len(by_key) == 18
    assert by_key == {(a["case_id"], a["trial"]): a for a in attempts(played)}


def test_cases_finished_in_another_order(
    played: Path, small_suite: Path, tmp_path: Path, call_rig: Any
) -> None:
    """The first seven sessions are played last."""
    run = tmp_path / "run"
    shutil.copytree(played, run)
    lines = (run / "attempts.jsonl").read_bytes().splitlines(keepends=True)
    (run / "attempts.jsonl").write_bytes(b"".join(lines[7:]))
    for line in kit.ledger(played)[:7]:
        for path in (run / "rec").glob(f"{line['case_id']}.t{line['trial']}.*"):
            path.unlink()
    for name in ("scores.json", "measurements.jsonl"):
        (run / name).unlink()
    shutil.rmtree(run / "cache")
    assert call_rig("run", small_suite, "--adapter", "random", "--trials", 2, "--jobs", 1,
                    "--out", run, "--resume").code == 0
    assert call_rig("score", run, "--jobs", 1).code == 0
    assert attempts(run) == attempts(played)[7:] + attempts(played)[:7]
    assert content(run) == content(played)


def test_trials_and_cases_differ_from_one_another(played: Path) -> None:
    """So the equalities above compare something."""
    stereo = {name: data for name, data in kit.files(played).items()
              if name.endswith("stereo.wav")}
    assert len(stereo) == len(set(stereo.values())) == 18


@pytest.mark.parametrize("spoil", [
    lambda path: path.write_bytes(b""),
    lambda path: path.write_bytes(path.read_bytes()[:-20]),
    lambda path: path.unlink(),
], ids=["empty", "cut", "missing"])
def test_the_cache_never_changes_a_number(
    spoil: Callable[[Path], None], played: Path, tmp_path: Path, call_rig: Any
) -> None:
    run = tmp_path / "run"
    shutil.copytree(played, run)
    before = content(run)
    for path in (run / "cache").iterdir():
        spoil(path)
    (run / "scores.json").unlink()
    assert call_rig("score", run, "--jobs", 1).code == 0
    assert content(run) == before
