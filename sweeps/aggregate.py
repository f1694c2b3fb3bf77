"""Verdicts to instruction-adherence scores (IAS) and latency percentiles.

Counts first, ratios last. A rate is `passed / n` over scored cases alone; `unscored` and
`unsupported` cases are outside `n` and counted beside it. A rate without cases is `None`.
Each trial of a case counts; with several trials `ci` (Wilson 95 %) is too narrow, because trials
of one case are not independent.

`core` pools LISTEN, READBACK, TAKE_TURN and YIELD, the four actions of the published headline;
`all` pools nine (design page "The headline number"). Both are by level and never pooled over
levels. On L4a the directive should win while the expected action stays the persona's, so its IAS
is persona-default retention: it stands alone, marked, and is in no pool. `by_action` and `by_role`
pool the other levels and carry each level beside.

`*_live` counts sessions with any model speech (a system that never speaks passes LISTEN),
`*_excluding_forced` leaves out barge-ins injected without a model onset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from audio.timebase import NS_PER_MS, s_to_ns
from sweeps.intervals import wilson
from sweeps.table import NO_LEVEL
from verifiers.label import Label, label
from verifiers.measurement import Measurement
from verifiers.scene import CORE_ACTIONS, Action
from verifiers.verdict import Outcome, Verdict

LEVELS = ("L0", "L1", "L2", "L3", "L4a", "L4b", NO_LEVEL)
NEVER_POOLED = "L4a"
PERCENTILES = (50, 90, 99)


class Counted(Protocol):
    """What a rate is counted from: one case and trial with its outcome."""

    @property
    def action(self) -> Action: ...
    @property
    def level_name(self) -> str:
        """The level, `none` for a recording that belongs to no suite."""
    @property
    def role(self) -> str | None: ...
    @property
    def outcome(self) -> Outcome: ...
    @property
    def live(self) -> bool:
        """Any model speech was heard in the session."""
    @property
    def forced(self) -> bool:
        """The barge-in was injected without a model onset."""


@dataclass(frozen=True, slots=True)
class Row:
    """One case and trial with its verdict; `measurement` is `None` where there is none."""

    action: Action
    level: str | None
    role: str | None
    verdict: Verdict
    measurement: Measurement | None
    flags: tuple[str, ...] = ()

    @property
    def level_name(self) -> str:
        """The level, `none` for a recording that belongs to no suite."""
        return self.level or NO_LEVEL

    @property
    def outcome(self) -> Outcome:
        return self.verdict.outcome

    @property
    def live(self) -> bool:
        """Any model speech was heard in the session."""
        return self.measurement is not None and self.measurement.model_speaks

    @property
    def forced(self) -> bool:
        """The barge-in was injected without a model onset."""
        return "forced" in self.flags or (self.measurement is not None and self.measurement.forced)


@dataclass(frozen=True, slots=True)
class Tally:
    """Additive counts of a pool."""

    passed: int = 0
    n: int = 0
    unscored: int = 0
    unsupported: int = 0

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> Tally:
        """Count outcomes."""
        found = list(outcomes)
        passed = found.count(Outcome.PASS)
        return cls(passed, passed + found.count(Outcome.FAIL), found.count(Outcome.UNSCORED),
                   found.count(Outcome.UNSUPPORTED))

    @property
    def rate(self) -> float | None:
        """Passed out of scored, 0..1."""
        return self.passed / self.n if self.n > 0 else None

    def as_dict(self) -> dict[str, Any]:
        """The contract's entry."""
        ci = wilson(self.passed, self.n)
        return {"n": self.n, "passed": self.passed, "rate": self.rate,
                "ci": None if ci is None else list(ci), "unscored": self.unscored,
                "unsupported": self.unsupported}


def ias(rows: Sequence[Counted]) -> dict[str, Any]:
    """The `ias` part of `scores.json`; only levels, actions and roles that occur are listed."""
    out: dict[str, Any] = {}
    for suffix, kept in (
        ("", rows),
        ("_live", [row for row in rows if row.live]),
        ("_excluding_forced", [row for row in rows if not row.forced]),
    ):
        out[f"core{suffix}"] = _by_level([row for row in kept if row.action in CORE_ACTIONS])
        out[f"all{suffix}"] = _by_level(kept)
    out["by_action"] = _pooled(rows, lambda row: str(row.action))
    out["by_role"] = _pooled([row for row in rows if row.role is not None],
                             lambda row: row.role or "")
    return out


def latency(rows: Sequence[Row]) -> dict[str, Any]:
    """The `latency` part of `scores.json`, milliseconds, over every level.

    - `reply`: genuine onset of TAKE_TURN cases, from the start of the window.
    - `interrupt`: genuine onset of INTERRUPT cases, from the end of the trigger.
    - `yield`: known first offset of YIELD cases that held the floor at the barge-in.
    - `backchannel`: genuine onset of BACKCHANNEL cases labelled `backchannel` under the ceiling
      that their verdict names.

    `n` is how many have the latency, `missing` how many measured cases of the action have none
    (no onset, no floor held, cut by the end): a percentile of those that answered says nothing of
    the others. Percentiles interpolate linearly between order statistics (Hyndman and Fan, type
    7); `None` when `n` is 0.
    """
    found: dict[str, list[int | None]] = {
        name: [] for name in ("reply", "interrupt", "yield", "backchannel")}
    for row in rows:
        if row.measurement is None or row.measurement.scored.outside:
            continue
        reading = row.measurement.scored
        if row.action is Action.TAKE_TURN:
            found["reply"].append(reading.onset_ns)
        elif row.action is Action.INTERRUPT:
            found["interrupt"].append(reading.onset_ns)
        elif row.action is Action.YIELD:
            known = reading.held_at_w0 and not reading.first_offset_cut
            found["yield"].append(reading.first_offset_ns if known else None)
        elif row.action is Action.BACKCHANNEL:
            ceiling_s = row.verdict.limit
            short = (ceiling_s is not None
                     and label(reading, s_to_ns(ceiling_s)) is Label.BACKCHANNEL)
            found["backchannel"].append(reading.onset_ns if short else None)
    return {name: percentiles([None if value is None else value / NS_PER_MS for value in values])
            for name, values in found.items()}


def percentiles(values_ms: Sequence[float | None]) -> dict[str, Any]:
    """One entry of `latency`: of the values that are known, and how many are `missing`."""
    known = [value for value in values_ms if value is not None]
    out: dict[str, Any] = {"n": len(known), "missing": len(values_ms) - len(known)}
    for q in PERCENTILES:
        out[f"p{q}_ms"] = float(np.percentile(known, q, method="linear")) if known else None
    return out


def _by_level(rows: Sequence[Counted]) -> dict[str, Any]:
    present = {row.level_name for row in rows}
    ordered = [level for level in LEVELS if level in present] + sorted(present - set(LEVELS))
    out: dict[str, Any] = {}
    for level in ordered:
        tally = Tally.of(row.outcome for row in rows if row.level_name == level)
        out[level] = tally.as_dict()
        if level == NEVER_POOLED:
            out[level]["reading"] = "persona_default_retention"
    return out


def _pooled(rows: Sequence[Counted], key: Callable[[Counted], str]) -> dict[str, Any]:
    groups: dict[str, list[Counted]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    out = {}
    for name in sorted(groups):
        pool = [row for row in groups[name] if row.level_name != NEVER_POOLED]
        out[name] = {**Tally.of(row.outcome for row in pool).as_dict(),
                     "by_level": _by_level(groups[name])}
    return out
