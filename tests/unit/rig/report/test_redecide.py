"""The trees that go into the page, held against the scores that they stand for."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import made_runs
import pytest

from audio.errors import InputError
from rig.report import redecide
from rig.report.loading import ScoredRun, load_scored
from rig.store import RunFolder
from sweeps.decision_tree import RANGES
from verifiers.thresholds import DEFAULTS, Thresholds
from verifiers.verdict import Outcome


@pytest.fixture(scope="module")
def run() -> ScoredRun:
    return made_runs.scored_run("one", made_runs.scenes(3, 108))


def test_a_list_of_rows_has_one_entry_a_case(run: ScoredRun) -> None:
    data = redecide.data([run, replace(run, thresholds=replace(DEFAULTS))])
    assert len(data["trees"]) == len(data["live"]) == len(data["forced"]) == 218
    assert data["scored"] == [list(asdict(DEFAULTS).values())] * 2
    assert [s["name"] for s in data["settings"]] == list(asdict(DEFAULTS))
    assert data["live"][108] is False  # never played
    assert {leaf["outcome"] for leaf in data["leaves"]} == {"pass", "fail", "unscored"}


def test_played_runs_are_as_their_scores_say(oracle_run: Path, random_run: Path) -> None:
    runs = load_scored([RunFolder(oracle_run), RunFolder(random_run)])
    data = redecide.data(runs)
    assert len(data["trees"]) == 18
    assert any(isinstance(tree, list) for tree in data["trees"])


def test_a_verdict_that_is_not_of_its_measurement_is_refused(run: ScoredRun) -> None:
    other = {Outcome.PASS: Outcome.FAIL}
    cases = tuple(replace(case, outcome=other.get(case.outcome, Outcome.PASS))
                  for case in run.cases)
    with pytest.raises(InputError) as caught:
        redecide.data([replace(run, cases=cases[:1])])
    first = run.cases[0]
    assert str(caught.value).endswith(f"got {first.outcome} from its measurement")
    assert f"{first.case_id} t1" in str(caught.value)
    assert "rig score made" in str(caught.value)
    with pytest.raises(InputError, match="got no measurement"):
        redecide.data([replace(run, cases=cases[-1:])])


def test_verdicts_without_measurements_stand(run: ScoredRun) -> None:
    bare = replace(run, cases=tuple(replace(case, rows={}) for case in run.cases))
    data = redecide.data([bare])
    assert [data["leaves"][tree]["outcome"] for tree in data["trees"]] == [
        str(case.outcome) for case in run.cases]
    assert "109 cases have no stored measurement" in redecide.section([bare]).html


def test_thresholds_of_the_run_are_those_it_is_held_against() -> None:
    strict = replace(DEFAULTS, take_turn_max_wait_s=0.3, yield_max_latency_ms=250)
    run = made_runs.scored_run("strict", made_runs.scenes(3, 108), thresholds=strict)
    assert redecide.data([run])["scored"][0][0] == 0.3
    with pytest.raises(InputError):
        redecide.data([replace(run, thresholds=DEFAULTS)])


@pytest.mark.parametrize("name", list(RANGES))
def test_a_slider_stays_in_its_range_and_has_the_default_on_a_step(name: str) -> None:
    slider, default = redecide.SLIDERS[name], asdict(DEFAULTS)[name]
    for value in (slider.first, slider.last):
        Thresholds(**{name: value})
    steps = (default - slider.first) / slider.step
    assert abs(steps - round(steps)) < 1e-9
    assert slider.first <= default <= slider.last
