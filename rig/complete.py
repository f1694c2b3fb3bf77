"""Whether a `scores.json` has a verdict, or the reason why there is none, for every session of its
run's plan, once, and for no other.

What was taken out of the cases and out of every aggregate alike contradicts nothing
(`rig.recount`): the plan alone tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audio.errors import InputError
from probes.manifest import Case
from rig.store import RunFolder
from rig.wording import spelt

_SHOWN = 3


def check_complete(run: RunFolder, scores: Mapping[str, Any], planned: Mapping[str, Case],
                   trials: int) -> None:
    """`planned`: the cases of the run by id, each played `trials` times. Raises `InputError`."""
    seen: set[tuple[str, int]] = set()
    for number, entry in enumerate(scores["cases"]):
        try:
            _check_entry(entry, planned, trials, seen)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError.expected("a case of this run with its verdict",
                                      got=f"a damaged entry ({error})",
                                      where=f"{run.scores_path}: cases[{number}]") from error
    if len(seen) != len(planned) * trials:
        missing = [f"{case_id} t{trial}" for trial in range(1, trials + 1) for case_id in planned
                   if (case_id, trial) not in seen]
        told = ", ".join(missing[:_SHOWN]) + (", ..." if len(missing) > _SHOWN else "")
        raise InputError.expected(
            f"a verdict, or why there is none, for all of {len(planned) * trials} sessions",
            got=f"{len(seen)}, none for {told}; the file was changed, run `{run.score_command}` "
                "again", where=run.scores_path)


def _check_entry(entry: Mapping[str, Any], planned: Mapping[str, Case], trials: int,
                 seen: set[tuple[str, int]]) -> None:
    """Raise `ValueError` for an entry that is not one of the run's sessions, or is there twice."""
    case_id, trial, action = entry["case_id"], entry["trial"], entry["expected_action"]
    case = planned.get(case_id)
    if case is None:
        raise ValueError(f"{spelt(str(case_id)[:60])} is none of its cases")
    if type(trial) is not int or not 1 <= trial <= trials:
        raise ValueError(f"trial {str(trial)[:20]} of {trials}")
    if (case_id, trial) in seen:
        raise ValueError(f"{case_id} t{trial} again")
    if action != case.expected_action:
        raise ValueError(f"{case_id} expects {case.expected_action}, not {str(action)[:40]!r}")
    seen.add((case_id, trial))
