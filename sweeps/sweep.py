"""Systems over many settings: scores, Entailment Gaps, their ranking, and what flips.

`sweep` goes over the threshold grid, from one table a system. `sweep_settings` goes over settings
under which the recordings were measured anew (those of the detector), from verdicts.

Figures are given on `core` (four actions) and on `all` (nine); see `sweeps.aggregate`. On core
only 15 of the 180 configurations are distinct (`n_distinct`), each counted 12 times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from audio.errors import InputError
from sweeps.aggregate import LEVELS
from sweeps.ranking import RankStability, rank_stability
from sweeps.table import Bools, Ints, MeasurementTable, Strings
from sweeps.threshold_grid import Grid, VerdictMatrix, decide_grid
from verifiers.scene import CORE_ACTIONS, Action

POOLS: dict[str, tuple[Action, ...]] = {"core": CORE_ACTIONS, "all": tuple(Action)}
GAP_LEVELS = ("L1", "L2")
"""The Entailment Gap is IAS(L1) - IAS(L2) (DSB-IFEval, table 5)."""


@dataclass(frozen=True, slots=True)
class Cases:
    """What verdicts belong to; every column is `(n,)`."""

    case_ids: Strings
    trials: Ints
    levels: Strings
    actions: Strings


@dataclass(frozen=True, slots=True)
class LevelCounts:
    """One system, one level, one pool over the grid, each `(n_configs,)`."""

    passed: Ints
    n: Ints
    unscored: Ints

    def rate(self, config: int) -> Fraction | None:
        """Passed out of scored under one configuration."""
        n = int(self.n[config])
        return Fraction(int(self.passed[config]), n) if n > 0 else None


@dataclass(frozen=True, slots=True)
class Flip:
    """A case whose verdict is not the same under every setting."""

    case_id: str
    trial: int
    action: str
    level: str
    default: str
    n_other: int


@dataclass(frozen=True, slots=True)
class SystemSweep:
    """One system.

    `counts` is by pool and level, `flips` in the order of the table; `flip_rates` gives for each
    setting the share of all cases whose verdict differs from the default's (empty without cases).
    """

    counts: dict[str, dict[str, LevelCounts]]
    flips: tuple[Flip, ...]
    flip_rates: tuple[float, ...]
    n_cases: int

    def gap(self, pool: str, config: int) -> Fraction | None:
        """Entailment Gap under one configuration; `None` when a level has no scored case."""
        first, second = (self.counts[pool].get(level) for level in GAP_LEVELS)
        if first is None or second is None:
            return None
        n, m = int(first.n[config]), int(second.n[config])
        if n == 0 or m == 0:
            return None
        return Fraction(int(first.passed[config]) * m - int(second.passed[config]) * n, n * m)

    def as_dict(self, default: int) -> dict[str, Any]:
        """Rates as fractions of 1, one value a setting where it is a list."""
        n_settings = len(self.flip_rates)  # without cases there is nothing to list
        return {
            "n_cases": self.n_cases,
            "flips": [asdict(flip) for flip in self.flips],
            "flip_rates": list(self.flip_rates),
            "ias": {pool: {level: _level_dict(counts, default)
                           for level, counts in levels.items()}
                    for pool, levels in self.counts.items()},
            "gap": {pool: [_number(self.gap(pool, i)) for i in range(n_settings)]
                    for pool in POOLS},
        }


@dataclass(frozen=True, slots=True)
class SweepResult:
    """All systems, the grid, and the stability of their ranking by pool."""

    grid: Grid
    systems: dict[str, SystemSweep]
    stability: dict[str, RankStability]

    def as_dict(self) -> dict[str, Any]:
        """For `rig sweep --json`; rates are fractions of 1, gaps differences of them."""
        default = self.grid.default_index
        ranking = _ranking_dict(self.stability)
        for pool, actions in POOLS.items():
            ranking[pool]["n_distinct"] = self.grid.distinct(actions)
        return {"configs": [asdict(config) for config in self.grid.configs],
                "default_index": default, "ranking": ranking,
                "systems": {name: system.as_dict(default)
                            for name, system in self.systems.items()}}


@dataclass(frozen=True, slots=True)
class SettingsResult:
    """Systems over named settings, judged by the same thresholds under each."""

    settings: tuple[str, ...]
    default_index: int
    systems: dict[str, SystemSweep]
    stability: dict[str, RankStability]

    def as_dict(self) -> dict[str, Any]:
        """For `rig sweep --json`."""
        return {"settings": list(self.settings), "default_index": self.default_index,
                "ranking": _ranking_dict(self.stability),
                "systems": {name: system.as_dict(self.default_index)
                            for name, system in self.systems.items()}}


def sweep(systems: Mapping[str, MeasurementTable], grid: Grid | None = None) -> SweepResult:
    """Judge every system's table at every configuration of the grid (default: the 180).

    Raises `InputError` when there is no system or the grid lacks its own default.
    """
    if not systems:
        raise InputError.expected("at least one system", got="none", where="sweep")
    grid = grid or Grid()
    default = grid.default_index
    found = {name: _system(table, decide_grid(table, grid), default)
             for name, table in systems.items()}
    return SweepResult(grid, found, _stability(found, len(grid.configs), default))


def sweep_settings(systems: Mapping[str, tuple[Cases, VerdictMatrix]], settings: Sequence[str],
                   default_index: int) -> SettingsResult:
    """The same from verdicts: each system brings its cases and one row of verdicts a setting.

    Raises `InputError` when there is nothing, or verdicts and settings do not fit.
    """
    if not systems or not settings:
        raise InputError.expected("at least one system and one setting",
                                  got=f"{len(systems)} and {len(settings)}", where="sweep")
    found = {}
    for name, (cases, verdicts) in systems.items():
        shape = (len(settings), len(cases.case_ids))
        if verdicts.passed.shape != shape or verdicts.unscored.shape != shape:
            raise InputError.expected(f"verdicts of shape {shape}", got=verdicts.passed.shape,
                                      where=name)
        found[name] = _system(cases, verdicts, default_index)
    return SettingsResult(tuple(settings), default_index, found,
                          _stability(found, len(settings), default_index))


def _stability(systems: Mapping[str, SystemSweep], n_settings: int,
               default: int) -> dict[str, RankStability]:
    return {pool: rank_stability(
        tuple(systems),
        [[system.gap(pool, i) for system in systems.values()] for i in range(n_settings)],
        default) for pool in POOLS}


def _ranking_dict(stability: Mapping[str, RankStability]) -> dict[str, Any]:
    out = {}
    for pool, found in stability.items():
        figures = {name: value for name, value in asdict(found).items() if name != "tau"}
        for name in ("largest", "two_largest", "order"):
            count = figures[f"{name}_unchanged"]
            figures[f"{name}_unchanged_share"] = (
                None if count is None else count / found.n_settings)
        out[pool] = figures
    return out


def _flips(table: Cases | MeasurementTable, verdicts: VerdictMatrix, default: int
           ) -> tuple[Flip, ...]:
    codes = verdicts.codes
    differs = codes != codes[default]
    return tuple(
        Flip(str(table.case_ids[i]), int(table.trials[i]), str(table.actions[i]),
             str(table.levels[i]), ("fail", "pass", "unscored")[codes[default, i]],
             int(differs[:, i].sum()))
        for i in np.flatnonzero(differs.any(axis=0)))


def _flip_rates(verdicts: VerdictMatrix, default: int) -> tuple[float, ...]:
    codes = verdicts.codes
    return tuple((codes != codes[default]).mean(axis=1).tolist())


def _system(table: Cases | MeasurementTable, verdicts: VerdictMatrix, default: int
            ) -> SystemSweep:
    counts: dict[str, dict[str, LevelCounts]] = {}
    present = set(table.levels.tolist())
    levels = [level for level in LEVELS if level in present] + sorted(present - set(LEVELS))
    for pool, actions in POOLS.items():
        in_pool = np.isin(table.actions, [str(action) for action in actions])
        counts[pool] = {level: _count(verdicts, in_pool & (table.levels == level))
                        for level in levels if bool((in_pool & (table.levels == level)).any())}
    n_cases = len(table.case_ids)
    rates = _flip_rates(verdicts, default) if n_cases else ()
    return SystemSweep(counts, _flips(table, verdicts, default), rates, n_cases)


def _count(verdicts: VerdictMatrix, cases: Bools) -> LevelCounts:
    passed = verdicts.passed[:, cases].sum(axis=1, dtype=np.int64)
    unscored = verdicts.unscored[:, cases].sum(axis=1, dtype=np.int64)
    return LevelCounts(passed, int(cases.sum()) - unscored, unscored)


def _level_dict(counts: LevelCounts, default: int) -> dict[str, Any]:
    rates = [counts.rate(i) for i in range(counts.n.shape[0])]
    known = [rate for rate in rates if rate is not None]
    return {
        "n": int(counts.n[default]), "passed": int(counts.passed[default]),
        "unscored": int(counts.unscored[default]), "rate": _number(rates[default]),
        "min": _number(min(known)) if known else None,
        "max": _number(max(known)) if known else None,
        "rates": [_number(rate) for rate in rates],
    }


def _number(value: Fraction | None) -> float | None:
    return None if value is None else float(value)
