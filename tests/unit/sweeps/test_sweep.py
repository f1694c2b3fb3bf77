from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest

from audio.errors import InputError
from audio.spans import Spans
from rig.commands.sweep import _print
from rig.console import Output
from sweeps.sweep import Cases, sweep, sweep_settings
from sweeps.table import MeasurementTable
from sweeps.threshold_grid import Grid, VerdictMatrix
from verifiers.decide import verify
from verifiers.scene import Action, CaseParams, Scene, Window

MS = 1_000_000
S = 1000 * MS


NO_PARAMS = CaseParams()


def take_turn(onset_ms, params=NO_PARAMS, recorded=30 * S):
    start = None if onset_ms is None else 10 * S + onset_ms * MS
    model = () if start is None else ((start, start + S),)
    return Scene(Action.TAKE_TURN, Window(10 * S, 20 * S), Spans(model), Spans(), recorded,
                 params=params)


@pytest.fixture
def table(make_row):
    def build(onsets_by_level):
        return MeasurementTable.of([
            make_row(f"{level}-{i}", take_turn(onset), level)
            for level, onsets in onsets_by_level.items() for i, onset in enumerate(onsets)])
    return build


@pytest.fixture
def systems(table):
    # waits of 1.5, 2.0, 2.5 s; the gap is IAS(L1) - IAS(L2)
    return {
        "quick": table({"L1": [500, 600], "L2": [500, 9000]}),     # 1/2 everywhere
        "even": table({"L1": [500, 9000], "L2": [500, 9000]}),     # 0 everywhere
        "slow": table({"L1": [2400, 2400], "L2": [9000, 9000]}),   # 0, 0, 1
    }


def test_gaps_follow_the_thresholds(systems):
    result = sweep(systems)
    gaps = {name: [s.gap("core", i) for i in range(180)] for name, s in result.systems.items()}
    assert set(gaps["quick"]) == {Fraction(1, 2)}
    assert set(gaps["even"]) == {Fraction(0)}
    assert gaps["slow"] == [0] * 120 + [1] * 60
    for pool in ("core", "all"):
        found = result.stability[pool]
        # at 2.5 s the slow one leads: 120 of 180 keep the default's order
        assert (found.largest_unchanged, found.order_unchanged) == (120, 120)
        assert found.tau_max == 1.0
        assert found.tau_min == pytest.approx(0.0)


def test_flips_name_the_cases(systems):
    flips = sweep(systems).systems["slow"].flips
    assert [(f.case_id, f.action, f.level, f.default, f.n_other) for f in flips] == [
        ("L1-0", "TAKE_TURN", "L1", "fail", 60), ("L1-1", "TAKE_TURN", "L1", "fail", 60)]
    assert sweep(systems).systems["quick"].flips == ()


def test_the_document(systems):
    document = sweep(systems).as_dict()
    json.dumps(document, allow_nan=False)
    assert document["default_index"] == 90
    assert len(document["configs"]) == 180
    core, everything = document["ranking"]["core"], document["ranking"]["all"]
    assert (core["n_settings"], core["n_distinct"]) == (180, 15)
    assert (everything["n_settings"], everything["n_distinct"]) == (180, 180)
    assert core["largest_unchanged_share"] == pytest.approx(120 / 180)
    slow = document["systems"]["slow"]
    assert slow["n_cases"] == 4
    level = slow["ias"]["core"]["L1"]
    assert (level["n"], level["passed"], level["rate"], level["min"], level["max"]) == \
        (2, 0, 0.0, 0.0, 1.0)
    assert len(level["rates"]) == len(slow["gap"]["core"]) == len(slow["flip_rates"]) == 180
    assert slow["flip_rates"][0] == 0.0
    assert slow["flip_rates"][-1] == 0.5


def test_the_rankings_say_how_many_configurations_are_distinct(systems, capsys):
    _print(Output(as_json=False), sweep(systems))
    shown = capsys.readouterr().out
    assert "ranking by Entailment Gap, core (15 distinct configurations of 180)" in shown
    assert "ranking by Entailment Gap, all (180 distinct configurations of 180)" in shown


def test_rates_equal_a_loop(random_scenes_of, make_row):
    scenes = random_scenes_of(31, 20)
    levels = ["L1" if i % 2 else "L2" for i in range(len(scenes))]
    result = sweep({"x": MeasurementTable.of([
        make_row(f"c{i}", s, levels[i]) for i, s in enumerate(scenes)])})
    for i in (0, 90, 101, 179):
        config = result.grid.configs[i]
        outcomes = [str(verify(s, config)[1].outcome) for s in scenes]
        for pool, inside in (("all", lambda a: True), ("core", lambda a: a in (
                "LISTEN", "READBACK", "TAKE_TURN", "YIELD"))):
            for level in ("L1", "L2"):
                mine = [o for o, s, lv in zip(outcomes, scenes, levels, strict=True)
                        if lv == level and inside(s.expected_action)]
                counts = result.systems["x"].counts[pool][level]
                assert (counts.passed[i], counts.n[i], counts.unscored[i]) == (
                    mine.count("pass"), mine.count("pass") + mine.count("fail"),
                    mine.count("unscored"))


def test_a_level_without_core_cases_is_not_listed_on_core(make_row):
    scene = Scene(Action.INTERRUPT, Window(10 * S, 20 * S), Spans(), Spans(), 30 * S)
    found = sweep({"x": MeasurementTable.of([make_row("a", scene, "L0"),
                                             make_row("b", take_turn(500), "L1")])})
    assert list(found.systems["x"].counts["core"]) == ["L1"]
    assert list(found.systems["x"].counts["all"]) == ["L0", "L1"]
    assert found.systems["x"].counts["core"]["L1"].n[0] == 1


def test_one_system_has_no_ranking_but_ranges(systems):
    result = sweep({"slow": systems["slow"]})
    assert result.stability["core"].tau_mean is None
    assert result.stability["core"].reason == "a ranking needs two systems, got 1"
    assert result.as_dict()["ranking"]["core"]["order_unchanged_share"] is None


def test_a_level_without_scored_cases_gives_no_gap(table, make_row):
    unscored = MeasurementTable.of([
        make_row("a", take_turn(500), "L1"),
        make_row("b", take_turn(None, recorded=10 * S + 100 * MS), "L2")])
    result = sweep({"short": unscored, "one_level": table({"L1": [500]}),
                    "fine": table({"L1": [500], "L2": [500]})})
    assert result.systems["short"].gap("core", 90) is None
    assert result.systems["one_level"].gap("core", 90) is None
    assert result.stability["core"].reason == (
        "a ranking needs two systems, got 1; left out, no gap: short, one_level")
    document = result.as_dict()["systems"]["short"]["ias"]["core"]["L2"]
    assert (document["rate"], document["min"], document["unscored"]) == (None, None, 1)


def test_overrides_scale_with_the_grid(make_row):
    params = CaseParams(max_wait_s=0.8)  # 0.6, 0.8, 1.0 s on the grid
    rows = [make_row(f"{ms}", take_turn(ms, params)) for ms in (600, 601, 800, 801, 1000, 1001)]
    result = sweep({"x": MeasurementTable.of(rows)})
    assert result.systems["x"].counts["core"]["L1"].passed[[0, 60, 120]].tolist() == [1, 3, 5]


def test_nothing_to_sweep_is_an_error(systems):
    with pytest.raises(InputError, match="at least one system"):
        sweep({})
    empty = sweep({"x": MeasurementTable.of([])})
    assert empty.systems["x"].n_cases == 0
    json.dumps(empty.as_dict())


def cases(levels):
    return Cases(np.array([f"{level}-{i}" for i, level in enumerate(levels)]),
                 np.ones(len(levels), np.int64), np.array(levels),
                 np.array(["TAKE_TURN"] * len(levels)))


def verdicts(*rows):
    """A row a setting, a character a case: 1 passed, 0 failed."""
    passed = np.array([[c == "1" for c in row] for row in rows], dtype=bool)
    return VerdictMatrix(passed, np.zeros_like(passed))


def test_other_settings_are_swept_from_verdicts():
    columns = cases(["L1", "L1", "L2", "L2"])
    result = sweep_settings({"a": (columns, verdicts("1100", "1000")),
                             "b": (columns, verdicts("1010", "1010"))}, ["vad 0.5", "vad 0.6"], 0)
    assert [result.systems["a"].gap("core", i) for i in (0, 1)] == [1, Fraction(1, 2)]
    assert result.systems["a"].flip_rates == (0.0, 0.25)
    assert [f.case_id for f in result.systems["a"].flips] == ["L1-1"]
    assert result.stability["core"].order_unchanged == 2
    document = result.as_dict()
    assert document["settings"] == ["vad 0.5", "vad 0.6"]
    assert document["ranking"]["core"]["n_settings"] == 2
    json.dumps(document, allow_nan=False)


def test_verdicts_that_do_not_fit_are_refused():
    one = cases(["L1", "L2"])
    with pytest.raises(InputError, match=r"a: expected verdicts of shape \(2, 2\), got \(1, 2\)"):
        sweep_settings({"a": (one, verdicts("10"))}, ["x", "y"], 0)
    with pytest.raises(InputError, match=r"expected verdicts of shape \(1, 2\)"):
        sweep_settings({"a": (one, VerdictMatrix(verdicts("10").passed, verdicts("1").passed))},
                       ["x"], 0)
    with pytest.raises(InputError, match="at least one system and one setting"):
        sweep_settings({}, ["x"], 0)
    with pytest.raises(InputError, match="at least one system and one setting"):
        sweep_settings({"a": (one, verdicts())}, [], 0)


def test_the_default_of_the_grid_may_be_the_users(systems):
    from dataclasses import replace

    grid = Grid()
    users = replace(grid.base, backchannel_max_spans=2)
    result = sweep(systems, Grid(base=users))
    assert result.grid.default_index == 90
    assert all(config.backchannel_max_spans == 2 for config in result.grid.configs)
    assert np.array_equal(result.systems["slow"].counts["core"]["L1"].passed,
                          sweep(systems).systems["slow"].counts["core"]["L1"].passed)
