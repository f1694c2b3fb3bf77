"""H1: can the expected action be read from the persona? (DSB-IFEval, A.1)

All base conversations of a suite, each with the persona of its role (the L2 prompt), both user
turns as text and one marked stretch. The stretch depends on the probe's structure alone: where a
probe is scored in different windows under different actions, it begins at the latest start and ends
at the latest end, so that it tells nothing of the action that the benchmark expects of a role.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from audio.errors import InputError
from audio.timebase import SESSION_RATE_HZ, n_to_s, s_to_n
from probes.built import BuiltSuite, load_built
from probes.expand import base_stream_id
from probes.spec import Cell, Conversation, Suite
from probes.structure import ProbeStructure
from probes.windows import edge_s
from rig.validation.key import KeyItem, Source, opaque
from rig.validation.sample import Clip, Item, Sample, clip_of, text_block, turns_block
from rig.validation.studies import fields_of

BETWEEN_TURNS_S = 1.0
"""Silence between the turns of a clip, where the assistant's answer would be. Ours."""


def sample(suite: Suite, secret: str, audio: Path | None = None) -> Sample:
    """Every conversation of a suite with every role that has it.

    With `audio`, a built suite, each item has the user's side as sound. Raises `InputError` where
    that is no build of this suite, or a role has no persona.
    """
    built = None if audio is None else _built(suite, audio)
    items, missing = [], []
    for cell in suite.cells:
        for instance in range(1, suite.info.instances + 1):
            conversation = suite.conversations.get(
                suite.stream_of(cell.role, cell.probe, instance))
            if conversation is None:
                missing.append(f"{cell.role}-{cell.probe}-{instance}")
                continue
            items.append(_item(suite, cell, instance, conversation, secret, built))
    notes = [f"{len(missing)} conversations are not written yet: {', '.join(missing[:5])}"
             + (", ..." if len(missing) > 5 else "")] if missing else []
    construction = None if built is None else built.info.construction_sha256
    return Sample(tuple(items), (Source(
        name=suite.name, suite=suite.name, suite_version=suite.info.version,
        construction_sha256=construction),), (), tuple(notes))


def _built(suite: Suite, folder: Path) -> BuiltSuite:
    built = load_built(folder)
    found = (built.info.suite, built.info.suite_version)
    if found != (suite.name, suite.info.version):
        raise InputError.expected(f"a build of suite {suite.name} {suite.info.version}",
                                  got=f"one of {found[0]} {found[1]}", where=folder)
    return built


def _item(suite: Suite, cell: Cell, instance: int, conversation: Conversation, secret: str,
          built: BuiltSuite | None) -> Item:
    role = suite.role(cell.role)
    if not role.persona.strip():
        raise InputError.expected(f"a persona of role {role.id}: annotators judge by it",
                                  got="none", where=suite.origin(f"role {role.id}"))
    structure = suite.probe_of(cell.role, cell.probe)
    name = f"{cell.role}-{cell.probe}-{instance}"
    stream = suite.stream_of(cell.role, cell.probe, instance)
    key = KeyItem(
        item_id=opaque(secret, "h1", name), case_id=name, stream=base_stream_id(stream),
        role=cell.role, probe=cell.probe, instance=instance, level="L2", action=cell.action,
        fields=fields_of("h1"))
    barge_in = structure.delivery.mode == "barge_in"
    note = ([{"note": "The assistant is still speaking, in answer to the first turn, when the user "
                      "begins:"}] if barge_in else [])
    return Item(key, (
        text_block("Persona of the assistant", role.persona),
        turns_block("User, first turn", [{"said": conversation.turn1}]),
        turns_block("User, second turn", note + _marked(structure, conversation))),
        None if built is None else _clip(built, stream, structure))


def stretch_of(structure: ProbeStructure) -> tuple[str, str]:
    """The edges of the marked stretch: the latest start and the latest end of any action."""
    def latest(edges: Sequence[str]) -> str:
        return max(edges, key=lambda edge: _place(structure, edge))

    rules = structure.scoring.values()
    return latest([r.start for r in rules]), latest([r.end for r in rules])


def _place(structure: ProbeStructure, edge: str) -> tuple[int, float]:
    """Before which segment an edge lies, and how many seconds later."""
    point, _, plus = edge.partition(" + ")
    name, _, side = point.partition(".")
    names = [s.name for s in structure.segments]
    at = ({"start": 0, "end": len(names)}[side] if name == "turn2"
          else names.index(name) + (side == "end"))
    return at, float(plus or 0.0)


def _marked(structure: ProbeStructure, conversation: Conversation) -> list[dict[str, Any]]:
    (start, start_s), (end, end_s) = (_place(structure, e) for e in stretch_of(structure))
    marks = {start: [{"mark": "from", "text": _mark("marked point", start_s)}]}
    marks.setdefault(end, []).append({"mark": "to", "text": _mark("end of the stretch", end_s)})
    out: list[dict[str, Any]] = []
    for k, segment in enumerate(structure.segments):
        out += marks.get(k, [])
        if segment.kind == "speech":
            out.append({"said": conversation.turn2[segment.name]})
        else:
            out.append({"pause_s": segment.duration_s})
    return out + marks.get(len(structure.segments), [])


def _mark(name: str, plus_s: float) -> str:
    return name if plus_s == 0 else f"{name}: {plus_s:g} s after this"


def _clip(built: BuiltSuite, stream_id: str, structure: ProbeStructure) -> Clip:
    stream = built.streams.get(stream_id)
    if stream is None:
        raise InputError.expected(f"stream {stream_id} in the built suite", got="none",
                                  where=built.path)
    first, second = built.samples(stream.turn1), built.samples(stream.turn2)
    gap = np.zeros(s_to_n(BETWEEN_TURNS_S, SESSION_RATE_HZ), dtype=np.float32)
    offset_s = n_to_s(len(first) + len(gap), SESSION_RATE_HZ)
    positions = {s.name: (s.start_n, s.end_n) for s in stream.turn2.segments}
    start_s, end_s = (offset_s + edge_s(edge, positions, stream.turn2.duration_n)
                      for edge in stretch_of(structure))
    tail_n = max(0, s_to_n(end_s - offset_s, SESSION_RATE_HZ) - len(second))
    track = np.concatenate((first, gap, second, np.zeros(tail_n, dtype=np.float32)))
    return clip_of([track], ["user"], (start_s, end_s))
