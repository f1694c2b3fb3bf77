"""The sweep of the detector: its default is `rig score`, its settings are what they are called."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import rig_testkit as kit

from audio.errors import InputError
from audio.vad import VadSettings
from rig.scoring import measure_run, verdict_of
from rig.store import RunFolder
from rig.vad_decided import CODES
from rig.vad_sweep import (
    AXES,
    decide_chunk,
    plan_settings,
    read_axes,
    read_scored,
    sweep_run,
)
from rig.workers import Workers

FEW = ("--axis", "vad_threshold=0.3,0.9", "--axis", "vad_min_silence_ms=90", "--axis",
       "vad_min_speech_ms=90", "--axis", "vad_speech_pad_ms=0", "--axis", "merge_gap_s=0.3")


@pytest.fixture
def copied(random_run: Path, tmp_path: Path) -> Path:
    return shutil.copytree(random_run, tmp_path / "run")


def test_the_default_grid_is_every_combination_and_holds_the_papers_point() -> None:
    plan = plan_settings(VadSettings(), {})
    assert plan.grid_n == 5 * 3 * 3 * 3 * 3
    assert plan.settings[plan.default].vad == VadSettings()
    assert plan.settings[plan.default].name == "default"
    assert len({s.name for s in plan.settings}) == len(plan.settings)
    assert [s.detector for s in plan.settings[plan.grid_n:]] == ["refined", *["energy"] * 3]
    assert {s.vad.merge_gap_s for s in plan.settings} == set(AXES["merge_gap_s"])


def test_the_runs_own_settings_are_on_every_axis() -> None:
    plan = plan_settings(VadSettings(threshold=0.45), {"vad_threshold": (0.5,)}, others=False)
    assert plan.settings[plan.default].vad.threshold == 0.45
    assert {s.vad.threshold for s in plan.settings} == {0.45, 0.5}
    assert plan.grid_n == len(plan.settings) == 2 * 81


@pytest.mark.parametrize(("texts", "said"), [
    (["vad_treshold=0.5"], "did you mean"), (["merge_gap_s=a"], "numbers with commas"),
    (["merge_gap_s=-1"], "merge_gap_s >= 0"), (["merge_gap_s="], "numbers with commas"),
    (["merge_gap_s=1", "merge_gap_s=2"], "given twice")])
def test_axes_that_cannot_be_swept_are_refused(texts: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_axes(texts)


def test_a_grid_is_bounded() -> None:
    many = tuple(i / 1000 for i in range(1, 70))
    with pytest.raises(InputError, match="at most 5000 settings"):
        plan_settings(VadSettings(), {"vad_threshold": many})


def test_every_setting_gives_the_verdicts_of_rig_score(random_run: Path) -> None:
    """Whatever is shared between settings: each equals measuring the run anew under it."""
    run = RunFolder(random_run)
    plan = plan_settings(VadSettings(), read_axes(FEW[1::2]))
    scored = read_scored(run)
    with Workers(1) as workers:
        swept = sweep_run(run, plan, scored, workers)
        assert swept.unmeasured_n == 0
        compared = 0
        for index, setting in enumerate(plan.settings):
            if setting.detector == "energy":
                continue
            rows = {r.identity.case_id: r for r in measure_run(run, setting.vad, workers)
                    if r.playout == "hold"}
            for column, case_id in enumerate(swept.cases.case_ids):
                outcome = verdict_of(rows[str(case_id)], scored.thresholds).outcome
                assert swept.verdicts.codes[index, column] == CODES[outcome], (setting.name,
                                                                               case_id)
                compared += 1
    assert compared == 9 * 7


def test_the_command_says_what_flips(
    random_run: Path, oracle_run: Path, tmp_path: Path, call_rig: Callable[..., Any]
) -> None:
    table = tmp_path / "flips.csv"
    called = call_rig("sweep", "--vad", random_run, oracle_run, "--jobs", 1, *FEW, "--csv", table,
                      "--json")
    assert called.code == 0
    told = json.loads(called.out)
    assert (told["grid_n"], len(told["settings"])) == (6, 10)
    for name, path in (("random", random_run), ("oracle", oracle_run)):
        system = told["systems"][name]
        counted = kit.outcomes(path).values()
        at_default = system["ias"]["all"]["L2"]
        assert at_default["passed"] == sum(o == "pass" for o in counted)
        assert at_default["n"] == sum(o in ("pass", "fail") for o in counted)
        flips = system["flips_by_action"]["all"]
        assert flips["n"] == 9
        default = told["default_index"]
        assert flips["to_pass"][default] == flips["to_fail"][default] == 0
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    assert len(rows) == 2 * 10 * 10
    assert {row["detector"] for row in rows} == {"silero", "refined", "energy"}
    kinds = {c["kind"] for c in told["conclusions"]}
    assert kinds == {"order"}, "one level alone has no effects"
    shown = call_rig("sweep", "--vad", random_run, oracle_run, "--jobs", 1, *FEW).out
    assert "at the default every verdict is the one of rig score" in shown


def test_probabilities_that_are_not_cached_are_inferred_again(
    copied: Path, call_rig: Callable[..., Any]
) -> None:
    before = call_rig("sweep", "--vad", copied, "--jobs", 1, *FEW, "--json").out
    shutil.rmtree(copied / "cache")
    assert call_rig("sweep", "--vad", copied, "--jobs", 1, *FEW, "--json").out == before
    assert list((copied / "cache").glob("*.npz"))


@pytest.mark.slow
def test_processes_give_the_same(
    random_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rig.vad_sweep.CHUNK", 5)
    run, plan = RunFolder(random_run), plan_settings(VadSettings(), read_axes(FEW[1::2]))
    told: list[int] = []
    with Workers(2) as two, Workers(1) as one:
        a = sweep_run(run, plan, read_scored(run), two, told.append)
        b = sweep_run(run, plan, read_scored(run), one)
    assert (a.verdicts.codes == b.verdicts.codes).all()
    assert told == [5, 9]


def test_scores_that_are_not_what_is_measured_are_refused(
    copied: Path, call_rig: Callable[..., Any]
) -> None:
    scores = json.loads((copied / "scores.json").read_text())
    case = next(c for c in scores["cases"] if c["outcome"] == "pass")
    case["outcome"] = "fail"
    kit.write_scores(copied, scores)
    called = call_rig("sweep", "--vad", copied, "--jobs", 1, *FEW)
    error = called.err.splitlines()[-1]
    assert (called.code, called.out) == (2, "")
    assert "expected the verdicts of `rig score` at its own settings" in error
    assert case["case_id"] in error


def test_the_settings_of_the_score_are_the_default(
    copied: Path, call_rig: Callable[..., Any]
) -> None:
    assert call_rig("score", copied, "--jobs", 1, "--set", "vad_threshold=0.8", "--set",
                    "take_turn_max_wait_s=0.5", "--set", "onset_refine=1").code == 0
    scored = read_scored(RunFolder(copied))
    assert scored.vad == replace(VadSettings(), threshold=0.8, onset_refine=True)
    assert scored.thresholds.take_turn_max_wait_s == 0.5
    told = json.loads(call_rig("sweep", "--vad", copied, "--jobs", 1, *FEW, "--json").out)
    assert told["settings"][told["default_index"]]["vad_threshold"] == 0.8


def test_a_session_that_cannot_be_measured_is_counted(
    copied: Path, call_rig: Callable[..., Any]
) -> None:
    lines = (copied / "attempts.jsonl").read_text().splitlines(keepends=True)
    (copied / "attempts.jsonl").write_text("".join(lines[2:]))
    next((copied / "rec").glob("*.wav")).write_bytes(b"damaged")
    assert call_rig("score", copied, "--jobs", 1).code == 0
    told = json.loads(call_rig("sweep", "--vad", copied, "--jobs", 1, *FEW, "--json").out)
    system = told["systems"]["run"]
    missing = 9 - sum(c["outcome"] in ("pass", "fail") or c["measured"] != {}
                      for c in kit.scores(copied)["cases"])
    assert system["unmeasured"] == missing >= 2
    assert system["n_cases"] == 9 - missing


def test_what_cannot_be_compared_is_refused(
    random_run: Path, copied: Path, call_rig: Callable[..., Any], tmp_path: Path
) -> None:
    assert call_rig("score", copied, "--jobs", 1, "--set", "offset_refine=1").code == 0
    error = call_rig("sweep", "--vad", random_run, copied, *FEW).error
    assert "scored alike" in error
    called = call_rig("sweep", "--vad", random_run, *FEW, "--out", tmp_path)
    assert "expected a file that can be written, got Is a directory" in called.error
    assert "sessions under" not in called.err, "refused before the work, not behind it"
    assert "expected --vad with" in call_rig("sweep", random_run, "--jobs", 2).error
    out = tmp_path / "x"
    assert "different files" in call_rig("sweep", "--vad", random_run, "--csv", out, "--out",
                                         out).error


def test_a_chunk_of_nothing_played_is_nothing(random_run: Path) -> None:
    run = RunFolder(random_run)
    scored = read_scored(run)
    assert decide_chunk(run, [None, None], plan_settings(VadSettings(), {}), scored.thresholds,
                        "hold") == [None, None]


@pytest.mark.parametrize("text", ["{", "[]", '{"vad": {}}', "null"])
def test_damaged_scores_are_refused(copied: Path, text: str) -> None:
    (copied / "scores.json").write_text(text)
    with pytest.raises(InputError, match="rig score"):
        read_scored(RunFolder(copied))
