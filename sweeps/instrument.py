"""What the choice of a detector does to verdicts and to what is concluded from them.

A verdict *flips* where it is not the default's: passed, failed and unscored are three verdicts. A
*conclusion* is the sign of a difference at the default: which of two systems has the higher IAS at
a level, whether an effect of the conditioning is above or below 0. It *survives* where the sign is
the same under every setting; a tie is another sign. A difference of 0 at the default concludes
nothing.

Whether a difference could be chance is another question (`sweeps.comparison`): one that is not
resolved there may survive here, and the reverse.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from sweeps.aggregate import LEVELS, NEVER_POOLED
from sweeps.effects import EFFECTS
from sweeps.ranking import RankStability, rank_stability
from sweeps.sweep import POOLS, Cases, SystemSweep
from sweeps.threshold_grid import VerdictMatrix
from verifiers.scene import Action

OVERALL = "all"
"""Stands for all actions together."""


@dataclass(frozen=True, slots=True)
class Flips:
    """Cases of one action whose verdict is not the default's, by what it became; each `(n,)` over
    the settings, out of `n_cases`."""

    n_cases: int
    to_pass: npt.NDArray[np.int64]
    to_fail: npt.NDArray[np.int64]
    to_unscored: npt.NDArray[np.int64]

    @property
    def total(self) -> npt.NDArray[np.int64]:
        """All that flipped."""
        return self.to_pass + self.to_fail + self.to_unscored


def flips_by_action(cases: Cases, verdicts: VerdictMatrix, default: int) -> dict[str, Flips]:
    """For every action that occurs, and for all of them (`OVERALL`, first)."""
    codes = verdicts.codes
    changed = codes != codes[default]
    out: dict[str, Flips] = {}
    for name in (OVERALL, *map(str, Action)):
        chosen = (np.ones(len(cases.actions), dtype=bool) if name == OVERALL
                  else cases.actions == name)
        if not chosen.any():
            continue
        part, moved = codes[:, chosen], changed[:, chosen]
        fail, passed, unscored = (((part == code) & moved).sum(axis=1, dtype=np.int64)
                                  for code in (0, 1, 2))
        out[name] = Flips(int(chosen.sum()), passed, fail, unscored)
    return out


@dataclass(frozen=True, slots=True)
class Conclusion:
    """One difference under all settings; rates in -1..1.

    `kind` is `order` (`first` minus `second` at `level`) or the name of an effect (of `first`).
    `lost` are the settings, by index, under which the sign is another or there is no value.
    """

    kind: str
    pool: str
    level: str | None
    first: str
    second: str | None
    default: float
    lowest: float
    highest: float
    lost: tuple[int, ...]
    reversed_n: int

    @property
    def survives(self) -> bool:
        """The sign is the same under every setting."""
        return not self.lost

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "lost": list(self.lost), "survives": self.survives}


def conclusion(values: Sequence[Fraction | None], default: int, *, kind: str, pool: str,
               level: str | None, first: str, second: str | None) -> Conclusion | None:
    """What becomes of the sign of `values[default]`; `None` where it is 0 or there is no value."""
    base = values[default]
    if base is None or base == 0:
        return None
    sign = _sign(base)
    known = [value for value in values if value is not None]
    lost = tuple(i for i, value in enumerate(values) if value is None or _sign(value) != sign)
    return Conclusion(kind, pool, level, first, second, float(base), float(min(known)),
                      float(max(known)), lost, sum(_sign(value) == -sign for value in known))


def conclusions(systems: Mapping[str, SystemSweep], default: int, n_settings: int
                ) -> list[Conclusion]:
    """The order of every two systems at every level that is pooled, then the effects of each
    system, on both pools."""
    out: list[Conclusion | None] = []
    for pool in POOLS:
        for level in LEVELS:
            if level == NEVER_POOLED:
                continue
            for first, second in itertools.combinations(systems, 2):
                values = [_minus(_rate(systems[first], pool, level, i),
                                 _rate(systems[second], pool, level, i))
                          for i in range(n_settings)]
                out.append(conclusion(values, default, kind="order", pool=pool, level=level,
                                      first=first, second=second))
        for effect, (plus, minus) in EFFECTS.items():
            for name, system in systems.items():
                values = [_minus(_rate(system, pool, plus, i), _rate(system, pool, minus, i))
                          for i in range(n_settings)]
                out.append(conclusion(values, default, kind=effect, pool=pool, level=None,
                                      first=name, second=None))
    return [found for found in out if found is not None]


def rankings(systems: Mapping[str, SystemSweep], default: int, n_settings: int
             ) -> dict[str, dict[str, RankStability]]:
    """How stable the ranking by IAS is, by pool and level."""
    return {pool: {level: rank_stability(
        tuple(systems), [[_rate(s, pool, level, i) for s in systems.values()]
                         for i in range(n_settings)], default)
        for level in LEVELS if level != NEVER_POOLED
        and any(level in s.counts[pool] for s in systems.values())} for pool in POOLS}


def _rate(system: SystemSweep, pool: str, level: str, setting: int) -> Fraction | None:
    counts = system.counts[pool].get(level)
    return None if counts is None else counts.rate(setting)


def _minus(a: Fraction | None, b: Fraction | None) -> Fraction | None:
    return None if a is None or b is None else a - b


def _sign(value: Fraction) -> int:
    return (value > 0) - (value < 0)
