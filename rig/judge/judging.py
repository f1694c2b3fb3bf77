"""`rig judge` on disk: requests of a run, replies of a judge, and the document made of both."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from audio.endpoint_rules import is_loopback
from audio.errors import InputError
from audio.files import atomic_write_text
from audio.vad import VadSettings
from probes.segments import sha256_json
from rig.judge.answer import Judgement, read_answer
from rig.judge.asking import Question, Reply
from rig.judge.cases import CONFLICT_LEVELS, Asked
from rig.judge.configs import Judge
from rig.judge.prompt import PROMPT_VERSION, body, prompt_sha256
from rig.judge.results import JudgedCase, JudgeResult
from rig.playout import Policy
from rig.store import RunFolder, RunInfo, read_model
from rig.stored import read_scores
from sweeps import agreement, judged
from sweeps.effects import DRAWS, SEED, Draws

FOLDER = "judge"
CACHE_FOLDER = "cache"


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything to be asked of one judge. Equal requests are asked once: `at` says which question
    answers which case and repeat."""

    judge: Judge
    asked: tuple[Asked, ...]
    questions: tuple[Question[Judgement], ...]
    at: Mapping[tuple[str, int, int], int]
    repeats: int

    def replies_to(self, case: Asked,
                   replies: Sequence[Reply[Judgement]]) -> list[Reply[Judgement]]:
        """Of a case that can be asked about, the first asking first."""
        return [replies[self.at[(*case.key, k)]] for k in range(1, self.repeats + 1)]


def make_plan(judge: Judge, asked: Sequence[Asked], reask: int) -> Plan:
    """The requests for some cases, each asked once and `reask` times more."""
    places: dict[tuple[bytes, int], int] = {}
    questions: list[Question[Judgement]] = []
    at: dict[tuple[str, int, int], int] = {}
    for repeat in range(1, reask + 2):
        for case in asked:
            if case.material is None:
                continue
            content = body(case.material, judge)
            place = places.setdefault((content, repeat), len(questions))
            if place == len(questions):
                read = partial(read_answer, conflict=case.material.conflict is not None)
                questions.append(Question(content, read, repeat))
            at[(*case.key, repeat)] = place
    return Plan(judge, tuple(asked), tuple(questions), at, reask + 1)


def judge_folder(run: RunFolder) -> Path:
    return run.path / FOLDER


def result_path(run: RunFolder, name: str) -> Path:
    return judge_folder(run) / f"{name}.json"


def check_same_judge(run: RunFolder, judge: Judge) -> None:
    """Raise `InputError` where another address had this name here: cached answers are named by the
    request, which holds the model and not where it went. Ports of this machine may change."""
    path = result_path(run, judge.name)
    if not path.exists():
        return
    before = read_model(path, JudgeResult, "results of `rig judge`").judge
    near = all(is_loopback(urlsplit(url).hostname or "")
               for url in (before.base_url, judge.address))
    if before.base_url != judge.address and not near:
        raise InputError.expected(
            f"judge {judge.name!r} at {before.base_url}, as before", got=f"{judge.address}; give "
            "it another name, or remove this file and the cache beside it", where=path)


def verdicts_of(run: RunFolder, playout: Policy) -> tuple[Mapping[tuple[str, int], str] | None,
                                                         str | None]:
    """Outcome of every case and trial from scores.json, or why there are none."""
    path = run.scores_path
    if not path.exists():
        return None, f"the run is not scored; run `{run.score_command}`"
    try:
        document = read_scores(run)
    except InputError as error:
        return None, str(error)
    if document["playout"] != playout:
        return None, f"it was scored under playout {document['playout']}, not {playout}"
    return {(c["case_id"], c["trial"]): c["outcome"] for c in document["cases"]}, None


def judged_cases(plan: Plan, replies: Sequence[Reply[Judgement]],
                 verdicts: Mapping[tuple[str, int], str] | None) -> tuple[JudgedCase, ...]:
    """One entry a planned case and trial, in planned order."""
    return tuple(_case(plan, case, replies, None if verdicts is None else verdicts.get(case.key))
                 for case in plan.asked)


def _case(plan: Plan, case: Asked, replies: Sequence[Reply[Judgement]],
          verdict: str | None) -> JudgedCase:
    about: dict[str, Any] = {
        "case_id": case.case.case_id, "trial": case.trial, "role": case.case.role,
        "probe": case.case.probe, "level": case.case.level, "stream": case.stream,
        "verdict": verdict}
    if case.said is None:
        return JudgedCase(**about, status="unscored", reason=case.problem)
    found = plan.replies_to(case, replies)
    first = found[0]
    question = plan.questions[plan.at[(*case.key, 1)]]
    about |= {
        "status": first.kind, "reason": first.reason,
        "request_sha256": hashlib.sha256(question.body).hexdigest(),
        "transcript": case.said.source, "heard": case.said.spoken.heard, "words": case.said.words,
        "words_dropped": case.said.dropped, "flags": case.said.flags}
    if first.judgement is not None:
        about |= {"register_fit": first.judgement.register, "content_fit": first.judgement.content,
                  "pas": first.judgement.pas, "conflict": first.judgement.label,
                  "reasons": first.judgement.reasons}
    if plan.repeats > 1:
        said = [reply.judgement for reply in found]
        about["repeats_pas"] = tuple(None if j is None else j.pas for j in said)
        if case.case.level in CONFLICT_LEVELS:
            about["repeats_conflict"] = tuple(None if j is None else j.label for j in said)
    return JudgedCase(**about)


def make_result(run: RunFolder, info: RunInfo, plan: Plan, cases: Sequence[JudgedCase], *,
                playout: Policy, vad: VadSettings, no_verdicts: str | None) -> JudgeResult:
    """The document, without agreement."""
    rated = [judged.Rated(
        c.stream, c.role, c.level,
        {"judged": "judged", "judge_error": "error"}.get(c.status, "missing"),  # type: ignore[arg-type]
        c.pas, c.conflict, c.verdict) for c in cases]
    draws = Draws(c.stream for c in cases)
    judge = plan.judge
    document: dict[str, Any] = {
        "run": run.path.resolve().name, "suite": info.suite, "suite_version": info.suite_version,
        "adapter": f"{info.adapter.name} {info.adapter.version}",
        "judge": {"name": judge.name, "base_url": judge.address, "model": judge.model,
                  "temperature": judge.temperature, "max_tokens": judge.max_tokens,
                  "json_mode": judge.json_mode},
        "prompt": {"version": PROMPT_VERSION, "sha256": prompt_sha256(),
                   "roles_sha256": _roles_sha256(plan.asked)},
        "playout": playout, "vad": vad.facts(), "draws": DRAWS, "seed": SEED,
        "counts": _counts(cases), "pas": judged.pas_means(rated, draws),
        "conflict_profile": judged.conflict_profile(rated, draws),
        "safety_override": judged.safety_override(rated, draws),
        "label_by_verdict": {
            "counts": None if no_verdicts else judged.label_by_verdict(rated),
            "reason": no_verdicts},
        "instability": _instability(plan, cases, draws), "cases": tuple(cases)}
    return JudgeResult.model_validate(document)


def _roles_sha256(asked: Sequence[Asked]) -> str:
    """Hash of what judges are told of the roles, whatever was said."""
    return sha256_json(sorted({(m.role_id, m.role_name, m.persona, m.rule)
                               for m in (case.material for case in asked) if m is not None}))


def _counts(cases: Sequence[JudgedCase]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for c in cases:
        counts[c.status] += 1
        for flag in (*c.flags, *((f"transcript_{c.transcript}", f"heard_{c.heard}")
                                 if c.transcript else ())):
            counts[flag] += 1
        if c.status == "judge_error" and c.reason:
            counts[f"error_{c.reason.partition(':')[0]}"] += 1
        counts["words_dropped"] += c.words_dropped or 0
    return dict(sorted(counts.items()))


def _instability(plan: Plan, cases: Sequence[JudgedCase], draws: Draws) -> dict[str, Any] | None:
    if plan.repeats == 1:
        return None
    repeats = [judged.Repeats(c.stream, tuple(p for p in c.repeats_pas if p is not None),
                              tuple(x for x in c.repeats_conflict if x is not None))
               for c in cases if c.repeats_pas]
    return judged.instability(repeats, plan.repeats, draws)


def with_agreement(first: JudgeResult, second: JudgeResult) -> JudgeResult:
    """The first document with how far the second agrees, over the cases that both have judged."""
    others = {(c.case_id, c.trial): c for c in second.cases}
    pairs = [(c, o) for c in first.cases
             if (o := others.get((c.case_id, c.trial))) is not None]
    pas = [(c.pas, o.pas) for c, o in pairs if c.pas is not None and o.pas is not None]
    labels = [(c.conflict, o.conflict) for c, o in pairs
              if c.conflict is not None and o.conflict is not None]
    x, y = [a for a, _ in pas], [b for _, b in pas]
    p, q = [str(a) for a, _ in labels], [str(b) for _, b in labels]
    on_scale = {"pearson": agreement.pearson(x, y), "spearman": agreement.spearman(x, y),
                "mae": agreement.mean_absolute_error(x, y),
                "mean_difference": agreement.mean_difference(x, y)}
    on_labels = {"accuracy": agreement.accuracy(p, q), "macro_f1": agreement.macro_f1(p, q),
                 "kappa": agreement.cohen_kappa(p, q)}
    found = {"second": second.judge.name,
             "pas": {name: asdict(figure) for name, figure in on_scale.items()},
             "conflict": {name: asdict(figure) for name, figure in on_labels.items()}}
    return JudgeResult.model_validate({**first.model_dump(), "agreement": found})


def write_result(run: RunFolder, result: JudgeResult) -> Path:
    """Write the document whole."""
    path = result_path(run, result.judge.name)
    try:
        atomic_write_text(path, result.model_dump_json(indent=2) + "\n")
    except (ValidationError, UnicodeEncodeError) as error:  # pragma: no cover - guarded before
        raise InputError(f"{path}: cannot write: {error}") from error
    return path
