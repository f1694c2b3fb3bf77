"""What stands above the sections of a page."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import made_runs
import pytest

from rig.report import head
from rig.report.loading import ScoredRun, load_scored
from rig.store import RunFolder


@pytest.fixture
def run(random_run: Path, tmp_path: Path) -> ScoredRun:
    [found] = load_scored([RunFolder(shutil.copytree(random_run, tmp_path / "random"))])
    return found


def _started(run: ScoredRun, *days: str) -> None:
    """The sessions of the ledger begin on these days in turn."""
    lines = [json.loads(line) for line in run.folder.ledger_path.read_text().splitlines()]
    for i, line in enumerate(lines):
        line["started"] = days[i % len(days)] + line["started"][10:]
    run.folder.ledger_path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_title_names_the_first_four_runs() -> None:
    runs = [replace(made_runs.scored_run("one", made_runs.scenes(3, 9)), name=f"run{i}")
            for i in range(6)]
    assert head.title(runs[:1]) == "run0: duplexrig report"
    assert head.title(runs[:4]) == "run0, run1, run2, run3: duplexrig report"
    assert head.title(runs) == "run0, run1, run2, run3 and 2 more: duplexrig report"


def test_a_line_says_what_was_played_when_and_the_headline_scores(run: ScoredRun) -> None:
    _started(run, "2026-03-02")
    [line] = head.lines([run])
    assert run.info is not None
    name, suite, played, core, every = line.split(" · ")
    assert (name, suite, played) == (
        "random", f"suite {run.info.suite} {run.info.suite_version}", "played 2026-03-02")
    counted = {pool: run.scores["ias"][pool]["L2"] for pool in ("core", "all")}
    assert core == f"core: L2 {100 * counted['core']['rate']:.1f} % of {counted['core']['n']}"
    assert every.startswith(
        f"all nine actions: L2 {100 * counted['all']['rate']:.1f} % of {counted['all']['n']}")


def test_days_are_told_from_the_first_to_the_last(run: ScoredRun) -> None:
    _started(run, "2026-03-04", "2026-03-02", "2026-03-03")
    assert "played 2026-03-02 to 2026-03-04" in head.lines([run])[0]
    run.folder.ledger_path.write_text("")
    assert "no session on record" in head.lines([run])[0]


def test_a_run_without_a_plan_and_a_level_without_a_score_are_told() -> None:
    run = made_runs.scored_run("one", made_runs.scenes(3, 108))
    nothing = {"passed": 0, "n": 0, "rate": None}
    run = replace(run, scores={**run.scores, "ias": {
        **run.scores["ias"], "core": {"L2": nothing}, "all": {}}})
    assert head.lines([run]) == ["one · scored from a manifest, no suite known · "
                                 "core: L2 none scored · all nine actions: no case"]
