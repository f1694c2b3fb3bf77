"""Data frames of runs: the documented examples, types, and what is missing."""

from __future__ import annotations

import doctest
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import rig_testkit as kit

from audio.errors import InputError
from rig import api
from verifiers.scene import Action

pd = pytest.importorskip("pandas")

PAGE = Path(__file__).parents[3] / "docs" / "notebook.md"


@pytest.fixture(scope="module")
def runs(oracle_run: Path, random_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the examples stand."""
    folder = tmp_path_factory.mktemp("notebook")
    for run in (oracle_run, random_run):
        shutil.copytree(run, folder / "runs" / run.name)
    return folder


def test_the_examples_say_what_is_so(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(runs)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    found = doctest.testmod(api, optionflags=flags)
    assert found.failed == 0
    assert found.attempted > 15
    # A closing fence would be part of what is expected.
    text = PAGE.read_text(encoding="utf-8").replace("```\n", "\n")
    page = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    assert doctest.DocTestRunner(optionflags=flags).run(page) == (0, len(page.examples))
    assert len(page.examples) > 5


@pytest.fixture(scope="module")
def lost_run(tmp_path_factory: pytest.TempPathFactory, random_run: Path) -> Path:
    """The random run after a session was lost: TAKE_TURN has no recording."""
    from rig import cli

    run = shutil.copytree(random_run, tmp_path_factory.mktemp("lost") / "lost")
    lines = [json.loads(line) for line in (run / "attempts.jsonl").read_text().splitlines()]
    for line in lines:
        if line["case_id"] == "R1-C1-1-L2":
            line.update(status="infra_error", reason="429: slow down")
    (run / "attempts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert cli.main(["score", str(run), "--jobs", "1"]) == 3
    return run


def test_verdicts_are_those_of_the_file(random_run: Path) -> None:
    found = api.verdicts(random_run)
    wanted = kit.scores(random_run)["cases"]
    assert found.outcome.to_list() == [case["outcome"] for case in wanted]
    assert found.value.isna().to_list() == [case["value"] is None for case in wanted]
    assert [v for v in found.value if v is not pd.NA] == [
        case["value"] for case in wanted if case["value"] is not None]
    assert found["flags"].str.split().to_list() == [case["flags"] for case in wanted]
    assert found.passed.sum() == 1


def test_what_was_lost_is_missing_and_says_why(lost_run: Path) -> None:
    verdict = api.verdicts(lost_run).set_index("case_id").loc["R1-C1-1-L2"]
    assert verdict.outcome == "unscored"
    assert verdict.passed is pd.NA
    assert verdict.reason == "infra_error: 429: slow down"
    row = api.measurements(lost_run).set_index("case_id").loc["R1-C1-1-L2"]
    assert row.problem == "infra_error: 429: slow down"
    assert row.drop([n for n in row.index if n not in api._NUMBERS]).isna().all()
    rates = api.ias(lost_run).set_index("name")
    gone = rates.loc["by_action.TAKE_TURN"]
    assert (gone.n, gone.unscored) == (0, 1)
    assert gone.rate is pd.NA
    assert gone.ci_low is pd.NA
    assert gone.reason == "no session scored (1 unscored)"
    assert rates.loc["ias_core.L2", "n"] == 3
    assert "infra_error" in api.attempts(lost_run).status.to_list()


def test_types_do_not_depend_on_the_data(
    oracle_run: Path, lost_run: Path, tmp_path: Path, call_rig: Any
) -> None:
    manifest = tmp_path / "m.jsonl"
    wav = sorted((oracle_run / "rec").glob("R2-C1*.stereo.wav"))[0].name
    manifest.write_text(json.dumps({"id": "x1", "wav": wav, "expected_action": "LISTEN",
                                    "window": {"start_s": 0.0, "end_s": 1.0}}) + "\n")
    others = tmp_path / "rescored"
    assert call_rig("rescore", manifest, "--audio", oracle_run / "rec", "--out", others).code == 0
    for make in (api.verdicts, api.measurements, api.ias, api.latency, api.attempts):
        frames = [make(run) for run in (oracle_run, lost_run, others)]
        assert len({tuple(map(str, frame.dtypes)) for frame in frames}) == 1, make
        assert not any(str(kind) == "object" for kind in frames[0].dtypes)
        # No not-a-number hides among the missing.
        for frame in frames:
            for name in frame.columns:
                if str(frame[name].dtype) == "Float64":
                    assert not any(v != v for v in frame[name].dropna())
    assert api.verdicts(others).level.isna().all()
    assert len(api.attempts(others)) == 0
    assert api.ias(others).bootstrap_low.isna().all()


def test_measurements_are_the_numbers_of_the_file(random_run: Path) -> None:
    found = api.measurements(random_run)
    for name in ("genuine_onset_s", "first_offset_s", "spans_in_window", "held_at_w0", "coverage"):
        told = [case["measured"][name] for case in kit.scores(random_run)["cases"]]
        assert [None if v is pd.NA else v for v in found[name]] == told
    # Nothing was interrupted, so the other playout has the same numbers, read another way.
    other = api.measurements(random_run, playout="flush")
    assert other.drop(columns="playout").equals(found.drop(columns="playout"))
    assert other.problem.isna().all()
    with pytest.raises(InputError, match="expected playout hold or flush, got 'both'"):
        api.measurements(random_run, playout="both")  # type: ignore[arg-type]


def test_without_measurements_the_other_playout_is_missing_and_says_why(
    random_run: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(random_run, tmp_path / "run")
    (run / "measurements.jsonl").unlink()
    assert api.measurements(run).problem.isna().all()
    other = api.measurements(run, "flush")
    assert set(other.problem) == {"the run has no measurements.jsonl"}
    assert other.held_at_w0.isna().all()


def test_every_number_of_the_file_has_a_column(random_run: Path) -> None:
    told = {name for case in kit.scores(random_run)["cases"] for name, value
            in case["measured"].items() if not isinstance(value, list | dict)}
    assert told - set(api._NUMBERS) == {"table18"}  # of CONTINUE alone, for one published table


def test_rates_are_those_of_the_file(random_run: Path) -> None:
    found = api.ias(random_run).set_index("name")
    scores = kit.scores(random_run)["ias"]
    for pool in ("core", "all"):
        row, stat = found.loc[f"ias_{pool}.L2"], scores[pool]["L2"]
        assert (row.n, row.passed, row.rate, row.level) == (stat["n"], stat["passed"],
                                                            stat["rate"], "L2")
        assert [row.ci_low, row.ci_high] == stat["ci"]
    actions = found[(found.pool == "by_action") & found.level.isna()]
    assert actions.action.to_list() == [str(action) for action in Action]
    assert set(found[found.pool == "by_role"].role) == {"R1", "R2", "R4", "R7", "R8"}


def test_several_runs_and_their_names(oracle_run: Path, random_run: Path, tmp_path: Path) -> None:
    twin = shutil.copytree(oracle_run, tmp_path / oracle_run.name)
    found = api.verdicts([oracle_run, str(random_run), api.load_run(twin)])
    assert found.run.value_counts().to_dict() == {
        f"{oracle_run.name} ({oracle_run})": 9, random_run.name: 9, f"{twin.name} ({twin})": 9}
    for given in ([oracle_run, str(oracle_run)], []):
        with pytest.raises(InputError, match=r"rig\.api: expected"):
            api.verdicts(given)


def test_a_damaged_run_is_one_line(random_run: Path, tmp_path: Path) -> None:
    run = shutil.copytree(random_run, tmp_path / "run")
    found = kit.scores(run)
    found["cases"][0]["value"] = float("nan")
    (run / "scores.json").write_text(json.dumps(found))
    with pytest.raises(InputError, match=r"scores.json: .*got ") as caught:
        api.verdicts(run)
    assert "\n" not in str(caught.value)
    found["cases"][0].update(value=None, outcome="pass")
    (run / "scores.json").write_text(json.dumps(found))
    with pytest.raises(InputError, match=r"expected ias_core.L2 of 1 in 4"):
        api.ias(run)
    found = kit.scores(random_run)
    found["latency"]["reply"].update(p50_ms=1.0, n=1)
    (run / "scores.json").write_text(json.dumps(found))
    with pytest.raises(InputError, match=r"expected latency.reply of n 0, missing 1, p50_ms None"):
        api.latency(run)


def test_without_pandas_it_says_how_to_get_it(
    oracle_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    run = api.load_run(oracle_run)  # needs none
    with pytest.raises(api.NotebookError, match=r"pip install -c .* '\.\[notebook\]'"):
        api.verdicts(run)


@pytest.mark.parametrize(("name", "value", "expected"), [
    ("window_length_s", [], "a number"), ("window_length_s", "2.5", "a number"),
    ("first_offset_s", True, "a number"), ("overlap_s", 10**400, "a number"),
    ("spans_in_window", 1.0, "a whole number"), ("spans_begun_in_window", 2**63, "a whole number"),
    ("held_at_w0", 1, "true or false"), ("label", 5, "text")])
def test_a_measured_value_of_another_kind_is_refused(
        random_run: Path, tmp_path: Path, name: str, value: object, expected: str) -> None:
    """Columns have fixed kinds; what fits none must neither be cast nor end in a traceback."""
    run = shutil.copytree(random_run, tmp_path / "run")
    scores = kit.scores(run)
    case = scores["cases"][0]
    case["measured"][name] = value
    (run / "scores.json").write_text(json.dumps(scores))
    with pytest.raises(InputError, match=rf"scores.json: expected measured.{name} of "
                       rf"{case['case_id']} t1: {expected}, got "):
        api.measurements(run)


@pytest.mark.parametrize(("name", "value", "expected"), [
    ("started", "</script>", r"expected a time \(ISO 8601\) as started, got '</script>'"),
    ("ended", "2026-13-01T00:00:00Z", r"expected a time \(ISO 8601\) as ended, got '2026-13"),
    ("attempt", 2**63, "expected a whole number as attempt, got 9223372036854775808")])
def test_a_ledger_that_no_frame_can_hold_is_refused(
        random_run: Path, tmp_path: Path, name: str, value: object, expected: str) -> None:
    run = shutil.copytree(random_run, tmp_path / "run")
    lines = [json.loads(line) for line in (run / "attempts.jsonl").read_text().splitlines()]
    lines[4][name] = value
    (run / "attempts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(InputError, match=f"^run {lines[4]['case_id']} 1: {expected}"):
        api.attempts(run)
