"""Which cases of a page have their sound with them: `--audio`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from audio.errors import InputError
from audio.suggest import did_you_mean
from verifiers.verdict import Outcome

if TYPE_CHECKING:
    from rig.report.loading import ScoredRun

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
    first, and the runs take turns."""
    if audio == "none":
        return frozenset()
    if audio == "all":
        return frozenset(case.key for run in runs for case in run.cases)
    failed = [[c.key for c in run.cases if c.outcome is Outcome.FAIL] for run in runs]
    if audio == "failed":
        return frozenset(chain.from_iterable(failed))
    others = [[c.key for c in run.cases if c.outcome is not Outcome.FAIL] for run in runs]
    in_turn = [key for keys in (*zip_longest(*failed), *zip_longest(*others)) for key in keys
               if key is not None]
    return frozenset(in_turn[:int(audio)])
