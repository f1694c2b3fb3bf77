from __future__ import annotations

import numpy as np
import pytest

from audio.errors import InputError
from sweeps.table import MISSING, MeasurementTable
from sweeps.threshold_grid import AXES, Grid, decide_grid
from verifiers.decide import verify
from verifiers.scene import CORE_ACTIONS, Action
from verifiers.thresholds import DEFAULTS, Thresholds
from verifiers.verdict import Outcome

CODES = {Outcome.FAIL: 0, Outcome.PASS: 1, Outcome.UNSCORED: 2}


def test_the_grid_is_that_of_appendix_c7():
    grid = Grid()
    assert len(grid.configs) == 180
    assert len(set(grid.configs)) == 180
    assert [len(values) for _, values in AXES] == [3, 5, 3, 4]
    first, last = grid.configs[0], grid.configs[-1]
    assert (first.take_turn_max_wait_s, first.yield_max_latency_ms,
            first.interrupt_max_latency_ms, first.backchannel_ceiling_s) == (1.5, 200, 1000, 0.6)
    assert (last.take_turn_max_wait_s, last.yield_max_latency_ms,
            last.interrupt_max_latency_ms, last.backchannel_ceiling_s) == (2.5, 1500, 2000, 1.2)
    # the ceiling changes fastest, the wait slowest
    assert grid.configs[1].backchannel_ceiling_s == 0.8
    assert grid.configs[4].interrupt_max_latency_ms == 1500
    assert grid.configs[12].yield_max_latency_ms == 400
    assert grid.configs[60].take_turn_max_wait_s == 2.0


def test_the_default_point_is_what_rig_score_prints():
    grid = Grid()
    assert grid.configs[grid.default_index] == DEFAULTS
    assert grid.default_index == 60 + 2 * 12 + 1 * 4 + 2


def test_fifteen_of_180_differ_on_core():
    grid = Grid()
    assert grid.distinct(CORE_ACTIONS) == 15
    assert grid.distinct(tuple(Action)) == 180
    assert grid.distinct((Action.LISTEN,)) == 1


@pytest.mark.parametrize("action", list(Action))
def test_arrays_equal_the_verifiers_on_every_action(make_row, random_scenes_of, action):
    """Many scenes at two points each, so that rare endings of one action are met."""
    scenes = random_scenes_of(23, 400, (action,))
    table = MeasurementTable.of([make_row(f"c{i}", s) for i, s in enumerate(scenes)])
    low, high = Thresholds(1.5, 1000, 200, 0.6), Thresholds(2.5, 2000, 1500, 1.2)
    grid = Grid((("take_turn_max_wait_s", (1.5, 2.5)), ("yield_max_latency_ms", (200, 1500)),
                 ("interrupt_max_latency_ms", (1000, 2000)),
                 ("backchannel_ceiling_s", (0.6, 1.2))), low)
    codes = decide_grid(table, grid).codes
    for thresholds in (low, high):
        expected = [CODES[verify(scene, thresholds)[1].outcome] for scene in scenes]
        assert codes[grid.configs.index(thresholds)].tolist() == expected


@pytest.mark.parametrize("base", [DEFAULTS, Thresholds(
    take_turn_max_wait_s=1.5, backchannel_max_spans=2, readback_min_coverage=0.6)])
def test_arrays_equal_a_loop_that_verifies_at_every_configuration(
        make_row, random_scenes_of, base):
    scenes = random_scenes_of(17, 12)
    table = MeasurementTable.of([make_row(f"c{i}", s) for i, s in enumerate(scenes)])
    grid = Grid(base=base)
    verdicts = decide_grid(table, grid)
    assert verdicts.passed.shape == verdicts.unscored.shape == (180, len(scenes))
    assert not (verdicts.passed & verdicts.unscored).any()
    looped = np.array([[CODES[verify(scene, config)[1].outcome] for scene in scenes]
                       for config in grid.configs])
    assert np.array_equal(verdicts.codes, looped)
    assert set(np.unique(looped)) == {0, 1, 2}


def test_the_fifteen_are_seen_in_the_verdicts(random_table):
    table = random_table(5, 100)
    verdicts = decide_grid(table, Grid())
    core = np.isin(table.actions, [str(action) for action in CORE_ACTIONS])
    assert len(np.unique(verdicts.codes[:, core], axis=0)) == 15
    assert len(np.unique(verdicts.codes, axis=0)) == 180


def test_a_grid_of_other_values():
    grid = Grid((("take_turn_max_wait_s", (1.0,)), ("interrupt_max_latency_ms", (700, 800)),
                 ("yield_max_latency_ms", (300,)), ("backchannel_ceiling_s", (1.0,))))
    assert len(grid.configs) == 2
    assert grid.axis_index("interrupt_max_latency_ms").tolist() == [0, 1]
    with pytest.raises(InputError, match="a grid that holds the default settings"):
        _ = grid.default_index


def test_the_message_names_what_came():
    with pytest.raises(InputError, match="once, got none"):
        Grid(())
    with pytest.raises(InputError, match="once, got backchannel_ceiling_s"):
        Grid((AXES[3],))


@pytest.mark.parametrize(("axes", "match"), [
    (AXES[:3], "each of the axes"), ((*AXES, AXES[0]), "each of the axes"),
    ((*AXES[:3], ("vad_threshold", (0.5,))), "each of the axes"),
    ((*AXES[:3], (AXES[3][0], ())), "different values"),
    ((*AXES[:3], (AXES[3][0], (1.0, 1.0))), "different values"),
    ((*AXES[:3], (AXES[3][0], (0.0,))), "backchannel_ceiling_s")])
def test_a_wrong_grid_is_refused(axes, match):
    with pytest.raises(InputError, match=match):
        Grid(axes)


def test_an_empty_table():
    verdicts = decide_grid(MeasurementTable.of([]), Grid())
    assert verdicts.codes.shape == (180, 0)


def test_what_is_missing_is_masked_and_never_zero(make_row, random_scenes_of):
    table = MeasurementTable.of([make_row(f"c{i}", s)
                                 for i, s in enumerate(random_scenes_of(3, 30))])
    for mask, column in ((table.has_onset, table.onset_ns),
                         (table.has_onset, table.first_span_ns),
                         (table.has_offset, table.first_offset_ns)):
        assert (column[~mask] == MISSING).all()
        assert (column[mask] != MISSING).all()
        assert 0 < mask.sum() < len(table)
    assert (table.coverage[~table.has_coverage] == -1.0).all()


def test_roles_and_levels_are_kept_and_their_absence_has_a_name(make_row, random_scenes_of):
    scene = random_scenes_of(1, 1)[0]
    table = MeasurementTable.of([make_row("a", scene, "L2", "R7"),
                                 make_row("b", scene, None, None)])
    assert table.roles.tolist() == ["R7", "none"]
    assert table.levels.tolist() == ["L2", "none"]
    assert table.take(np.array([1])).case_ids.tolist() == ["b"]


def test_some_rows_keep_their_own_overrides(random_table):
    table = random_table(2, 20)
    rows = np.array([30, 7, 7])
    part = table.take(rows)
    assert [part.distinct_params[i] for i in part.params_index] == [
        table.distinct_params[table.params_index[row]] for row in rows]
    assert len(part.distinct_params) == 2


def test_an_unknown_action_is_refused(make_row, random_scenes_of):
    from dataclasses import replace

    row = replace(make_row("c", random_scenes_of(1, 1)[0]), action="SING")
    with pytest.raises(ValueError, match="SING"):
        MeasurementTable.of([row])
