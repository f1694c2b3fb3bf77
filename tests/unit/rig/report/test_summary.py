"""The summary: the figures of `rig compare`, floors beside, and what stands alone."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import made_runs
import pytest
import rig_testkit as kit

from rig.report import summary
from rig.report.compared import (
    BOOTSTRAP,
    WILSON_CASES,
    WILSON_STREAMS,
    Compared,
    Rate,
    System,
    compared,
)
from rig.report.loading import load_scored
from rig.report.page import Chart, Section
from rig.store import RunFolder


def _chart(found: Section, key: str) -> Chart:
    return next(chart for chart in found.charts if chart.key == key)


def _traces(chart: Chart) -> dict[str, Any]:
    return {trace["name"]: trace for trace in chart.figure["data"]}


def _rate(passed: int, n: int, unscored: int = 0) -> Rate:
    return Rate(n, passed, passed / n if n else None, (0.1, 0.9) if n else None, BOOTSTRAP,
                unscored, 0)


def _system(name: str, agent: str, passed: int, **fields: Any) -> System:
    rates = {"core": {"L1": _rate(passed, 10, 2)}, "all": {"L1": _rate(passed, 10)},
             "action": {"YIELD": _rate(passed, 10), "LISTEN": _rate(0, 0, 3)}, "role": {}}
    return System(name, bool(agent), agent, rates, {}, **fields)


def test_the_figures_are_those_of_the_runs(oracle_run: Path, random_run: Path) -> None:
    runs = load_scored([RunFolder(oracle_run), RunFolder(random_run)])
    found = summary.section(runs)
    ias = kit.scores(random_run)["ias"]
    passed = {name: round(100 * stat["rate"], 6) for name, stat in ias["by_action"].items()}
    traces = _traces(_chart(found, "action"))
    assert traces["oracle"]["x"] == [100.0] * 9
    names = _chart(found, "action").figure["layout"]["yaxis"]["ticktext"]
    assert dict(zip(names, traces["random"]["x"], strict=True)) == pytest.approx(passed)
    level = ias["core"]["L2"]
    assert ["L2", "random", level["n"], level["passed"], f"{100 * level['rate']:.1f}"] in [
        list(row[:5]) for row in _chart(found, "level-core").rows]
    # one level alone has no effect, and another suite's floors are not its own
    assert not [chart for chart in found.charts if chart.key.startswith("effects")]
    assert "no floors beside it: they are of suite" in found.html


def test_floors_are_a_band_and_the_oracle_the_ceiling(monkeypatch: pytest.MonkeyPatch) -> None:
    systems = (_system("mine", "", 7), _system("silent", "silent", 4), _system("echo", "echo", 1),
               _system("oracle", "oracle", 10), _system("inverse", "inverse", 0))
    monkeypatch.setattr(summary, "compared", lambda _: Compared(systems, (), ("a problem",)))
    found = summary.section([])
    chart = _chart(found, "level-core")
    traces = _traces(chart)
    assert sorted(traces["floors"]["x"]) == [10.0, 40.0]
    assert traces["ceiling"]["x"] == [100.0]
    assert traces["mine"]["customdata"] == ["n=10, bootstrap over streams, 2 unscored"]
    band, = chart.figure["layout"]["shapes"]
    assert (band["x0"], band["x1"]) == (10.0, 40.0)
    assert [row[:4] for row in chart.rows] == [
        ["L1", "mine", 10, 7], ["L1", "silent (floor)", 10, 4], ["L1", "echo (floor)", 10, 1],
        ["L1", "oracle (ceiling)", 10, 10], ["L1", "inverse (fails on purpose)", 10, 0]]
    assert "70.0 [10, 90] n=10, 2 unscored" in found.html
    assert "a problem" in found.html
    # what is not scored is neither 0 nor left out
    actions = _chart(found, "action")
    assert _traces(actions)["mine"]["x"] == [None, 70.0]
    assert ["LISTEN", "mine", 0, 0, "–", "–", None, 3, 0] in actions.rows


def test_a_run_of_a_floor_stands_for_it_in_the_band(monkeypatch: pytest.MonkeyPatch) -> None:
    """`rig compare` has no second one beside it: the band must not end below the best floor."""
    systems = (_system("mine", "", 7), replace(_system("runs/silent", "silent", 4), floor=False),
               replace(_system("told", "oracle", 10), floor=False), _system("echo", "echo", 1))
    monkeypatch.setattr(summary, "compared", lambda _: Compared(systems, (), ()))
    chart = _chart(summary.section([]), "level-core")
    band, = chart.figure["layout"]["shapes"]
    assert (band["x0"], band["x1"]) == (10.0, 40.0)
    assert [row[1] for row in chart.rows] == ["mine", "runs/silent", "told", "echo (floor)"]
    assert "runs of them that are shown included" in chart.text


def test_a_run_is_known_as_the_agent_that_ships(oracle_run: Path, random_run: Path) -> None:
    found = compared(load_scored([RunFolder(oracle_run), RunFolder(random_run)]))
    assert [(s.agent, s.floor) for s in found.tested] == [("oracle", False), ("random", False)]
    assert [s.name for s in found.unskilled] == ["random"]


def test_a_table_of_many_names_the_method_of_each_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """A letter where it is not the bootstrap, explained by the caption; a method that stands
    nowhere is not explained."""
    def rated(method: str) -> System:
        return _system(method, "", 7)

    systems = [replace(one, rates={**one.rates, "core": {"L1": replace(
        one.rates["core"]["L1"], method=one.name)}}) for one in (
            rated(BOOTSTRAP), rated(WILSON_STREAMS), rated(WILSON_CASES))]
    monkeypatch.setattr(summary, "compared", lambda _: Compared(tuple(systems), (), ()))
    html = summary.section([]).html
    assert ("percent passed and 95 % interval (bootstrap over streams; S: Wilson over streams; "
            "C: Wilson over cases)") in html
    for letter in ("", " S", " C"):
        assert f">70.0 [10, 90]{letter} n=10, 2 unscored<" in html
    assert "(nine actions): percent passed and 95 % interval (bootstrap over streams)<" in html


def test_an_interval_that_no_bootstrap_gives_is_wilsons(oracle_run: Path) -> None:
    """One case an action: a single stream has nothing to draw from."""
    run, = load_scored([RunFolder(oracle_run)])
    rate = compared([run]).tested[0].rates["action"]["YIELD"]
    assert (rate.n, rate.passed, rate.method) == (1, 1, "Wilson over cases")
    assert rate.interval == pytest.approx((0.2065, 1.0), abs=1e-4)


def test_effects_are_full_marks_only_where_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    def effect(difference: float | None, verdict: str) -> dict[str, Any]:
        return {"n": 0 if difference is None else 20, "only_first": 6, "only_second": 0,
                "one_sided": 0, "clusters": 20, "difference": difference, "interval": (0.1, 0.5),
                "p_mcnemar": 0.03, "p_clustered": 0.03, "p_holm": 0.03, "verdict": verdict}

    effects = {"core": {"entailment_gap": effect(0.3, "resolved"),
                        "redundancy_gain": effect(0.1, "not resolved"),
                        "role_tax": effect(None, "no common cases")}}
    mine = replace(_system("mine", "", 7), effects=effects)
    monkeypatch.setattr(summary, "compared", lambda _: Compared((mine,), (), ()))
    found = summary.section([])
    chart = _chart(found, "effects-core")
    trace = _traces(chart)["mine"]
    assert trace["x"] == [pytest.approx(30.0), pytest.approx(10.0)]
    assert chart.figure["layout"]["yaxis"]["ticktext"] == ["entailment gap", "redundancy gain"]
    assert chart.text.endswith(
        " Not drawn: role tax (L3 - L1): no case was scored at both levels.")
    assert trace["marker"]["symbol"][:2] == ["circle", "circle-open"]
    assert [row[1] for row in chart.rows] == ["entailment gap (L1 - L2)",
                                              "redundancy gain (L3 - L2)"]
    assert chart.rows[0][-1] == "resolved"


def test_runs_that_cannot_be_compared_stand_alone(
    oracle_run: Path, random_run: Path, tmp_path: Path
) -> None:
    other = shutil.copytree(random_run, tmp_path / "other")
    scores = kit.scores(other)
    scores["thresholds"]["yield_max_latency_ms"] = 700.0
    (other / "scores.json").write_text(json.dumps(scores))
    runs = load_scored([RunFolder(oracle_run), RunFolder(other)])
    found = compared(runs)
    assert [s.name for s in found.tested] == ["oracle", "other"]
    assert found.problems[0].startswith("not compared with each other: ")
    assert "yield_max_latency_ms 600.0 and 700.0" in found.problems[0]
    assert found.pairs == ()
    assert found.systems[0].rates["all"]["L2"].rate == 1.0
    html = summary.section(runs).html
    assert "other was not scored with the default settings: yield_max_latency_ms=700" in html


def test_recordings_of_others_have_rates_alone() -> None:
    run = made_runs.scored_run("theirs", made_runs.scenes(1, 90))
    found = compared([run])
    system, = found.systems
    level = run.scores["ias"]["all"]["L1"]
    rate = system.rates["all"]["L1"]
    assert (rate.n, rate.passed, rate.unscored, rate.method) == (
        level["n"], level["passed"], level["unscored"], "Wilson over cases")
    assert rate.interval == tuple(level["ci"])
    assert found.problems == ("theirs: rates alone: its recordings belong to no suite",)
    outside = sum(case.outcome == "unscored" for case in run.cases)
    assert outside > 0
    assert f"theirs: of {len(run.cases)} cases {outside} unscored" in summary.section([run]).html


def test_trouble_is_told_before_any_number(oracle_run: Path) -> None:
    run, = load_scored([RunFolder(oracle_run)])
    found = replace(run, scores={**run.scores, "attempts": {"done": 6, "infra_error": 2,
                                                            "void": 1}})
    html = summary.section([found]).html
    assert "oracle: sessions that ended in trouble and were not made good: 2 infra_error, 1 void" \
        in html
    assert "in trouble" not in summary.section([run]).html


def test_names_are_text(oracle_run: Path, tmp_path: Path) -> None:
    run = shutil.copytree(oracle_run, tmp_path / "<img src=x>")
    found = summary.section(load_scored([RunFolder(run)]))
    assert "<img" not in found.html
    assert "<img" not in str([chart.figure for chart in found.charts])
