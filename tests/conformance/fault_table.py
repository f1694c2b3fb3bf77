"""docs/faults.md: written from what was seen, and read again to see whether it still agrees with
the registrations (which faults, which adapters, of which kind; not what was measured).

    python tests/conformance/fault_table.py [ADAPTER ...]

plays every fault of every adapter, or of those named, prints the page and writes it; what is not
played anew, or cannot be here, stays as the page has it. Ends with 1 when a fault did not end as
its kind must, or could not be played.
"""

from __future__ import annotations

import re
import sys
import tempfile
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1]), str(HERE.parent / "tools")]

import pytest  # noqa: E402
from faults import FAULTS, NotApplicable, Plays, Subject, subjects  # noqa: E402
from recorded_tracks import FLUSH_MS, TRACK_MS, Shown  # noqa: E402

from audio.files import atomic_write_text  # noqa: E402

PAGE = HERE.parents[1] / "docs" / "faults.md"
KINDS = {"transparent": "same verdict", "infrastructure": "infra_error", "behaviour": "scored"}
"""How a cell begins, by the group of its fault."""
NONE = "–"

INTRO = """\
# Faults

Written by `make faults`, which plays every fault of the adapters that have a peer. (`cascade` is
`openai_realtime`'s wire against our own server.) Real sessions in real time, by the runner of
`rig run`, against a loopback server of the protocol that does what the row says: for `webrtc` an
agent of aiortc in another process, for `sound_card` a PortAudio whose card is a thread. Recordings
are measured and judged as `rig score` does. No hosted service is called.

- *Transparent*: the verdict equals that of the undisturbed session, by three actions (TAKE_TURN,
  LISTEN, READBACK) and under both playouts; so do the tracks (of `webrtc`, behind a codec: their
  likeness), the words and the flags.
- *Infrastructure*: the attempt ends as `infra_error`, with the cause in one line. Nothing is
  scored.
- *Behaviour*: scored (TAKE_TURN/LISTEN/READBACK), and flagged where the reader should know.

`–`: the protocol cannot have it; the reasons stand below. An empty cell: a further form of a
fault that this adapter's protocol does not have. Cells are what was seen, shortened.
"""


@dataclass(frozen=True)
class Done:
    """What was seen of one adapter: cell by fault, and its tracks."""

    subject: Subject
    cells: Mapping[str, str]
    shown: tuple[str, ...]
    """Cells of the table of tracks, without the name."""


def rows_of(all_subjects: Iterable[Subject]) -> list[str]:
    """Every fault of the common list, each followed by its forms, in the order of the list."""
    rows = list(FAULTS)
    for subject in all_subjects:
        own = {fault.name for fault in subject.own}
        for name in subject.faults:
            base = name.partition("/")[0]
            if base not in own and name not in rows:
                last = max(k for k, row in enumerate(rows) if row.partition("/")[0] == base)
                rows.insert(last + 1, name)
    return rows


def cell_of(done: Done, name: str) -> str:
    play = done.subject.faults.get(name)
    if play is None:
        return ""
    return NONE if isinstance(play, NotApplicable) else done.cells[name]


def page(dones: list[Done], machine: str) -> str:
    """The whole document."""
    adapters = [done.subject.adapter for done in dones]
    out = [INTRO, "## All of them", "",
           f"| fault | when | what happens | expected | {' | '.join(adapters)} |",
           "|---" * (4 + len(adapters)) + "|"]
    for name in rows_of(done.subject for done in dones):
        fault = FAULTS[name.partition("/")[0]]
        cells = [f"`{name}`", fault.when, fault.meaning if name in FAULTS else "another form",
                 fault.expected]
        out.append(f"| {' | '.join(cells + [cell_of(done, name) for done in dones])} |")
    out += ["", "## Of one protocol alone", "",
            "| adapter | fault | when | what happens | seen |", "|---|---|---|---|---|"]
    for done in dones:
        for fault in done.subject.own:
            for name in done.subject.played:
                if name.partition("/")[0] == fault.name:
                    what = fault.meaning if name == fault.name else "another form"
                    out.append(f"| {done.subject.adapter} | `{name}` | {fault.when} | {what} | "
                               f"{done.cells[name]} |")
    out += ["", "## Not applicable", ""]
    for done in dones:
        out += [f"- {done.subject.adapter}, `{name}`: {play.reason}."
                for name, play in done.subject.faults.items() if isinstance(play, NotApplicable)]
    return "\n".join([*out, "", *tracks(dones, machine)]) + "\n"


def tracks(dones: list[Done], machine: str) -> list[str]:
    """The section on recorded tracks."""
    out = ["## Recorded tracks", "", f"""\
One session at a time, {machine}. *Differing*: samples in which the recorded `hold` track is not
the one recomputed from the arrival log, written from the definition in a dozen lines of numpy
(`tests/conformance/recorded_tracks.py`). *Lag*: from the server's handing a piece to its socket,
by its own reading of this machine's clock, to the rig's stamp. *Place*: from where the piece
would be heard by the server's clock to where it was recorded (of a sound card: where each reply
began, by the card's clock; of `webrtc`: where the sender's clock puts it, by its fastest packet,
and the jitter buffer later; the look-ahead of the codec is in what the server hands over). Bound:
{TRACK_MS:g} ms at p95.
*Flush*: from the server's word of the interruption to the rig's flush point; bound: {FLUSH_MS:g}
ms. *Cut*: from there to the end of what is heard under `flush`. *Loop lag*: how late the rig came
back to its own frames meanwhile, p95; the tests allow the bounds that much more.
""", "| adapter | pieces | differing | lag p95 | place p95 | flush | cut | loop lag p95 |",
           "|---|---|---|---|---|---|---|---|"]
    out += [f"| {done.subject.adapter} | {' | '.join(done.shown)} |" for done in dones]
    out += [f"\n{done.subject.adapter}: no flush point: {done.subject.barge_in.reason}."
            for done in dones if isinstance(done.subject.barge_in, NotApplicable)]
    return out


def _row(s: Shown) -> tuple[str, ...]:
    return (str(s.pieces_n), str(s.differing_n), _ms(s.lag_p95_ms), _ms(s.place_p95_ms),
            _ms(s.flush_ms), _ms(s.flush_end_ms), _ms(s.loop_lag_p95_ms))


def _ms(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f} ms"


# reading it again

Structure = dict[tuple[str, str], str]
"""(adapter, fault) to the kind that its cell shows."""


def _tables(text: str) -> dict[str, list[list[str]]]:
    """Rows of the table below each heading, header first."""
    out: dict[str, list[list[str]]] = {}
    heading = ""
    for line in text.splitlines():
        if line.startswith("## "):
            heading = line[3:]
        elif line.startswith("|") and not line.startswith("|---"):
            out.setdefault(heading, []).append(
                [cell.strip() for cell in line.strip().strip("|").split("|")])
    return out


def _kind(cell: str) -> str:
    return next((kind for kind in (*KINDS.values(), NONE) if cell.startswith(kind)), cell)


def cells_of(text: str) -> dict[tuple[str, str], str]:
    """Every cell of a page that is not empty, by adapter and fault."""
    tables = _tables(text)
    header, *rows = tables["All of them"]
    out = {(adapter, row[0].strip("`")): cell
           for row in rows for adapter, cell in zip(header[4:], row[4:], strict=True) if cell}
    for adapter, name, *_, cell in tables["Of one protocol alone"][1:]:
        out[adapter, name.strip("`")] = cell
    return out


def structure(text: str) -> Structure:
    """What a page says of every adapter and fault, without what was measured."""
    return {key: _kind(cell) for key, cell in cells_of(text).items()}


def kept(text: str, subject: Subject) -> Done | None:
    """What a page holds of an adapter; `None` when that is not all that there is to be played."""
    cells = cells_of(text)
    shown = {row[0]: tuple(row[1:]) for row in _tables(text).get("Recorded tracks", [])}
    names = [(subject.adapter, name) for name in subject.played]
    if subject.adapter not in shown or any(key not in cells for key in names):
        return None
    return Done(subject, {name: cells[key, name] for key, name in names}, shown[subject.adapter])


def expected_structure(all_subjects: Iterable[Subject]) -> Structure:
    """The same from the registrations."""
    return {(subject.adapter, name): (KINDS[subject.fault(name).group] if isinstance(play, Plays)
                                      else NONE)
            for subject in all_subjects for name, play in subject.faults.items()}


# measuring it

def measured(subject: Subject, folder: Path) -> tuple[Done, list[str]]:
    """Play everything of one adapter; what did not end as it must, one line each."""
    from fault_checks import cell, check, check_calm
    from fault_suite import played_faults
    from recorded_tracks import show

    failed: list[str] = []
    suite = played_faults(subject, subject.played, folder / "faults")
    cells = {name: cell(suite, name) for name in subject.played}
    for name in ("calm", *subject.played):
        try:
            check_calm(suite) if name == "calm" else check(suite, name)
        except (AssertionError, pytest.skip.Exception) as error:
            asserted = traceback.extract_tb(error.__traceback__)[-1].line
            line = re.sub(r"\s+", " ", f"{asserted} {error}")
            cells[name] = f"NOT AS EXPECTED: {cells.get(name, '')}"
            failed.append(f"{subject.adapter}: {name}: {line[:200]}")
    return Done(subject, cells, _row(show(subject, folder / "tracks"))), failed


def main(arguments: list[str]) -> int:
    import os
    import platform

    before = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    dones, failed = [], []
    for adapter, subject in subjects().items():
        wanted = not arguments or adapter in arguments
        if wanted and subject.missing is not None:
            failed.append(subject.missing)
        if not wanted or subject.missing is not None:
            done = kept(before, subject) if before else None
        else:
            with tempfile.TemporaryDirectory() as folder:
                done, lines = measured(subject, Path(folder))
            failed += lines
        if done is not None:
            dones.append(done)
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    text = page(dones, machine)
    sys.stdout.write(text)
    atomic_write_text(PAGE, text)
    sys.stderr.write("".join(f"{line}\n" for line in failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
