"""`rig run`: play cases against a system."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import click

from adapters import registry
from audio.condition_text import parse_all
from audio.errors import InputError
from probes.expand import select
from probes.render import load_built
from rig.budget import Budget, Limits, Totals
from rig.commands.conditions import print_conditions
from rig.commands.prices import prices_option
from rig.console import Output
from rig.ledger import Attempt
from rig.prices import Tariff, price_book
from rig.runner import RunRequest, RunResult, choose_clock, plan_minutes, run
from rig.schedule import Bounds
from rig.sent import check_conditions, condition_texts, conditions_facts
from rig.settings import default_jobs, key_values
from rig.store import RunFolder


class Positive(click.FloatRange):
    """A finite number above 0: with `nan`, which is neither more nor less than anything, a limit
    would be none."""

    def __init__(self, max: float | None = None) -> None:
        super().__init__(min=0, min_open=True, max=max)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None,
                ) -> float:
        """As `click.FloatRange`."""
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"expected a number above 0, got {value!r}.", param, ctx)
        return found


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
@click.option("--clock", type=click.Choice(["virtual", "real"]), help="Default: virtual where the "
              "system allows it.")
@click.option("--retries", type=click.IntRange(0, 100), default=2, show_default=True,
              help="Further attempts after an infrastructure error. Sessions that this machine "
              "was late with (void) are played again twice, whatever this says.")
@click.option("--max-minutes", type=Positive(), metavar="M",
              help="Begin no session that may take all attempts together, resumed runs included, "
              "beyond so many minutes.")
@click.option("--max-cost", type=Positive(), metavar="X",
              help="The same for their cost, in the currency of the price (see `rig prices`).")
@click.option("--allow-unknown-cost", is_flag=True, help="Take --max-cost also where the price is "
              "not known; then only what is known counts.")
@click.option("--starts-per-minute", type=Positive(max=6000),
              metavar="R", help="Begin at most so many sessions a minute, in real time. Default: "
              "as many as there is room for.")
@click.option("--out", type=click.Path(path_type=Path), help="Run folder. Default: "
              "runs/ADAPTER.")
@click.option("--resume", is_flag=True, help="Go on with a run; only done cases are skipped.")
@click.option("--dry-run", is_flag=True, help="Print cases, minutes and estimated cost; play "
              "nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(
    suite_dir: Path, adapter: str, settings: tuple[str, ...], levels: tuple[str, ...],
    filter_expr: str | None, trials: int, jobs: int | None, clock: Any, retries: int,
    max_minutes: float | None, max_cost: float | None, allow_unknown_cost: bool,
    starts_per_minute: float | None, prices_file: Path | None,
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
    system = registry.create(adapter, values, to_play=not dry_run)
    kind = choose_clock(system, clock)
    stated = registry.spec(adapter).at_a_time
    if stated is not None and jobs is not None and jobs > stated.sessions:
        output.note(f"--jobs {jobs}: {adapter} may take {stated.sessions} sessions at a time "
                    f"({stated.source}); the rig goes on with what it takes")
    check_conditions(line, system.capabilities, built.streams)
    bounds = Bounds()
    tariff = price_book(prices_file).tariff(system)
    budget = Budget(tariff, Limits(max_cost, max_minutes), allow_unknown=allow_unknown_cost)
    if not cases:
        raise InputError("--level/--filter: expected at least one case to play, got none of "
                         f"{len(built.cases)}")
    if dry_run:
        minutes = plan_minutes(cases, built.streams, bounds) * trials
        plan: dict[str, Any] = {
            "adapter": adapter, "clock": kind, "cases": len(cases), "trials": trials,
            "sessions": len(cases) * trials, "max_session_minutes": round(minutes, 2),
            **_estimated(tariff, minutes),
            "sessions_at_a_time": None if stated is None else stated.sessions}
        texts = condition_texts(conditions_facts(line))
        output.table("dry run: nothing was played", ["what", "value"],
                     [*plan.items(), *(("condition", text) for text in texts)])
        plan["conditions"] = texts
        missing = registry.spec(adapter).missing()
        if missing is not None:
            output.note(f"before this can be played: {missing}")
        output.document(plan)
        return 0
    if jobs is None:
        jobs = default_jobs() if kind == "virtual" else 1
    folder = RunFolder(out if out is not None else Path("runs") / adapter)
    request = RunRequest(
        suite_dir=suite_dir, run=folder, adapter=adapter, settings=values, cases=tuple(cases),
        trials=trials, jobs=jobs, clock=kind, retries=retries, resume=resume, bounds=bounds,
        conditions=line, starts_per_minute=starts_per_minute)
    attempts: Counter[str] = Counter()
    most_minutes = plan_minutes(cases, built.streams, bounds) * trials
    with output.progress(f"run {adapter}", len(cases) * trials) as progress:

        def on_attempt(attempt: Attempt, settled: int, _total: int) -> None:
            attempts[attempt.status] += 1
            progress.update(settled, attempt.case_id, facts=_so_far(budget, most_minutes))

        result = run(request, on_attempt, budget=budget, note=output.note)
    if result.repaired_ledger is not None:
        output.note(f"{folder.ledger_path}: a half-written last line was removed; its case is "
                    "played again")
    for case_id, trial, status, reason in result.failed[:20]:
        output.note(f"{case_id} t{trial}: {status}: {reason}")
    if len(result.failed) > 20:
        output.note(f"... and {len(result.failed) - 20} more that did not end in done")
    summary = {"run": str(folder.path), "adapter": adapter, "clock": kind,
               "planned": result.n_planned, "skipped_as_done": result.n_skipped,
               "status": result.counts, "interrupted": result.interrupted,
               "stopped": result.stopped, "limit": result.limit,
               "not_played": result.n_unplayed, "attempts": dict(attempts),
               "spent": _spent(result.totals)}
    now = ", ".join(f"{n} {s}" for s, n in sorted(result.counts.items())) or "none tried"
    output.line(f"{folder.path}: {result.n_planned} sessions planned, {result.n_skipped} done "
                f"before, now {now}")
    output.line(f"used by all attempts: {result.totals.minutes:.2f} minutes of session, "
                f"{result.totals.cost_text()}")
    output.document(summary)
    if result.totals.unknown:
        output.note(f"not in the cost: {'; '.join(result.totals.unknown[:5])}")
    if result.totals.assumed_n:
        output.note(f"{result.totals.assumed_n} sessions are not on record (an older rig, or it "
                    "was killed or interrupted): they are counted at their longest")
    if attempts["void"]:
        output.note(f"{attempts['void']} of {attempts.total()} sessions were void: frames of the "
                    "user were late, because this machine was busy; that says nothing about the "
                    "system. Each is played again, at most twice, and then by --resume; fewer "
                    "--jobs help")
    if result.stopped is not None:
        output.note(f"stopped: {result.stopped}; no further case was tried, since it would end in "
                    "the same way; go on with --resume when that is mended")
    given = "".join(f" {option} {shlex.quote(text)}" for option, texts in (
        ("--set", settings), ("--level", levels),
        ("--filter", (filter_expr,) if filter_expr else ()),
        ("--trials", (str(trials),) * (trials > 1)), ("--condition", conditions),
        ("--clock", _stated(clock)),
        ("--retries", _stated(retries if retries != 2 else None)),
        ("--starts-per-minute", _stated(starts_per_minute)), ("--prices", _stated(prices_file)))
        for text in texts) + " --allow-unknown-cost" * allow_unknown_cost
    again = f"rig run {suite_dir} --adapter {adapter}{given} --out {folder.path} --resume"
    if result.interrupted:
        output.note(f"interrupted; go on with: {again}")
        return 130
    if result.limit is not None:
        output.note(_limit_reached(result, again))
        return 1
    return 3 if result.failed else 0


def _stated(value: object) -> tuple[str, ...]:
    """An option that was given, as text."""
    return () if value is None else (f"{value:g}" if isinstance(value, float) else str(value),)


def _estimated(tariff: Tariff, minutes: float) -> dict[str, Any]:
    """The cost of so many minutes at most, for a dry run."""
    cost = tariff.estimate(minutes * 60)
    reason = tariff.why
    if tariff.price is not None and cost is None:
        reason = (f"cost unknown: it is paid in tokens, and the price says nothing of "
                  f"estimate_per_minute (docs/limits.md); {tariff.why}")
    elif cost is None:
        reason = f"cost unknown ({tariff.why})"
    in_usd = tariff.currency in (None, "USD") and cost is not None
    return {"cost": None if cost is None else round(cost, 4), "currency": tariff.currency,
            "cost_usd": round(cost, 4) if in_usd and cost is not None else None,
            "cost_reason": reason}


def _spent(totals: Totals) -> dict[str, Any]:
    known = totals.exact or totals.cost > 0
    return {"sessions": totals.sessions, "minutes": round(totals.minutes, 3),
            "cost": round(totals.cost, 6) if known else None, "currency": totals.currency,
            "cost_is_lower_bound": not totals.exact, "sessions_of_unknown_cost": totals.unknown_n,
            "not_in_cost": list(totals.unknown), "sessions_assumed": totals.assumed_n}


def _so_far(budget: Budget, most_minutes: float) -> str:
    """Used so far, and of how much at most, for the progress line."""
    totals, limits, tariff = budget.totals(), budget.limits, budget.tariff
    most = limits.max_minutes or most_minutes
    text = f"{totals.minutes:.1f} of at most {most:.1f} min"
    if totals.free:
        return text
    cost = limits.max_cost or tariff.estimate(most_minutes * 60)
    return f"{text}, {totals.cost_text()}" + ("" if cost is None else f" of at most {cost:.2f}")


def _limit_reached(result: RunResult, again: str) -> str:
    option = (result.limit or "").partition(" ")[0]
    open_n = result.n_unplayed + len(result.failed)
    return (f"stopped at {result.limit}. {result.n_unplayed} sessions were not played"
            + (f", {len(result.failed)} not well" if result.failed else "")
            + f" ({open_n} of {result.n_planned} are left); what was in flight was finished. "
              f"Go on with a higher limit: {again} {option} ...")
