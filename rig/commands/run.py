"""`rig run`: play cases against a system."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from adapters import registry
from adapters.worker import device_names
from audio.condition_text import parse_all
from audio.errors import InputError
from probes.expand import select
from probes.render import load_built
from rig import ledger, starts
from rig.at_a_time import capped, ceiling
from rig.budget import Budget, Limits, longest_known
from rig.clock import ClockKind
from rig.commands.conditions import print_conditions
from rig.commands.prices import prices_option
from rig.commands.run_text import (
    estimated,
    limit_reached,
    so_far,
    spent,
    stated,
    told,
    void_texts,
    within_limits,
)
from rig.console import Output
from rig.finite_option import Finite
from rig.flow import FLOODED
from rig.job import planned_s
from rig.ledger import Attempt
from rig.prices import price_book
from rig.runner import RunRequest, RunResult, choose_clock, run
from rig.schedule import Bounds
from rig.sent import check_conditions, condition_texts, conditions_facts
from rig.settings import default_jobs, key_values
from rig.store import RunFolder
from rig.wording import counted, pasteable


def _sessions_at_a_time(adapter: str, settings: Mapping[str, Any], clock: ClockKind,
                        jobs: int | None, workers: int | None) -> int:
    """A local model has as many sessions as processes: memory decides, and nobody is surprised."""
    if not registry.spec(adapter).own_process:
        if workers is not None:
            raise InputError(f"--workers {workers}: adapter {adapter} starts no process; expected "
                             "--jobs")
        return jobs or (default_jobs() if clock == "virtual" else 1)
    if None not in (jobs, workers) and jobs != workers:
        raise InputError(f"--jobs {jobs} --workers {workers}: expected one number; a local model "
                         "has a process for each session at a time")
    return workers or jobs or max(1, len(device_names(settings)))


def _help(context: click.Context, _option: click.Parameter, given: tuple[str, ...],
          ) -> tuple[str, ...]:
    """`--condition help` lists them and ends."""
    if "help" in given:
        print_conditions(Output())
        context.exit(0)
    return given


@click.command("run", params=[prices_option()])
@click.argument("suite_dir", type=click.Path(path_type=Path))
@click.option("--adapter", required=True, metavar="NAME", help="System under test; see `rig "
              "adapters`.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Setting of the "
              "adapter; may be repeated.")
@click.option("--condition", "conditions", multiple=True, metavar="KIND=VALUE", callback=_help,
              is_eager=True, help="What the line does to the user's audio, for instance "
              "noise=babble:15,line=ulaw; may be repeated; help lists them.")
@click.option("--level", "levels", multiple=True, metavar="LEVEL", help="Only this conditioning "
              "level (L0 L1 L2 L3 L4a L4b); may be repeated.")
@click.option("--filter", "filter_expr", metavar="EXPR", help="Only matching cases, for instance "
              "role=R1|R2,probe=C3 or case=R1-*-L2.")
@click.option("--trials", type=click.IntRange(1, 1000), default=1, show_default=True)
@click.option("--jobs", type=click.IntRange(1, 1024), help="Sessions at a time. Default: the cores "
              "in virtual time, 1 in real time.")
@click.option("--workers", type=click.IntRange(1, 1024), help="Processes of a local model, each "
              "with a copy of it. Default: one for each of --set devices, or one.")
@click.option("--clock", type=click.Choice(["virtual", "real"]), help="Default: virtual where the "
              "system allows it.")
@click.option("--retries", type=click.IntRange(0, 100), default=2, show_default=True,
              help="Further attempts after an infrastructure error. Sessions that this machine "
              "was late with (void) are played again twice, whatever this says.")
@click.option("--max-minutes", type=Finite(0, min_open=True), metavar="M",
              help="Begin no session that may take all attempts together, resumed runs included, "
              "beyond so many minutes.")
@click.option("--max-cost", type=Finite(0, min_open=True), metavar="X",
              help="The same for their cost, in the currency of the price (see `rig prices`).")
@click.option("--allow-unknown-cost", is_flag=True, help="Take --max-cost also where the price is "
              "not known; then only what is known counts.")
@click.option("--starts-per-minute", type=Finite(0, 6000, min_open=True),
              metavar="R", help="Begin at most so many sessions a minute, in real time. Default: "
              "as many as there is room for.")
@click.option("--at-a-time", type=click.IntRange(1, 100_000), metavar="N", help="Sessions that "
              "the provider lets be open together, where yours may have another number than the "
              "rig knows (docs/limits.md); --jobs never goes beyond it.")
@click.option("--out", type=click.Path(path_type=Path), help="Run folder. Default: "
              "runs/ADAPTER.")
@click.option("--resume", is_flag=True, help="Go on with a run; only done cases are skipped.")
@click.option("--dry-run", is_flag=True, help="Print cases, minutes and estimated cost; play "
              "nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(
    suite_dir: Path, adapter: str, settings: tuple[str, ...], levels: tuple[str, ...],
    filter_expr: str | None, trials: int, jobs: int | None, workers: int | None, clock: Any,
    retries: int,
    max_minutes: float | None, max_cost: float | None, allow_unknown_cost: bool,
    starts_per_minute: float | None, at_a_time: int | None, prices_file: Path | None,
    out: Path | None, resume: bool, dry_run: bool, as_json: bool,
    conditions: tuple[str, ...],
) -> int:
    """Play the cases of a built suite against a system and record both sides.

    \b
    Example:
      rig run suite --adapter silent --level L2 --out runs/silent
      rig run suite --adapter long_endpoint --set endpoint_s=0.8 --dry-run
      rig run suite --adapter silent --condition noise=babble:15,line=ulaw --out runs/noisy
      rig run suite --adapter gpt_live --level L2 --jobs 4 --max-cost 5

    Exit code 1: a limit was reached before everything was played; --resume goes on.
    """
    output = Output(as_json=as_json)
    line = parse_all(conditions)
    built = load_built(suite_dir)
    cases = select(built.cases, levels, filter_expr)
    values = key_values(settings, "--set")
    adapter = registry.canonical(adapter)
    system = registry.create(adapter, values, to_play=not dry_run)
    kind = choose_clock(system, clock)
    check_conditions(line, system.capabilities, built.streams)
    bounds = Bounds()
    tariff = price_book(prices_file).tariff(system)
    budget = Budget(tariff, Limits(max_cost, max_minutes), allow_unknown=allow_unknown_cost)
    if not cases:
        raise InputError("--level/--filter: expected at least one case to play, got none of "
                         f"{len(built.cases)}")
    folder = RunFolder(out if out is not None else Path("runs") / adapter)
    asked = jobs
    jobs = _sessions_at_a_time(adapter, system.settings, kind, jobs, workers)
    if dry_run:
        most = ceiling(system, at_a_time)
        jobs, fewer = capped(jobs, system, at_a_time)
        if fewer is not None:
            output.note(fewer)
        longest_s = {case.case_id: planned_s(case, built.streams[case.stream_id], bounds)
                     for case in cases}
        # Upper estimate: speech plus every wait at its bound.
        minutes = sum(longest_s.values()) / 60 * trials
        done = _count_before(budget, folder, longest_s) if resume else set()
        left = [longest_s[case.case_id] for trial in range(1, trials + 1) for case in cases
                if (case.case_id, trial) not in done]
        plan: dict[str, Any] = {
            "adapter": adapter, "clock": kind, "cases": len(cases), "trials": trials,
            "sessions": len(cases) * trials, "max_session_minutes": round(minutes, 2),
            **estimated(tariff, minutes),
            **within_limits(budget, left),
            "jobs": jobs, "sessions_at_a_time": None if most is None else most.sessions,
            "sessions_at_a_time_source": "unknown" if most is None else most.source}
        texts = condition_texts(conditions_facts(line))
        output.table("dry run: nothing was played", ["what", "value"],
                     [*told(plan), *(("condition", text) for text in texts)])
        plan["conditions"] = texts
        if left and plan.get("fit_within_limits") == 0:
            output.note(f"nothing would be played: {budget.refusal(left[0])}")
        missing = registry.spec(adapter).missing()
        if missing is not None:
            output.note(f"before this can be played: {missing}")
        output.document(plan)
        return 0
    request = RunRequest(
        suite_dir=suite_dir, run=folder, adapter=adapter, settings=values, cases=tuple(cases),
        trials=trials, jobs=jobs, clock=kind, retries=retries, resume=resume, bounds=bounds,
        conditions=line, starts_per_minute=starts_per_minute,
        at_a_time=at_a_time)
    words: list[object] = ["rig", "run", suite_dir, "--adapter", adapter]
    given: tuple[tuple[str, tuple[str, ...]], ...] = (
        ("--set", settings), ("--level", levels), ("--filter", stated(filter_expr or None)),
        ("--trials", stated(trials if trials != 1 else None)), ("--jobs", stated(asked)),
        ("--workers", stated(workers)), ("--condition", conditions), ("--clock", stated(clock)),
        ("--retries", stated(retries if retries != 2 else None)),
        ("--starts-per-minute", stated(starts_per_minute)),
        ("--at-a-time", stated(at_a_time)), ("--prices", stated(prices_file)))
    for option, repeated in given:
        for text in repeated:
            words += [option, text]
    words += ["--allow-unknown-cost"] * allow_unknown_cost
    words += ["--out", folder.path, "--resume"]

    def again(reached: str | None = None) -> str:
        # A limit that is not repeated is none.
        limits = (f" {option} {limit:.15g}" for option, limit in (
            ("--max-minutes", max_minutes), ("--max-cost", max_cost))
            if limit is not None and not (reached or "").startswith(option))
        return pasteable(*words) + "".join(limits)

    resumed = resume and folder.exists()
    attempts: Counter[str] = Counter()
    flooded: Counter[str] = Counter()
    interrupted = False
    try:
        with output.progress(f"run {adapter}", len(cases) * trials) as progress:

            def on_attempt(attempt: Attempt, settled: int, _total: int) -> None:
                attempts[attempt.status] += 1
                flooded[attempt.status] += FLOODED in (attempt.reason or "")
                progress.update(settled, attempt.case_id, facts=so_far(budget))

            result = run(request, on_attempt, budget=budget, note=output.note)
        _tell(output, folder, {"adapter": adapter, "clock": kind, "resumed": resumed}, result,
              attempts, flooded)
        interrupted = result.interrupted
    except KeyboardInterrupt:
        # A further one, while the first was being taken or told.
        interrupted = True
    if interrupted:
        output.note(f"interrupted; go on with: {again()}")
        return 130
    if result.limit is not None:
        output.note(limit_reached(result, again(result.limit)))
        return 1
    return 3 if result.failed else 0


def _count_before(budget: Budget, folder: RunFolder,
                  longest_s: Mapping[str, float]) -> set[tuple[str, int]]:
    """Count what the run has used so far, for a dry run of how it goes on; what is done of it."""
    attempts = ledger.read(folder.ledger_path)
    budget.count_before(attempts, starts.lost(starts.read(folder.starts_path), attempts),
                        longest_known(longest_s))
    return set(ledger.finished(attempts))


def _tell(output: Output, folder: RunFolder, asked: Mapping[str, Any], result: RunResult,
          attempts: Counter[str], flooded: Counter[str]) -> None:
    """What became of it: `attempts` and `flooded` are of this call, the rest of all of the run."""
    if result.repaired_ledger is not None:
        output.note(f"{folder.ledger_path}: a half-written last line was removed; its case is "
                    "played again")
    for case_id, trial, status, reason in result.failed[:20]:
        output.note(f"{case_id} t{trial}: {status}: {reason}")
    if len(result.failed) > 20:
        output.note(f"... and {len(result.failed) - 20} more that did not end in done")
    summary = {"run": str(folder.path), **asked, "planned": result.n_planned,
               "skipped_as_done": result.n_skipped,
               "status": result.counts, "interrupted": result.interrupted,
               "stopped": result.stopped, "limit": result.limit,
               "not_played": result.n_unplayed, "attempts": dict(attempts),
               "spent": spent(result.totals)}
    now = ", ".join(f"{n} {s}" for s, n in sorted(result.counts.items())) or "none tried"
    output.line(f"{folder.path}: {counted(result.n_planned, 'session')} planned, "
                f"{result.n_skipped} done before, now {now}")
    output.line(f"used by all attempts: {result.totals.minutes:.2f} minutes of session, "
                f"{result.totals.cost_text()}")
    output.document(summary)
    if result.totals.unknown:
        output.note(f"not in the cost: {'; '.join(result.totals.unknown[:5])}")
    if result.totals.assumed_n:
        output.note(f"{counted(result.totals.assumed_n, 'session')} not on record (an older rig, "
                    "or it was killed or interrupted): each is counted at its longest")
    for text in void_texts(attempts, flooded):
        output.note(text)
    if result.stopped is not None:
        output.note(f"stopped: {result.stopped}; no further case was tried, since it would end in "
                    "the same way; go on with --resume when that is mended")
