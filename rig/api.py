"""Scored runs as pandas data frames, for notebooks and scripts.

Needs the extra `notebook` (`pip install -c constraints.txt -e '.[notebook]'` where duplexrig is).
Every function takes a run, the path of its folder, or several of either, and gives one frame of all
of them; the column `run` has the name of the folder. Column types are fixed (`string`, `boolean`,
`Int64`, `Float64`, dates in UTC) and do not depend on the data. What is not known is `pd.NA`, never
0, and a column beside it (`reason`, `problem`) says why. Errors are `audio.errors.RigError`, one
line.

    >>> from rig import api
    >>> run = api.load_run("runs/random")
    >>> run.name, len(run.cases)
    ('random', 9)
    >>> api.verdicts(["runs/oracle", run]).groupby("run").passed.mean().round(3).to_dict()
    {'oracle': 1.0, 'random': 0.111}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from audio.errors import InputError, RigError
from rig.comparing import run_names
from rig.gate.figures import POOL_HEADS
from rig.gate.loading import gated
from rig.gate.readings import read
from rig.ledger import read as read_ledger
from rig.playout import POLICIES, Policy
from rig.report.loading import ScoredRun, load_scored
from rig.report.scored import ScoredCase
from rig.store import RunFolder
from sweeps.aggregate import NEVER_POOLED
from verifiers.decide import measured
from verifiers.thresholds import effective_limits
from verifiers.verdict import Outcome

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Run", "attempts", "ias", "latency", "load_run", "measurements", "verdicts"]

Run = ScoredRun
Runs = Run | str | Path | Sequence[Run | str | Path]

MISSING = ("rig.api needs the extra notebook (pip install -c constraints.txt -e '.[notebook]' "
           "where duplexrig is)")
_TEXT, _WHOLE, _NUMBER, _TRUTH = "string", "Int64", "Float64", "boolean"

_CASE = {"run": _TEXT, "case_id": _TEXT, "trial": _WHOLE}
_IDENTITY = {**_CASE, "role": _TEXT, "probe": _TEXT, "level": _TEXT, "expected_action": _TEXT}
_VERDICTS = {**_IDENTITY, "outcome": _TEXT, "passed": _TRUTH, "reason": _TEXT, "value": _NUMBER,
             "unit": _TEXT, "limit": _NUMBER, "flags": _TEXT, "other_outcome": _TEXT}
_NUMBERS = {
    "label": _TEXT, "silent_begun": _TRUTH, "genuine_onset_s": _NUMBER, "spans_in_window": _WHOLE,
    "spans_begun_in_window": _WHOLE, "short_spans_n": _WHOLE, "short_spans_per_min": _NUMBER,
    "first_span_s": _NUMBER, "first_span_at_least_s": _NUMBER, "held_at_w0": _TRUTH,
    "first_offset_s": _NUMBER, "first_offset_at_least_s": _NUMBER, "resumed_in_window": _TRUTH,
    "overlap_s": _NUMBER, "user_speech_s": _NUMBER, "coverage": _NUMBER,
    "coverage_ordered": _NUMBER, "readback_heard": _TRUTH, "model_speaks": _TRUTH,
    "onset_from_user_offset_s": _NUMBER, "onset_after_user_offset_s": _NUMBER,
    "window_length_s": _NUMBER, "recorded_after_w0_s": _NUMBER}
_MEASUREMENTS = {**_IDENTITY, "playout": _TEXT, "problem": _TEXT, **_NUMBERS}
_IAS = {"run": _TEXT, "name": _TEXT, "pool": _TEXT, "action": _TEXT, "role": _TEXT, "level": _TEXT,
        "n": _WHOLE, "passed": _WHOLE, "rate": _NUMBER, "ci_low": _NUMBER, "ci_high": _NUMBER,
        "bootstrap_low": _NUMBER, "bootstrap_high": _NUMBER, "unscored": _WHOLE,
        "unsupported": _WHOLE, "reason": _TEXT}
_LATENCY = {"run": _TEXT, "kind": _TEXT, "n": _WHOLE, "missing": _WHOLE, "p50_ms": _NUMBER,
            "p90_ms": _NUMBER, "p99_ms": _NUMBER, "reason": _TEXT}
_ATTEMPTS = {**_CASE, "attempt": _WHOLE, "status": _TEXT, "reason": _TEXT,
             "started": "datetime64[us, UTC]", "ended": "datetime64[us, UTC]",
             "session_s": _NUMBER, "sent_s": _NUMBER, "received_s": _NUMBER, "cost": _NUMBER,
             "currency": _TEXT}


class NotebookError(RigError):
    """The package for data frames is not installed."""


def load_run(path: str | Path) -> Run:
    """Read and check a run that `rig score` or `rig rescore` scored.

    `run.cases` has the verdicts, `run.scores` the whole of `scores.json`, `run.info` what was
    played (`None` for recordings of others). Raises `InputError` where it is not scored, went on
    since it was, is damaged, or has aggregates that its cases contradict.

        >>> load_run("runs/oracle").info.clock
        'virtual'
        >>> load_run("runs/nobody")
        Traceback (most recent call last):
        audio.errors.InputError: runs/nobody/scores.json: expected a scored run; ...
    """
    return load_scored([RunFolder(Path(path))])[0]


def verdicts(runs: Runs) -> pd.DataFrame:
    """One row a case and trial, in the order of `scores.json`.

    `outcome` is `pass`, `fail`, `unscored` or `unsupported`; `passed` is `pd.NA` for the last two
    and `reason` says why. `value` and `limit` are in `unit`. `flags` are parted by spaces.
    `other_outcome` is the outcome under the other playout, where it differs.

        >>> found = verdicts("runs/random")
        >>> found.query("passed")[["case_id", "expected_action"]].values.tolist()
        [['R8-B-1-L2', 'ACCEPT_OVERLAP']]
    """
    return _frame(_VERDICTS, [
        {**_identity(run, case), "outcome": str(case.outcome), "passed": _passed(case),
         "reason": case.reason, "value": case.value, "unit": case.unit, "limit": case.limit,
         "flags": " ".join(case.flags),
         "other_outcome": None if case.other_outcome is None else str(case.other_outcome)}
        for run in _runs(runs) for case in run.cases])


def measurements(runs: Runs, playout: Policy | None = None) -> pd.DataFrame:
    """One row a case and trial: what was measured in its window, independent of the verdict.

    Names and units are those of `measured` in `scores.json` (docs/verifiers.md); times in seconds
    from the start of the window. `playout` is `hold` or `flush`, by default what the run was scored
    with. A row that was not measured has `pd.NA` throughout and the reason in `problem`; in one
    that was, `pd.NA` is what does not exist (no onset, no target) or is cut by the end of the
    recording, with its least value under `..._at_least_s`.

        >>> found = measurements("runs/oracle").set_index("expected_action")
        >>> found.loc[["TAKE_TURN", "YIELD"], ["held_at_w0", "coverage"]].values.tolist()
        [[False, <NA>], [True, <NA>]]
        >>> bool(found.genuine_onset_s["TAKE_TURN"] < 2.0)
        True
    """
    if playout not in (None, *POLICIES):
        raise InputError.expected(f"playout {' or '.join(POLICIES)}", got=repr(playout),
                                  where="measurements")
    rows: list[dict[str, Any]] = []
    for run in _runs(runs):
        for case in run.cases:
            numbers, problem = _numbers(run, case, playout or run.playout)
            rows.append({**_identity(run, case), "playout": playout or run.playout,
                         "problem": problem, **{name: numbers.get(name) for name in _NUMBERS}})
    return _frame(_MEASUREMENTS, rows)


def ias(runs: Runs) -> pd.DataFrame:
    """Rates by level, action and role, counted again from the verdicts: one row each.

    `pool` is `ias_core`, `ias_all`, either of them `_live` or `_excluding_forced`, `by_action` or
    `by_role`; `name` is what `rig gate` calls the rate. Rows of an action or role without a `level`
    pool all levels but L4a, which is in no pool. `ci_low`, `ci_high` are Wilson's 95 % interval as
    in `scores.json`; the bootstrap's is over audio streams and `pd.NA` for recordings of others.
    `rate` is `pd.NA` where nothing was scored, and `reason` says so.

        >>> found = ias("runs/random").set_index("name")
        >>> found.loc["ias_all.L2", ["n", "passed", "unscored"]].to_dict()
        {'n': 9, 'passed': 1, 'unscored': 0}
        >>> found.loc["ias_all.L2", ["rate", "ci_low", "ci_high"]].astype(float).round(3).to_list()
        [0.111, 0.02, 0.435]
    """
    rows: list[dict[str, Any]] = []
    for run in _runs(runs):
        whole = gated(run)
        draws = whole.draws()
        for path, figure in whole.figures.items():
            if figure.wanted is None or not any(map(figure.wanted, whole.sessions)):
                continue
            found = read(figure, whole.sessions, draws)
            pool = path.partition(".")[0]
            level = figure.keys[-1] if pool in POOL_HEADS or "by_level" in figure.keys else None
            rows.append({
                "run": run.name, "name": path, "pool": pool,
                "action": figure.keys[2] if pool == "by_action" else None,
                "role": figure.keys[2] if pool == "by_role" else None, "level": level,
                "n": found.n, "passed": found.passed, "rate": found.value,
                **_ends("ci", found.wilson), **_ends("bootstrap", found.bootstrap),
                "unscored": found.unscored, "unsupported": found.unsupported,
                "reason": found.why_none or (
                    "persona-default retention: in no pool" if level == NEVER_POOLED else None)})
    return _frame(_IAS, rows)


def latency(runs: Runs) -> pd.DataFrame:
    """One row a kind of latency (`reply`, `interrupt`, `yield`, `backchannel`), in milliseconds.

    `n` sessions have one, `missing` that could have one have none; percentiles are over the `n`
    alone and `pd.NA` where there are none (`reason`).

        >>> found = latency("runs/random").set_index("kind")
        >>> found.loc["reply", ["n", "missing"]].to_dict(), found.reason["reply"]
        ({'n': 0, 'missing': 1}, 'none of 1 measured has one')
    """
    rows = []
    for run in _runs(runs):
        for kind, stat in run.scores["latency"].items():
            missing = stat.get("missing", 0)
            rows.append({"run": run.name, "kind": kind, **{
                name: stat[name] for name in ("n", "p50_ms", "p90_ms", "p99_ms")},
                "missing": missing, "reason": None if stat["n"] else
                f"none of {missing} measured has one" if missing else "no session of this kind"})
    return _frame(_LATENCY, rows)


def attempts(runs: Runs) -> pd.DataFrame:
    """One row a line of the ledger: every try to play a case, with what it used.

    `status` is `done`, `infra_error`, `unsupported` or `void`. Empty for recordings of others.

        >>> attempts("runs/oracle").status.value_counts().to_dict()
        {'done': 9}
    """
    return _frame(_ATTEMPTS, [
        {"run": run.name, **{name: getattr(line, name) for name in _ATTEMPTS if name != "run"}}
        for run in _runs(runs) for line in read_ledger(run.folder.ledger_path)])


# --- the way there ---------------------------------------------------------------------------


def _runs(given: Runs) -> list[Run]:
    """As given, each with a name of its own. Without pandas nothing is read."""
    _pandas()
    several: Iterable[Run | str | Path] = [given] if isinstance(given, Run | str | Path) else given
    runs = [one if isinstance(one, Run) else load_run(one) for one in several]
    if not runs:
        raise InputError("rig.api: expected at least one run, got none")
    paths = [run.folder.path for run in runs]
    if len({path.resolve() for path in paths}) < len(paths):
        raise InputError("rig.api: expected different runs, got one twice")
    return [replace(run, name=name) for run, name in zip(runs, run_names(paths), strict=True)]


def _identity(run: Run, case: ScoredCase) -> dict[str, Any]:
    return {"run": run.name, "case_id": case.case_id, "trial": case.trial, "role": case.role,
            "probe": case.probe, "level": case.level, "expected_action": str(case.action)}


def _passed(case: ScoredCase) -> bool | None:
    if case.outcome in (Outcome.PASS, Outcome.FAIL):
        return case.outcome is Outcome.PASS
    return None


def _numbers(run: Run, case: ScoredCase, playout: Policy) -> tuple[Mapping[str, Any], str | None]:
    """The numbers of a case under a playout, and why there are none."""
    if playout == run.playout:
        return (_checked(run, case), None) if case.measured else ({}, case.reason)
    row = case.row(playout)
    if row is None:
        return {}, "the run has no measurements.jsonl"
    if row.measurement is None:
        return {}, row.problem or "not measured"
    limits = effective_limits(run.thresholds, row.params, case.action)
    return measured(case.action, row.measurement, limits), None


_KINDS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    _TEXT: ("text", lambda value: isinstance(value, str)),
    _TRUTH: ("true or false", lambda value: isinstance(value, bool)),
    _WHOLE: ("a whole number", lambda value: type(value) is int and abs(value) < 2**63),
    _NUMBER: ("a number", lambda value: type(value) is float or (
        type(value) is int and abs(value) < 2**63))}


def _checked(run: Run, case: ScoredCase) -> Mapping[str, Any]:
    """`measured` as `scores.json` has it: reading scores leaves the kinds of its values open, the
    columns of a frame do not."""
    for name, column in _NUMBERS.items():
        value = case.measured.get(name)
        what, fits = _KINDS[column]
        if value is not None and not fits(value):
            raise InputError.expected(f"measured.{name} of {case.case_id} t{case.trial}: {what}",
                                      got=f"{value!r:.40}", where=run.folder.scores_path)
    return case.measured


def _ends(name: str, interval: tuple[float, float] | None) -> dict[str, float | None]:
    low, high = interval or (None, None)
    return {f"{name}_low": low, f"{name}_high": high}


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise NotebookError(MISSING) from error
    return pandas


def _frame(columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    return _pandas().DataFrame({name: _column(name, kind, rows) for name, kind in columns.items()})


_UNFIT = (ValueError, TypeError, ArithmeticError)
"""What pandas raises for a value that a column cannot hold."""


def _column(name: str, kind: str, rows: Sequence[Mapping[str, Any]]) -> Any:
    try:
        return _array(kind, [row[name] for row in rows])
    except _UNFIT:
        for row in rows:
            try:
                _array(kind, [row[name]])
            except _UNFIT as error:
                what = "a time (ISO 8601)" if kind.startswith("datetime") else _KINDS[kind][0]
                where = " ".join(str(row[key]) for key in _CASE if key in row)
                raise InputError.expected(f"{what} as {name}", got=f"{row[name]!r:.40}",
                                          where=where) from error
        raise


def _array(kind: str, values: Sequence[Any]) -> Any:
    pandas = _pandas()
    if kind.startswith("datetime"):
        return pandas.to_datetime(pandas.Series(values, dtype="object"), utc=True,
                                  format="ISO8601").astype(kind)
    with np.errstate(invalid="raise"):  # a number that is cut to fit
        return pandas.array(values, dtype=kind)
