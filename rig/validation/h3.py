"""H3: do people rate words as the judge does? (DSB-IFEval, A.3)

Drawn from what `rig judge` has judged: as many from each third of the judge's PAS, L4a and L4b more
often than they occur, and spread over systems, roles and levels. Thirds are cut at the terciles of
the scores that can be drawn; equal scores fall into one third, so a judge that gives few numbers
fills them unevenly. What annotators read is what the judge read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from audio.errors import InputError
from audio.vad import VadSettings
from rig.judge.cases import Asked, collect, suite_of
from rig.judge.judging import result_path
from rig.judge.prompt import Material, Spoken
from rig.judge.results import JudgedCase, JudgeResult
from rig.report.loading import ScoredRun
from rig.store import read_model
from rig.validation.clips import damage_told
from rig.validation.drawing import Stratum, draw
from rig.validation.key import JudgeSaid, KeyItem, opaque, seeded
from rig.validation.runs import Drawable, candidate, load_pool, one_session, sources_of
from rig.validation.sample import (
    Item,
    Notebook,
    Sample,
    spoken_parts,
    text_block,
    turns_block,
)
from rig.validation.studies import H3_L4_SHARE, fields_of
from rig.workers import Workers

THIRDS = ("lower third", "middle third", "upper third")
Judged = Mapping[tuple[str, str, int], JudgedCase]
"""By system, case and trial."""


def sample(paths: Sequence[Path], secret: str, seed: int, total: int, judge: str,
           second: str | None, suite: str | None, workers: Workers | None) -> Sample:
    """`total` judged responses. `second` names another judge whose answers the key also holds.
    Without `workers` nothing is read: for counting.

    Raises `InputError` for a run that this judge has not judged, or that was judged under another
    playout than it was scored with.
    """
    runs, pool = load_pool(paths)
    names = [judge, *([second] if second is not None else [])]
    judged = {name: _judged(runs, name) for name in names}
    usable = [one for one in pool if all(_rated(judged[n].get(one.name)) for n in names)]
    if not usable:
        raise InputError(f"--judge: expected cases that {' and '.join(names)} judged, got none")
    cuts = terciles([_pas(judged[judge][one.name]) for one in usable])
    traits = {one.name: frozenset({third(_pas(judged[judge][one.name]), cuts),
                                   _kind(one.planned.level)}) for one in usable}
    drawn = draw([candidate(one, traits[one.name], probe=False) for one in usable], strata(total),
                 total, seeded(seed, "h3"), one_session)
    book = Notebook()
    book.add("PAS", drawn, total)
    book.notes.append(f"thirds of the PAS of {judge}: lower up to {cuts[0]:g}, upper above "
                      f"{cuts[1]:g}")
    if len(usable) < len(pool):
        book.notes.append(f"not drawn from: {len(pool) - len(usable)} cases without an answer of "
                          f"{' and '.join(names)}")
    chosen = [found.item for found in drawn.chosen]
    read = _materials(runs, chosen, judged[judge], suite, workers
                      ) if workers is not None else {}
    items = [_item(one, secret, {n: judged[n][one.name] for n in names}, read.get(one.name))
             for one in chosen]
    return Sample(tuple(items), sources_of(runs), tuple(book.strata), tuple(book.notes),
                  tuple(names))


def terciles(scores: Sequence[int]) -> tuple[int, int]:
    """The last score of the lower and of the middle third, in rank order."""
    ranked = sorted(scores)
    return ranked[(len(ranked) - 1) // 3], ranked[2 * (len(ranked) - 1) // 3]


def third(pas: int, cuts: tuple[int, int]) -> str:
    return THIRDS[(pas > cuts[0]) + (pas > cuts[1])]


def strata(total: int) -> tuple[Stratum, ...]:
    """L4b, the scarcest, first; each kind of level evenly over the thirds."""
    wanted = {"L4b": round(total * H3_L4_SHARE / 2), "L4a": round(total * H3_L4_SHARE / 2)}
    wanted["L0 to L3"] = total - sum(wanted.values())
    out = []
    for kind, n in wanted.items():
        out += [Stratum(f"{kind}, {part}", frozenset({kind, part}), n // 3) for part in THIRDS]
        out.append(Stratum(kind, frozenset({kind}), n))
    return (*out, *(Stratum(part, frozenset({part}), total // 3) for part in THIRDS))


def _kind(level: str) -> str:
    return level if level in ("L4a", "L4b") else "L0 to L3"


def _judged(runs: Sequence[ScoredRun], name: str) -> Judged:
    out: dict[tuple[str, str, int], JudgedCase] = {}
    for run in runs:
        path = result_path(run.folder, name)
        if not path.exists():
            known = sorted(p.stem for p in path.parent.glob("*.json"))
            raise InputError(f"{run.folder.path}: expected answers of judge {name!r}, got "
                             f"{'those of ' + ', '.join(known) if known else 'none'}; run `rig "
                             f"judge {run.folder.path} --judge {name}`")
        result = read_model(path, JudgeResult, "results of `rig judge`")
        if result.playout != run.playout:
            raise InputError.expected(f"answers under playout {run.playout}, as the run was scored",
                                      got=f"answers under {result.playout}", where=path)
        out |= {(run.name, c.case_id, c.trial): c for c in result.cases}
    return out


def _rated(case: JudgedCase | None) -> bool:
    return (case is not None and case.status == "judged" and case.pas is not None
            and case.register_fit is not None and case.content_fit is not None)


def _pas(case: JudgedCase) -> int:
    assert case.pas is not None
    return case.pas


def _said(case: JudgedCase) -> JudgeSaid:
    return JudgeSaid.model_validate({
        "pas": case.pas, "register_fit": case.register_fit, "content_fit": case.content_fit,
        "conflict": case.conflict})


def _materials(runs: Sequence[ScoredRun], chosen: Sequence[Drawable], judged: Judged,
               suite: str | None, workers: Workers) -> dict[tuple[str, str, int], Material]:
    """What the judge was shown of the chosen. Raises `InputError` where it is not what it was."""
    out: dict[tuple[str, str, int], Material] = {}
    for run in runs:
        wanted = {one.name[1:] for one in chosen if one.run is run}
        if not wanted or run.info is None:
            continue
        with damage_told(run.folder.path):
            found = collect(run.folder, suite_of(run.info, suite), run.playout, VadSettings(),
                            workers, only=wanted)
        for asked in found:
            name = (run.name, *asked.key)
            out[name] = _unchanged(asked, judged[name], run)
    return out


def _unchanged(asked: Asked, judged: JudgedCase, run: ScoredRun) -> Material:
    if asked.material is None or asked.said is None:
        raise InputError(f"{run.folder.path}: {judged.case_id} t{judged.trial} was judged and "
                         f"cannot be read any more: {asked.problem}")
    if (asked.said.words, asked.said.source) != (judged.words, judged.transcript):
        raise InputError.expected(
            f"the words of {judged.case_id} t{judged.trial} that were judged ({judged.words}, "
            f"{judged.transcript})", got=f"{asked.said.words}, {asked.said.source}; run `rig "
            "judge` again", where=run.folder.path)
    return asked.material


def _item(one: Drawable, secret: str, said: Mapping[str, JudgedCase],
          material: Material | None) -> Item:
    planned, first = one.planned, next(iter(said.values()))
    conflict = planned.level in ("L4a", "L4b")
    key = KeyItem(
        item_id=opaque(secret, "h3", *one.name), case_id=one.case.case_id, trial=one.case.trial,
        system=one.run.name, stream=planned.stream_id, role=planned.role, probe=planned.probe,
        instance=planned.instance, level=planned.level, action=str(one.case.action),
        fields=fields_of("h3", conflict=conflict), transcript=first.transcript,
        judges={name: _said(case) for name, case in said.items()})
    return Item(key, () if material is None else _blocks(material))


def _blocks(material: Material) -> tuple[dict[str, Any], ...]:
    blocks = [text_block("Role", material.role_name),
              text_block("Persona of the assistant", material.persona),
              text_block("What this role may say, and how", material.rule)]
    if material.conflict is not None:
        blocks.append(text_block("Directive that contradicts the persona",
                                 material.conflict.directive))
    return (*blocks,
            turns_block("User, first turn", spoken_parts(material.turn1)),
            turns_block("User, second turn", spoken_parts(material.turn2)),
            turns_block("Assistant", _assistant(material.assistant)))


def _assistant(spoken: Spoken) -> list[dict[str, Any]]:
    if spoken.heard == "no_speech":
        return [{"note": "The assistant said nothing."}]
    if spoken.heard == "no_words":
        return [{"note": "The assistant was heard, but no word could be made out."}]
    notes = [{"note": "These words come from a speech recogniser and may be misheard."}
             ] if spoken.recognised else []
    return [*notes, {"said": spoken.words or ""},
            *([{"note": "The rest of its words is left out."}] if spoken.cut else [])]
