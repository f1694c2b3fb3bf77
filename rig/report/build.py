"""`rig report`: scored runs as one page. Which sections there are, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rig.report import case_list, diff, head, inputs, instrument, redecide, summary, sweep_picture
from rig.report.case_view import case_view
from rig.report.choice import DEFAULT_AUDIO, chosen, parse_audio
from rig.report.loading import load_scored
from rig.report.page import charts_script, write_page
from rig.report.sessions import begin
from rig.store import RunFolder, make_folder
from rig.workers import Workers

PARTS = "cases"
"""Folder of the parts, beside the page of a report that is a folder; a hash follows."""


@dataclass(frozen=True, slots=True)
class Report:
    """What was written. `bytes` counts the page and all parts; of `audio_bytes` of them it is the
    sound of `with_audio_n` cases. `unmeasured`: runs whose measurements are missing."""

    page: Path
    bytes: int
    page_bytes: int
    audio_bytes: int
    cases_n: int
    with_audio_n: int
    unmeasured: tuple[Path, ...]


def write_report(folders: Sequence[RunFolder], out: Path, *, audio: str = DEFAULT_AUDIO,
                 as_folder: bool = False, workers: Workers | None = None) -> Report:
    """Write the page `out`, or with `as_folder` a folder `out` with `index.html` and its parts.

    `audio`: `all`, `failed`, `none` or a number of cases. Raises `InputError` where a run is not
    scored or damaged, and where `out` cannot be written.
    """
    wanted = parse_audio(audio)
    runs = load_scored(folders)
    finish = begin(runs, chosen(runs, wanted), workers or Workers(1))
    # What needs no session is made while the workers read them.
    redecided, summed, differing, swept, given = (
        redecide.section(runs), summary.section(runs), diff.section(runs),
        sweep_picture.section(runs), inputs.section(runs))
    charts_script()
    facts = finish()
    view = case_view(runs, facts)
    listed = case_list.section(runs, [fact.said for fact in facts])
    # In the order of the page; one that has nothing to say of these runs is `None`.
    made = (view.section, listed, redecided, summed, differing, swept,
            instrument.section(runs, facts), given)
    sections = [section for section in made if section is not None]
    page = out / "index.html" if as_folder else out
    if as_folder:
        make_folder(out)
    written = write_page(head.title(runs), sections, page, lead=head.lines(runs),
                         parts_dir=out / PARTS if as_folder else None)
    return Report(page=page, bytes=written, page_bytes=page.stat().st_size,
                  audio_bytes=view.audio_bytes, cases_n=view.cases_n,
                  with_audio_n=view.with_audio_n, unmeasured=tuple(
                      run.folder.path for run in runs
                      if run.cases and not any(case.rows for case in run.cases)))
