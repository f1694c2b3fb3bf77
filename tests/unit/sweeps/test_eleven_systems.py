"""The sweep's statistics on eleven made-up systems whose rankings are known by construction.

Each system has 20 TAKE_TURN and 20 INTERRUPT cases on L1 and on L2, and passes nothing on L2. Its
TAKE_TURN passes on L1 at waits of 1.5, 2.0 and 2.5 s are written below, so its gap on core is that
number of twentieths. The last system also interrupts, 1.8 s late, in 12 cases of L1: on all nine
actions it leads where the interrupt latency may be 2000 ms.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from scipy.stats import kendalltau

from audio.spans import Spans
from sweeps.sweep import SweepResult, sweep
from sweeps.table import MeasurementTable, TableRow
from verifiers.measurement import measure
from verifiers.scene import Action, Scene, Window

MS = 1_000_000
W0 = 10_000 * MS
N = 20
PASSES = {
    1.5: (10, 9, 8, 6, 7, 5, 4, 3, 2, 1, 0),    # the fourth and the fifth have changed places
    2.0: (11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1),   # the default: in order, no tie
    2.5: (12, 13, 10, 9, 8, 7, 6, 5, 4, 2, 2),  # another one leads, and the last two are tied
}
LATE_INTERRUPTS = 12
TIED = 52 / math.sqrt(55 * 54)
"""Of 55 pairs one is discordant and one is tied on one side."""
CORE_TAU = {1.5: 53 / 55, 2.0: 1.0, 2.5: TIED}
LATE_TAU = {1.5: 33 / 55, 2.0: 35 / 55, 2.5: 33 / 55}
"""Ten pairs turn with the last system in front; the one of the wait besides, and no tie is left."""


def scene(action: Action, onset_ms: int | None) -> Scene:
    spans = () if onset_ms is None else ((W0 + onset_ms * MS, W0 + (onset_ms + 1000) * MS),)
    return Scene(action, Window(W0, W0 + 10_000 * MS), Spans(spans), Spans(), W0 + 20_000 * MS)


@pytest.fixture(scope="module")
def result() -> SweepResult:
    tables = {}
    for k in range(11):
        at = [PASSES[wait][k] for wait in (1.5, 2.0, 2.5)]
        onsets = [1000] * at[0] + [1800] * (at[1] - at[0]) + [2200] * (at[2] - at[1])
        late = [1800] * (LATE_INTERRUPTS if k == 10 else 0)
        tables[f"s{k}"] = MeasurementTable.of([
            make(f"{level}-{action}-{i}", action, level,
                 given[i] if level == "L1" and i < len(given) else None)
            for level in ("L1", "L2")
            for action, given in ((Action.TAKE_TURN, onsets), (Action.INTERRUPT, late))
            for i in range(N)])
    return sweep(tables)


def make(case_id: str, action: Action, level: str, onset_ms: int | None) -> TableRow:
    found = scene(action, onset_ms)
    return TableRow(case_id, 1, "R1", level, str(action), found.params, measure(found))


def test_the_gaps_are_those_written_down(result: SweepResult) -> None:
    for i, config in enumerate(result.grid.configs):
        wanted = PASSES[config.take_turn_max_wait_s]
        late = LATE_INTERRUPTS if config.interrupt_max_latency_ms == 2000 else 0
        for k in range(11):
            system = result.systems[f"s{k}"]
            assert system.gap("core", i) == Fraction(wanted[k], N)
            assert system.gap("all", i) == Fraction(
                wanted[k] + late * (k == 10), 2 * N)


def test_tau_b_of_every_configuration(result: SweepResult) -> None:
    core, whole = result.stability["core"], result.stability["all"]
    for i, config in enumerate(result.grid.configs):
        wait, late = config.take_turn_max_wait_s, config.interrupt_max_latency_ms == 2000
        assert core.tau[i] == pytest.approx(CORE_TAU[wait], abs=1e-12)
        assert whole.tau[i] == pytest.approx((LATE_TAU if late else CORE_TAU)[wait], abs=1e-12)
    for pool, found in result.stability.items():
        gaps = [[float(s.gap(pool, i)) for s in result.systems.values()] for i in range(180)]
        default = gaps[result.grid.default_index]
        assert list(found.tau) == pytest.approx([kendalltau(default, g).statistic for g in gaps])


def test_the_statistics_of_tau(result: SweepResult) -> None:
    core, whole = result.stability["core"], result.stability["all"]
    assert core.n_settings == whole.n_settings == 180
    # Each wait stands in 60 of the 180; on all, a third of them lets late interruptions pass.
    mean = (53 / 55 + 1 + TIED) / 3
    assert core.tau_mean == pytest.approx(mean)
    assert core.tau_median == pytest.approx(53 / 55)
    assert (core.tau_min, core.tau_max) == (pytest.approx(TIED), 1.0)
    assert core.tau_sd == pytest.approx(math.sqrt(
        ((53 / 55) ** 2 + 1 + TIED ** 2) / 3 - mean ** 2))
    assert whole.tau_mean == pytest.approx(2 / 3 * mean + (33 + 35 + 33) / 55 / 9)
    assert whole.tau_median == pytest.approx(TIED)
    assert (whole.tau_min, whole.tau_max) == (pytest.approx(33 / 55), 1.0)


def test_the_three_shares(result: SweepResult) -> None:
    ranking = result.as_dict()["ranking"]
    shares = {pool: [ranking[pool][f"{name}_unchanged_share"]
                     for name in ("largest", "two_largest", "order")] for pool in ranking}
    # Core: the two largest change at 2.5 s alone, the order at 1.5 s as well.
    assert shares["core"] == pytest.approx([2 / 3, 2 / 3, 1 / 3])
    # All: besides, none of them holds where the last system leads.
    assert shares["all"] == pytest.approx([4 / 9, 4 / 9, 2 / 9])
    assert {pool: ranking[pool]["n_distinct"] for pool in ranking} == {"core": 15, "all": 180}
    assert all(ranking[pool]["systems"] == tuple(f"s{k}" for k in range(11)) for pool in ranking)
