"""H2: do the verifiers say what people say? (DSB-IFEval, A.2)

A sample for each action: as many passes as failures where there are so many, a quarter or more near
the threshold for actions that have one, and spread over systems, levels, roles, probes, instances.

**Near** a threshold: one step of the published threshold sweep (appendix C.7: TAKE_TURN 0.5 s of
2.0, INTERRUPT 0.5 s of 1.5, YIELD and CONTINUE 0.2 s of 0.6, backchannel ceiling 0.2 s of 1.0; in
proportion where a case has a limit of its own) reaches the bound that decides the case. The paper
says "close" and gives no number. ACCEPT_OVERLAP and READBACK are not in that sweep; ours: 0.2 s,
and 0.05 of coverage, half the way from the limit (0.90) to all of it. LISTEN and NO_BACKCHANNEL
have no threshold and are neither near nor away. What has no distance (no onset at all, a count of
spans) is away; where the end of the recording cut the distance short it may be either, and is
neither.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from audio.spans import Spans
from audio.timebase import ns_to_s, s_to_ns
from rig.report.loading import ScoredRun
from rig.report.scored import CaseRow
from rig.tracks import checked_record
from rig.validation import wording
from rig.validation.clips import session_clip
from rig.validation.drawing import Stratum, draw
from rig.validation.key import KeyItem, opaque, seeded
from rig.validation.runs import Drawable, candidate, load_pool, one_session, sources_of
from rig.validation.sample import Clip, Item, Notebook, Sample, text_block
from rig.validation.studies import H2_NEAR_SHARE, fields_of
from verifiers.margins import Margin, Surroundings, margin
from verifiers.scene import Action, Window
from verifiers.thresholds import Limits, effective_limits
from verifiers.verdict import Outcome

NEAR_OVERLAP_S = 0.2
NEAR_COVERAGE = 0.05
_ROUNDING = 1e-9
"""A margin is a difference of whole nanoseconds as float."""
NEAR_WIDTH: Mapping[Action, Callable[[Limits], float]] = {
    Action.TAKE_TURN: lambda limits: ns_to_s(limits.max_wait_ns) * 0.5 / 2.0,
    Action.INTERRUPT: lambda limits: ns_to_s(limits.max_latency_ns) * 0.5 / 1.5,
    Action.YIELD: lambda limits: ns_to_s(limits.max_latency_ns) * 0.2 / 0.6,
    Action.CONTINUE: lambda limits: ns_to_s(limits.max_latency_ns) * 0.2 / 0.6,
    Action.BACKCHANNEL: lambda limits: ns_to_s(limits.ceiling_ns) * 0.2 / 1.0,
    Action.ACCEPT_OVERLAP: lambda _: NEAR_OVERLAP_S,
    Action.READBACK: lambda _: NEAR_COVERAGE,
}
"""In the unit of the margin; actions without a threshold are not here."""

BEFORE_S, AFTER_S = 5.0, 3.0
"""What is heard around the window: enough to know who had the floor. Ours; the paper centres on the
event."""


def near(action: Action, found: Margin, limits: Limits) -> bool | None:
    """Whether a case lies near its threshold; `None` where that is not asked or not known."""
    if action not in NEAR_WIDTH:
        return None
    if found.margin is None:
        return False
    within = abs(found.margin) <= NEAR_WIDTH[action](limits) + _ROUNDING
    return None if within and found.at_least else within


def sample(paths: Sequence[Path], secret: str, seed: int, per_action: int, *,
           clips: bool = True) -> Sample:
    """`per_action` scored cases of each action that the runs have. Without `clips` nothing is
    listened to: for counting."""
    runs, pool = load_pool(paths)
    by_action: dict[Action, list[tuple[Drawable, KeyItem]]] = {}
    left_out: Counter[str] = Counter()
    for one in pool:
        why = _why_not(one)
        if why is not None:
            left_out[why] += 1
            continue
        by_action.setdefault(one.case.action, []).append((one, _key(one, secret)))
    book = Notebook()
    items = []
    for action in Action:
        entries = by_action.get(action, [])
        keys = {one.name: key for one, key in entries}
        traits = {one.name: _traits(key) for one, key in entries}
        drawn = draw([candidate(one, traits[one.name]) for one, _ in entries],
                     strata(action, per_action), per_action, seeded(seed, "h2", str(action)),
                     one_session)
        book.add(str(action), drawn, per_action)
        items += [_item(found.item, keys[found.item.name], clips=clips) for found in drawn.chosen]
    book.notes += [f"not drawn from: {n} cases {why}" for why, n in sorted(left_out.items())]
    return Sample(tuple(items), sources_of(runs), tuple(book.strata), tuple(book.notes))


def strata(action: Action, n: int) -> tuple[Stratum, ...]:
    """Of `n` items of an action: near ones first, since they are the scarcest."""
    half = n // 2
    out = []
    if action in NEAR_WIDTH:
        quarter = math.ceil(n * H2_NEAR_SHARE)
        out += [Stratum("near, pass", frozenset({"near", "pass"}), quarter // 2),
                Stratum("near, fail", frozenset({"near", "fail"}), quarter // 2),
                Stratum("near", frozenset({"near"}), quarter)]
    return (*out, Stratum("fail", frozenset({"fail"}), half),
            Stratum("pass", frozenset({"pass"}), n - half))


def _why_not(one: Drawable) -> str | None:
    if one.case.outcome not in (Outcome.PASS, Outcome.FAIL):
        return str(one.case.outcome)
    row = one.case.row(one.run.playout)
    if row is None or row.measurement is None:
        return "without a measurement"
    return None


def _traits(key: KeyItem) -> frozenset[str]:
    return frozenset({str(key.verdict), *(["near"] if key.near else [])})


def _limits(one: Drawable) -> Limits:
    return effective_limits(one.run.thresholds, _row(one).params, one.case.action)


def _row(one: Drawable) -> CaseRow:
    row = one.case.row(one.run.playout)
    assert row is not None  # asked before
    return row


def _margin(one: Drawable) -> Margin:
    row = _row(one)
    assert row.measurement is not None
    around = Surroundings(_spans(row.model_s), _spans(row.user_s),
                          Window(s_to_ns(row.window_s[0]), s_to_ns(row.window_s[1])))
    return margin(one.case.action, row.measurement, _limits(one), around)


def _spans(stretches: Sequence[tuple[float, float]]) -> Spans:
    return Spans.of((s_to_ns(a), s_to_ns(b)) for a, b in stretches)


def _key(one: Drawable, secret: str) -> KeyItem:
    found = _margin(one)
    case, planned = one.case, one.planned
    return KeyItem(
        item_id=opaque(secret, "h2", *one.name), case_id=case.case_id, trial=case.trial,
        system=one.run.name, stream=planned.stream_id, role=planned.role, probe=planned.probe,
        instance=planned.instance, level=planned.level, action=str(case.action),
        fields=fields_of("h2", str(case.action)),
        verdict="pass" if case.outcome is Outcome.PASS else "fail", margin=found.margin,
        margin_unit=found.unit, near=near(case.action, found, _limits(one)))


def _item(one: Drawable, key: KeyItem, *, clips: bool) -> Item:
    action = one.case.action
    blocks = [text_block("Criterion", wording.criterion(action, _limits(one)))]
    if action in wording.FUNCTIONS:
        blocks.append(text_block("Serves as this action", wording.FUNCTIONS[action]))
    if action is Action.READBACK:
        blocks.append(text_block("Items to be said back", one.planned.target_text or ""))
    return Item(key, tuple(blocks), _clip(one) if clips else None)


def _clip(one: Drawable) -> Clip:
    run: ScoredRun = one.run
    record = checked_record(run.folder, one.case.case_id, one.case.trial)
    window_s = _row(one).window_s
    start_s = window_s[0] - BEFORE_S
    if one.case.action is Action.READBACK:  # the dictation is heard whole
        start_s = min(start_s, record.windows.turn2_onset_s)
    return session_clip(run.folder, record, run.playout, (start_s, window_s[1] + AFTER_S), window_s)
