"""`rig compare` on runs that were played: figures, files, refusals."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import rig_testkit as kit

from probes.manifest import Case
from rig.cli import main
from rig.comparison_text import DIFFERENCE_COLUMNS, as_latex, difference_cells
from rig.store import RunFolder, cases_text
from sweeps.comparison import System, compare, effect_entry
from sweeps.effects import Draws, case_and_trial, difference


def document(capsys: pytest.CaptureFixture[str], *words: str) -> dict:
    assert main(["compare", *words, "--draws", "1000", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_an_oracle_and_a_random_agent(
    oracle_run: Path, random_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = document(capsys, str(oracle_run), str(random_run), "--csv", str(tmp_path / "c.csv"),
                     "--latex", str(tmp_path / "c.tex"), "--out", str(tmp_path / "c.json"))
    # Nothing but agents of known behaviour was given: they are the systems.
    assert not any(s["floor"] for s in found["systems"].values())
    oracle = found["systems"][oracle_run.name]
    assert {r["rate"] for pool in oracle["ias"].values() for r in pool.values()} == {1.0}
    scores = json.loads((random_run / "scores.json").read_text())
    for pool in ("core", "all"):
        for level, entry in scores["ias"][pool].items():
            mine = found["systems"][random_run.name]["ias"][pool][level]
            assert (mine["n"], mine["passed"], mine["rate"]) == (
                entry["n"], entry["passed"], entry["rate"])
    # Whatever the oracle and the other differ in, the oracle passed it.
    for pair in found["pairs"]:
        assert (pair["only_second"], pair["one_sided"]) == (0, 0)
        level = found["systems"][random_run.name]["ias"][pair["pool"]][pair["level"]]
        assert pair["only_first"] == level["n"] - level["passed"]
    assert json.loads((tmp_path / "c.json").read_text()) == found
    rows = list(csv.DictReader((tmp_path / "c.csv").read_text().splitlines()))
    assert {row["kind"] for row in rows} >= {"ias", "action", "role", "probe", "effect", "pair"}
    assert r"\toprule" in (tmp_path / "c.tex").read_text()


def test_the_same_draws_give_the_same_document(
    random_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert document(capsys, str(random_run)) == document(capsys, str(random_run))
    assert main(["compare", str(random_run), "--draws", "1000"]) == 0
    said = capsys.readouterr().out
    assert "systems: IAS in percent" in said
    # One level makes no effect: told once, and no empty row.
    assert said.count(f"{random_run.name} has no entailment gap (L1 - L2), no redundancy") == 1
    assert "effects, core" not in said
    assert f"{random_run.name}: no floors beside it: they are of suite dsb-ifeval" in said


@pytest.fixture
def other(random_run: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "other"
    shutil.copytree(random_run, copy)
    return copy


def change(path: Path, name: str, value: object) -> None:
    data = json.loads(path.read_text())
    data[name] = value
    path.write_text(json.dumps(data))


@pytest.mark.parametrize(("file", "name", "value", "said"), [
    ("run.json", "suite", "another", "suite small and another"),
    ("run.json", "bounds", {"settle_s": 9.0}, "bounds"),
    ("scores.json", "vad", {"model": "another"}, "vad"),
    ("scores.json", "playout", "flush", "playout hold and flush"),
    ("scores.json", "thresholds", {}, "thresholds"),
])
def test_runs_that_cannot_be_compared_are_refused(
    oracle_run: Path, other: Path, capsys: pytest.CaptureFixture[str], file: str, name: str,
    value: object, said: str
) -> None:
    change(other / file, name, value)
    assert main(["compare", str(oracle_run), str(other)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert str(other) in error
    assert error.count("\n") == 1


def test_cases_that_are_not_the_same_are_refused(
    oracle_run: Path, other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused() -> str:
        assert main(["compare", str(oracle_run), str(other)]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        return error

    streams = (other / "streams.jsonl").read_text()
    # Another build: the whole differs, and no case does.
    change(other / "run.json", "suite_construction_sha256", "0" * 64)
    change(other / "run.json", "suite_audio_sha256", "0" * 64)
    assert main(["compare", str(oracle_run), str(other)]) == 0
    # One stream of the four sounds otherwise: the barge-ins.
    lines = [json.loads(line) for line in streams.splitlines()]
    for line in lines:
        if line["stream_id"] == "S-barge":
            line["turn2_sha256"] = "0" * 64
    (other / "streams.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    assert "got other audio in 3 of 9 (R1-C3-1-L2, R7-C3-1-L2, R8-B-1-L2)" in refused()
    (other / "streams.jsonl").write_text("".join(
        json.dumps(x) + "\n" for x in lines if x["stream_id"] != "S-barge"))
    assert "expected stream S-barge of R1-C3-1-L2, got none" in refused()
    (other / "streams.jsonl").unlink()
    assert "expected streams.jsonl" in refused()
    # Another prompt is another question, whatever it sounds like.
    (other / "streams.jsonl").write_text(streams)
    replan(other, lambda case: case.model_copy(update={"system_prompt": "Other."})
           if case.probe == "A" else case)
    assert "got another prompt, action, window or limit in 1 of 9 (R1-A-1-L2)" in refused()


def replan(run: Path, changed: Callable[[Case], Case | None]) -> None:
    """Another plan, with the hash of it."""
    cases = [new for case in RunFolder(run).read_cases() if (new := changed(case)) is not None]
    (run / "cases.jsonl").write_text(cases_text(cases))
    change(run / "run.json", "cases_sha256",
           hashlib.sha256(cases_text(cases).encode()).hexdigest())


def test_runs_of_differently_filtered_builds_are_counted_exactly(
    oracle_run: Path, other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Six of nine cases, from a build of which these are all; one of them is not in the first."""
    replan(other, lambda c: None if c.probe in ("C1", "A") else c)
    kept = {c.case_id for c in RunFolder(other).read_cases()}
    scores = json.loads((other / "scores.json").read_text())
    scores["cases"] = [c for c in scores["cases"] if c["case_id"] in kept]
    kit.write_scores(other, scores)
    change(other / "run.json", "suite_audio_sha256", "1" * 64)
    change(other / "run.json", "suite_construction_sha256", "1" * 64)
    found = document(capsys, str(oracle_run), str(other))
    assert found["common"] == [{"first": oracle_run.name, "second": "other", "common": 6,
                                "only_first": 3, "only_second": 0}]
    pair = next(p for p in found["pairs"] if p["pool"] == "all")
    assert (pair["n"] + pair["one_sided"], pair["one_sided"] >= 3) == (9, True)
    assert main(["compare", str(oracle_run), str(other), "--draws", "1000"]) == 0
    assert "have 6 sessions in common; 3 of the first and 0 of the second are in no pair" in (
        capsys.readouterr().out)


def test_a_sweep_ranks_no_runs_of_different_suites(
    oracle_run: Path, other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", str(oracle_run), str(other)]) == 0
    assert "different cases" not in capsys.readouterr().err
    replan(other, lambda case: None if case.probe == "A" else case)
    assert main(["sweep", str(oracle_run), str(other)]) == 0
    assert "the runs hold different cases" in capsys.readouterr().err
    change(other / "run.json", "suite", "another")
    assert main(["sweep", str(oracle_run), str(other)]) == 2
    error = capsys.readouterr().err
    assert "expected a run of suite small" in error
    assert error.count("\n") == 1


def test_no_common_case_is_refused(
    oracle_run: Path, other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replan(other, lambda c: c.model_copy(update={"case_id": f"X{c.case_id}"}))
    scores = json.loads((other / "scores.json").read_text())
    change(other / "scores.json", "cases",
           [{**c, "case_id": f"X{c['case_id']}"} for c in scores["cases"]])
    assert main(["compare", str(oracle_run), str(other)]) == 2
    assert "expected cases in common with" in capsys.readouterr().err


def test_unusable_input_is_told_in_one_line(
    oracle_run: Path, other: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, said in (
        ([str(oracle_run), str(oracle_run)], "got this one twice"),
        ([str(tmp_path / "none")], "run.json"),
        ([str(oracle_run), "--csv", str(tmp_path / "x"), "--out", str(tmp_path / "x")],
         "different files"),
    ):
        assert main(["compare", *words]) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
    (other / "scores.json").unlink()
    assert main(["compare", str(other)]) == 2
    assert "rig score" in capsys.readouterr().err


@pytest.mark.parametrize("damage", [
    {"case_id": "R9-Z-1-L2"}, {"outcome": "maybe"}, {"expected_action": "DANCE"}, {"flags": 3},
    {"trial": 2}, {"trial": 0}, {"trial": True}, {"trial": 1.5}, {"trial": float("inf")}])
def test_damaged_scores_are_told(
    other: Path, capsys: pytest.CaptureFixture[str], damage: dict
) -> None:
    data = json.loads((other / "scores.json").read_text())
    data["cases"][0] |= damage
    (other / "scores.json").write_text(json.dumps(data))
    assert main(["compare", str(other)]) == 2
    assert "scores.json: cases[0]" in capsys.readouterr().err


def test_a_verdict_that_is_there_twice_or_not_at_all(
    other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = json.loads((other / "scores.json").read_text())
    cases = scores["cases"]
    for found, said in (([*cases, cases[0]], f"cases[{len(cases)}]: expected every case and tri"),
                        (cases[1:], f"for all of {len(cases)} sessions, got {len(cases) - 1}")):
        kit.write_scores(other, {**scores, "cases": found})
        assert main(["compare", str(other)]) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
    (other / "scores.json").write_text("[" * 100_000)
    assert main(["compare", str(other)]) == 2
    assert "expected scores as `rig score` writes them" in capsys.readouterr().err


def test_folders_of_one_name_stay_apart(
    other: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for parent in ("a", "b"):
        shutil.copytree(other, tmp_path / parent / "other")
    monkeypatch.chdir(tmp_path)
    found = document(capsys, "a/other", "other", "b/other")
    assert list(found["systems"]) == ["other (a/other)", "other (other)", "other (b/other)"]


def test_a_session_that_was_played_again_makes_scores_stale(
    other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Its recording was lost: the attempts by status are the same after it.
    ledger = other / "attempts.jsonl"
    again = json.loads(ledger.read_text().splitlines()[0])
    again["attempt"] += 1
    with ledger.open("a") as handle:
        handle.write(json.dumps(again) + "\n")
    assert main(["compare", str(other)]) == 2
    assert "got scores of an earlier state" in capsys.readouterr().err


def test_the_playout_can_be_chosen(
    oracle_run: Path, other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What depends on it is in the scores; the rest is the same under both."""
    data = json.loads((other / "scores.json").read_text())
    first = data["cases"][0]
    flushed = "fail" if first["outcome"] == "pass" else "pass"
    change(other / "scores.json", "playout_differences",
           [{"case_id": first["case_id"], "trial": 1, "hold": first["outcome"],
             "flush": flushed}])

    def passed(*words: str) -> int:
        found = document(capsys, str(other), *words)
        return sum(r["passed"] for r in found["systems"]["other"]["ias"]["all"].values())

    assert passed() == passed("--playout", "hold")
    assert passed("--playout", "flush") - passed() == (1 if flushed == "pass" else -1)
    # Scored under different playouts they are refused, and --playout compares them.
    data = json.loads((other / "scores.json").read_text())
    data["cases"][0]["outcome"] = flushed
    kit.write_scores(other, {**data, "playout": "flush"})
    assert main(["compare", str(oracle_run), str(other)]) == 2
    assert "--playout compares both under one" in capsys.readouterr().err
    assert document(capsys, str(oracle_run), str(other), "--playout", "hold")["playout"] == "hold"
    change(other / "scores.json", "playout_differences", [{"case_id": 3}])
    assert main(["compare", str(other)]) == 2
    assert "playout_differences[0]: expected scores" in capsys.readouterr().err


def test_what_is_unscored_is_no_verdict_and_what_flipped_is_named(
    oracle_run: Path, other: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = json.loads((other / "scores.json").read_text())
    for number, outcome in enumerate(("unscored", "unscored", "unsupported", "fail", "fail")):
        data["cases"][number]["outcome"] = outcome
    for entry in data["cases"][5:]:
        entry["outcome"] = "pass"
    kit.write_scores(other, data)
    lost = [c["case_id"].removesuffix("-L2") for c in data["cases"][3:5]]
    assert main(["compare", str(oracle_run), str(other), "--draws", "1000", "--csv",
                 str(tmp_path / "c.csv")]) == 0
    said = capsys.readouterr().out
    assert "other: 6 verdicts, 2 unscored, 1 unsupported on 4 audio streams" in said
    name = oracle_run.name
    assert f"{name} - other, L2: 2 passed with {name} alone: {lost[0]}, {lost[1]}" in said
    # A level that is missing is told once, and no row is printed for it.
    assert said.count("its cases are on L2") == 2
    assert "no common cases" not in said
    rows = [row for row in csv.DictReader((tmp_path / "c.csv").read_text().splitlines())
            if row["kind"] == "flip_pair"]
    assert [(r["conversation"], r["passed_with"]) for r in rows] == [(x, name) for x in lost]


@pytest.mark.parametrize(("words", "said"), [
    (["--playuot", "hold"], "--playout"), (["--playout", "holt"], "hold"),
    (["--draw", "1000"], "--draws"), (["--floor", "x"], "--floors"),
    (["--draws", "999"], "999"), (["--seed", "-1"], "-1")])
def test_misspelt_options_are_refused(
    oracle_run: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert main(["compare", str(oracle_run), *words]) == 2
    assert said in capsys.readouterr().err


def test_a_name_that_latex_would_take_for_an_argument() -> None:
    assert as_latex(compare([System("[1] a_b", ())], draws_n=1_000)).count(
        r"{[1] a\_b} & core") == 2


def test_every_cell_of_a_difference_has_a_header() -> None:
    unknown = effect_entry(difference([], [], case_and_trial, Draws([])))
    cells = dict(zip(DIFFERENCE_COLUMNS, difference_cells(unknown), strict=True))
    assert cells["verdict"] == "no common cases"
    assert all(DIFFERENCE_COLUMNS)
