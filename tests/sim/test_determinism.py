"""Two runs of the same inputs in virtual time are the same bytes, whatever processes played them,
and so is everything that is computed from them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rig_testkit as kit

from rig import scoring
from rig.job import session_seed

ONLY_TIMES_DIFFER = ("started", "ended")


def content(run: Path) -> dict[str, bytes]:
    """Everything but the ledger; the lock is empty, the cache may be deleted."""
    return {name: data for name, data in kit.files(run).items()
            if name not in ("attempts.jsonl", ".lock")}


def attempts(run: Path) -> list[dict[str, Any]]:
    return [{k: v for k, v in line.items() if k not in ONLY_TIMES_DIFFER}
            for line in kit.ledger(run)]


def test_one_process_or_two(
    random_run: Path, small_suite: Path, tmp_path: Path, call_rig: Any,
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """Playing and scoring; five records to a chunk, so that scoring has two of them."""
    monkeypatch.setattr(scoring, "CHUNK", 5)
    run = tmp_path / "run"
    assert call_rig("run", small_suite, "--adapter", "random", "--jobs", 2, "--out",
                    run).code == 0
    assert call_rig("score", run, "--jobs", 2).code == 0
    assert content(run) == content(random_run)
    by_case = {a["case_id"]: a for a in attempts(run)}
    assert len(by_case) == 9
    assert by_case == {a["case_id"]: a for a in attempts(random_run)}


def test_cases_finished_in_another_order(
    random_run: Path, small_suite: Path, tmp_path: Path, call_rig: Any
) -> None:
    """The first four sessions are played last."""
    run = tmp_path / "run"
    shutil.copytree(random_run, run)
    lines = (run / "attempts.jsonl").read_bytes().splitlines(keepends=True)
    (run / "attempts.jsonl").write_bytes(b"".join(lines[4:]))
    for line in kit.ledger(random_run)[:4]:
        for path in (run / "rec").glob(f"{line['case_id']}.t{line['trial']}.*"):
            path.unlink()
    for name in ("scores.json", "measurements.jsonl"):
        (run / name).unlink()
    shutil.rmtree(run / "cache")
    assert call_rig("run", small_suite, "--adapter", "random", "--jobs", 1,
                    "--out", run, "--resume").code == 0
    assert call_rig("score", run, "--jobs", 1).code == 0
    assert attempts(run) == attempts(random_run)[4:] + attempts(random_run)[:4]
    assert content(run) == content(random_run)


def test_cases_and_trials_differ_from_one_another(random_run: Path) -> None:
    """So the equalities above compare something."""
    assert len({session_seed(c, t) for c in ("R1-C1-1-L2", "R1-C1-1-L3") for t in (1, 2)}) == 4
    stereo = {name: data for name, data in kit.files(random_run).items()
              if name.endswith("stereo.wav")}
    assert len(stereo) == len(set(stereo.values())) == 9


@pytest.mark.parametrize("spoil", [
    lambda path: path.write_bytes(b""),
    lambda path: path.write_bytes(path.read_bytes()[:-20]),
    lambda path: path.unlink(),
], ids=["empty", "cut", "missing"])
def test_the_cache_never_changes_a_number(
    spoil: Callable[[Path], None], random_run: Path, tmp_path: Path, call_rig: Any
) -> None:
    run = tmp_path / "run"
    shutil.copytree(random_run, run)
    before = content(run)
    for path in (run / "cache").iterdir():
        spoil(path)
    (run / "scores.json").unlink()
    assert call_rig("score", run, "--jobs", 1).code == 0
    assert content(run) == before
