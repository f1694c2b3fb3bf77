"""Every session of a page is read by workers, a few cases at a time, while other sections are
made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain

from rig.planned import read_streams
from rig.report.job import Job
from rig.report.loading import ScoredRun
from rig.report.session_facts import SessionFacts, facts_of
from rig.report.vad_flips import MAX_SESSIONS, drawn, plan_alone
from rig.workers import Workers, result

CHUNK = 8
"""Cases prepared together, half a batch of the detector where its probabilities are not kept: with
more of them the last worker works alone for longer. Ours."""


def session_facts(runs: Sequence[ScoredRun], audio: frozenset[str],
                  workers: Workers) -> list[SessionFacts]:
    """Of every case of every run, in their order; `audio`: keys of those whose sound goes along.
    Raises `InputError` where the plan of a run is damaged."""
    return begin(runs, audio, workers)()


def begin(runs: Sequence[ScoredRun], audio: frozenset[str],
          workers: Workers) -> Callable[[], list[SessionFacts]]:
    """Like `session_facts`, where other processes begin at once and the caller may do something
    else before it asks for what they made."""
    calls = [partial(facts_of, job) for job in jobs(runs, audio)]
    futures = [workers.submit(call) for call in calls] if workers.jobs > 1 else []

    def finish() -> list[SessionFacts]:
        made = [result(f) for f in futures] if futures else [call() for call in calls]
        return list(chain.from_iterable(made))

    return finish


def facts_by_run(runs: Sequence[ScoredRun], facts: Sequence[SessionFacts],
                 ) -> Iterator[tuple[ScoredRun, Sequence[SessionFacts]]]:
    """Each run with the facts of its own cases."""
    first = 0
    for run in runs:
        yield run, facts[first:first + len(run.cases)]
        first += len(run.cases)


def jobs(runs: Sequence[ScoredRun], audio: frozenset[str],
         most: int = MAX_SESSIONS) -> Iterator[Job]:
    """The work of a page. `most`: sessions of all runs together that are decided again."""
    first = 0
    for run in runs:
        streams = (read_streams(run.folder) if run.info is not None else None) or {}
        redecided = drawn(run, max(1, most // len(runs)))
        plan = plan_alone(run.vad)
        for at in range(0, len(run.cases), CHUNK):
            cases = run.cases[at:at + CHUNK]
            # A job goes to another process: nothing but what these cases need.
            planned = {c.case_id: run.planned[c.case_id] for c in cases if c.case_id in run.planned}
            wanted = {case.stream_id for case in planned.values()}
            keys = frozenset(c.key for c in cases)
            yield Job(run.folder, run.info is not None, run.playout, run.thresholds, run.vad, cases,
                      planned, {s: f for s, f in streams.items() if s in wanted}, audio & keys,
                      redecided & keys, plan, first + at)
        first += len(run.cases)
