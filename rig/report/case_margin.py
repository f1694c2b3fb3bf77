"""The margin of a stored case: how far it was from its other verdict (`verifiers.margins`)."""

from __future__ import annotations

from rig.report.loading import ScoredRun
from rig.report.scored import ScoredCase
from verifiers.margins import Margin, margin
from verifiers.thresholds import effective_limits


def case_margin(run: ScoredRun, case: ScoredCase) -> Margin:
    """Under the playout and the thresholds that the run was scored with. Without a measurement
    there is no margin, and the verdict's own reason says why."""
    row = case.row(run.playout)
    if row is None or row.measurement is None:
        return Margin("", "", reason=case.reason)
    limits = effective_limits(run.thresholds, row.params, case.action)
    return margin(case.action, row.measurement, limits, row.surroundings())
