"""Transcript audit: does the text that is scored give what was heard? (DSB-IFEval, A.4)

Of each system as many sessions in which it was heard, spread over levels, roles, probes and
instances. The text is what a judge is given (`rig.judge.transcript`): the system's own as far as it
was heard, else what the recogniser makes of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from audio.errors import InputError
from rig.judge.cases import CHUNK
from rig.judge.transcript import Said, said_in
from rig.report.loading import ScoredRun
from rig.tracks import checked_record
from rig.validation.clips import agent_clip, damage_told
from rig.validation.drawing import draw
from rig.validation.key import KeyItem, opaque, seeded
from rig.validation.runs import Drawable, candidate, load_pool, one_session, sources_of
from rig.validation.sample import Item, Notebook, Sample, text_block, turns_block
from rig.validation.studies import fields_of
from rig.workers import Workers


def sample(paths: Sequence[Path], secret: str, seed: int, per_system: int, workers: Workers | None,
           ) -> Sample:
    """`per_system` sessions of each run in which the system was heard. Without `workers` nothing is
    listened to: for counting."""
    runs, pool = load_pool(paths)
    book = Notebook()
    items = []
    for run in runs:
        own = [one for one in pool if one.run is run]
        heard = [one for one in own if one.case.measured.get("model_speaks") is True]
        drawn = draw([candidate(one) for one in heard], (), per_system,
                     seeded(seed, "audit", run.name), one_session)
        book.add(run.name, drawn, per_system)
        if len(heard) < len(own):
            book.notes.append(f"{run.name}: not drawn from: {len(own) - len(heard)} sessions in "
                              "which nothing was heard or measured")
        chosen = [found.item for found in drawn.chosen]
        said: Sequence[Said | None] = (
            [None] * len(chosen) if workers is None else _said(run, chosen, workers))
        items += [_item(one, words, secret) for one, words in zip(chosen, said, strict=True)]
    return Sample(tuple(items), sources_of(runs), tuple(book.strata), tuple(book.notes))


def _said(run: ScoredRun, chosen: Sequence[Drawable], workers: Workers) -> list[Said]:
    sessions = [(one.case.case_id, one.case.trial) for one in chosen]
    out: list[Said] = []
    with damage_told(run.folder.path):
        for found in workers.in_order([
                partial(said_in, run.folder, sessions[i:i + CHUNK], run.playout, run.vad)
                for i in range(0, len(sessions), CHUNK)]):
            for said in found:
                if isinstance(said, str):
                    case_id, trial = sessions[len(out)]
                    raise InputError(f"{run.folder.path}: no words of {case_id} t{trial}: {said}")
                out.append(said)
    return out


def _item(one: Drawable, said: Said | None, secret: str) -> Item:
    planned, run = one.planned, one.run
    key = KeyItem(
        item_id=opaque(secret, "audit", *one.name), case_id=one.case.case_id,
        trial=one.case.trial, system=run.name, stream=planned.stream_id, role=planned.role,
        probe=planned.probe, instance=planned.instance, level=planned.level,
        action=str(one.case.action), fields=fields_of("audit"),
        transcript=None if said is None else said.source)
    if said is None:
        return Item(key, ())
    text = (text_block("Text", said.spoken.words) if said.spoken.words is not None else
            turns_block("Text", [{"note": "There is no text: no word could be made out."}]))
    record = checked_record(run.folder, one.case.case_id, one.case.trial)
    return Item(key, (text,), agent_clip(run.folder, record, run.playout))
