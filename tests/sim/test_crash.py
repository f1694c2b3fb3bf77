"""Runs that are killed at any moment lose nothing that was done and skip nothing that failed.

Real processes, real SIGKILL: `tests/tools/crash_driver.py`. Each moment is one system call that
makes something last, before, half-way through or after it. A moment that leaves on disk what its
neighbour leaves stands for both. Every resumed run is compared with one that nobody disturbed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import rig_testkit as kit

DRIVER = Path(kit.__file__).with_name("crash_driver.py")
N_CASES = 3
FIRST_CASE_STEP = 11
"""Making the folder takes ten calls: streams, plan and fingerprint are each flushed, renamed and
their folder flushed; the folder is flushed again once it holds a ledger."""

Kill = tuple[int, str]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")


def drive(root: Path, suite: Path, **spec: Any) -> Any:
    path = root / "spec.json"
    path.write_text(json.dumps({"suite": str(suite), "root": str(root), **spec}))
    done = subprocess.run([sys.executable, str(DRIVER), str(path)], capture_output=True, text=True,
                          timeout=kit.GUARD_S, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@dataclass(frozen=True)
class Whole:
    """The undisturbed run and the calls that made it last."""

    folder: Path
    steps: list[tuple[str, str]]

    def kills(self) -> list[Kill]:
        """Every moment: before, half-way and after each call, but those between two calls once.

        Nothing is written between the flush of a file and its rename, nor between a rename or an
        append and the flush of its folder or of the ledger.
        """
        out: list[Kill] = []
        for step, (call, path) in enumerate(self.steps, start=1):
            part = call == "fsync" and Path(path).name.startswith(".part-")
            if part or call != "fsync":
                out.append((step, "before"))
            if part or call == "write":
                out.append((step, "half"))
            if not part:
                out.append((step, "after"))
        return out


@pytest.fixture(scope="module")
def whole(tiny_suite: Path, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    root = tmp_path_factory.mktemp("whole")
    found = drive(root, tiny_suite, adapter="talker")
    assert found["code"] == 0
    return Whole(root / "whole", [(call, path) for call, path in found["steps"]])


def recordings(run: Path) -> dict[str, bytes]:
    """All files but the ledger, whose times differ, and the lock."""
    return {name: data for name, data in kit.files(run).items()
            if name not in ("attempts.jsonl", ".lock")}


def check(report: dict[str, Any], whole: Whole) -> None:
    run = Path(report["folder"])
    assert report["resumed"] == 0
    lines = kit.ledger(run)
    text = (run / "attempts.jsonl").read_text()
    kept = report["ledger"].rpartition("\n")[0]
    assert text.startswith(kept), "a whole line of the ledger was lost"
    assert recordings(run) == recordings(whole.folder)
    assert kit.done(run) == kit.done(whole.folder)
    # Nothing done was played twice, and no attempt was booked twice.
    assert sorted(line["case_id"] for line in lines) == sorted(
        line["case_id"] for line in kit.ledger(whole.folder))
    assert [line["attempt"] for line in lines] == [1] * N_CASES


def test_the_undisturbed_run_is_made_of_these_calls(whole: Whole) -> None:
    """So the moments below are those before, during and after each rename and append."""
    def written(name: str, suffix: str) -> list[tuple[str, str]]:
        folder = str(Path(name).parent)
        return [("fsync", f"{folder}/.part{suffix}".removeprefix("./")), ("replace", name),
                ("fsync", folder)]

    expected = [*written("streams.jsonl", ".jsonl"), *written("cases.jsonl", ".jsonl"),
                *written("run.json", ".json"), ("fsync", ".")]
    assert len(expected) == FIRST_CASE_STEP - 1
    for case_id in ("R1-C1-1-L2", "R2-C1-1-L2", "R1-C4-1-L2"):
        stem = f"rec/{case_id}.t1."
        expected += [*written(stem + "stereo.wav", ".wav"),
                     *written(stem + "arrivals.flac", ".flac"),
                     *written(stem + "rec.json", ".json"),
                     ("write", "attempts.jsonl"), ("fsync", "attempts.jsonl")]

    def plain(path: str) -> str:
        name = Path(path).name
        return path.replace(name, ".part" + Path(path).suffix) if name.startswith(".part-") else (
            path)

    assert [(call, plain(path)) for call, path in whole.steps] == expected


SECOND_CASE = range(FIRST_CASE_STEP + 11, FIRST_CASE_STEP + 22)
CHOSEN: list[Kill] = [
    # Creation: half a plan, then around the rename that makes the folder a run.
    (1, "half"), (8, "before"), (8, "after"),
    # The first case's line in the ledger.
    (20, "before"), (20, "half"), (20, "after"),
    # The second case: half of each file, before and after each rename, around its line.
    (22, "half"), (23, "before"), (23, "after"), (25, "half"), (26, "before"), (26, "after"),
    (28, "half"), (29, "before"), (29, "after"), (31, "before"), (31, "half"), (31, "after"),
    # The last case and the very last call.
    (40, "after"), (42, "half"), (43, "after"),
]


def test_killed_while_one_process_plays(whole: Whole, tiny_suite: Path, tmp_path: Path) -> None:
    assert len(CHOSEN) >= 20
    assert set(CHOSEN) <= set(whole.kills())
    assert range(22, 33) == SECOND_CASE
    reports = drive(tmp_path, tiny_suite, adapter="talker", kills=CHOSEN)
    assert [r["killed"] for r in reports] == [-9] * len(CHOSEN)
    for report in reports:
        check(report, whole)
    half_lines = [r["ledger"].rpartition("\n")[2] for r in reports]
    assert sum(bool(rest) for rest in half_lines) == 3, "the appends were not cut in half"


@pytest.mark.slow
def test_killed_at_every_moment(whole: Whole, tiny_suite: Path, tmp_path: Path) -> None:
    kills = whole.kills()
    # 12 files: before, half and after the flush (after it is before the rename), after the rename,
    # after the folder's flush; 3 lines: before, half, after, flushed; and the folder with a ledger.
    assert len(kills) == 12 * 5 + 3 * 4 + 1
    assert {step for step, _ in kills} == set(range(1, len(whole.steps) + 1))
    reports = drive(tmp_path, tiny_suite, adapter="talker", kills=kills)
    assert [r["killed"] for r in reports] == [-9] * len(kills)
    for report in reports:
        check(report, whole)


PARENT_LINES = range(FIRST_CASE_STEP, FIRST_CASE_STEP + 2 * N_CASES, 2)
"""With worker processes the parent makes the folder, then starts them, and appends to the ledger;
nothing else. The folder is made as without them, so the moments up to there are those above."""


@pytest.mark.parametrize("kills", [
    [(13, "half")],
    pytest.param([(FIRST_CASE_STEP - 1, "after"),
                  *((step, phase) for step in PARENT_LINES for phase in ("before", "half")),
                  *((step + 1, "after") for step in PARENT_LINES)], marks=pytest.mark.slow),
], ids=["one", "all"])
def test_the_parent_of_worker_processes_is_killed(
    kills: list[Kill], whole: Whole, tiny_suite: Path, tmp_path: Path
) -> None:
    reports = drive(tmp_path, tiny_suite, adapter="talker", jobs=2, kills=kills)
    assert [r["killed"] for r in reports] == [-9] * len(kills)
    for report in reports:
        check(report, whole)


@pytest.mark.slow
def test_a_worker_process_is_killed(whole: Whole, tiny_suite: Path, tmp_path: Path) -> None:
    """As when memory runs out: the run stops with exit code 3, what is done stays done."""
    # Three files, each flushed, renamed and its folder flushed: `Whole.kills` says why so many.
    kills = [kill for step in (1, 4, 7) for kill in (
        (step, "before"), (step, "half"), (step + 1, "before"), (step + 1, "after"),
        (step + 2, "after"))]
    reports = drive(tmp_path, tiny_suite, adapter="talker", jobs=2, where="worker", kills=kills)
    assert [r["killed"] for r in reports] == [3] * len(kills)
    for report in reports:
        check(report, whole)


# Two of the three cases fail at their first attempt, before any file is written; so the first
# call after the folder is made appends `infra_error` to the ledger.
FLAKY: list[tuple[Kill, list[str]]] = [
    ((FIRST_CASE_STEP, "before"), ["done"]),
    ((FIRST_CASE_STEP, "half"), ["done"]),
    ((FIRST_CASE_STEP, "after"), ["infra_error", "done"]),
    ((FIRST_CASE_STEP + 1, "after"), ["infra_error", "done"]),
    ((FIRST_CASE_STEP + 5, "before"), ["infra_error", "done"]),
]


def test_a_failed_case_is_never_skipped(tiny_suite: Path, tmp_path: Path) -> None:
    """The agent fails, the run is killed then, before the retry: the case is played again."""
    reports = drive(tmp_path, tiny_suite, adapter="flaky", kills=[kill for kill, _ in FLAKY])
    for report, (_, expected) in zip(reports, FLAKY, strict=True):
        assert (report["killed"], report["resumed"]) == (-9, 0)
        run = Path(report["folder"])
        assert kit.done(run) == {"R1-C1-1-L2", "R2-C1-1-L2", "R1-C4-1-L2"}
        tries = [a for a in kit.ledger(run) if a["case_id"] == "R1-C1-1-L2"]
        assert [a["status"] for a in tries] == expected
        assert [a["attempt"] for a in tries] == list(range(1, len(expected) + 1))
        done_lines = [a["case_id"] for a in kit.ledger(run) if a["status"] == "done"]
        assert len(done_lines) == len(set(done_lines)) == N_CASES
