"""How many verdicts hang on the settings of the detector: of these runs where that takes seconds,
else what is published.

One setting is changed at a time, on the values of `rig sweep --vad`, and every verdict decided anew
by its code, on the frame probabilities that the case view shows. Of more than `MAX_SESSIONS` some
are drawn, the same ones each time. The verdicts themselves are made by the workers of a page
(`rig.report.session_facts`).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from audio.vad import VadSettings
from rig.report.loading import ScoredRun
from rig.report.session_facts import SessionFacts
from rig.scenes import Identity, case_identity
from rig.settings import VAD_NAMES
from rig.vad_decided import CODES, Plan, Setting
from rig.vad_sweep import AXES
from sweeps.instrument import Flips, flips_by_action
from sweeps.sweep import Cases
from sweeps.table import NO_LEVEL
from sweeps.threshold_grid import VerdictMatrix
from verifiers.verdict import Outcome

MAX_SESSIONS = 160
"""Of all runs together. Ours: some 25 ms of one core each, so four seconds a page."""

SEED = 20_260_917
"""Of the draw. Any number would do."""

CALIBRATION_MS: Mapping[tuple[str, int], tuple[int, int, int]] = {
    ("onset", 0): (-31, -11, 32), ("onset", -10): (-28, -11, 54), ("onset", -20): (-26, -5, 86),
    ("onset", -30): (-29, 53, 213), ("offset", 0): (60, 83, 108), ("offset", -10): (60, 86, 114),
    ("offset", -20): (53, 87, 113), ("offset", -30): (40, 85, 118)}
"""Detected less true edge, p5, median and p95, by gain in dB: docs/instrument.md, `silero`."""
PUBLISHED_FLIPS: Mapping[str, tuple[int, float, float]] = {
    "all": (1440, 1.0, 4.5), "LISTEN": (390, 1.3, 2.3), "TAKE_TURN": (240, 0.4, 2.1),
    "YIELD": (180, 1.1, 4.4), "INTERRUPT": (150, 0.0, 29.3), "BACKCHANNEL": (210, 0.0, 0.5),
    "NO_BACKCHANNEL": (60, 0.0, 1.7), "ACCEPT_OVERLAP": (60, 0.0, 0.0)}
"""Verdicts, and percent of them that flip over 405 settings: median and most. docs/instrument.md,
"Measured"."""


@dataclass(frozen=True, slots=True)
class RunFlips:
    """Of one run. `decided_n` of `sessions_n` were decided again; `reason` says why none were.
    `flips` is by action, over all of them first."""

    run: str
    settings: tuple[str, ...]
    sessions_n: int
    decided_n: int
    flips: Mapping[str, Flips]
    reason: str | None = None


def plan_alone(base: VadSettings) -> Plan:
    """The base, then every setting in which one value is another."""
    alone = [Setting("silero", replace(base, **{field: value}),  # type: ignore[arg-type]
                     varied=((name, value),))
             for name, field in VAD_NAMES.items() for value in AXES[name]
             if value != getattr(base, field)]
    return Plan(base, (Setting("silero", base), *alone), len(alone) + 1, 0)


def drawn(run: ScoredRun, most: int) -> frozenset[str]:
    """Keys of the cases of a run that are decided again: at most `most` of those measured."""
    measured = [case for case in run.cases if case.case_id in run.planned
                and (row := case.row(run.playout)) is not None and row.measurement is not None]
    # Drawn, not every k-th: the levels of a conversation follow each other.
    places = random.Random(SEED).sample(range(len(measured)), min(most, len(measured)))
    return frozenset(measured[i].key for i in places)


def vad_flips(run: ScoredRun, facts: Sequence[SessionFacts]) -> RunFlips:
    """Of the cases of a run whose verdicts at every setting of `plan_alone` are in `facts`, which
    are of all its cases, in their order."""
    plan = plan_alone(run.vad)
    names = tuple(setting.name for setting in plan.settings)

    def none(reason: str) -> RunFlips:
        return RunFlips(run.name, names, len(run.cases), 0, {}, reason)

    if not run.planned:
        return none("recordings of others: `rig sweep --vad` needs a run of the rig")
    kept = [(case, case_identity(run.planned[case.case_id], case.trial), fact.codes)
            for case, fact in zip(run.cases, facts, strict=True) if fact.codes is not None]
    if not kept:
        return none("no session of it was measured and can still be read")
    for case, _, codes in kept:
        if CODES.get(case.outcome) != codes[plan.default]:
            return none(f"its recordings no longer give the verdicts of scores.json "
                        f"({case.case_id}); run `rig score` again")
    codes = np.stack([codes for _, _, codes in kept], axis=1)
    verdicts = VerdictMatrix(codes == CODES[Outcome.PASS], codes == CODES[Outcome.UNSCORED])
    return RunFlips(run.name, names, len(run.cases), len(kept),
                    flips_by_action(_cases([i for _, i, _ in kept]), verdicts, plan.default))


def _cases(identities: Sequence[Identity]) -> Cases:
    return Cases(np.array([i.case_id for i in identities], dtype=np.str_),
                 np.array([i.trial for i in identities], dtype=np.int64),
                 np.array([i.level or NO_LEVEL for i in identities], dtype=np.str_),
                 np.array([str(i.expected_action) for i in identities], dtype=np.str_))

