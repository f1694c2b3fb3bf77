"""Thresholds moved in the page: every verdict and total decided again, in the browser.

The page holds for each case the tree of its turning points (`sweeps.decision_tree`), read off the
verifiers when the page is written; `static/redecide.js` compares numbers with it and knows no rule.
Settings that need the recordings (those of the detector) cannot be moved.

The tree is held against the stored verdict when the page is written: where the two differ, scores
and measurements are not of one scoring, and nothing that the page would say could be trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from audio.errors import InputError
from rig.report.loading import ScoredRun
from rig.report.page import Section, render
from rig.report.scored import ScoredCase
from sweeps.aggregate import LEVELS, NEVER_POOLED
from sweeps.decision_tree import RANGES, SETTINGS_OF_ACTION, Branch, Leaf, Tree, read, tree_of
from sweeps.table import NO_LEVEL
from verifiers.scene import CORE_ACTIONS
from verifiers.thresholds import DEFAULTS
from verifiers.verdict import Outcome

SCRIPTS = ("hash_state.js", "redecide.js")


@dataclass(frozen=True, slots=True)
class Slider:
    """How a setting is shown. The slider goes in steps from the first to the last; the field beside
    it takes every number that `rig score --set` takes."""

    title: str
    unit: str
    first: float
    last: float
    step: float


SLIDERS: dict[str, Slider] = {
    "take_turn_max_wait_s": Slider("take turn: longest wait", "s", 0.05, 5, 0.05),
    "interrupt_max_latency_ms": Slider("interrupt: largest latency", "ms", 50, 5000, 50),
    "yield_max_latency_ms": Slider("yield and continue: largest latency", "ms", 20, 3000, 20),
    "backchannel_ceiling_s": Slider("backchannel: ceiling", "s", 0.05, 3, 0.05),
    "backchannel_max_spans": Slider("backchannel: most spans", "spans", 1, 10, 1),
    "readback_min_coverage": Slider("readback: least coverage", "ratio", 0.01, 1, 0.01),
}
"""Ranges for the hand (ours): the grid of DSB-IFEval, appendix C.7, lies well inside them, and
every default on a step."""


def section(runs: Sequence[ScoredRun]) -> Section:
    """Sliders and totals. The rows are those of the case list, in its order.

    Raises `InputError` where a stored verdict is not that of its measurement.
    """
    return Section("redecide", "Thresholds", render(
        "redecide.html.j2", settings=[_setting(name) for name in RANGES],
        fixed=sum(case.row(run.playout) is None for run in runs for case in run.cases)),
        data=data(runs), scripts=SCRIPTS, wide=True)


def data(runs: Sequence[ScoredRun]) -> dict[str, Any]:
    """What `redecide.js` needs, one entry a row of the case list where it is a list of rows."""
    leaves: dict[Leaf, int] = {}
    trees, live, forced = [], [], []
    for run in runs:
        for case in run.cases:
            trees.append(_packed(case_tree(run, case), leaves))
            row = case.row(run.playout)
            measurement = None if row is None else row.measurement
            live.append(measurement is not None and measurement.model_speaks)
            forced.append("forced" in case.flags
                          or (measurement is not None and measurement.forced))
    return {
        "settings": [_setting(name) for name in RANGES],
        "scored": [list(asdict(run.thresholds).values()) for run in runs],
        "leaves": [{"outcome": str(leaf.outcome), "flags": list(leaf.flags)} for leaf in leaves],
        "trees": trees, "live": live, "forced": forced,
        "core": [str(action) for action in CORE_ACTIONS],
        "levels": list(LEVELS), "never_pooled": NEVER_POOLED, "no_level": NO_LEVEL,
    }


def case_tree(run: ScoredRun, case: ScoredCase) -> Tree:
    """The verdict of a case under every setting; that of a case which was not measured stands."""
    row = case.row(run.playout)
    if row is None or row.measurement is None:
        if row is not None and case.outcome in (Outcome.PASS, Outcome.FAIL):
            raise _apart(run, case, "no measurement")
        return Leaf(case.outcome)
    tree = tree_of(case.action, row.measurement, row.params)
    found = read(tree, run.thresholds).outcome
    if found is not case.outcome:
        raise _apart(run, case, f"{found} from its measurement")
    return tree


def _apart(run: ScoredRun, case: ScoredCase, got: str) -> InputError:
    return InputError.expected(
        f"{case.outcome} of {case.case_id} t{case.trial}, as scores.json says "
        f"(`{run.folder.score_command}` writes both anew)", got=got,
        where=run.folder.measurements_path)


def _setting(name: str) -> dict[str, Any]:
    return {"name": name, **asdict(SLIDERS[name]), **asdict(RANGES[name]),
            "default": getattr(DEFAULTS, name),
            "actions": [str(a) for a, names in SETTINGS_OF_ACTION.items() if name in names]}


def _packed(tree: Tree, leaves: dict[Leaf, int]) -> Any:
    """A leaf is its place in `leaves`, a branch `[place of the setting, at, then]`."""
    if isinstance(tree, Branch):
        return [list(RANGES).index(tree.setting), list(tree.at),
                [_packed(child, leaves) for child in tree.then]]
    return leaves.setdefault(tree, len(leaves))
