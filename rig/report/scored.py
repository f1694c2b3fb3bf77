"""A case of a scored run as a page needs it. Little is imported: cases go to workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from audio.spans import Spans
from audio.timebase import s_to_ns
from rig.playout import Policy
from verifiers.margins import Surroundings
from verifiers.measurement import Measurement
from verifiers.scene import Action, CaseParams, Window
from verifiers.verdict import Outcome

Stretch = tuple[float, float]


@dataclass(frozen=True, slots=True)
class CaseRow:
    """What was measured of a case under one playout; times in seconds on the session clock.

    `measurement` is `None` where nothing could be measured; `problem` says why.
    """

    playout: Policy
    measurement: Measurement | None
    problem: str | None
    params: CaseParams
    recorded_s: float
    user_s: tuple[Stretch, ...]
    model_s: tuple[Stretch, ...]
    window_s: Stretch
    alternates_s: tuple[tuple[str, Stretch], ...]

    def surroundings(self) -> Surroundings:
        """What `verifiers.margins` asks of the session."""
        def spans(stretches: Iterable[Stretch]) -> Spans:
            return Spans.of((s_to_ns(start), s_to_ns(end)) for start, end in stretches)

        return Surroundings(spans(self.model_s), spans(self.user_s),
                            Window(s_to_ns(self.window_s[0]), s_to_ns(self.window_s[1])))


@dataclass(frozen=True, slots=True)
class ScoredCase:
    """A case and trial with its verdict under the run's playout, as `scores.json` says it.

    `rows` is by playout; `flush` is there only where it differs from `hold`, and nothing is there
    in a run without measurements. `measured` are the numbers under the names of `scores.json`.
    """

    key: str
    """`RUN_INDEX/CASE_ID/TRIAL`: what `rigOpenCase` takes. Unique in a page."""
    case_id: str
    trial: int
    role: str | None
    probe: str | None
    level: str | None
    action: Action
    outcome: Outcome
    reason: str
    value: float | None
    unit: str | None
    limit: float | None
    measured: Mapping[str, Any]
    flags: tuple[str, ...]
    alternates: tuple[tuple[str, Outcome, str], ...]
    rows: Mapping[Policy, CaseRow]
    other_outcome: Outcome | None
    """The outcome under the other playout, where it differs."""

    def row(self, playout: Policy) -> CaseRow | None:
        """What was measured under `playout`."""
        return self.rows.get(playout) or self.rows.get("hold")


def case_key(run_index: int, case_id: str, trial: int) -> str:
    return f"{run_index}/{case_id}/{trial}"
