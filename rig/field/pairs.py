"""`--pairwise FILE`: replies of the agent, each beside a reference reply, as a judge will see them.

A row names a reply by its recording and its onset, as `rig field --csv` writes them, and gives the
text of the reference; other columns are passed over, so that a table of turns with a column
`reference` filled in is such a file. Rows without a reference are no pairs.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from audio.errors import InputError
from audio.suggest import nearest
from audio.timebase import ns_to_s
from rig.field.measures import CallMeasures, Skipped
from rig.field.privacy import hidden_name
from rig.field.sources import CallSource
from rig.field.words import Transcript, check_size, plain_number
from rig.store import read_text
from verifiers.calls.substance import Word, answers, words_by_turn
from verifiers.calls.turns import DOUBT_MARGIN_NS

REQUIRED = ("file", "agent_start_s", "reference")
ROLE = "role"
PAIRS_MOST = 10_000
TEXT_MAX_CHARS = 4_000
"""Ours: five minutes of speech."""
SLACK_S = 0.5
"""Ours: detector settings move an onset by less; two answers never begin so near each other."""
STRETCH_GAP_NS = 1_000_000_000
"""Words of one side closer than this are one utterance, as for `rig judge`."""
BEFORE_MOST_N = 12
BEFORE_MAX_CHARS = 4_000
"""Ours: what was said before a reply is cut to its last utterances."""
_EDGE = ".,;:!?…\"'“”‘’«»()[]{}-–—*_~`¿¡。，、？！；："


@dataclass(frozen=True, slots=True)
class PairRow:
    """A row: the recording's name, the reply's onset, the reference, what the agent is for."""

    file: str
    agent_start_s: float
    reference: str
    role: str | None


@dataclass(frozen=True, slots=True)
class Pair:
    """One reply beside its reference. Either `problem` says why it cannot be judged, or the texts
    stand there: `before` as (side, words), oldest first, both replies without case and
    punctuation, which would tell a transcript from a text."""

    row: PairRow
    call: str
    problem: str | None = None
    before: tuple[tuple[str, str], ...] = ()
    candidate: str = ""
    reference: str = ""

    @property
    def identical(self) -> bool:
        """Nothing is to be asked."""
        return self.problem is None and self.candidate == self.reference


def read_pairs(path: Path, files: Collection[str], *, hide_names: bool = False) -> list[PairRow]:
    """The rows with a reference. `files`: every name by which a recording may be called.
    `hide_names`: no name is quoted, also none that is no recording's (it may be one mistyped).
    Raises `InputError` with file and line."""
    check_size(path)
    table = csv.DictReader(io.StringIO(read_text(path, "a CSV file").removeprefix("\ufeff")),
                           strict=True)
    rows: dict[tuple[str, float], PairRow] = {}
    try:
        header = list(table.fieldnames or ())
        for name in REQUIRED:
            if name not in header:
                raise InputError(f"{path}: expected a column {name!r}, got none"
                                 f"{nearest(name, header)}")
        for raw in table:
            where = f"{path}:{table.line_num}"
            reference = (raw["reference"] or "").strip()
            if not reference:
                continue
            row = _row(raw, reference, files, where, hide_names=hide_names)
            if rows.setdefault((row.file, row.agent_start_s), row) is not row:
                which = "a recording" if hide_names else repr(row.file)
                raise InputError.expected("one reference for a reply",
                                          got=f"two for {which} at {row.agent_start_s:g} s",
                                          where=where)
            if len(rows) > PAIRS_MOST:
                raise InputError.expected(f"at most {PAIRS_MOST} pairs", got="more", where=where)
    except csv.Error as error:
        raise InputError.expected("a CSV file", got=str(error),
                                  where=f"{path}:{table.line_num}") from error
    if not rows:
        raise InputError.expected("a row with a reference", got="none", where=path)
    return list(rows.values())


def _row(raw: dict[str, str], reference: str, files: Collection[str], where: str, *,
         hide_names: bool) -> PairRow:
    # A table of turns has a mark before what a spreadsheet would run.
    file = raw["file"] or ""
    file = file[1:] if file not in files and file.startswith("'") else file
    if file not in files:
        got = "another name" if hide_names else f"{file[:200]!r}{nearest(file, files)}"
        raise InputError(f"{where}: expected a recording of this study, got {got}")
    at_s = plain_number(raw["agent_start_s"] or "")
    if at_s is None or not 0 <= at_s < 1e6:
        raise InputError.expected("agent_start_s in seconds", where=where,
                                  got=repr((raw["agent_start_s"] or "")[:50]))
    role = (raw.get(ROLE) or "").strip() or None
    for name, text in (("reference", reference), (ROLE, role or "")):
        if len(text) > TEXT_MAX_CHARS:
            raise InputError.expected(f"{name} of at most {TEXT_MAX_CHARS} characters",
                                      got=f"{len(text)}", where=where)
    if not blind(reference):
        raise InputError.expected("a reference with a word", got=repr(reference[:50]), where=where)
    return PairRow(file, at_s, reference, role)


def blind(text: str) -> str:
    """Words in lower case without the punctuation around them: what remains of a text that has
    gone through a transcript."""
    words = (word.strip(_EDGE) for word in text.lower().split())
    return " ".join(word for word in words if word)


def names_of(sources: Sequence[CallSource], *, hide_names: bool = False) -> dict[str, int]:
    """The place of each recording by every name it may have: as given, its path, and its file's
    name where only one has it; under `hide_names` the number too that a table of turns has."""
    out: dict[str, int] = {}
    short: dict[str, list[int]] = {}
    for k, source in enumerate(sources):
        path = source.caller.path
        out[source.name] = out[path.as_posix()] = k
        short.setdefault(path.name, []).append(k)
    if hide_names:
        out |= {hidden_name(k + 1, len(sources)): k for k in range(len(sources))} | out
    return {name: places[0] for name, places in short.items() if len(places) == 1} | out


def pair_of(row: PairRow, found: CallMeasures | Skipped, words: Transcript | str) -> Pair:
    """The texts of a row. words: those of the call, or why there are none."""
    if isinstance(found, Skipped):
        return Pair(row, found.name, f"the recording was not read: {found.reason}")
    name = found.source.name
    problem = found.refused or found.left_out or (words if isinstance(words, str) else None)
    if problem is not None:
        return Pair(row, name, problem)
    assert isinstance(words, Transcript)
    all_answers = answers(found.call.turns)
    near = [(abs(ns_to_s(reply.agent_ns[0]) - row.agent_start_s), k)
            for k, (reply, _) in enumerate(all_answers)]
    if not near or min(near)[0] > SLACK_S:
        return Pair(row, name, f"no reply begins within {SLACK_S:g} s of {row.agent_start_s:g} s")
    reply, members = all_answers[min(near)[1]]
    held, _ = words_by_turn(found.call, words.agent)
    candidate = blind(" ".join(text for k in members for text, _ in held.get(k, ())))
    if not candidate:
        return Pair(row, name, "the words file has no word of this reply")
    if len(candidate) > TEXT_MAX_CHARS:
        return Pair(row, name, f"the reply has more than {TEXT_MAX_CHARS} characters")
    return Pair(row, name, None, _before(words, reply.agent_ns[0]), candidate,
                blind(row.reference))


def _before(words: Transcript, onset_ns: int) -> tuple[tuple[str, str], ...]:
    """The last utterances of both sides that begin before a reply does, oldest first."""
    # What a transcript has of the reply a little before its sound is of the reply.
    sides = (("caller", words.caller, onset_ns), ("agent", words.agent, onset_ns - DOUBT_MARGIN_NS))
    said = sorted((start, side, text) for side, own, until_ns in sides
                  for start, text in _stretches(own, until_ns))
    out: list[tuple[str, str]] = []
    left = BEFORE_MAX_CHARS
    for _, side, text in reversed(said[-BEFORE_MOST_N:]):
        if left <= 0:
            break
        out.append((side, text[-left:]))
        left -= len(text)
    return tuple(reversed(out))


def _stretches(words: Sequence[Word], until_ns: int) -> list[tuple[int, str]]:
    """Onset and text of utterances, of the words whose middle lies before `until_ns`."""
    out: list[tuple[int, list[str]]] = []
    end_ns = 0
    for word in words:
        start, end = word.span_ns
        if (start + end) // 2 >= until_ns:
            continue
        if not out or start - end_ns >= STRETCH_GAP_NS:
            out.append((start, []))
        out[-1][1].append(word.text)
        end_ns = max(end_ns, end)
    return [(start, " ".join(texts)) for start, texts in out]
