"""The columns of the case list and what was said, from a run that was played."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import made_runs
import pytest
import rig_testkit as kit

from audio.errors import InputError
from rig.record import AudioEvent, TextEvent
from rig.report import case_list
from rig.report.cut import MAX_REASON, cut
from rig.report.loading import ScoredRun, load_scored
from rig.report.said import MAX_TEXT, said
from rig.report.sessions import session_facts
from rig.store import RunFolder
from rig.workers import Workers


@pytest.fixture(scope="module")
def runs(oracle_run: Path, random_run: Path) -> list[ScoredRun]:
    return load_scored([RunFolder(oracle_run), RunFolder(random_run)])


def _transcripts(runs: list[ScoredRun]) -> dict[str, Any]:
    return case_list.transcripts([
        fact.said for fact in session_facts(runs, frozenset(), Workers(1))])


def test_one_row_a_case_in_the_order_of_the_scores(runs: list[ScoredRun]) -> None:
    data = case_list.data(runs)
    cases = [case for run in runs for case in run.cases]
    assert len(cases) == 18
    columns = {name: values for name, values in data.items()
               if name not in ("runs", "outcomes", "values", "flag_names")}
    assert {name: len(values) for name, values in columns.items()} == dict.fromkeys(columns, 18)
    assert data["key"] == [case.key for case in cases]
    assert data["run"] == [0] * 9 + [1] * 9
    assert [data["values"]["action"][i] for i in data["action"]] == [str(c.action) for c in cases]
    assert [data["outcomes"][i] for i in data["outcome"]] == [str(c.outcome) for c in cases]
    assert [[data["flag_names"][i] for i in flags] for flags in data["flags"]] == [
        list(case.flags) for case in cases]
    assert data["value"] == [case.value for case in cases]
    json.dumps(data, allow_nan=False)


def test_a_margin_has_its_unit_and_its_words_or_says_why_not() -> None:
    run = made_runs.scored_run("one", made_runs.scenes(3, 108))
    data = case_list.data([run])
    seen = set()
    for margin, unit, text in zip(data["margin"], data["margin_unit"], data["margin_text"],
                                  strict=True):
        assert (margin is None) is (unit is None)
        assert text
        seen.add(unit)
    assert seen == {None, "s", "ratio"}
    assert data["margin"][-1] is None
    assert data["margin_text"][-1] == "infra_error: lost"


def test_what_both_sides_said(runs: list[ScoredRun]) -> None:
    found = _transcripts(runs)
    for i, case in enumerate(runs[0].cases):
        record = runs[0].folder.read_record(case.case_id, case.trial)
        user = " ".join(t for turn in record.turns for t in turn.texts)
        assert found["texts"][found["user"][i]] == " ".join(user.split())
    readback = [case.action for case in runs[0].cases].index("READBACK")
    assert kit.TARGET in found["texts"][found["model"][readback]]
    assert len(found["texts"]) == len(set(found["texts"]))
    listen = [case.action for case in runs[0].cases].index("LISTEN")
    words = found["model"][listen]
    assert words is None or found["texts"][words]


def test_deltas_of_a_response_make_whole_words(runs: list[ScoredRun]) -> None:
    def text(words: str, response: str | None) -> TextEvent:
        return TextEvent(seq=0, t_ns=0, text=words, response_id=response, received_n=0)

    record = runs[0].folder.read_record(runs[0].cases[0].case_id, 1)
    found = said(record.model_copy(update={"turns": (), "events": (
        text("lock", "a"), text("Hm.", "b"), AudioEvent(seq=0, t_ns=0, n=1),
        text("er four", "a"))}))
    assert (found.user, found.model, found.cut) == ("", "locker four Hm.", False)


@pytest.mark.parametrize("content", [b"", b"{}", b'{"turns": [], "events": 3}', b"\xff"])
def test_a_damaged_record_has_no_words(oracle_run: Path, tmp_path: Path, content: bytes) -> None:
    folder = RunFolder(shutil.copytree(oracle_run, tmp_path / "run"))
    [run] = load_scored([folder])
    case = run.cases[0]
    folder.record_path(case.case_id, case.trial).write_bytes(content)
    found = _transcripts([run])
    assert (found["user"][0], found["model"][0]) == (None, None)
    assert found["user"][1] is not None


def test_a_case_outside_the_plan_reads_no_file(runs: list[ScoredRun]) -> None:
    """What a damaged scores.json names is no path to read."""
    found = _transcripts([replace(runs[0], planned={})])
    assert found["user"] == [None] * 9


def test_reversed_spans_are_told_in_one_line() -> None:
    run = made_runs.scored_run("one", made_runs.scenes(3, 9))
    rows = {"hold": replace(run.cases[0].rows["hold"], model_s=((2.0, 1.0),))}
    damaged = replace(run, cases=(replace(run.cases[0], rows=rows),))
    with pytest.raises(InputError, match=r"measurements\.jsonl: expected spans of speech"):
        case_list.data([damaged])


def test_long_text_is_cut_and_said(oracle_run: Path, tmp_path: Path) -> None:
    """A bound a side a case, the one of the case view."""
    folder = RunFolder(shutil.copytree(oracle_run, tmp_path / "run"))
    [run] = load_scored([folder])
    path = folder.record_path(run.cases[1].case_id, run.cases[1].trial)
    record = json.loads(path.read_text())
    event = {"kind": "text", "seq": 1, "t_ns": 0, "response_id": "r", "received_n": 0}
    record["events"] = [{**event, "text": "x" * MAX_TEXT}]
    path.write_text(json.dumps(record))
    found = _transcripts([run])
    assert found["cut"] == []
    assert found["texts"][found["model"][1]] == "x" * MAX_TEXT
    record["events"] = [{**event, "text": "x" * 29_000_000}]
    path.write_text(json.dumps(record))
    found = _transcripts([run])
    assert (found["cut"], found["most"]) == ([1], MAX_TEXT)
    assert found["texts"][found["model"][1]] == "x" * MAX_TEXT
    assert sum(map(len, found["texts"])) < 2 * MAX_TEXT


def test_a_reason_without_end_is_cut_and_says_by_how_much() -> None:
    run = made_runs.scored_run("one", made_runs.scenes(3, 9))
    first, *others = run.cases
    long = replace(first, reason="r" * 29_000_000, rows={})
    data = case_list.data([replace(run, cases=(long, *others))])
    told = "r" * MAX_REASON + f"… ({29_000_000 - MAX_REASON} characters more)"
    assert data["reason"][0] == data["margin_text"][0] == told
    assert data["reason"][1] == others[0].reason
    assert cut("r" * MAX_REASON) == "r" * MAX_REASON
