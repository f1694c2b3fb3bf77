"""The 180 configurations: known turning points, the default marked, what survives."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import made_runs
import pytest
import rig_testkit as kit

from audio.spans import Spans
from rig.report import sweep_picture
from rig.report.loading import ScoredRun, load_scored
from rig.scenes import Identity
from rig.scoring import Measured
from rig.store import RunFolder
from sweeps.threshold_grid import Grid, decide_grid
from verifiers.measurement import measure
from verifiers.scene import Action, CaseParams, Scene, Window
from verifiers.thresholds import Thresholds
from verifiers.verdict import Outcome

MS = 1_000_000
S = 1000 * MS
W0 = 10 * S


def _run(name: str, onsets_ms: dict[str, list[int | None]], index: int = 0) -> ScoredRun:
    """TAKE_TURN cases by level, with these onsets; `None` was not played."""
    rows = []
    for level, onsets in onsets_ms.items():
        for i, onset in enumerate(onsets):
            identity = Identity(f"R1-B-{i}-{level}", 1, "R1", "B", level, Action.TAKE_TURN,
                                CaseParams())
            if onset is None:
                rows.append(Measured(identity, None, "void: late", "hold", same_as_hold=True))
                continue
            scene = Scene(Action.TAKE_TURN, Window(W0, W0 + 9 * S), Spans((
                (W0 + onset * MS, W0 + onset * MS + S),)), Spans(), W0 + 20 * S)
            rows.append(Measured(identity, measure(scene), None, "hold", same_as_hold=True,
                                 window_ns=(W0, W0 + 9 * S)))
    return made_runs.run_of(name, rows, index=index)


def test_rates_over_the_one_threshold_that_an_action_reads() -> None:
    run = _run("a", {"L1": [1400, 1500, 1501, 2400], "L2": [2000, None], "L4a": [100]})
    grid = Grid()
    table = sweep_picture.table_of(run)
    curve, = sweep_picture.curves("a", table, decide_grid(table, grid), grid)
    # L4a is in no pool; the one that was not played is in no rate
    assert (curve.values, curve.passed, curve.n) == ((1.5, 2.0, 2.5), (2, 4, 5), (5, 5, 5))
    assert curve.rates == (0.4, 0.8, 1.0)


def test_the_section_of_one_run() -> None:
    run = _run("<i>a", {"L1": [1400, 2400], "L2": [2400, None]})
    found = sweep_picture.section([run])
    assert found is not None
    assert "<i>" not in found.html
    assert "distinct configurations" in found.html
    actions, matrix = found.charts
    assert [row[2:6] for row in actions.rows] == [
        ["take_turn_max_wait_s=1.5", 3, 1, "33.3"],
        ["take_turn_max_wait_s=2 (default)", 3, 1, "33.3"],
        ["take_turn_max_wait_s=2.5", 3, 3, "100.0"]]
    line, = actions.figure["layout"]["shapes"]
    assert (line["x0"], line["x1"]) == (1, 1)
    z = matrix.figure["data"][0]["z"]
    assert [row[90] for row in z] == [50.0, 0.0]
    assert [row[179] for row in z] == [100.0, 100.0]
    assert len(matrix.rows) == 180
    assert matrix.rows[90][0] == "90 (default)"
    assert matrix.rows[90][-2:] == ["50.0", "0.0"]
    box, = matrix.figure["layout"]["shapes"]
    assert (box["x0"], box["x1"]) == (89.5, 90.5)
    # the gap of 50 points is gone in the 60 configurations with the longest wait
    text = " ".join(found.html.split())
    assert "2 conclusions at the default, 0 the same at all 180 configurations" in text
    assert "60 of 180" in text
    assert "1 of 4 cases have no measurement" in text


def test_a_conclusion_that_survives() -> None:
    found = sweep_picture.section([_run("a", {"L1": [100, 100], "L2": [100, 8000]})])
    assert found is not None
    assert "2 conclusions at the default, 2 the same at all 180" in " ".join(found.html.split())


def test_verdicts_that_are_not_those_of_the_measurements_are_told() -> None:
    run = _run("a", {"L1": [100, 200]})
    first, second = run.cases
    wrong = replace(run, cases=(replace(first, outcome=Outcome.FAIL), second))
    found = sweep_picture.section([wrong])
    assert found is not None
    assert "1 verdicts in scores.json are not those of its measurements" in found.html
    moved = replace(wrong, thresholds=Thresholds(take_turn_max_wait_s=1.0),
                    scores={**run.scores, "thresholds": {"take_turn_max_wait_s": 1.0}})
    found = sweep_picture.section([moved])
    assert found is not None
    assert "a was scored with take_turn_max_wait_s=1" in found.html


def test_nothing_measured_is_no_section() -> None:
    assert sweep_picture.section([_run("a", {"L1": [None]})]) is None


def test_runs_of_other_detectors_conclude_nothing_of_each_other(
    oracle_run: Path, random_run: Path, tmp_path: Path
) -> None:
    together = sweep_picture.section(load_scored([RunFolder(oracle_run), RunFolder(random_run)]))
    assert together is not None
    assert "oracle - random, ias_all L2" in together.html
    other = shutil.copytree(random_run, tmp_path / "other")
    scores = kit.scores(other)
    scores["vad"]["merge_gap_s"] = 0.2
    (other / "scores.json").write_text(json.dumps(scores))
    found = sweep_picture.section(load_scored([RunFolder(oracle_run), RunFolder(other)]))
    assert found is not None
    assert "no conclusion between runs: the runs were measured with different" in found.html
    assert "oracle - other" not in found.html


@pytest.mark.parametrize("seed", range(3))
def test_the_default_is_what_was_scored(seed: int) -> None:
    run = made_runs.scored_run("made", made_runs.scenes(seed, 200))
    found = sweep_picture.section([run])
    assert found is not None
    assert "are not those of its measurements" not in found.html
