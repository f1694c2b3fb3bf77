"""Which cases of a page have their sound with them: `--audio`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice, zip_longest
from typing import TYPE_CHECKING

from audio.errors import InputError
from audio.suggest import did_you_mean
from verifiers.verdict import Outcome

if TYPE_CHECKING:
    from rig.report.loading import ScoredRun
    from rig.report.scored import ScoredCase

AUDIO_WORDS = ("all", "failed", "none")
DEFAULT_AUDIO = "20"
"""Some ten minutes, 10 MB: enough to hear what a system does, in a file that can be sent. Ours."""


def parse_audio(text: str) -> str | int:
    """`all`, `failed`, `none`, or a number of cases. Raises `InputError` for anything else."""
    if text in AUDIO_WORDS:
        return text
    if text.isascii() and text.isdecimal() and len(text) <= 9:
        return int(text)
    raise InputError(f"--audio: expected {', '.join(AUDIO_WORDS)} or a number of cases, got "
                     f"{text[:40]!r}{did_you_mean(text, AUDIO_WORDS)}")


def chosen(runs: Sequence[ScoredRun], audio: str | int) -> frozenset[str]:
    """Keys of the cases whose sound goes along. Of a number of cases, those that failed come
    first, and the runs take turns; what has no recording in its run takes nobody's place."""
    if audio == "none":
        return frozenset()
    if audio == "all":
        return frozenset(case.key for run in runs for case in run.cases)
    failed = [[c.key for c in run.cases if c.outcome is Outcome.FAIL] for run in runs]
    if audio == "failed":
        return frozenset(chain.from_iterable(failed))
    others = [[c.key for c in run.cases if c.outcome is not Outcome.FAIL] for run in runs]
    recorded = {case.key: (run, case) for run in runs if run.info is not None
                for case in run.cases}
    in_turn = (key for keys in chain(zip_longest(*failed), zip_longest(*others)) for key in keys
               if key is not None and key in recorded and _is_there(*recorded[key]))
    return frozenset(islice(in_turn, int(audio)))


def _is_there(run: ScoredRun, case: ScoredCase) -> bool:
    """What a damaged scores.json names is no path to look at."""
    return (case.case_id in run.planned
            and run.folder.stereo_path(case.case_id, case.trial).is_file()
            and run.folder.record_path(case.case_id, case.trial).is_file())
