"""What a scored run offers to gates: figures by the names of `scores.json`, as `ias_core.L2`,
`by_action.YIELD`, `latency.reply.p90_ms` or `flags.forced`, and the sessions that they are over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rig.recount import LATENCIES, is_live
from rig.wording import spelt
from sweeps.aggregate import LEVELS, NEVER_POOLED, PERCENTILES
from sweeps.effects import POOLS
from sweeps.effects import Case as PairedCase
from verifiers.scene import Action
from verifiers.verdict import Outcome

Unit = Literal["rate", "share", "count", "ms"]

SUFFIXES = ("", "_live", "_excluding_forced")
POOL_HEADS = tuple(f"ias_{pool}{suffix}" for suffix in SUFFIXES for pool in POOLS)
STATUSES = ("infra_error", "void", "not_played")
"""Why a session has no recording, where it is not that the system cannot be asked at all."""
SHARES = ("cases_passed", "unscored", "unsupported", *STATUSES)
KNOWN_FLAGS = frozenset({
    "no_model_speech", "near_silent", "clipped", "no_opportunity", "forced", "spoke_over_turn1",
    "turn1_no_reply", "turn2_no_reply", "turn1_overrun", "turn2_overrun", "response_incomplete",
    "resumed_in_window", "architecture_constrained", "incomplete_recording", "floor_taken_besides",
    "no_user_speech", "transcript_without_speech"})
"""docs/formats.md: a flag that a run does not have is there zero times only if it exists at all."""


@dataclass(frozen=True, slots=True)
class Session:
    """One case and trial. `paired` is what the statistics of a run take, `None` for recordings of
    others. `status` is one of `STATUSES`, `None` for a session that was played."""

    case_id: str
    trial: int
    action: Action
    level: str
    role: str | None
    outcome: Outcome
    reason: str
    flags: tuple[str, ...] = ()
    measured: Mapping[str, Any] | None = None
    limited: bool = False
    """The verdict names a limit."""
    status: str | None = None
    paired: PairedCase | None = None

    @property
    def live(self) -> bool:
        """Any model speech was heard."""
        return is_live(self.measured, self.flags)


@dataclass(frozen=True, slots=True)
class Figure:
    """A named figure. `keys` are its place in `scores.json` (a role may hold any character; in
    `path` it is as `spelt`). `wanted` picks the sessions that a rate is over."""

    path: str
    unit: Unit
    keys: tuple[str, ...]
    wanted: Callable[[Session], bool] | None = None

    @property
    def droppable(self) -> bool:
        """Whether two runs can be paired on it: a rate over cases that both have, not one over
        sessions of which each run has its own."""
        return self.unit == "rate" and not self.keys[1].endswith(SUFFIXES[1:])


def catalogue(sessions: Sequence[Session], flags: Iterable[str] = ()) -> dict[str, Figure]:
    """Every figure that a run of these sessions could have, by its name. Levels and actions are
    all that exist, roles and other `flags` those of the run. No two share a name."""
    levels = [*LEVELS, *sorted({s.level for s in sessions} - set(LEVELS))]
    out: dict[str, Figure] = {}

    def add(path: str, unit: Unit, keys: Sequence[str],
            wanted: Callable[[Session], bool] | None = None) -> None:
        out[path] = Figure(path, unit, tuple(keys), wanted)

    for suffix in SUFFIXES:
        for pool in POOLS:
            for level in levels:
                add(f"ias_{pool}{suffix}.{spelt(level)}", "rate",
                    ["ias", f"{pool}{suffix}", level], _in_pool(pool, suffix, level))
    groups = [*(("by_action", str(action)) for action in Action),
              *(("by_role", role) for role in sorted(
                  {s.role for s in sessions if s.role is not None}))]
    for kind, name in groups:
        head = f"{kind}.{spelt(name)}"
        add(head, "rate", ["ias", kind, name], _in_group(kind, name, None))
        for level in levels:
            add(f"{head}.{spelt(level)}", "rate", ["ias", kind, name, "by_level", level],
                _in_group(kind, name, level))
    for latency in LATENCIES:
        for q in PERCENTILES:
            add(f"latency.{latency}.p{q}_ms", "ms", ["latency", latency, f"p{q}_ms"])
    for flag in sorted(KNOWN_FLAGS | set(flags)):
        add(f"flags.{spelt(flag)}", "count", ["flags", flag])
    for share in SHARES:
        add(share, "share", [share])
    return out


def _in_pool(pool: str, suffix: str, level: str) -> Callable[[Session], bool]:
    def wanted(session: Session) -> bool:
        return (session.level == level and POOLS[pool](session.action)
                and (suffix != "_live" or session.live)
                and (suffix != "_excluding_forced" or "forced" not in session.flags))
    return wanted


def _in_group(kind: str, name: str, level: str | None) -> Callable[[Session], bool]:
    """Without a level all but the one that is in no pool."""
    def wanted(session: Session) -> bool:
        own = str(session.action) if kind == "by_action" else session.role
        return own == name and (session.level != NEVER_POOLED if level is None
                                else session.level == level)
    return wanted
