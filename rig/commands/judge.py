"""`rig judge`: persona adherence and conflict labels by a language model."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import click

from audio.errors import InputError
from audio.files import atomic_write_text
from audio.vad import VadSettings
from rig.chat_endpoint import TIMEOUT_S
from rig.console import Output
from rig.finite_option import Finite
from rig.judge.answer import Judgement
from rig.judge.asking import Asking
from rig.judge.cases import collect, suite_of
from rig.judge.configs import find_judge, known_judges
from rig.judge.judging import (
    CACHE_FOLDER,
    check_same_judge,
    judge_folder,
    judged_cases,
    make_plan,
    make_result,
    verdicts_of,
    with_agreement,
    write_result,
)
from rig.judge.prepared import Prepared, ask, prepare, spent, tell_cost
from rig.judge.results import JudgedCase, JudgeResult
from rig.judge.text import as_csv, cases_as_csv, print_result
from rig.playout import Policy
from rig.settings import default_jobs
from rig.store import FolderLock, RunFolder, make_folder
from rig.wording import counted
from rig.workers import Workers

LIMIT_EXIT_CODE = 1
INFRASTRUCTURE_EXIT_CODE = 3
MAX_REASK = 20
"""Ours: each asking costs as much as the first."""


@click.command("judge")
@click.argument("run_dir", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--judge", "name", required=True, metavar="NAME", help="The judge, by its name.")
@click.option("--second", metavar="NAME", help="Another judge on the same cases, and how far the "
              "two agree.")
@click.option("--judges", "judges_file", type=click.Path(path_type=Path), metavar="FILE",
              help="Judges of your own (docs/judge.md). Default: the file that DUPLEXRIG_JUDGES "
              "names.")
@click.option("--base-url", metavar="URL", help="Of --judge, in place of its own: https:// "
              "anywhere, http:// on this machine; /chat/completions is added.")
@click.option("--model", metavar="NAME", help="Of --judge, in place of its own.")
@click.option("--key-env", metavar="NAME", help="Environment variable with the key of --judge.")
@click.option("--suite", metavar="SUITE", help="Source folder of the suite that was played "
              "(roles.yaml, judge.yaml). Default: the built-in one of its name.")
@click.option("--playout", type=click.Choice(["hold", "flush"]), default="hold",
              show_default=True, help="Which heard track counts.")
@click.option("--reask", type=click.IntRange(0, MAX_REASK), default=0, show_default=True,
              help="Ask so many times more, to see how far the answers lie apart.")
@click.option("--retry-errors", is_flag=True, help="Ask again where a kept answer is of no use.")
@click.option("--cache", type=click.Path(path_type=Path), help="Folder of answers, one inside it "
              f"for each judge. Default: RUN/judge/{CACHE_FOLDER}.")
@click.option("--max-cost", type=Finite(0, min_open=True), metavar="AMOUNT",
              help="Ask --judge nothing that could pass this, in the currency of its price.")
@click.option("--timeout", "timeout_s", type=Finite(1, 600), default=TIMEOUT_S,
              show_default=True, metavar="S", help="Longest time for one answer.")
@click.option("--jobs", type=click.IntRange(1, 1024), help="Processes that get the words. Default: "
              "the cores.")
@click.option("--csv", "csv_path", type=click.Path(path_type=Path),
              help="Also write every figure, a row each.")
@click.option("--cases-csv", "cases_path", type=click.Path(path_type=Path),
              help="Also write every case, a row each.")
@click.option("--dry-run", is_flag=True, help="Say what would be asked and what it may cost.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(run_dir: Path, name: str, second: str | None, judges_file: Path | None,
            base_url: str | None, model: str | None, key_env: str | None, suite: str | None,
            playout: Policy, reask: int, retry_errors: bool, cache: Path | None,
            max_cost: float | None, timeout_s: float, jobs: int | None, csv_path: Path | None,
            cases_path: Path | None, dry_run: bool, as_json: bool) -> int:
    """Have a language model judge what a system said in RUN: persona adherence (PAS) and, on L4,
    which of two conflicting instructions its words followed. Writes RUN/judge/NAME.json.

    Answers are cached: repeat the command to go on, or to see the figures again without a key.
    Exit code 3 when some cases have no usable answer, 1 when --max-cost kept some from being asked.

    \b
    Example:
      rig judge runs/mine --judge gpt-4o --dry-run
      rig judge runs/mine --judge local --base-url http://127.0.0.1:8080/v1 --model MODEL --reask 2
    """
    output = Output(as_json=as_json)
    known = known_judges(judges_file)
    judges = [find_judge(known, name, base_url=base_url, model=model, key_env=key_env)]
    if second is not None:
        judges.append(find_judge(known, second, option="--second"))
        if judges[0].name == judges[1].name:
            raise InputError(f"--second: expected another judge than --judge, got {second!r} twice")
    if max_cost is not None and judges[0].price is None:
        raise InputError(f"--max-cost: the price of judge {name!r} is not known; add it to a file "
                         "for --judges (docs/judge.md)")
    paths = [p.resolve() for p in (csv_path, cases_path) if p is not None]
    if len(set(paths)) < len(paths):
        raise InputError("expected different files for --csv and --cases-csv, got one twice")
    run = RunFolder(run_dir)
    info = run.read_info()
    source = suite_of(info, suite)
    for judge in judges:
        check_same_judge(run, judge)
    vad = VadSettings()
    with output.progress("words", len(run.read_cases())) as line, \
            Workers(jobs or default_jobs()) as workers:
        asked = collect(run, source, playout, vad, workers,
                        lambda done, total: line.update(done, total=total))
    plans = [make_plan(judge, asked, reask) for judge in judges]
    answers = cache or judge_folder(run) / CACHE_FOLDER
    prepared = [prepare(plan.judge, plan.questions, answers / plan.judge.name, timeout_s, output,
                        retry_errors=retry_errors, never_key=dry_run) for plan in plans]
    for one in prepared:
        tell_cost(output, one, "cases that would ask the same share one")
    if dry_run:
        output.document({"run": run.path.name, "cases": len(asked),
                         "unscored": sum(a.material is None for a in asked),
                         "judges": [one.facts() for one in prepared]})
        return 0
    make_folder(judge_folder(run))
    verdicts, no_verdicts = verdicts_of(run, playout)
    results: list[JudgeResult] = []
    told: list[Asking[Judgement]] = []
    with FolderLock(judge_folder(run)):
        for number, (plan, one) in enumerate(zip(plans, prepared, strict=True)):
            asking = ask(output, one, max_cost if number == 0 else None, retry_errors)
            cases = judged_cases(plan, asking.replies, verdicts)
            results.append(make_result(run, info, plan, cases, playout=playout, vad=vad,
                                       no_verdicts=no_verdicts))
            told.append(asking)
        if len(results) == 2:
            results[0] = with_agreement(results[0], results[1])
        for result in results:
            write_result(run, result)
    return _finish(output, results, told, prepared, csv_path, cases_path)


def _tell_without(output: Output, result: JudgeResult) -> None:
    """The cases without a judgement, a line each reason."""
    name = result.judge.name
    errors: dict[str | None, list[JudgedCase]] = {}
    for case in result.cases:
        if case.status == "judge_error":
            errors.setdefault(case.reason, []).append(case)
    for reason, (first, *more) in errors.items():
        others = f" and {counted(len(more), 'more case')}" if more else ""
        output.note(f"{name}: {first.case_id} t{first.trial}{others}: judge_error: {reason}")
    if left := sum(case.status == "not_judged" for case in result.cases):
        output.note(f"{name}: {counted(left, 'case')} not judged; repeat the command to go on")


def _finish(output: Output, results: Sequence[JudgeResult], told: Sequence[Asking[Judgement]],
            prepared: Sequence[Prepared[Judgement]], csv_path: Path | None,
            cases_path: Path | None) -> int:
    for result, one in zip(results, prepared, strict=True):
        print_result(output, result)
        _tell_without(output, result)
        output.table("requests", ["what", "count"],
                     [(k.replace("_", " "), v)
                      for k, v in dataclasses.asdict(one.endpoint.counts).items()])
        output.line(f"cost of this call: {spent(one)}")
    if csv_path is not None:
        text = [as_csv(r) for r in results]
        atomic_write_text(csv_path, text[0] + "".join(t.partition("\n")[2] for t in text[1:]))
    if cases_path is not None:
        atomic_write_text(cases_path, cases_as_csv(results[0]))
    document = results[0].model_dump(mode="json")
    output.document({**document, "requests": dataclasses.asdict(prepared[0].endpoint.counts)}
                    if len(results) == 1 else {
        **document, "requests": dataclasses.asdict(prepared[0].endpoint.counts),
        "second": {**results[1].model_dump(mode="json"),
                   "requests": dataclasses.asdict(prepared[1].endpoint.counts)}})
    if any(asking.limit for asking in told):
        return LIMIT_EXIT_CODE
    return 0 if all(r.complete for r in results) else INFRASTRUCTURE_EXIT_CODE
