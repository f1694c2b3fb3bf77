"""What stands above every section of a report: what was run, when, and its headline scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rig.ledger import read as read_ledger
from rig.report.figures import percent
from rig.report.loading import ScoredRun

_POOLS: Mapping[str, str] = {"core": "core", "all": "all nine actions"}
_TITLE_NAMES = 4
"""Names of runs in the title; more do not fit a window's tab. Ours."""


def title(runs: Sequence[ScoredRun]) -> str:
    """The page's title, with the names of the first runs."""
    named = ", ".join(run.name for run in runs[:_TITLE_NAMES])
    more = len(runs) - _TITLE_NAMES
    return f"{named}{f' and {more} more' if more > 0 else ''}: duplexrig report"


def lines(runs: Sequence[ScoredRun]) -> list[str]:
    """One line a run: name, suite, when it was played, and IAS by level as `scores.json` has it."""
    return [" · ".join((run.name, *_origin(run), *_scores(run.scores["ias"]))) for run in runs]


def _origin(run: ScoredRun) -> list[str]:
    if run.info is None:
        return ["scored from a manifest, no suite known"]
    days = sorted({attempt.started[:10] for attempt in read_ledger(run.folder.ledger_path)})
    played = "no session on record" if not days else f"played {days[0]}" + (
        f" to {days[-1]}" if days[-1] != days[0] else "")
    return [f"suite {run.info.suite} {run.info.suite_version}", played]


def _scores(ias: Mapping[str, Any]) -> list[str]:
    def told(level: str, stat: Mapping[str, Any]) -> str:
        if stat["rate"] is None:
            return f"{level} none scored"
        return f"{level} {percent(stat['rate'])} % of {stat['n']}"

    return [f"{name}: " + (", ".join(told(level, stat) for level, stat in ias[pool].items())
                           or "no case") for pool, name in _POOLS.items()]
