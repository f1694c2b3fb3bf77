"""The case view: one session on one axis, with its sound; the first section of the report.

Every case is a part of the page (`N`, its place in the list of all cases) that is read when it is
opened, and its sound another (`N-hold`, `N-flush`). The section's data is the list alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rig.report.case_data import CaseParts
from rig.report.loading import ScoredRun
from rig.report.page import Section, render
from rig.report.scored import ScoredCase
from rig.report.session_facts import SessionFacts

KEY = "case"
SCRIPTS = ("hash_state.js", "player.js", "timeline.js", "case_view.js")


@dataclass(frozen=True, slots=True)
class CaseView:
    """The section, and how much of it is sound."""

    section: Section
    cases_n: int
    with_audio_n: int
    audio_bytes: int


def case_view(runs: Sequence[ScoredRun], facts: Sequence[SessionFacts]) -> CaseView:
    """`facts` are of every case of every run, in their order."""
    cases = [case for run in runs for case in run.cases]
    parts = [fact.parts for fact in facts]
    section = Section(
        KEY, "One case", render("case_view.html.j2"), scripts=SCRIPTS, wide=True,
        data={"runs": [run.name for run in runs], "cases": _index(cases, parts)},
        parts={name: part for one in parts for name, part in one.parts.items()})
    return CaseView(section, len(cases), sum(one.audio_n > 0 for one in parts),
                    sum(one.audio_n for one in parts))


def _index(cases: Sequence[ScoredCase], prepared: Sequence[CaseParts]) -> list[list[object]]:
    """Key, outcome, expected action and whether there is sound; the place is the part's name."""
    return [[case.key, str(case.outcome), str(case.action), one.audio_n > 0]
            for case, one in zip(cases, prepared, strict=True)]
