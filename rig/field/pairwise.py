"""A1 of a field study: pairs to questions in both orders, replies of the judge to figures."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from audio.errors import InputError
from rig.field.measures import CallMeasures, Skipped
from rig.field.pair_prompt import PROMPT_VERSION, pair_body, prompt_sha256, read_choice
from rig.field.pairs import Pair, PairRow, names_of, pair_of
from rig.field.sources import CallSource
from rig.field.words import Transcript, read_transcript
from rig.judge.asking import Question, Reply
from rig.judge.configs import Judge
from sweeps.pairwise import BothOrders, Choice, pairwise

NOT_ASKED = "not asked for: --pairwise"
NO_WORDS = "the call has no words file (a recogniser's words are not judged)"
ORDERS = (True, False)
"""Whether the candidate is shown first."""

Status = Literal["judged", "identical", "judge_error", "not_judged", "unscored"]


@dataclass(frozen=True, slots=True)
class PairPlan:
    """Everything to be asked. Equal requests are asked once: `at` says which question answers
    which pair in which order."""

    judge: Judge
    pairs: tuple[Pair, ...]
    questions: tuple[Question[Choice], ...]
    at: dict[tuple[int, bool], int]


@dataclass(frozen=True, slots=True)
class JudgedPair:
    """What came of a pair. `both` where both orders have a usable answer, or the texts are the
    same. `judge_error`: an answer of no use, or none; `not_judged`: not asked; `unscored`: nothing
    to ask."""

    call: str
    agent_start_s: float
    status: Status
    both: BothOrders | None = None
    reason: str | None = None
    requests_sha256: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PairStudy:
    """All pairs of a study, and who judged."""

    judge: Judge
    pairs: tuple[JudgedPair, ...]


def pairs_in(rows: Sequence[PairRow], sources: Sequence[CallSource],
             found: Sequence[CallMeasures | Skipped], *, hide_names: bool = False) -> list[Pair]:
    """The pairs of a study with their texts; `found` is what came of each of `sources`."""
    places = names_of(sources, hide_names=hide_names)
    words: dict[int, Transcript | str] = {}
    out = []
    for row in rows:
        place = places[row.file]
        if place not in words:
            words[place] = _words(found[place])
        out.append(pair_of(row, found[place], words[place]))
    return out


def _words(call: CallMeasures | Skipped) -> Transcript | str:
    if isinstance(call, Skipped) or not call.source.words:
        return NO_WORDS
    try:
        return read_transcript(call.source.words)
    except InputError as error:
        return str(error)


def plan_pairs(judge: Judge, pairs: Sequence[Pair]) -> PairPlan:
    """Two requests a pair whose texts differ."""
    places: dict[bytes, int] = {}
    questions: list[Question[Choice]] = []
    at: dict[tuple[int, bool], int] = {}
    for k, pair in enumerate(pairs):
        if pair.problem is not None or pair.identical:
            continue
        for candidate_first in ORDERS:
            content = pair_body(pair, judge, candidate_first=candidate_first)
            place = places.setdefault(content, len(questions))
            if place == len(questions):
                questions.append(Question(content, read_choice))
            at[k, candidate_first] = place
    return PairPlan(judge, tuple(pairs), tuple(questions), at)


def judged_pairs(plan: PairPlan, replies: Sequence[Reply[Choice]]) -> PairStudy:
    """What came of each pair, in the order of the file."""
    return PairStudy(plan.judge, tuple(_judged(plan, k, replies) for k in range(len(plan.pairs))))


def _judged(plan: PairPlan, k: int, replies: Sequence[Reply[Choice]]) -> JudgedPair:
    pair = plan.pairs[k]
    if pair.problem is not None:
        return JudgedPair(pair.call, pair.row.agent_start_s, "unscored", reason=pair.problem)
    if pair.identical:
        return JudgedPair(pair.call, pair.row.agent_start_s, "identical",
                          BothOrders(pair.call, "tie", "tie"))
    asked = [plan.at[k, order] for order in ORDERS]
    first, second = (replies[place] for place in asked)
    hashes = tuple(hashlib.sha256(plan.questions[place].body).hexdigest() for place in asked)
    both, reason = None, None
    status: Status = "judged"
    if first.judgement is not None and second.judgement is not None:
        both = BothOrders(pair.call, first.judgement, second.judgement)
    else:
        # An order that was never asked is what running again would mend.
        lost = next((r for r in (first, second) if r.kind == "not_judged"), None) or next(
            r for r in (first, second) if r.judgement is None)
        status = "not_judged" if lost.kind == "not_judged" else "judge_error"
        reason = lost.reason
    return JudgedPair(pair.call, pair.row.agent_start_s, status, both, reason, hashes)


# --- figures ---------------------------------------------------------------------------------


def a1_figures(study: PairStudy | None, calls: Collection[str] | None = None) -> dict[str, Any]:
    """`a1` of a study, of some calls alone where `calls` names them."""
    pairs = [] if study is None else [
        p for p in study.pairs if calls is None or p.call in calls]
    found = pairwise([p.both for p in pairs if p.both is not None])
    if study is None:
        found["win"]["reason"] = found["inconsistent"]["reason"] = NOT_ASKED
    return {"pairs_n": len(pairs), **{f"{status}_n": sum(p.status == status for p in pairs)
                                      for status in ("judged", "identical", "judge_error",
                                                     "not_judged", "unscored")}, **found}


def a1_document(study: PairStudy | None) -> dict[str, Any]:
    """`a1` of the whole study: who judged, what was asked, each pair. No text of a call."""
    out = a1_figures(study)
    if study is not None:
        judge = study.judge
        out |= {
            "judge": {"name": judge.name, "base_url": judge.address, "model": judge.model,
                      "temperature": judge.temperature, "max_tokens": judge.max_tokens,
                      "json_mode": judge.json_mode},
            "prompt": {"version": PROMPT_VERSION, "sha256": prompt_sha256()},
            "pairs": [{
                "file": p.call, "agent_start_s": p.agent_start_s, "status": p.status,
                "outcome": None if p.both is None else p.both.outcome,
                "candidate_first": None if p.both is None else p.both.candidate_first,
                "candidate_second": None if p.both is None else p.both.candidate_second,
                "reason": p.reason, "requests_sha256": list(p.requests_sha256)}
                for p in study.pairs]}
    return out
