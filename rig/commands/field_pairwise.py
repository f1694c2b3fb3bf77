"""`rig field --pairwise`: a language model chooses between replies of the agent and others.

The one thing of `rig field` that sends anything away, so it is off unless asked for, says what goes
where before it goes, and is refused where words or answers must not leave or stay.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from audio.endpoint_rules import is_loopback
from audio.errors import InputError
from rig.chat_endpoint import TIMEOUT_S
from rig.console import Output
from rig.field.measures import CallMeasures, Skipped
from rig.field.pairs import BEFORE_MOST_N, PairRow, names_of, read_pairs
from rig.field.pairwise import PairPlan, PairStudy, judged_pairs, pairs_in, plan_pairs
from rig.field.sources import CallSource
from rig.finite_option import Finite
from rig.judge.configs import Judge, find_judge, known_judges
from rig.judge.prepared import Prepared, ask, prepare, spent, tell_cost
from rig.store import FolderLock, make_folder
from sweeps.pairwise import Choice

LIMIT_EXIT_CODE = 1
INFRASTRUCTURE_EXIT_CODE = 3
FOLDER = "pairwise"

_OPTIONS = (
    click.option("--pairwise", "pairs_file", type=click.Path(path_type=Path), metavar="FILE",
                 help="Have a language model choose between the agent's replies and those of this "
                      "CSV file (file, agent_start_s, reference), in both orders (A1). Sends "
                      "words of the calls to --judge; nothing else here sends anything."),
    click.option("--judge", "judge_name", metavar="NAME",
                 help="Who chooses, by name (docs/judge.md)."),
    click.option("--judges", "judges_file", type=click.Path(path_type=Path), metavar="FILE",
                 help="Judges of your own. Default: the file that DUPLEXRIG_JUDGES names."),
    click.option("--base-url", metavar="URL", help="Of --judge, in place of its own."),
    click.option("--model", metavar="NAME", help="Of --judge, in place of its own."),
    click.option("--key-env", metavar="NAME",
                 help="Environment variable with the key of --judge."),
    click.option("--max-cost", type=Finite(0, min_open=True), metavar="AMOUNT",
                 help="Ask --judge nothing that could pass this, in the currency of its price."),
    click.option("--retry-errors", is_flag=True,
                 help="Ask --judge again where a kept answer is of no use."),
    click.option("--dry-run", is_flag=True,
                 help="Say what --pairwise would send and what it may cost; send nothing."),
)
_KEYWORDS = ("pairs_file", "judge_name", "judges_file", "base_url", "model", "key_env", "max_cost",
             "retry_errors", "dry_run")


@dataclass(frozen=True, slots=True)
class AskedPairs:
    """What came of `Pairwise.ask`: `study` is `None` after a dry run. code: the exit code."""

    study: PairStudy | None
    code: int


@dataclass(frozen=True, slots=True)
class Pairwise:
    """The options, checked."""

    file: Path
    judge: Judge
    max_cost: float | None
    retry_errors: bool
    dry_run: bool

    def rows(self, sources: Sequence[CallSource], *, no_transcript: bool, no_audio: bool,
             no_cache: bool, hide_names: bool) -> list[PairRow]:
        """The rows of the file, before anything is measured. Raises `InputError` where words must
        not leave, or answers that cost money would not be kept."""
        if no_transcript:
            raise InputError("--pairwise: sends words of the calls to a judge, which "
                             "--no-transcript forbids; expected one of them, got both")
        if no_cache or no_audio:
            raise InputError("--pairwise: keeps what a judge was asked and answered, which "
                             f"{'--no-cache' if no_cache else '--no-audio'} forbids; expected one "
                             "of them, got both")
        return read_pairs(self.file, names_of(sources, hide_names=hide_names),
                          hide_names=hide_names)

    def ask(self, output: Output, rows: Sequence[PairRow], sources: Sequence[CallSource],
            found: Sequence[CallMeasures | Skipped], cache_dir: Path, *,
            hide_names: bool) -> AskedPairs:
        """Say what would be sent, and send it unless this is a dry run."""
        plan = plan_pairs(self.judge, pairs_in(rows, sources, found, hide_names=hide_names))
        folder = cache_dir / FOLDER / cache_name(self.judge)
        one = prepare(self.judge, plan.questions, folder, TIMEOUT_S, output,
                      retry_errors=self.retry_errors, never_key=self.dry_run)
        self._tell(output, plan, one)
        if self.dry_run:
            output.document({
                "pairs": len(rows), "unscored": sum(p.problem is not None for p in plan.pairs),
                "identical": sum(p.identical for p in plan.pairs), "judge": one.facts()})
            return AskedPairs(None, 0)
        make_folder(folder)
        with FolderLock(folder):
            asking = ask(output, one, self.max_cost, self.retry_errors)
        output.note(f"cost of this call: {spent(one)}")
        study = judged_pairs(plan, asking.replies)
        lost = any(p.status in ("judge_error", "not_judged") for p in study.pairs)
        return AskedPairs(study, LIMIT_EXIT_CODE if asking.limit
                          else INFRASTRUCTURE_EXIT_CODE if lost else 0)

    def _tell(self, output: Output, plan: PairPlan, one: Prepared[Choice]) -> None:
        if one.estimate.to_ask:
            pairs_n = sum(p.problem is None and not p.identical for p in plan.pairs)
            output.note(
                f"--pairwise {'would send' if self.dry_run else 'sends'} words of the calls to "
                f"{self.judge.address}: {pairs_n} replies, up to {BEFORE_MOST_N} utterances of "
                "caller and agent before each, and the references")
        tell_cost(output, one, "two a pair, equal ones once")


def pairwise_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add the options; the command gets them as `pairwise`, `None` without --pairwise."""

    @functools.wraps(function)
    def packed(*args: Any, **given: Any) -> int:
        own = {name: given.pop(name) for name in _KEYWORDS}
        return function(*args, pairwise=_checked(**own), **given)

    for option in reversed(_OPTIONS):
        packed = option(packed)
    return packed


def _checked(pairs_file: Path | None, judge_name: str | None, judges_file: Path | None,
             base_url: str | None, model: str | None, key_env: str | None,
             max_cost: float | None, retry_errors: bool, dry_run: bool) -> Pairwise | None:
    if pairs_file is None:
        given = [option for option, value in (
            ("--judge", judge_name), ("--judges", judges_file), ("--base-url", base_url),
            ("--model", model), ("--key-env", key_env), ("--max-cost", max_cost),
            ("--retry-errors", retry_errors or None), ("--dry-run", dry_run or None))
            if value is not None]
        if given:
            raise click.UsageError(f"{given[0]}: expected --pairwise FILE with it, got none")
        return None
    if judge_name is None:
        raise click.UsageError("--pairwise: expected --judge NAME with it, got none")
    judge = find_judge(known_judges(judges_file), judge_name, base_url=base_url, model=model,
                       key_env=key_env)
    if max_cost is not None and judge.price is None:
        raise InputError(f"--max-cost: the price of judge {judge_name!r} is not known; add it to a "
                         "file for --judges (docs/judge.md)")
    return Pairwise(pairs_file, judge, max_cost, retry_errors, dry_run)


def cache_name(judge: Judge) -> str:
    """Folder of a judge's answers. They are named by the request, which does not say where it
    went, so the address is part of the name; ports of this machine may change."""
    near = is_loopback(urlsplit(judge.address).hostname or "")
    where = "local" if near else sha256(judge.address.encode()).hexdigest()[:12]
    return f"{judge.name}-{where}"
