"""`rig compare` on runs that were played: figures, files, refusals."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
from pathlib import Path

import pytest

from rig.cli import main
from rig.comparison_text import as_latex
from rig.store import RunFolder, cases_text
from sweeps.comparison import System, compare


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
    assert "effects, core" in said
    assert random_run.name in said


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
    ("run.json", "suite_construction_sha256", "0" * 64, "suite_construction_sha256"),
    ("run.json", "suite_audio_sha256", "0" * 64, "suite_audio_sha256"),
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


def test_no_common_case_is_refused(
    oracle_run: Path, other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The same plan under other names.
    cases = [case.model_copy(update={"conversation_id": f"X-{case.conversation_id}"})
             for case in RunFolder(other).read_cases()]
    (other / "cases.jsonl").write_text(cases_text(cases))
    change(other / "run.json", "cases_sha256",
           hashlib.sha256(cases_text(cases).encode()).hexdigest())
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
    cases = json.loads((other / "scores.json").read_text())["cases"]
    for found, said in (([*cases, cases[0]], f"cases[{len(cases)}]: expected a case of this run"),
                        (cases[1:], f"for all of {len(cases)} sessions, got {len(cases) - 1}")):
        change(other / "scores.json", "cases", found)
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


def test_a_name_that_latex_would_take_for_an_argument() -> None:
    assert as_latex(compare([System("[1] a_b", ())], draws_n=1_000)).count(
        r"{[1] a\_b} & core") == 2
